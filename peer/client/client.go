// Package client implements the clients of wirectl send: for each protocol the requests
// that a person makes. A [Call] passes the streamed answer to a function and fails
// with a [*PeerError] if the peer answers with an error.
//
// Callers open the connections. Only [Printer] prints.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/transport"
)

// A Call makes one request and waits for its end. It passes the parts of the
// answer to out as they arrive, one at a time, and none after it has returned.
type Call func(ctx context.Context, out func(Part)) error

// A Part is a piece of an answer.
type Part struct {
	// Text continues the text of the previous part.
	Text string
	// JSON is a complete value; nil if the part is text.
	JSON []byte
	// Aside marks a part that is not the answer itself, such as progress or a log
	// line. Name is its kind.
	Aside bool
	Name  string
}

// A PeerError is an error that the peer answered with.
type PeerError struct {
	Code    string
	Message string
	// Data is its additional data as JSON; nil if there is none.
	Data []byte `json:"-"`
}

func (e *PeerError) Error() string {
	text := strings.Join(slices.DeleteFunc([]string{e.Code, e.Message}, func(s string) bool { return s == "" }), ": ")
	return cmp.Or(strings.TrimSpace(text+" "+string(e.Data)), "an error without a message")
}

// A FaultError means that the peer violated its protocol, so the connection cannot be used
// any more.
type FaultError struct{ Err error }

func (e *FaultError) Error() string { return "the peer broke its protocol: " + e.Err.Error() }
func (e *FaultError) Unwrap() error { return e.Err }

func faultf(format string, args ...any) error { return &FaultError{fmt.Errorf(format, args...)} }

// A Watch checks every message of a session against the rules of the protocol and
// writes it to the record, if there is one. It is safe for concurrent use.
type Watch struct {
	protocol protocol.Protocol
	record   capture.Writer
	mu       sync.Mutex
	tracker  *session.Tracker
	sending  bool // the frame being checked is ours
	found    verdicts
	seq      int64
	offsets  map[lane]int64
	err      error
}

// verdicts are the broken rules: by the peer, and by our own messages.
type verdicts struct{ peer, own []session.Finding }

// maxFindings bounds each list of verdicts.
const maxFindings = 1024

// A lane is a direction of a connection.
type lane struct {
	conn int
	dir  frame.Dir
}

// NewWatch returns a watch over sessions of p. Every message is written to
// record, which may be nil.
func NewWatch(p protocol.Protocol, record capture.Writer) *Watch {
	w := &Watch{protocol: p, record: record, offsets: map[lane]int64{}}
	w.tracker = session.New(p, session.Options{Partial: true, Watcher: finder{w}})
	return w
}

// A finder collects the findings of a watch's tracker.
type finder struct{ *Watch }

// Found adds a finding.
func (w finder) Found(f session.Finding) {
	kept := &w.found.peer
	if w.sending {
		kept = &w.found.own
	}
	if len(*kept) < maxFindings {
		*kept = append(*kept, f)
	}
}

// Changed does nothing.
func (finder) Changed(*session.Exchange, int64) {}

// Asked does nothing.
func (finder) Asked(*session.Cancel) {}

// see checks and records a frame, and returns its message, which borrows from the frame.
func (w *Watch) see(conn int, dir frame.Dir, framing string, f frame.Frame) (m protocol.Message, err error) {
	now := time.Now()
	payload := f.Payload()
	err = w.protocol.Parse(payload, &m)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	at := lane{conn, dir}
	f.Conn, f.Dir, f.Offset = conn, dir, w.offsets[at]
	w.offsets[at] += int64(len(f.Raw))
	w.sending = dir == frame.C2U
	defer func() { w.sending = false }()
	seen := session.Frame{Seq: w.seq, Time: now, Conn: conn, Dir: dir, Size: len(payload), Payload: payload, Fault: err}
	if err != nil {
		w.tracker.Feed(seen, nil)
		err = noMessage(payload, err)
	} else {
		w.tracker.Feed(seen, &m)
	}
	if w.record != nil && w.err == nil {
		w.err = w.record.Write(&capture.Record{Kind: capture.Frame, Seq: w.seq, Time: now, Protocol: w.protocol.Name(), Framing: framing, Frame: f})
	}
	return m, err
}

// seeLine is see for a message that is recorded as a line. That of a peer is faulty if it is
// not valid.
func (w *Watch) seeLine(conn int, dir frame.Dir, payload []byte) error {
	_, err := w.see(conn, dir, frame.Line.Name(), jsonline.Frame(payload))
	if err != nil && dir == frame.U2C {
		return &FaultError{err}
	}
	return err
}

// noMessage describes a payload that is not a message.
func noMessage(payload []byte, err error) error {
	const most = 60
	begin, more := payload, ""
	if len(begin) > most {
		begin, more = begin[:most], "…"
	}
	if a := frame.Recognize(payload); a != frame.NoAccident && a != frame.JSONText {
		return fmt.Errorf("%q%s is not a message, but looks like %s: %w", begin, more, a, err)
	}
	return fmt.Errorf("%q%s is not a message: %w", begin, more, err)
}

// fault reports broken framing.
func (w *Watch) fault(conn int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.Feed(session.Frame{Seq: w.seq, Time: time.Now(), Conn: conn, Dir: frame.U2C, Gap: true, Fault: err}, nil)
}

// reject reports that the peer closes a connection because of our request.
func (w *Watch) reject(conn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.Reject(conn, time.Now())
}

// endConn reports the end of a connection.
func (w *Watch) endConn(conn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.End(conn, time.Now())
}

// Findings returns the rules broken so far by the peer, and by our own messages.
func (w *Watch) Findings() (peer, own []session.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.found.peer), slices.Clone(w.found.own)
}

// Err returns the error of writing the record.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

var (
	errClosed = errors.New("the connection is closed")
	// ErrEnded is the error of a call after the peer has closed the connection.
	ErrEnded = errors.New("the peer ended the connection")
)

// A link is a connection on which both sides send messages at any time.
type link struct {
	conn    transport.Conn
	number  int
	framing frame.Framing
	watch   *Watch
	handle  func(payload []byte, m *protocol.Message) error

	writing sync.Mutex
	buf     []byte      // guarded by writing
	closing atomic.Bool // our side is closed
	cut     atomic.Bool // the connection was closed without waiting for the peer

	done chan struct{} // closed when reading has ended
	err  error         // why it ended; valid once done is closed
}

// newLink returns a link that passes incoming messages to handle, from one
// goroutine. An error of handle ends the link.
func newLink(nc transport.Conn, number int, framing frame.Framing, w *Watch, handle func([]byte, *protocol.Message) error) *link {
	return &link{conn: nc, number: number, framing: framing, watch: w, handle: handle, done: make(chan struct{})}
}

func (l *link) start() { go l.read() }

func (l *link) read() {
	defer close(l.done)
	s := frame.NewScanner(l.conn, l.framing)
	s.SetLimit(all.Limit(l.watch.protocol))
	for s.Scan() {
		f := s.Frame()
		m, err := l.watch.see(l.number, frame.U2C, l.framing.Name(), *f)
		if err != nil {
			err = &FaultError{err}
		} else {
			err = l.handle(f.Payload(), &m)
		}
		if err != nil {
			l.err = err
			return
		}
	}
	l.err = l.failure(s.Err())
}

// failure returns the reason for the end of reading.
func (l *link) failure(err error) error {
	switch {
	case l.cut.Load(), err == nil && l.closing.Load():
		return errClosed
	case err == nil:
		return ErrEnded
	case frame.IsFault(err):
		l.watch.fault(l.number, err)
		return &FaultError{err}
	}
	return err
}

// send sends a message. If ctx ends while the peer does not read, the connection is
// closed, because half of the message may have been sent.
func (l *link) send(ctx context.Context, payload []byte) error {
	defer cutAfter(ctx, func() {
		l.cut.Store(true)
		_ = l.conn.Close() // the write returns the error
	})()
	l.writing.Lock()
	defer l.writing.Unlock()
	wire, err := frame.Append(l.buf[:0], l.framing, payload)
	if err != nil {
		return err
	}
	l.buf = wire
	if _, err := l.watch.see(l.number, frame.C2U, l.framing.Name(), frameOf(wire, payload, l.framing)); err != nil {
		return err
	}
	_, err = l.conn.Write(wire)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return l.unsent(err)
}

// cutAfter calls cut once ctx is done, unless stop is called within the grace period. A
// write that completes in time leaves the connection to other calls.
func cutAfter(ctx context.Context, cut func()) (stop func()) {
	over := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		if !wait.Done(over, parting) {
			cut()
		}
	})
	return func() {
		unwatch()
		close(over)
	}
}

// unsent returns the reason for a failed write. If the peer no longer reads, the reader
// soon learns a better reason.
func (l *link) unsent(err error) error {
	var patience time.Duration
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		patience, err = parting, ErrEnded
	}
	select {
	case <-l.done:
		return l.err
	case <-time.After(patience):
		return err
	}
}

// frameOf returns the frame that Append made of a payload.
func frameOf(wire, payload []byte, framing frame.Framing) frame.Frame {
	var e frame.Extent
	if framing.Next(wire, len(wire), true, &e) != nil || e.Raw != len(wire) {
		return frame.Frame{Raw: payload, End: len(payload)}
	}
	return frame.Frame{Raw: wire, Start: e.Start, End: e.End}
}

// parting is the grace period of a peer: to close its side after ours, and to read a last
// message.
const parting = time.Second

// close closes our side, waits a grace period for the peer to close its own, and closes
// the connection.
func (l *link) close() error {
	l.closing.Store(true)
	if l.conn.CloseWrite() != nil || !wait.Done(l.done, parting) {
		l.cut.Store(true)
	}
	err := l.conn.Close()
	<-l.done
	l.watch.endConn(l.number)
	return err
}

// Outcome returns the error of a session that ended with err: a [*FaultError] if the peer
// violated its protocol. It passes other findings to tell. Findings that may only be due to
// a timeout (gaveUp) or an interrupt do not count.
func (w *Watch) Outcome(err error, gaveUp, interrupted bool, tell func(text string)) error {
	err = cmp.Or(err, w.Err())
	worst := w.worst(gaveUp, tell)
	if fault, ok := errors.AsType[*FaultError](err); ok {
		return fault
	}
	if worst != nil && !interrupted && (err == nil || worst.Name != "unanswered") {
		if err != nil {
			tell(err.Error())
		}
		return faultf("%s: %s", worst.Name, worst.Message)
	}
	if answered, ok := errors.AsType[*PeerError](err); ok {
		hint := ""
		if strings.HasPrefix(answered.Code, "HTTP 404") || strings.HasPrefix(answered.Code, "HTTP 405") {
			hint = ": check the path in the address (MCP servers often use /mcp; A2A agents name it in /.well-known/agent-card.json)"
		}
		return fmt.Errorf("the peer answered with an error: %w%s", answered, hint)
	}
	return err
}

// worst returns the first finding about the peer that is an error, or nil, and passes the
// rest to tell.
func (w *Watch) worst(gaveUp bool, tell func(text string)) (worst *session.Finding) {
	found, own := w.Findings()
	for _, f := range own {
		if f.Severity >= session.Warning {
			tell(fmt.Sprintf("a message that was sent breaks a rule: %s: %s", f.Name, f.Message))
		}
	}
	for _, f := range found {
		switch {
		case gaveUp && f.Name == "no-final":
		case f.Severity == session.Error && worst == nil:
			worst = &f
		case f.Severity >= session.Warning:
			tell(fmt.Sprintf("%v: %s: %s", f.Severity, f.Name, f.Message))
		}
	}
	return worst
}

// A Printer prints answers as they arrive.
type Printer struct {
	Stdout, Stderr   io.Writer
	Terminal, Beside bool // Stdout, and Stderr, is a terminal
	Silent           bool // print nothing: the messages are printed elsewhere
	Alone            bool // Stdout only gets a JSON value, no text
	Quiet            bool // do not print asides
	Stream           bool // print the text that Alone keeps off Stdout on Stderr

	open   bool // the last line on Stdout is not terminated
	inText bool // the last line of text on Stderr is not terminated
	err    error
}

// Part prints a part of an answer.
func (p *Printer) Part(part Part) {
	switch {
	case p.Silent || p.err != nil:
	case p.Alone && !part.Aside && part.JSON == nil:
		p.stream(part.Text)
	case part.Aside && p.Quiet:
	case part.Aside:
		if p.Terminal && p.Beside {
			_ = p.Finish() // both share the screen; p keeps the error
		}
		p.endText()
		fmt.Fprintf(p.Stderr, "wirectl: %s\n", render.Safe(strings.TrimSuffix(part.Name+" "+string(part.JSON), " ")))
	case part.JSON != nil:
		_ = p.Finish() // a value begins a line; p keeps the error
		p.write(render.AppendJSON(nil, part.JSON, "  ", "", nil))
	default:
		p.write(shownOn(p.Terminal, part.Text))
	}
}

func (p *Printer) stream(text string) {
	if !p.Stream || text == "" {
		return
	}
	_, _ = p.Stderr.Write(shownOn(p.Beside, text)) // best effort
	p.inText = !strings.HasSuffix(text, "\n")
}

func (p *Printer) endText() {
	if p.inText {
		p.inText = false
		fmt.Fprintln(p.Stderr)
	}
}

// shownOn returns text, made safe for a terminal.
func shownOn(terminal bool, text string) []byte {
	if !terminal {
		return []byte(text)
	}
	var b []byte
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b = append(b, '\n')
		}
		b = render.AppendSafe(b, []byte(line))
	}
	return b
}

func (p *Printer) write(b []byte) {
	if len(b) == 0 {
		return
	}
	_, p.err = p.Stdout.Write(b)
	p.open = b[len(b)-1] != '\n'
}

// Finish terminates the last line.
func (p *Printer) Finish() error {
	p.endText()
	if p.open && p.err == nil {
		p.write([]byte("\n"))
	}
	return p.err
}

// During makes call, and beside it another call, which it cancels when call has ended.
func During(beside, call Call) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		side, end := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		go func() { ended <- beside(side, out) }()
		err := call(ctx, out)
		end(errOver)
		if sideErr := <-ended; !errors.Is(sideErr, errOver) {
			err = cmp.Or(err, sideErr)
		}
		return err
	})
}

var errOver = errors.New("the parallel call has ended")

// settled is c for a call whose parts come from several goroutines, which may outlive it:
// parts are passed on one at a time, and none after its end.
func settled(c Call) Call {
	return func(ctx context.Context, out func(Part)) error {
		var mu sync.Mutex
		over := false
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			over = true
		}()
		return c(ctx, func(p Part) {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				out(p)
			}
		})
	}
}

// runAfter calls f after d, unless d is 0 or stop is called first. stop waits for f to return.
func runAfter(d time.Duration, f func()) (stop func()) {
	if d == 0 {
		return func() {}
	}
	done := make(chan struct{})
	t := time.AfterFunc(d, func() {
		defer close(done)
		f()
	})
	return func() {
		if !t.Stop() {
			<-done
		}
	}
}

// await waits for an answer. It fails with *reason when done is closed, or when ctx ends.
func await[T any](ctx context.Context, answer <-chan T, done <-chan struct{}, reason *error) (a T, err error) {
	select {
	case a = <-answer:
		return a, nil
	case <-done:
		select {
		case a = <-answer: // it came just before the end
			return a, nil
		default:
			return a, *reason
		}
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}
