package join

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/stats"
)

// Sums sum up calls by session, by day, and by the agent that another one has started.
type Sums struct {
	sessions, days, agents sums
	tools                  sums // allocated
	ofModels               bool // some wires are those of models
}

// sums have names, the first one first.
type sums struct {
	list []*stats.Sum
	by   map[string]*stats.Sum
}

// maxSums bounds the sessions, days and agents that are told apart.
const maxSums = 10_000

func (s *sums) sum(name string, c *calls.Call) {
	at := s.by[name]
	if at == nil {
		if len(s.list) >= maxSums {
			return
		}
		if s.by == nil {
			s.by = map[string]*stats.Sum{}
		}
		at = &stats.Sum{Name: name}
		s.by[name], s.list = at, append(s.list, at)
	}
	at.AddCall(c.Outcome, c.Usage, c.Model)
}

// Sum adds a call of a session. What an agent tells of one that it has started has its own tokens.
func (s *Sums) Sum(session string, c *calls.Call) {
	switch {
	case c.Operation == 0:
		s.addCall(session, c)
	case c.Usage != protocol.Usage{}:
		s.agents.sum(cmp.Or(c.Name, c.ID), c)
	}
}

func (s *Sums) addCall(session string, c *calls.Call) {
	s.sessions.sum(session, c)
	if !c.Start.IsZero() {
		s.days.sum(c.Start.Local().Format("2006-01-02"), c)
	}
	s.allocate(c)
}

// allocate splits the input and the cost of a call of a model by the bytes of its context, and gives tools the parts
// that are their definitions, calls and results.
func (s *Sums) allocate(c *calls.Call) {
	given := c.Context
	if given == nil || given.Told || given.Omitted || given.Bytes() == 0 {
		return
	}
	parts := map[string]int64{}
	for _, it := range given.Items {
		switch it.Kind {
		case context.Tool, context.ToolCall, context.Result:
			if it.Name != "" {
				parts[it.Name] += it.Bytes
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part := func(n int64) int64 { return int64(float64(n) * float64(parts[name]) / float64(given.Bytes())) }
		u := c.Usage
		s.tools.sum(name, &calls.Call{Outcome: session.Done, Model: c.Model, Usage: protocol.Usage{
			Input: part(u.Input), Cached: part(u.Cached), Cost: part(u.Cost), Listed: part(u.Listed), Priced: part(u.Priced),
		}})
	}
}

// AddRun adds the calls of a run in the order of [Tree]. Tokens are those of the calls to models or, without
// any, those that the agent tells.
func (s *Sums) AddRun(session string, tree []*calls.Call) {
	seen := slices.ContainsFunc(tree, func(c *calls.Call) bool { return RoleOf(c) == Model })
	s.ofModels = s.ofModels || seen
	agents := []string{""} // by depth
	for _, c := range tree {
		agents = agents[:min(len(agents), c.Place.Depth+1)]
		agent := agents[len(agents)-1]
		if c.Place.Agent {
			agent = cmp.Or(c.Name, c.ID)
		}
		if agents = append(agents, agent); c.Place.Agent || c.Place.Turn {
			continue
		}
		if one := *c; seen && RoleOf(c) != Model {
			one.Usage = protocol.Usage{}
			s.addCall(session, &one)
		} else {
			s.Sum(session, c)
		}
		if agent != "" && RoleOf(c) == Model {
			s.agents.sum(agent, c)
		}
	}
}

// AddTo adds the sums to a report: those of sessions and days if there are several. What an agent tells of
// tokens that its calls to models have used, too, is not counted twice.
func (s *Sums) AddTo(r *stats.Report) {
	if s.ofModels {
		r.Usage, r.Priced = new(stats.Usage), stats.Priced{}
		for _, sum := range s.sessions.list {
			r.Usage.Include(sum.Usage)
			r.Include(sum.Priced)
		}
	}
	for _, of := range []struct {
		sums
		least int
		to    *[]stats.Sum
	}{{s.sessions, 2, &r.Sessions}, {s.agents, 1, &r.Agents}, {s.tools, 1, &r.Prompted}, {s.days, 2, &r.Days}} {
		for _, sum := range of.list {
			if len(of.list) >= of.least {
				*of.to = append(*of.to, *sum)
			}
		}
	}
	slices.SortStableFunc(r.Prompted, func(a, b stats.Sum) int { return cmp.Compare(b.Usage.Input, a.Usage.Input) })
	slices.SortFunc(r.Days, func(a, b stats.Sum) int { return strings.Compare(a.Name, b.Name) })
}
