package relay

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// ErrNotShared is the error of a controller whose framing or protocol is unknown.
var ErrNotShared = errors.New("the framing of a shared unit's controller is unknown: name it with --framing and --protocol")

// SharedConfig configures a Shared.
type SharedConfig struct {
	// Framing and Protocol describe the traffic; nil means to detect them by the
	// first controller.
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Limit is the largest payload in bytes; 0 is the default of the framing and
	// protocol.
	Limit int
	// Sink receives notes, and Altered is called before the first change of a frame.
	// Either may be nil.
	Sink    *Fan
	Altered func()
}

// A Shared shares one unit among any number of controllers. It is an end of each
// relay: [Shared.Unit] is the controller of the relay to the unit, and [Shared.Join]
// returns the unit for the relay of a controller. So each controller's capture reads as
// if it had the unit alone.
//
// Frames of the controllers go to the unit one after the other. Answers go to the
// controller that sent the request; everything else goes to all.
type Shared struct {
	cfg     SharedConfig
	toUnit  *outbox
	altered sync.Once
	exit    atomic.Pointer[capture.Record] // how the unit's process has ended

	mu       sync.Mutex
	settled  *sync.Cond // the grammar is known, or the unit has ended
	grammar  grammar
	framer   *framer // of the unit's frames
	early    []byte  // the unit's bytes before the grammar was known
	members  []*Member
	routes   routes
	sessions latest[[]*Member] // the users of sessions, by id
	asked    latest[*Member]   // requests of the unit, by id
	named    int64             // generated names
	ended    bool
	fault    error // of the unit, if it has failed
}

// NewShared returns a Shared for one unit.
func NewShared(cfg SharedConfig) *Shared {
	s := &Shared{
		cfg: cfg, toUnit: newOutbox(), routes: routes{named: make(map[routeName][]*route), order: list.New()},
	}
	s.settled = sync.NewCond(&s.mu)
	s.forgetGrammar()
	s.framer = newFramer(&s.grammar)
	return s
}

func (s *Shared) forgetGrammar() {
	s.grammar = newGrammar(s.cfg.Framing, s.cfg.Protocol, s.cfg.Limit)
}

// known reports whether the framing and protocol are known.
func (s *Shared) known() bool { return s.grammar.framing != nil && s.grammar.protocol != nil }

// Unit returns the controller for the relay to the unit.
func (s *Shared) Unit() transport.Conn { return (*sharedEnd)(s) }

// sharedEnd represents all controllers.
type sharedEnd Shared

func (e *sharedEnd) Read(p []byte) (int, error) { return e.toUnit.Read(p) }

// Write handles bytes of the unit. It only waits if the unit sends much before the grammar
// is known.
func (e *sharedEnd) Write(p []byte) (int, error) {
	s := (*Shared)(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := p
	for !s.known() && !s.ended {
		n := min(len(rest), maxOutbox-len(s.early))
		s.early, rest = append(s.early, rest[:n]...), rest[n:]
		if len(rest) == 0 {
			return len(p), nil
		}
		s.settled.Wait()
	}
	if s.ended {
		return len(p) - len(rest), io.ErrClosedPipe
	}
	s.hear(rest)
	return len(p), nil
}

// CloseWrite is called when the unit has closed its side, which is the end for all.
func (e *sharedEnd) CloseWrite() error { return e.Close() }

func (e *sharedEnd) Close() error { return e.Abort(nil) }

// Abort is called when the unit has ended; why is its failure, or nil.
func (e *sharedEnd) Abort(why error) error {
	s := (*Shared)(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(why)
	return nil
}

// giveUp is called when the unit has ended. Its early bytes are then dropped, if the grammar
// is still unknown.
func (e *sharedEnd) giveUp(why error) {
	s := (*Shared)(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known() {
		s.end(why)
	}
}

// end ends all controllers and the unit.
func (s *Shared) end(why error) {
	if s.ended {
		return
	}
	s.ended, s.fault = true, why
	s.settled.Broadcast()
	if s.known() {
		s.framer.endInput(s.heard)
	} else {
		s.framer.stop()
	}
	s.toUnit.endWith(nil)
	for _, m := range s.members {
		m.out.endWith(why)
	}
}

// hear handles bytes of the unit.
func (s *Shared) hear(p []byte) {
	if !s.ended && len(p) > 0 {
		s.framer.push(p, s.heard)
	}
}

// heard routes the frames of the unit.
func (s *Shared) heard(b *frame.Batch) {
	for i := range b.Frames {
		f := &b.Frames[i]
		s.grammar.refine(f)
		if f.Gap {
			s.toAll(f.Raw)
			continue
		}
		s.each(f, func(f *frame.Frame, m *protocol.Message, _ error) { s.passAnswer(f, m) })
	}
}

// each calls use with every message of a frame, splitting batches, or with an error.
func (s *Shared) each(f *frame.Frame, use func(*frame.Frame, *protocol.Message, error)) {
	var m protocol.Message
	err := s.grammar.protocol.Parse(f.Payload(), &m)
	if err != nil || string(m.Kind) != "batch" {
		if err != nil {
			m.Reset()
		}
		use(f, &m, err)
		return
	}
	for item := range protocol.Items(f.Payload()) {
		raw, err := s.reframe(f, item)
		if err != nil {
			continue // cannot happen: the batch is within the limit
		}
		start := bytes.LastIndex(raw, item)
		single := frame.Frame{Raw: raw, Start: start, End: start + len(item)}
		if err = s.grammar.protocol.Parse(single.Payload(), &m); err != nil {
			m.Reset()
		}
		use(&single, &m, err)
	}
	s.alter()
}

// passAnswer routes a message of the unit.
func (s *Shared) passAnswer(f *frame.Frame, m *protocol.Message) {
	token := m.Ref
	if token.IsZero() && m.Phase != protocol.Open {
		token = m.ID
	}
	r := s.routes.find(token)
	switch {
	case m.Phase == protocol.Open:
		s.passRequest(f, m, r)
	case m.Phase == protocol.Cancel:
		if to := s.asked.of(string(m.Ref.Text)); to != nil {
			s.asked.forget(string(m.Ref.Text))
			to.send(f.Raw)
			return
		}
		s.toAll(f.Raw)
	case token.Space == protocol.SpaceSession && len(s.sessions.of(string(token.Text))) > 0:
		for _, to := range s.sessions.of(string(token.Text)) {
			to.send(f.Raw)
		}
	case r == nil && token.IsZero() && m.Phase != protocol.Note:
		if r = s.routes.oldest(); r == nil {
			s.toAll(f.Raw)
			return
		}
		s.reply(f, m, r)
	case r == nil:
		s.toAll(f.Raw)
	default:
		s.reply(f, m, r)
	}
}

// reply routes an answer, with the id of the request.
func (s *Shared) reply(f *frame.Frame, m *protocol.Message, r *route) {
	if r.owner != nil {
		raw := f.Raw
		if r.renamed() {
			raw = s.rename(f, m, func(t protocol.Token) []byte {
				if m.Ref.Space == protocol.SpaceID && protocol.SameToken(t, m.ID) {
					return nil // an answer can have its own number
				}
				return r.back(t)
			})
		}
		s.learn(r, m, f)
		r.owner.send(raw)
	}
	rules := all.Rules(s.grammar.protocol)
	switch {
	case m.Phase == protocol.Part || m.Phase == protocol.Note:
	case rules.Subscribe != "" && r.kind == rules.Subscribe && string(m.Kind) == rules.Update:
	default:
		s.routes.remove(r)
	}
}

// passRequest routes a request of the unit to the controller that it is for, if known, or else to
// the first one.
func (s *Shared) passRequest(f *frame.Frame, m *protocol.Message, r *route) {
	var to *Member
	switch users := s.sessions.of(string(m.Ref.Text)); {
	case r != nil && r.owner != nil:
		to = r.owner
	case m.Ref.Space == protocol.SpaceSession && len(users) > 0:
		to = users[0]
	case len(s.members) > 0:
		to = s.members[0]
	default:
		return
	}
	if !m.ID.IsZero() {
		s.asked.note(string(m.ID.Text), to)
	}
	to.send(f.Raw)
}

func (s *Shared) toAll(raw []byte) {
	for _, m := range s.members {
		m.send(raw)
	}
}

// rename returns a frame with other ids.
func (s *Shared) rename(f *frame.Frame, m *protocol.Message, name func(protocol.Token) []byte) []byte {
	payload := protocol.AppendRenamed(nil, s.grammar.protocol, f.Payload(), m, name)
	if bytes.Equal(payload, f.Payload()) {
		return f.Raw
	}
	raw, err := s.reframe(f, payload)
	if err != nil {
		return f.Raw // the longer id exceeds a limit
	}
	s.alter()
	return raw
}

// reframe returns a frame like f with another payload.
func (s *Shared) reframe(f *frame.Frame, payload []byte) ([]byte, error) {
	if s.grammar.framing == frame.Line {
		return append(append(bytes.Clone(f.Raw[:f.Start]), payload...), f.Raw[f.End:]...), nil
	}
	return frame.Append(nil, s.grammar.framing, payload)
}

// alter records that frames are changed for the unit.
func (s *Shared) alter() {
	s.altered.Do(func() {
		if s.cfg.Altered != nil {
			s.cfg.Altered()
		}
		s.note(0, "shared: ids that several controllers use at once are replaced at the unit")
	})
}

func (s *Shared) note(conn int, format string, args ...any) {
	if s.cfg.Sink != nil {
		s.cfg.Sink.Write(&capture.Record{
			Kind: capture.Note, Time: time.Now(), Text: fmt.Appendf(nil, format, args...), Frame: frame.Frame{Conn: conn},
		})
	}
}

// guessed reports whether the protocol is only a fallback. Answers could not be routed.
func (s *Shared) guessed() bool {
	p := s.grammar.protocol
	return s.cfg.Protocol == nil && all.Depth(p) < all.RPC
}
