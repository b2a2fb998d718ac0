// Package unit is the reference unit: the side of the latis protocol that receives
// prompts, streams the answers of an [Agent], and obeys cancels. It follows the
// protocol strictly, so that findings in a session with it are the controller's.
package unit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/transport"
)

// DefaultTTL is how long the programs of this module let a session be resumed.
const DefaultTTL = 10 * time.Minute

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

// An Agent answers prompts. It must be safe for concurrent use.
type Agent interface {
	// Answer answers p: it passes the parts of the answer to emit, in order, and returns the
	// metadata of its end. When ctx is done, it stops and returns; [context.Cause] is the
	// reason. It must also return after an error of emit. emit must not be called concurrently.
	//
	// The controller gets the code and message of an [*Error]. Any other error is hidden from
	// it.
	Answer(ctx context.Context, p *Prompt, emit func(text string) error) (metadata map[string]string, err error)
}

// A Prompt is a prompt of a controller.
type Prompt struct {
	// ID names the prompt on its connection.
	ID string
	// Session is the id of the connection's session; "" if it has none.
	Session string
	Content string
	// Metadata may be nil. The agent may change it.
	Metadata map[string]string
}

// An Error is a failure that is sent to the controller.
type Error struct {
	Code    string // for programs, such as UNKNOWN_TARGET
	Message string // for people
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The error codes of a unit.
const (
	BadRequest     = "BAD_REQUEST"     // the message cannot be parsed
	Unsupported    = "UNSUPPORTED"     // the unit does not know this kind of message
	DuplicateID    = "DUPLICATE_ID"    // the id belongs to an open request
	InvalidPrompt  = "INVALID_PROMPT"  // it is empty
	UnknownTarget  = "UNKNOWN_TARGET"  // the prompt to cancel is not in flight
	UnknownSession = "UNKNOWN_SESSION" // there is no such session, or it has ended
	Busy           = "BUSY"            // too much is in flight
	AgentFailed    = "AGENT_FAILED"    // the agent failed
	Stopped        = "UNIT_STOPPED"    // the unit was stopped
)

var errStopped = &Error{Stopped, ErrStopped.Error()}

// Echo answers each prompt with "Echo: " and its text. The answer is one part, or if Delay is
// positive a part for each word, with that delay between them.
type Echo struct {
	Delay time.Duration
}

// Answer answers p; see [Agent].
func (e Echo) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	text := "Echo: " + p.Content
	if e.Delay <= 0 {
		return nil, emit(text)
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := emit(word); err != nil {
			return nil, err
		}
		if err := wait.For(ctx, e.Delay); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// execGrace is how long a command whose prompt was cancelled may take to end after its input
// is closed, and again after SIGTERM.
const execGrace = 200 * time.Millisecond

// Exec runs a command for each prompt. The prompt is its standard input, and its standard
// output is streamed as the answer. A cancel ends the command and all processes of its group. A
// status other than 0 is the error EXEC_FAILED.
type Exec struct {
	// Argv is the program and its arguments.
	Argv []string
	// Log, if not nil, gets the standard error of the command.
	Log *slog.Logger
}

// ExecFailed is the code of a command that failed.
const ExecFailed = "EXEC_FAILED"

// Answer answers p; see [Agent].
func (e Exec) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	process, err := transport.Start(ctx, e.Argv, transport.Options{Grace: execGrace})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { process.Close() })
	defer stop()
	return nil, e.runCommand(ctx, process, p, emit)
}

func (e Exec) runCommand(ctx context.Context, process transport.Process, p *Prompt, emit func(string) error) error {
	var others sync.WaitGroup
	defer others.Wait()
	defer process.Close() // processes that the command left behind may hold its standard error open
	others.Go(func() {
		// A command need not read its input.
		_, _ = io.WriteString(process, p.Content)
		_ = process.CloseWrite()
	})
	others.Go(func() { transport.LogStderr(process, e.Log, "prompt", p.ID) })
	err := emitText(process, emit)
	if err != nil {
		process.Close()
	}
	exit, waitErr := process.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case waitErr != nil:
		return waitErr
	case exit.Code() != 0:
		return errorf(ExecFailed, "the command %v", exit)
	}
	return nil
}

// emitText emits the text of r as it arrives, without splitting a character.
func emitText(r io.Reader, emit func(string) error) error {
	buf := make([]byte, 32<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		n += kept
		whole := n
		if err == nil {
			whole -= render.CutRune(buf[:n])
		}
		if whole > 0 {
			if err := emit(string(buf[:whole])); err != nil {
				return err
			}
		}
		kept = copy(buf, buf[whole:n])
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("the command's output: %w", err)
		}
	}
}

// A Script answers prompts like the unit of a recorded session, with the same parts and pauses.
// A recorded prompt gets its recorded answer, as often as it is sent. Any other prompt gets the
// next answer in the order of the session, starting over after the last.
type Script struct {
	answers []*scripted

	mu   sync.Mutex
	next int
}

// scripted is one recorded answer.
type scripted struct {
	content string
	begun   time.Time
	parts   []scriptedPart
	pause   time.Duration // before the end
	end     *latisv1.ConnectResponse
	heard   bool
}

// An asked identifies a recorded prompt. Each connection, and each stream of one, has its own
// ids.
type asked struct {
	conn   int
	stream int64
	id     string
}

type scriptedPart struct {
	pause time.Duration
	text  string
}

// ReadScript reads a session. It returns an error if no prompt of the session has an answer.
func ReadScript(r capture.Reader) (*Script, error) {
	s := &Script{}
	open := map[asked]*scripted{}
	var rec capture.Record
	for {
		err := r.Next(&rec)
		if err == io.EOF || errors.Is(err, capture.ErrCut) {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Kind == capture.Frame && !rec.Gap {
			s.learn(open, &rec)
		}
	}
	s.answers = slices.DeleteFunc(s.answers, func(a *scripted) bool { return len(a.parts) == 0 && a.end == nil })
	if len(s.answers) == 0 {
		return nil, errors.New("this session has no answered latis prompt")
	}
	return s, nil
}

// learn adds a frame to the answers. It ignores frames of other protocols.
func (s *Script) learn(open map[asked]*scripted, rec *capture.Record) {
	var request latisv1.ConnectRequest
	if rec.Dir != frame.U2C && proto.Unmarshal(rec.Payload(), &request) == nil && request.GetPromptSend() != nil {
		a := &scripted{content: request.GetPromptSend().Content, begun: rec.Time}
		s.answers = append(s.answers, a)
		open[asked{rec.Conn, rec.Stream, request.Id}] = a
		return
	}
	var m latisv1.ConnectResponse
	if rec.Dir == frame.C2U || proto.Unmarshal(rec.Payload(), &m) != nil {
		return
	}
	of := asked{rec.Conn, rec.Stream, latis.Answers(&m)}
	a := open[of]
	if a == nil {
		return
	}
	pause := max(rec.Time.Sub(a.begun), 0)
	switch p := m.Payload.(type) {
	case *latisv1.ConnectResponse_ResponseChunk:
		a.parts = append(a.parts, scriptedPart{pause, p.ResponseChunk.Content})
	case *latisv1.ConnectResponse_ResponseComplete, *latisv1.ConnectResponse_Error, *latisv1.ConnectResponse_ResponseCancelled:
		a.pause, a.end = pause, &m
		delete(open, of)
	default:
		return
	}
	a.begun = rec.Time
}

// Answer answers p; see [Agent]. An answer that was cancelled in the session waits for a
// cancel.
func (s *Script) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	a := s.choose(p.Content)
	for _, part := range a.parts {
		if err := wait.For(ctx, part.pause); err != nil {
			return nil, err
		}
		if err := emit(part.text); err != nil {
			return nil, err
		}
	}
	if a.end == nil || a.end.GetResponseCancelled() != nil {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if err := wait.For(ctx, a.pause); err != nil {
		return nil, err
	}
	if e := a.end.GetError(); e != nil {
		return nil, &Error{Code: e.Code, Message: e.Message}
	}
	return maps.Clone(a.end.GetResponseComplete().GetMetadata()), nil
}

// choose returns the answer for a prompt.
func (s *Script) choose(content string) *scripted {
	s.mu.Lock()
	defer s.mu.Unlock()
	var again *scripted
	for _, a := range s.answers {
		if a.content == content && !a.heard {
			a.heard = true
			return a
		}
		if a.content == content && again == nil {
			again = a
		}
	}
	if again != nil {
		return again
	}
	a := s.answers[s.next%len(s.answers)]
	s.next++
	return a
}
