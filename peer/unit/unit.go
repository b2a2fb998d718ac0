// Package unit is the reference unit: the side of the latis protocol that receives
// prompts, streams the answers of an [Agent], and obeys cancels. It follows the
// protocol strictly, so that findings in a session with it are the controller's.
package unit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/transport"
)

// Options configure a unit.
type Options struct {
	// SessionTTL is how long a session outlives its last connection; 0 ends both
	// together.
	SessionTTL time.Duration
	// MaxPrompts bounds the prompts in flight on a connection; 0 is 4096.
	MaxPrompts int
	// MaxPromptBytes bounds their total size; 0 is 64 MiB. A single prompt may be
	// larger.
	MaxPromptBytes int
	// Misbehave, if not nil, breaks a rule of the protocol on purpose.
	Misbehave *Misbehaviour
	// See, if not nil, gets records of all frames. It must not block.
	See capture.Writer
	// Log, if not nil, gets the details that the controller must not see.
	Log *slog.Logger
}

// A Unit serves any number of connections, which share its sessions.
type Unit struct {
	agent    Agent
	options  Options
	sessions *sessions
	view     *view
}

// New returns a unit whose prompts agent answers.
func New(agent Agent, o Options) *Unit {
	o.MaxPrompts = cmp.Or(max(o.MaxPrompts, 0), 4096)
	o.MaxPromptBytes = cmp.Or(max(o.MaxPromptBytes, 0), 64<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Unit{agent: agent, options: o, sessions: &sessions{ttl: o.SessionTTL, all: map[string]*session{}}, view: &view{to: o.See}}
}

// With returns a unit that shares the sessions of u but has its own agent, such as one for a
// single connection.
func (u *Unit) With(agent Agent) *Unit {
	return &Unit{agent: agent, options: u.options, sessions: u.sessions, view: u.view}
}

// The causes with which the context of an answer is cancelled.
var (
	ErrCancelled = errors.New("the prompt was cancelled")
	ErrGone      = errors.New("the controller disconnected")
	ErrStopped   = errors.New("the unit is shutting down")
)

// Serve answers the messages of one connection and closes it. It returns when the controller
// has closed its side, or broken the framing, and all its requests are answered; [frame.IsFault]
// reports the latter, after which the connection is aborted. It also returns when the connection
// fails, which cancels the open prompts. When ctx ends, open prompts are answered with an error and the connection is
// closed.
func (u *Unit) Serve(ctx context.Context, nc transport.Conn) error {
	original := nc
	if m, ok := nc.(transport.Messenger); ok {
		nc = &messageConn{Messenger: m}
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrGone)
	c := u.newConn(lasting, nc, cancel)
	parted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(parted)
		c.part(original, cancel)
	})
	err := c.readMessages(nc)
	if err != nil && !frame.IsFault(err) {
		cancel(err)
	}
	err = errors.Join(err, c.finish())
	first := frame.C2U
	if ctx.Err() != nil {
		first = frame.U2C
	}
	c.seen.close(first)
	switch {
	case !stop():
		<-parted
	case frame.IsFault(err):
		_ = transport.Abort(original, err)
	default:
		_ = original.CloseWrite()
		original.Close()
	}
	return err
}

// Listen serves all connections to l until ctx ends, and closes l.
func (u *Unit) Listen(ctx context.Context, l transport.Listener) error {
	var serving sync.WaitGroup
	for {
		nc, err := l.Accept(ctx)
		if err != nil {
			serving.Wait() // a listener may have to inform peers of the end
			return errors.Join(unlessDone(ctx, err), l.Close())
		}
		serving.Go(func() {
			if err := u.Serve(ctx, nc); unlessDone(ctx, err) != nil {
				u.options.Log.Error("a connection failed", "error", err)
			}
		})
	}
}

// unlessDone returns err, or nil if ctx has ended.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is not a failure
	}
	return err
}

// readMessages handles messages until the stream ends.
func (c *conn) readMessages(nc transport.Conn) error {
	s := frame.NewScanner(nc, frame.Len32)
	s.SetLimit(all.Limit(latis.Protocol))
	var batch frame.Batch
	for s.ScanBatch(&batch) {
		for frames := range slices.Chunk(batch.Frames, maxUnflushed) {
			for i := range frames {
				c.seen.frames(frame.C2U, frames[i].Raw)
				c.takeMessage(frames[i].Payload())
			}
			c.out.flush()
			if c.out.await(c.ctx) != nil {
				return nil // the outbox returns the error
			}
		}
	}
	return s.Err()
}

// maxUnflushed is how many messages are answered before the answers are flushed.
const maxUnflushed = 256
