package relay

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
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

// A routeName is a name of an exchange at the unit.
type routeName struct {
	space protocol.Space
	text  string
}

func nameOf(t protocol.Token) routeName { return routeName{t.Space, string(t.Text)} }

// A routeAlias is a name at the unit and the controller's name.
type routeAlias struct {
	name routeName
	orig string
}

// A route leads the answers of one exchange back to its controller.
type route struct {
	owner  *Member // nil once it has left
	kind   string
	names  []routeAlias
	open   bool             // an answer is expected
	opened protocol.Message // its names, as the unit knows them
	place  *list.Element
}

// newRoute returns the route of the exchange that m opens.
func newRoute(owner *Member, m *protocol.Message, names map[routeName]string) *route {
	r := &route{owner: owner, kind: string(m.Kind), open: true}
	live := func(t protocol.Token) protocol.Token {
		text := string(t.Text)
		if other := names[nameOf(t)]; other != "" {
			text = other
		}
		return protocol.Token{Space: t.Space, Text: []byte(text)}
	}
	r.opened = protocol.Message{Kind: bytes.Clone(m.Kind), Phase: m.Phase, ID: live(m.ID), Bind: live(m.Bind)}
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() && t.Space != protocol.SpaceSession {
			r.names = append(r.names, routeAlias{nameOf(live(t)), string(t.Text)})
		}
	}
	if m.ID.IsZero() {
		r.names = append(r.names, routeAlias{}) // answers without an id come in order
	}
	owner.open++
	return r
}

func (r *route) renamed() bool {
	return slices.ContainsFunc(r.names, func(a routeAlias) bool { return a.name.text != a.orig })
}

// back returns the controller's name for a token of the unit; nil if it is the same.
func (r *route) back(t protocol.Token) []byte {
	for _, a := range r.names {
		if a.name == nameOf(t) && a.name.text != a.orig {
			return []byte(a.orig)
		}
	}
	return nil
}

// settle marks the exchange as no longer expecting an answer.
func (r *route) settle() {
	if r.open && r.owner != nil {
		r.owner.open--
	}
	r.open = false
}

// routes are the exchanges that may be answered.
type routes struct {
	named map[routeName][]*route // the oldest first
	order *list.List             // the oldest first
}

// maxRoutes bounds the tracked exchanges, and other entries by id: the oldest is dropped.
const maxRoutes = 1 << 16

func (t *routes) addRoute(r *route) {
	if t.order.Len() >= maxRoutes {
		t.remove(t.order.Front().Value.(*route))
	}
	r.place = t.order.PushBack(r)
	for _, a := range r.names {
		t.named[a.name] = append(t.named[a.name], r)
	}
}

// remove forgets an exchange that has ended.
func (t *routes) remove(r *route) {
	r.settle()
	t.order.Remove(r.place)
	for _, a := range r.names {
		if rest := slices.DeleteFunc(t.named[a.name], func(o *route) bool { return o == r }); len(rest) == 0 {
			delete(t.named, a.name)
		} else {
			t.named[a.name] = rest
		}
		if r.owner != nil {
			delete(r.owner.renamed, routeName{a.name.space, a.orig})
		}
	}
	if r.owner != nil {
		r.owner.rest()
	}
}

// find returns the exchange that a token names; nil if none is known.
func (t *routes) find(token protocol.Token) *route {
	if token.IsZero() {
		return nil
	}
	if known := t.named[nameOf(token)]; len(known) > 0 {
		return known[0]
	}
	return nil
}

// oldest returns the exchange that an answer without an id is for.
func (t *routes) oldest() *route {
	if known := t.named[routeName{}]; len(known) > 0 {
		return known[0]
	}
	return nil
}

// others reports whether a name is in use by a controller other than m.
func (t *routes) others(n routeName, m *Member) bool {
	known := t.named[n]
	return len(known) > 0 && !slices.ContainsFunc(known, func(r *route) bool { return r.owner == m })
}

// of returns the exchanges of a controller.
func (t *routes) of(m *Member) (list []*route) {
	for e := t.order.Front(); e != nil; e = e.Next() {
		if r := e.Value.(*route); r.owner == m {
			list = append(list, r)
		}
	}
	return list
}

// latest is a map of the latest maxRoutes ids.
type latest[V any] struct {
	places map[string]*list.Element
	order  list.List // of *entry[V], least recently noted first
}

type entry[V any] struct {
	id    string
	value V
}

// of returns the value of an id; the zero value if there is none.
func (l *latest[V]) of(id string) (v V) {
	if place := l.places[id]; place != nil {
		v = place.Value.(*entry[V]).value
	}
	return v
}

// note sets the value of an id.
func (l *latest[V]) note(id string, v V) {
	if place := l.places[id]; place != nil {
		place.Value.(*entry[V]).value = v
		l.order.MoveToBack(place)
		return
	}
	if l.order.Len() >= maxRoutes {
		l.forget(l.order.Front().Value.(*entry[V]).id)
	}
	if l.places == nil {
		l.places = make(map[string]*list.Element)
	}
	l.places[id] = l.order.PushBack(&entry[V]{id, v})
}

func (l *latest[V]) forget(id string) {
	if place := l.places[id]; place != nil {
		l.order.Remove(place)
		delete(l.places, id)
	}
}

// all yields all entries, which may be changed or removed meanwhile.
func (l *latest[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for id, place := range l.places {
			if !yield(id, place.Value.(*entry[V]).value) {
				return
			}
		}
	}
}

// use records that a controller uses a session.
func (s *Shared) use(t protocol.Token, m *Member) {
	id := string(t.Text)
	users := s.sessions.of(id)
	if !slices.Contains(users, m) {
		users = append(users, m)
	}
	s.sessions.note(id, users)
}

// learn records the session that an answer has created.
func (s *Shared) learn(r *route, m *protocol.Message, f *frame.Frame) {
	rules := all.Rules(s.grammar.protocol)
	if rules.Session == nil {
		return
	}
	if id := rules.Session(r.kind, m, f.Payload()); len(id) > 0 {
		s.use(protocol.Token{Space: protocol.SpaceSession, Text: id}, r.owner)
	}
}
