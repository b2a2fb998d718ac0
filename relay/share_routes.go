package relay

import (
	"bytes"
	"container/list"
	"iter"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

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
