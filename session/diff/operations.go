package diff

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A follower finds the operations to which the messages of one protocol belong. It is a
// [session.Watcher].
type follower struct {
	*session.Tracker
	exchange  int64 // the first frame of the exchange that the last message belongs to
	operation int64 // that of its operation, if another exchange began that
	changed   []change
}

// A change is how the exchange that begins with a frame has ended so far.
type change struct {
	first   int64
	outcome session.Outcome
}

// Changed implements [session.Watcher].
func (f *follower) Changed(e *session.Exchange, seq int64) {
	f.changed = append(f.changed, change{e.First, e.Outcome})
	if seq != 0 {
		f.exchange, f.operation = e.First, e.Of
	}
}

// Asked implements [session.Watcher].
func (f *follower) Asked(*session.Cancel) {}

// Found implements [session.Watcher].
func (f *follower) Found(session.Finding) {}

// follow feeds the tracker of the message's protocol.
func (s *Session) follow(r *Record) *follower {
	if r.Message == nil || r.Protocol == nil {
		return nil
	}
	f := s.followers[r.Protocol.Name()]
	if f == nil {
		f = new(follower)
		f.Tracker = session.New(r.Protocol, session.Options{OneWay: true, Watcher: f})
		s.followers[r.Protocol.Name()] = f
	}
	f.exchange, f.operation, f.changed = 0, 0, f.changed[:0]
	f.Feed(session.Frame{Seq: r.Seq, Time: r.Time, Conn: r.Conn, Stream: r.Stream, Dir: r.Dir, Size: len(r.Payload), Payload: r.Payload}, r.Message)
	return f
}

// change notes how exchanges have ended. The requests of a batch do not count as exchanges
// here.
func (s *Session) change(changes []change) {
	for _, c := range changes {
		if n := s.at(c.first); n != none && s.kept(n).asks {
			s.kept(n).outcome = c.outcome
		}
	}
}

// at returns the exchange that begins with a frame, or none.
func (s *Session) at(first int64) int32 {
	n, found := sort.Find(int(s.count), func(i int) int { return cmp.Compare(first, s.kept(int32(i)).first) })
	if !found {
		return none
	}
	return int32(n)
}

// addPart returns the exchange that a message continues or ends without using the id of its
// request; none if there is no such exchange.
func (s *Session) addPart(f *follower, m *protocol.Message) int32 {
	if f == nil || f.exchange == 0 || m.Phase != protocol.Part && !m.Operation.Does.Ends() {
		return none
	}
	return s.at(f.exchange)
}

// phaseOf returns what a message does to the exchange in which it is kept.
func phaseOf(m *protocol.Message) protocol.Phase {
	if (m.Phase == protocol.Note || m.Phase == protocol.Part) && m.Operation.Does.Ends() {
		return m.Operation.Does
	}
	return m.Phase
}

// joined returns the exchanges that belong to operations, by these.
func (s *Session) joined() map[int32][]int32 {
	all := make(map[int32][]int32)
	for n := range s.count {
		if k := s.kept(n); k.of != none && !k.ignored {
			all[k.of] = append(all[k.of], n)
		}
	}
	return all
}

// operations aligns the exchanges of two sessions: first the operations, then the exchanges
// within each pair of operations. An operation that only one session has is not looked into.
func operations(a, b *Session) []match {
	inA, inB := a.joined(), b.joined()
	var all []match
	for _, m := range matches(a, b) {
		all = append(all, m)
		if m.a == none || m.b == none {
			continue
		}
		own := len(all)
		for _, side := range []frame.Dir{frame.DirUnknown, frame.C2U, frame.U2C} {
			of := func(s *Session, list []int32) []int32 {
				return slices.DeleteFunc(slices.Clone(list), func(n int32) bool { return s.kept(n).opener != side })
			}
			all = appendLane(all, a, b, of(a, inA[m.a]), of(b, inB[m.b]))
		}
		for i := range all[own:] {
			all[own+i].of = &m
		}
		slices.SortStableFunc(all[own:], func(p, q match) int { return cmp.Compare(p.place, q.place) })
	}
	return all
}

// versions compares the versions that the sessions state.
func (c *comparison) versions() {
	for _, name := range slices.Sorted(maps.Keys(c.a.followers)) {
		other := c.b.followers[name]
		if other == nil {
			continue
		}
		a, b := c.a.followers[name].Versions(), other.Versions()
		if len(a) > 0 && len(b) > 0 && !slices.Equal(a, b) {
			c.report.addDifference(Difference{What: Version, Kind: name, A: &Side{Value: strings.Join(a, ", ")}, B: &Side{Value: strings.Join(b, ", ")}})
		}
	}
}
