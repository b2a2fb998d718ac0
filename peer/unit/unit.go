// Package unit is the reference unit: the side of the latis protocol that takes
// prompts, streams what an [Agent] answers, and obeys cancels. It is strict with
// itself, so that what lint finds in a session with it is the controller's.
//
// It is given connections, listeners or endpoints, and parses no addresses.
package unit

import (
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

// Options are how a unit differs from the usual one.
type Options struct {
	// SessionTTL is how long a session outlives its last connection; 0 ends it
	// with that.
	SessionTTL time.Duration
	// MaxPrompts is how many prompts may be in flight on a connection; 0 is 4096.
	MaxPrompts int
	// MaxPromptBytes is how many bytes they may have together; 0 is 64 MiB. One
	// that is alone may have more.
	MaxPromptBytes int
	// Misbehave, if not nil, breaks a rule of the protocol on purpose.
	Misbehave *Misbehaviour
	// See, if not nil, is written records of what passes. It has to be quick.
	See capture.Writer
	// Log, if not nil, is told what the controller is not.
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
	if o.MaxPrompts <= 0 {
		o.MaxPrompts = 4096
	}
	if o.MaxPromptBytes <= 0 {
		o.MaxPromptBytes = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Unit{agent: agent, options: o, sessions: &sessions{ttl: o.SessionTTL, all: map[string]*session{}}, view: &view{to: o.See}}
}

// With returns a unit that has the sessions of u and an agent of its own, such as
// one that knows whose connection it serves.
func (u *Unit) With(agent Agent) *Unit {
	return &Unit{agent: agent, options: u.options, sessions: u.sessions, view: u.view}
}

// The causes with which the context of an answer ends.
var (
	// ErrCancelled: the controller asked for the end of the prompt.
	ErrCancelled = errors.New("the prompt was cancelled")
	// ErrGone: the connection is no more.
	ErrGone = errors.New("the controller has gone")
	// ErrStopped: the unit was told to end.
	ErrStopped = errors.New("the unit was told to end")
)

// Serve answers the messages of one connection and closes it. It returns when
// the controller has ended its side and everything that it asked for is answered,
// or when the connection fails, which cancels the open prompts; [frame.IsFault] tells
// whether the controller broke the framing. When ctx ends, open prompts are answered
// with an error and the connection is closed.
func (u *Unit) Serve(ctx context.Context, nc transport.Conn) error {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrGone)
	c := u.newConn(lasting, nc, cancel)
	parted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(parted)
		c.part(nc, cancel)
	})
	err := c.readMessages(nc)
	if err != nil {
		cancel(err)
	}
	err = errors.Join(err, c.finish())
	first := frame.C2U
	if ctx.Err() != nil {
		first = frame.U2C
	}
	c.seen.close(first)
	if stop() {
		_ = nc.CloseWrite()
		nc.Close()
	} else {
		<-parted
	}
	return err
}

// Listen serves all connections that come to l, which it closes, until ctx ends.
func (u *Unit) Listen(ctx context.Context, l transport.Listener) error {
	var serving sync.WaitGroup
	for {
		nc, err := l.Accept(ctx)
		if err != nil {
			serving.Wait() // a listener may have to tell peers of the end
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
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// readMessages handles messages until the stream ends.
func (c *conn) readMessages(nc transport.Conn) error {
	s := frame.NewScanner(nc, frame.Len32)
	s.SetLimit(all.Limit(latis.Protocol, frame.Len32))
	var batch frame.Batch
	for s.ScanBatch(&batch) {
		for frames := range slices.Chunk(batch.Frames, maxUnflushed) {
			for i := range frames {
				c.seen.frames(frame.C2U, frames[i].Raw)
				c.takeMessage(frames[i].Payload())
			}
			c.out.flush()
			if c.out.await(c.ctx) != nil {
				return nil // the error is the outbox's to tell
			}
		}
	}
	return s.Err()
}

// maxUnflushed is how many messages are answered before it is seen to that the
// answers are read.
const maxUnflushed = 256
