package unit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// maxSessions is how many sessions a unit keeps.
const maxSessions = 4096

// A session is the state that outlives the connections of one controller.
type session struct {
	id       string
	metadata map[string]string
	// over is done when the session has been destroyed.
	over    context.Context
	destroy context.CancelCauseFunc

	// The fields below are guarded by the mutex of sessions.
	prompts  int // answered prompts
	cutOff   int // prompts that lost their connection before the answer
	attached int // connections that use it
	expiry   *time.Timer
}

// sessions are the sessions of a unit.
type sessions struct {
	ttl time.Duration

	mu  sync.Mutex
	all map[string]*session
}

// create makes a session and attaches the caller to it.
func (s *sessions) create(metadata map[string]string) (*session, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSessions {
		return nil, errorf(Busy, "there are %d sessions already; destroy some or wait until they expire", len(s.all))
	}
	n := &session{id: "s-" + rand.Text(), metadata: metadata, attached: 1}
	n.over, n.destroy = context.WithCancelCause(context.Background())
	s.all[n.id] = n
	return n, nil
}

// resume attaches the caller to a session and returns its state.
func (s *sessions) resume(id string) (*session, map[string]string, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[id]
	if n == nil {
		return nil, nil, errorf(UnknownSession, "no session %q", id)
	}
	n.attached++
	if n.expiry != nil {
		n.expiry.Stop()
		n.expiry = nil
	}
	return n, n.state(), nil
}

// leave detaches the caller from a session, which then lives for its TTL.
func (s *sessions) leave(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.attached--
	if n.attached > 0 || n.over.Err() != nil {
		return
	}
	if s.ttl <= 0 {
		s.endSession(n)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(s.ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n.expiry == timer {
			s.endSession(n)
		}
	})
	n.expiry = timer
}

// remove destroys a session and cancels its prompts.
func (s *sessions) remove(id string) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[id]
	if n == nil {
		return errorf(UnknownSession, "no session %q", id)
	}
	s.endSession(n)
	return nil
}

func (s *sessions) endSession(n *session) {
	if n.expiry != nil {
		n.expiry.Stop()
		n.expiry = nil
	}
	delete(s.all, n.id)
	n.destroy(ErrCancelled)
}

// none reports whether there is no session that could be resumed.
func (s *sessions) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) == 0
}

// ended counts a prompt: as answered, even if the answer was a cancel, or as cut off by the end
// of its connection.
func (s *sessions) ended(n *session, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered {
		n.prompts++
	} else {
		n.cutOff++
	}
}

// state returns the state of a session.
func (s *sessions) state(n *session) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n.state()
}

func (n *session) state() map[string]string {
	state := map[string]string{}
	maps.Copy(state, n.metadata)
	state["session_id"] = n.id
	state["prompts"] = strconv.Itoa(n.prompts)
	if n.cutOff > 0 {
		state["cut_off"] = strconv.Itoa(n.cutOff)
	}
	return state
}

// A view records the frames of a unit.
type view struct {
	mu    sync.Mutex
	to    capture.Writer // or nil
	seq   int64
	conns int
}

// A seen records a connection. A nil one records nothing.
type seen struct {
	view    *view
	number  int
	offsets [3]int64
}

// open starts recording a connection.
func (v *view) open() *seen {
	if v.to == nil {
		return nil
	}
	v.mu.Lock()
	v.conns++
	s := &seen{view: v, number: v.conns}
	v.mu.Unlock()
	s.write(capture.Record{Kind: capture.Opened})
	return s
}

// frames records whole frames.
func (s *seen) frames(dir frame.Dir, raw []byte) {
	if s == nil {
		return
	}
	for len(raw) > 0 {
		n := latis.FrameSize(raw)
		f := frame.Frame{Raw: raw[:n], Start: min(4, n), End: n, Dir: dir}
		if n < 4 || int64(n) < 4+declared(raw) { // for a misbehaving unit
			f.Start, f.End, f.Gap, f.Flaw = 0, 0, true, frame.ErrTruncated
		}
		s.write(capture.Record{Kind: capture.Frame, Frame: f})
		raw = raw[n:]
	}
}

// close records the end of the connection, first in the direction of the side that ended it.
func (s *seen) close(first frame.Dir) {
	if s == nil {
		return
	}
	for _, dir := range []frame.Dir{first, first.Opposite()} {
		s.write(capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Dir: dir}})
	}
}

func (s *seen) write(r capture.Record) {
	v := s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	r.Time, r.Conn = time.Now(), s.number
	if r.Kind == capture.Frame {
		v.seq++
		r.Seq, r.Protocol, r.Framing = v.seq, latis.Protocol.Name(), frame.Len32.Name()
		r.Offset = s.offsets[r.Dir]
		s.offsets[r.Dir] += int64(len(r.Raw))
	}
	_ = v.to.Write(&r) // an observer must not disturb the unit
}

// A seenWriter records frames before it writes them, so that the answers come later.
type seenWriter struct {
	io.Writer
	seen *seen
}

func (w seenWriter) Write(p []byte) (int, error) {
	w.seen.frames(frame.U2C, p)
	return w.Writer.Write(p)
}

// A Misbehaviour is a rule that a unit breaks on purpose, to test whether others notice. Except
// for the last two, it has the name of the finding that it causes.
type Misbehaviour struct {
	Name, About string

	// send sends a response in its own way.
	send func(d *deviation, m *latisv1.ConnectResponse)
	// first is sent before the first response, and last after everything else.
	first, last []byte
	// deaf ignores cancels.
	deaf bool
}

func isPart(m *latisv1.ConnectResponse) bool      { return m.GetResponseChunk() != nil }
func isComplete(m *latisv1.ConnectResponse) bool  { return m.GetResponseComplete() != nil }
func isCancelled(m *latisv1.ConnectResponse) bool { return m.GetResponseCancelled() != nil }

// twice sends some responses twice.
func twice(some func(*latisv1.ConnectResponse) bool) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		d.out.addMessage(m)
		if some(m) {
			d.out.addMessage(m)
		}
	}
}

// drop does not send some responses.
func drop(some func(*latisv1.ConnectResponse) bool) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		if !some(m) {
			d.out.addMessage(m)
		}
	}
}

// alter changes some responses.
func alter(some func(*latisv1.ConnectResponse) bool, change func(*latisv1.ConnectResponse)) func(*deviation, *latisv1.ConnectResponse) {
	return func(d *deviation, m *latisv1.ConnectResponse) {
		if some(m) {
			change(m)
		}
		d.out.addMessage(m)
	}
}

// Misbehaviours are all misbehaviours, in the order of the findings.
var Misbehaviours = []*Misbehaviour{
	{Name: "orphan", About: "answers a request that nobody made", first: []byte("\x00\x00\x00\x11\x0a\x0cnobody-asked\xfa\x01\x00")},
	{Name: "after-end", About: "ends each prompt twice", send: twice(isComplete)},
	{Name: "sequence-gap", About: "counts parts from 1", send: alter(isPart, func(m *latisv1.ConnectResponse) { m.GetResponseChunk().Sequence++ })},
	{Name: "sequence-repeat", About: "sends each part twice", send: twice(isPart)},
	{Name: "wrong-side", About: "sends a request, which only controllers do and nobody answers", first: []byte("\x00\x00\x00\x09\x0a\x05stray\x62\x00")},
	{Name: "unanswered", About: "does not end prompts", send: drop(isComplete)},
	{Name: "cancel-ignored", About: "continues a cancelled prompt", deaf: true},
	{Name: "cancel-silent", About: "does not confirm a cancel", send: drop(isCancelled)},
	{Name: "both-answers", About: "ends each prompt both as complete and as cancelled", send: func(d *deviation, m *latisv1.ConnectResponse) {
		if m.GetResponseComplete() != nil {
			const length = 4
			complete, cancelled := appendFrame(nil, m), appendFrame(nil, response(m.Id, &latisv1.ResponseCancelled{}))
			both := append(complete[length:], cancelled[length:]...)
			d.out.addRaw(append(binary.BigEndian.AppendUint32(nil, uint32(len(both))), both...))
			return
		}
		d.out.addMessage(m)
	}},
	{Name: "unknown-kind", About: "sends a message that the protocol does not have", first: []byte("\x00\x00\x00\x0a\x0a\x05stray\x9a\x06\x00")},
	{Name: "missing-field", About: "leaves out the id at the end of each prompt", send: alter(isComplete, func(m *latisv1.ConnectResponse) { m.Id = "" })},
	{Name: "bad-id", About: "gives parts a request_id that is not their id", send: alter(isPart, func(m *latisv1.ConnectResponse) { m.Id = "not-" + m.Id })},
	{Name: "malformed", About: "sends a frame that is not a message", first: []byte("\x00\x00\x00\x03\x0a\x7fx")},
	{Name: "oversize", About: "ends with a frame that is over the limit", last: []byte("\x01\x00\x00\x01\x0a\x01x")},
	{Name: "truncated", About: "ends inside a frame", last: []byte("\x00\x00\x00\x10\x0a\x01")},
	{Name: "chunk-after-cancel", About: "continues after a cancel and confirms it at the end: no finding, but parts after the cancel", deaf: true, send: func(d *deviation, m *latisv1.ConnectResponse) {
		if m.GetResponseComplete() != nil && d.ignored(m.Id) {
			m = response(m.Id, &latisv1.ResponseCancelled{})
		}
		d.out.addMessage(m)
	}},
	{Name: "log-line", About: "writes a log line before the frames, which reads as a frame that is over the limit", first: []byte("2026-01-02T03:04:05Z INFO unit is ready\n")},
}

// MisbehaviourNames returns the names of all misbehaviours, separated by commas.
func MisbehaviourNames() string { return strings.Join(misbehaviourNames(), ", ") }

func misbehaviourNames() (names []string) {
	for _, m := range Misbehaviours {
		names = append(names, m.Name)
	}
	return names
}

// MisbehaviourNamed returns the misbehaviour of that name.
func MisbehaviourNamed(name string) (*Misbehaviour, error) {
	if i := slices.Index(misbehaviourNames(), name); i >= 0 {
		return Misbehaviours[i], nil
	}
	return nil, fmt.Errorf("unknown rule %q%s; there are: %s", name, nearest.Question(name, misbehaviourNames()), MisbehaviourNames())
}

// A deviation is a misbehaviour on one connection.
type deviation struct {
	rule *Misbehaviour
	out  *outbox
	once sync.Once

	mu       sync.Mutex
	unheeded map[string]bool // ids of prompts whose cancel was ignored
}

func (d *deviation) respond(m *latisv1.ConnectResponse) {
	d.once.Do(func() { d.out.addRaw(d.rule.first) })
	if d.rule.send == nil {
		d.out.addMessage(m)
		return
	}
	d.rule.send(d, m)
}

// ignore reports whether to ignore the cancel of a prompt.
func (d *deviation) ignore(id string) bool {
	if d == nil || !d.rule.deaf {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unheeded[id] = true
	return true
}

func (d *deviation) ignored(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unheeded[id]
}
