package relay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A Member represents a shared unit for one controller.
type Member struct {
	shared *Shared
	conn   int
	framer *framer
	out    *outbox
	fault  error // why nothing more is accepted

	renamed map[routeName]string // the unit's names for its open requests
	open    int                  // its open requests
	silent  bool                 // it has closed its side
	left    bool
	gone    atomic.Bool // left, or leaving
}

// maxUnheard bounds the unread bytes of a controller.
const maxUnheard = 64 << 20

// Join returns the unit for another controller with that connection number.
func (s *Shared) Join(conn int) *Member {
	m := &Member{shared: s, conn: conn, out: newOutbox(), framer: newFramer(&s.grammar), renamed: make(map[routeName]string)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, m)
	if s.ended {
		m.out.endWith(s.fault)
	}
	return m
}

// Read reads the unit's frames for this controller.
func (m *Member) Read(p []byte) (int, error) { return m.out.Read(p) }

// Write handles bytes of the controller, and forwards complete frames.
func (m *Member) Write(p []byte) (int, error) {
	whole, err := m.take(p)
	for _, raw := range whole {
		if !m.shared.toUnit.room(m.gone.Load) {
			return 0, io.ErrClosedPipe
		}
		m.shared.toUnit.put(raw, false)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// take cuts bytes of the controller into frames for the unit.
func (m *Member) take(p []byte) (whole [][]byte, err error) {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.left || s.ended {
		return nil, io.ErrClosedPipe
	}
	return m.cut(func(use func(*frame.Batch)) { m.framer.push(p, use) })
}

// cut handles the frames that the framer emits when it is fed.
func (m *Member) cut(feed func(use func(*frame.Batch))) (whole [][]byte, err error) {
	s := m.shared
	knew := s.known()
	feed(func(b *frame.Batch) {
		for i := range b.Frames {
			f := &b.Frames[i]
			s.grammar.refine(f)
			if m.fault == nil {
				m.fault = s.refuses(f)
			}
			if m.fault == nil {
				s.each(f, func(f *frame.Frame, msg *protocol.Message, err error) {
					if err == nil {
						err = s.unroutable(msg)
					}
					if err != nil && m.fault == nil {
						m.fault = fmt.Errorf("a shared unit takes only messages; %d bytes were not one: %w", len(f.Raw), err)
					}
					if m.fault == nil {
						whole = append(whole, m.tell(f, msg))
					}
				})
			}
		}
	})
	switch {
	case errors.Is(m.fault, ErrNotShared):
		s.forgetGrammar()
	case !knew && s.known():
		early := s.early
		s.early = nil
		s.hear(early)
		s.settled.Broadcast()
	}
	return whole, m.fault
}

// refuses returns an error if a frame of a controller cannot go to the unit.
func (s *Shared) refuses(f *frame.Frame) error {
	switch {
	case s.guessed():
		return ErrNotShared
	case f.Gap:
		return fmt.Errorf("a shared unit takes only whole frames; %d bytes were not one: %w", len(f.Raw), f.Flaw)
	case s.grammar.framing == frame.Line && f.End == len(f.Raw):
		return fmt.Errorf("a shared unit takes whole frames, and a line of %d bytes has no end", len(f.Raw))
	}
	return nil
}

// unroutable returns an error for valid JSON that is neither a request nor an answer of
// JSON-RPC. The unit's error for it would have no id, and go to other controllers.
func (s *Shared) unroutable(msg *protocol.Message) error {
	if all.IsRPC(s.grammar.protocol) && msg.Faults&protocol.UnknownKind != 0 {
		return errors.New("it is neither a request nor an answer")
	}
	return nil
}

// tell returns a frame of the controller with the ids that the unit knows.
func (m *Member) tell(f *frame.Frame, msg *protocol.Message) []byte {
	s := m.shared
	raw := slices.Clone(f.Raw)
	if answers(msg) {
		for _, t := range []protocol.Token{msg.Ref, msg.ID} {
			if msg.Phase != protocol.Part {
				s.asked.forget(string(t.Text))
			}
		}
		return raw
	}
	names := map[routeName]string{}
	for _, t := range []protocol.Token{msg.ID, msg.Ref, msg.Bind} {
		switch {
		case t.Space == protocol.SpaceSession:
			s.use(t, m)
		case !t.IsZero():
			names[nameOf(t)] = m.call(t, msg.Phase == protocol.Open)
		}
	}
	raw = s.rename(f, msg, func(t protocol.Token) []byte {
		if live := names[nameOf(t)]; live != "" && live != string(t.Text) {
			return []byte(live)
		}
		return nil
	})
	m.opens(msg, names)
	return raw
}

// answers reports whether a message is an answer. Its ids were then chosen by the other side.
func answers(m *protocol.Message) bool { return m.Phase == protocol.Part || m.Phase.Ends() }

// call returns the unit's name for a token of the controller.
func (m *Member) call(t protocol.Token, opens bool) string {
	s, n := m.shared, nameOf(t)
	if live, ok := m.renamed[n]; ok {
		return live
	}
	if all.Rules(s.grammar.protocol).IsShared(n.space) || !s.routes.others(n, m) {
		return n.text
	}
	live := s.invent(n)
	if opens {
		m.renamed[n] = live
	}
	return live
}

// invent generates an unused name in the form of another.
func (s *Shared) invent(n routeName) string {
	for {
		s.named++
		text := nameLike(s.grammar.protocol, n.text, firstName, s.named)
		if len(s.routes.named[routeName{n.space, text}]) == 0 {
			return text
		}
	}
}

// firstName is the first generated number: no peer counts that far, and it fits into 32
// bits.
const firstName = 1_000_000_000

// opens tracks the exchanges that a message of the controller opens or cancels.
func (m *Member) opens(msg *protocol.Message, names map[routeName]string) {
	s := m.shared
	rules := all.Rules(s.grammar.protocol)
	switch msg.Phase {
	case protocol.Open:
		s.routes.addRoute(newRoute(m, msg, names))
	case protocol.Cancel:
		duty := rules.Cancel(string(msg.Kind))
		if !msg.Ref.IsZero() && duty.Target == protocol.MustNotAnswer {
			ref := msg.Ref
			ref.Text = []byte(names[nameOf(ref)])
			if r := s.routes.find(ref); r != nil && r.owner == m {
				r.settle()
			}
		}
		if !msg.ID.IsZero() {
			r := newRoute(m, msg, names)
			s.routes.addRoute(r)
			if duty.Own != protocol.MustAnswer {
				r.settle()
			}
		}
	}
	m.rest()
}

// send sends a frame to the controller.
func (m *Member) send(raw []byte) {
	m.out.put(raw, false)
	if m.out.waiting() > maxUnheard {
		m.out.endWith(fmt.Errorf("it has not read %d bytes, and would block the others", maxUnheard))
	}
}

// rest ends the connection of a controller that has closed its side and has no open requests.
func (m *Member) rest() {
	if m.silent && m.open == 0 {
		m.out.endWith(nil)
	}
}

// CloseWrite is called when the controller has closed its side. It still receives the answers
// to its requests.
func (m *Member) CloseWrite() error {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.silent || m.left {
		return nil
	}
	m.silent = true
	whole, err := m.cut(m.framer.endInput)
	for _, raw := range whole {
		s.toUnit.put(raw, false)
	}
	if err != nil {
		return err
	}
	m.rest()
	return nil
}

// Close is called when the controller has left. Its open requests are cancelled if the
// protocol has a cancel; their answers are dropped.
func (m *Member) Close() error {
	s := m.shared
	m.gone.Store(true)
	s.toUnit.rouse()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.left {
		return nil
	}
	m.left = true
	m.framer.stop()
	m.out.endWith(nil)
	s.members = slices.DeleteFunc(s.members, func(o *Member) bool { return o == m })
	for id, users := range s.sessions.all() {
		if users = slices.DeleteFunc(users, func(o *Member) bool { return o == m }); len(users) == 0 {
			s.sessions.forget(id)
		} else {
			s.sessions.note(id, users)
		}
	}
	for id, to := range s.asked.all() {
		if to == m {
			s.asked.forget(id)
		}
	}
	m.abandon()
	return nil
}

// abandon cancels the controller's open requests.
func (m *Member) abandon() {
	s := m.shared
	cancelled := 0
	for _, r := range s.routes.of(m) {
		wasOpen := r.open
		r.settle()
		r.owner = nil
		if wasOpen && !s.ended && s.cancel(r) {
			cancelled++
		}
	}
	if cancelled > 0 {
		s.note(m.conn, "shared: the controller left; its open requests that were cancelled at the unit: %d", cancelled)
	}
}

// cancel sends the unit a cancel. It reports whether the protocol has one.
func (s *Shared) cancel(r *route) bool {
	s.named++
	payload, err := all.Of(s.grammar.protocol).AppendCancel(nil, &protocol.Target{Opened: &r.opened}, firstName+s.named)
	if err != nil {
		return false
	}
	var m protocol.Message
	if s.grammar.protocol.Parse(payload, &m) == nil && !m.ID.IsZero() {
		own := &route{names: []routeAlias{{name: nameOf(m.ID), orig: string(m.ID.Text)}}}
		s.routes.addRoute(own) // so that its answer is dropped
	}
	raw, err := frame.Append(nil, s.grammar.framing, payload)
	if err != nil {
		return false
	}
	s.toUnit.put(raw, false)
	return true
}
