// Package client is the side that asks: the controller behind wirectl send. For
// each protocol it has the requests that a person wants to make, and for all of
// them the same manner: a [Call] hands what streams back to a function, and fails
// with a [*PeerError] where the peer says no.
//
// It is given connections, and neither parses addresses nor prints.
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
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A Call makes one request and waits for its end. It hands the parts of the
// answer to out as they arrive, from one goroutine at a time, and none after it
// has returned.
type Call func(ctx context.Context, out func(Part)) error

// A Part is a piece of what came back.
type Part struct {
	// Text is text that goes on where the part before ended.
	Text string
	// JSON is a whole value; nil if the part is text.
	JSON []byte
	// Aside says that the part is not what was asked for: progress, a log line.
	// Name is then what it is called.
	Aside bool
	Name  string
}

// A PeerError is an error that the peer answered with.
type PeerError struct {
	Code    string
	Message string
	// Data is more of it, as JSON; nil if there is none.
	Data []byte
}

func (e *PeerError) Error() string {
	text := strings.Join(slices.DeleteFunc([]string{e.Code, e.Message}, func(s string) bool { return s == "" }), ": ")
	return cmp.Or(strings.TrimSpace(text+" "+string(e.Data)), "one that says nothing")
}

// A FaultError says that the peer broke its protocol, so that there is no going
// on with it.
type FaultError struct{ Err error }

func (e *FaultError) Error() string { return "the peer broke its protocol: " + e.Err.Error() }
func (e *FaultError) Unwrap() error { return e.Err }

func faultf(format string, args ...any) error { return &FaultError{fmt.Errorf(format, args...)} }

// A Watch sees every message of a session: it judges them by the rules of the
// protocol and, if Record is set, keeps them. Its methods may be called from
// several goroutines.
type Watch struct {
	protocol protocol.Protocol
	record   capture.Writer
	mu       sync.Mutex
	tracker  *session.Tracker
	sending  bool // the frame that is being taken in is ours
	found    verdicts
	seq      int64
	offsets  map[lane]int64
	err      error
}

// verdicts are the rules that were broken, by the peer and by what we were told to
// send.
type verdicts struct{ peer, own []session.Finding }

// maxFindings is how many of either are kept.
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

// A finder takes in what a watch's tracker finds.
type finder struct{ *Watch }

// Found takes in that a rule was broken.
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

// see takes in a frame that goes over the wire, and returns what its message
// means. The message borrows from the frame.
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

// noMessage says of a payload that is not a message what it is.
func noMessage(payload []byte, err error) error {
	const most = 60
	begin, more := payload, ""
	if len(begin) > most {
		begin, more = begin[:most], "…"
	}
	if a := frame.Recognize(payload); a != frame.NoAccident && a != frame.JSONText {
		return fmt.Errorf("%q%s is not a message, and looks like %s: %w", begin, more, a, err)
	}
	return fmt.Errorf("%q%s is not a message: %w", begin, more, err)
}

// fault takes in that the framing of a connection is broken.
func (w *Watch) fault(conn int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.Feed(session.Frame{Seq: w.seq, Time: time.Now(), Conn: conn, Dir: frame.U2C, Gap: true, Fault: err}, nil)
}

// reject takes in that the peer closes a connection because of what it was asked.
func (w *Watch) reject(conn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.Reject(conn, time.Now())
}

// endConn takes in that a connection has ended.
func (w *Watch) endConn(conn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracker.End(conn, time.Now())
}

// Findings returns the rules that the peer was found to break so far, and those
// that what we sent did.
func (w *Watch) Findings() (peer, own []session.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.found.peer), slices.Clone(w.found.own)
}

// Err returns the error of the record.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
