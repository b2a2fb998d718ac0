package store

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/stats"
)

// Kind sums up one kind of message.
type Kind struct {
	Protocol string
	session.Kind
}

// Stats are figures over a session, or over the frames and exchanges that match the filter.
type Stats struct {
	Begin, Slot int64 // the stamp of the first slot, and the width of all
	Slots       []Traffic
	Timed       bool
	Kinds       []Kind // the most frequent first
	Cancels     map[session.Class]int64
	Exchanges   map[session.Outcome]int64
	Usage       protocol.Usage
	// Names and Tools are those of [stats.Report]. With a filter they lack tools that were not
	// called.
	Names []stats.Name
	// Models is empty with a filter.
	Models []stats.Model
	Tools  *stats.Tools
	Stale  bool // the figures are about to be computed again
}

// figures are the figures for a filter, kept while they are valid.
type figures struct {
	stats   Stats
	filter  *Filter
	version int64
	made    time.Time
	took    time.Duration
}

// Stats returns the figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filter == nil {
		return s.all()
	}
	g := &s.figures
	if g.filter == s.filter && (g.version == s.version.Load() || time.Since(g.made) < 20*g.took) {
		g.stats.Stale = g.version != s.version.Load()
		return g.stats
	}
	start := time.Now()
	g.stats = s.matching()
	g.filter, g.version, g.made = s.filter, s.version.Load(), time.Now()
	g.took = g.made.Sub(start)
	return g.stats
}

// Names returns the names of tools, models and what else was asked for, the most frequent first.
func (s *Store) Names() (names []string) {
	for _, n := range s.names() {
		if n.Calls > 0 && n.Name != "" && !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

func (s *Store) names() []stats.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all().Names
}

func newStats(timed bool) Stats {
	return Stats{Timed: timed, Cancels: map[session.Class]int64{}, Exchanges: map[session.Outcome]int64{}}
}

// all returns the figures over the session, as counted by the trackers.
func (s *Store) all() Stats {
	out := newStats(s.timed)
	out.Begin, out.Slot, out.Slots, out.Usage = s.traffic.begin, s.traffic.slot, slices.Clone(s.traffic.slots), s.rows.used
	report := stats.New()
	for _, t := range s.trackers.List {
		st := t.Stats()
		for class, n := range st.Cancels {
			if n > 0 {
				out.Cancels[session.Class(class)] += n
			}
		}
		for _, k := range st.Kinds {
			out.addKind(t.Protocol.Name(), k)
		}
		report.AddNames(t.Protocol.Name(), st.Kinds, s.timed)
		report.AddModels(t.Protocol.Name(), st.Models, s.timed)
	}
	report.AddTools(stats.ToolsOf(&s.offer))
	out.Models = report.Models
	out.Names, out.Tools = report.Names, report.Tools
	out.sort()
	return out
}

func (st *Stats) addKind(protocol string, k *session.Kind) {
	own := Kind{protocol, *k}
	own.Kind.Names = nil // the tracker goes on changing them
	st.Kinds = append(st.Kinds, own)
	for o, n := range k.Outcomes {
		if n > 0 {
			st.Exchanges[session.Outcome(o)] += n
		}
	}
}

func (st *Stats) sort() {
	slices.SortStableFunc(st.Kinds, func(a, b Kind) int { return int(min(max(b.Frames-a.Frames, -1), 1)) })
}

// A selection counts the frames and exchanges that match the filter.
type selection struct {
	*Store
	out   Stats
	kinds []*counted // in the order of appearance
	of    map[uint16]*counted
	names int // of all kinds
	from  []int64
	until []int64
}

// counted is a kind with matches.
type counted struct {
	session.Kind
	protocol protocol.Protocol
	named    map[string]*session.Kind
}

// maxCounted bounds the distinct names, as a tracker does.
const maxCounted = 1000

// matching returns the figures over the kept frames and exchanges that match the filter.
func (s *Store) matching() Stats {
	c := &selection{Store: s, out: newStats(s.timed), of: map[uint16]*counted{}}
	var traffic series
	for _, seq := range s.hits.seqs {
		e := s.frames.at(seq)
		if e == nil {
			continue
		}
		traffic.countFrame(e.time, e.dir(), int64(e.raw))
		if e.flags&bad == 0 {
			k := c.kind(e.kind, s.wires[e.wire].protocol)
			k.Frames++
			k.Bytes += int64(e.size)
		}
	}
	for i := range s.rows.n {
		if r := &s.rows.chunks[i/chunk][i%chunk]; r.hit {
			c.count(r)
		}
	}
	traffic.fly(c.from, c.until)
	c.out.Begin, c.out.Slot, c.out.Slots = traffic.begin, traffic.slot, traffic.slots
	report := stats.New()
	for _, k := range c.kinds {
		c.out.addKind(k.protocol.Name(), &k.Kind)
		report.AddNames(k.protocol.Name(), []*session.Kind{&k.Kind}, s.timed)
	}
	called := slices.DeleteFunc(stats.ToolsOf(&s.offer), func(t stats.Tool) bool {
		return !slices.ContainsFunc(report.Names, func(n stats.Name) bool { return n.Name == t.Name && n.Kind == "tools/call" })
	})
	report.AddTools(called)
	c.out.Names = report.Names
	c.out.sort()
	return c.out
}

// kind returns the counts of a kind.
func (c *selection) kind(number uint16, p protocol.Protocol) *counted {
	k := c.of[number]
	if k == nil {
		k = &counted{protocol: p, named: map[string]*session.Kind{}}
		k.Name = c.Store.kinds.list[number]
		c.of[number], c.kinds = k, append(c.kinds, k)
	}
	return k
}

// count adds an exchange.
func (c *selection) count(r *row) {
	k := c.kind(r.kind, c.spoken[r.spoken])
	k.protocol = c.spoken[r.spoken]
	c.addTo(&k.Kind, r, true)
	if r.class > 0 {
		c.out.Cancels[session.Class(r.class-1)]++
	}
	if u, ok := c.rows.usage[r.mark]; ok {
		c.out.Usage = c.out.Usage.Plus(u)
	}
	if name := c.rows.optional(r.name); name != "" {
		n := k.named[name]
		if n == nil {
			if c.names == maxCounted {
				return
			}
			c.names++
			n = &session.Kind{Name: name}
			k.named[name], k.Names = n, append(k.Names, n)
		}
		n.Frames++
		n.Bytes += r.out
		c.addTo(n, r, r.of == 0)
	}
	if until := r.closed; until != r.opened {
		c.from = append(c.from, r.opened)
		if until != 0 {
			c.until = append(c.until, until)
		}
	}
}

// addTo adds an exchange to a kind or a name, and its latency if latency is set.
func (c *selection) addTo(k *session.Kind, r *row, latency bool) {
	k.Outcomes[r.outcome]++
	if r.of != 0 {
		k.Joined[r.outcome]++
	}
	if r.class > 0 {
		k.Cancels[r.class-1]++
	}
	if r.outcome == uint8(session.Open) || r.cut && !r.ended {
		return
	}
	k.Answered += r.in
	if c.timed && r.ended && latency {
		k.Latency.Add(time.Duration(r.closed - r.opened))
	}
	if r.parts == 0 {
		return
	}
	k.Parts += int64(r.parts)
	k.Gaps += int64(r.parts) - 1
	if c.timed {
		k.FirstPart.Add(time.Duration(r.firstPart - r.opened))
		k.Streaming += time.Duration(r.lastPart - r.firstPart)
	}
}

// fly counts the exchanges in flight in each slot, given when they begin and end.
func (t *series) fly(from, until []int64) {
	slices.Sort(from)
	slices.Sort(until)
	level := int64(0)
	for i := range t.slots {
		end := t.begin + int64(i+1)*t.slot
		slot := &t.slots[i]
		slot.InFlight = level
		for len(from) > 0 && from[0] < end || len(until) > 0 && until[0] < end {
			if len(until) > 0 && (len(from) == 0 || until[0] <= from[0]) {
				level--
				until = until[1:]
			} else {
				level++
				from = from[1:]
			}
			slot.InFlight = max(slot.InFlight, level)
		}
	}
}
