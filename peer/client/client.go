// Package client implements the clients of wirectl send: for each protocol the requests
// that a person makes. A [Call] passes the streamed answer to a function and fails
// with a [*PeerError] if the peer answers with an error.
//
// Callers open the connections. Only [Printer] prints.
package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
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
