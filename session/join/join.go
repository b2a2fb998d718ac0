// Package join finds out which calls on the wires of a run belong together, and puts them into a
// tree: a turn of the user, the calls to models in it, the tools that these call, and the agents and
// commands that those start.
//
// A call is joined by an id that both wires have, or else by the same tool and arguments in the time
// between the answer of the model and the request with the result, or else by time alone. Which of
// these it was is part of the place of a call: a guess is never a fact.
package join

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/table"
)

// Tree returns the calls in the order of the tree, with a row for each turn, and sets their places and
// their times from the first of them. Wires are the names of connections by Conn, and of sessions by Conn
// and Stream. One that begins with that of a wire, such as "lab: claude → lab", sets that of its calls. Calls that an agent makes for itself come last: in
// a run, also its requests that neither ask a model nor call a tool.
func Tree(list []*calls.Call, wires map[[2]int]string, ofRun bool) []*calls.Call {
	t := &tree{ofRun: ofRun, made: map[string][]made{}, returned: map[string]back{}, spawns: map[string]string{}}
	for _, c := range list {
		if name, ends, ok := strings.Cut(wires[[2]int{c.Conn, min(c.Stream, 0)}], ": "); ok {
			c.Wire = name
			_, host, _ := strings.Cut(ends, " → ")
			if name == modelWire && host != "" && isServer(c) {
				c.Wire = strings.TrimPrefix(strings.TrimPrefix(host, "http://"), "https://")
			}
		}
		t.enter(c)
	}
	slices.SortStableFunc(list, func(a, b *calls.Call) int { return a.Start.Compare(b.Start) })
	slices.SortStableFunc(t.nodes, func(a, b *node) int { return a.Start.Compare(b.Start) })
	var began time.Time // calls whose times are unknown come first
	for _, c := range list {
		if !c.Start.IsZero() {
			began = cmp.Or(began, c.Start)
			c.Offset = c.Start.Sub(began)
		}
	}
	for _, n := range t.nodes {
		t.index(n)
	}
	for _, n := range t.nodes {
		if n.isModel {
			t.placeModel(n)
		} else {
			t.placeExact(n)
		}
	}
	t.match()
	t.split()
	t.headTurns()
	t.placeByTime()
	var out []*calls.Call
	turns := 0
	for _, a := range t.agents {
		a.Usage, a.Duration = a.total()
	}
	for _, n := range t.roots {
		switch {
		case !n.Place.Turn:
		case n.turn == "" && len(n.children) == 1 && n.children[0].children == nil: // one call says it all
			n = n.children[0]
		default:
			turns++
			n.Name = fmt.Sprintf("turn %d", turns)
			n.sum()
		}
		out = n.appendTo(out, 0)
	}
	for _, n := range t.own {
		out = append(out, n.Call)
	}
	return out
}

// modelWire is the wire of models in a run, and of servers of tools over HTTP, which are named by their hosts.
const modelWire = "model"

// A Role is what works in a call.
type Role uint8

const (
	NoRole Role = iota // that is unknown
	Model
	Tool
	Process
	Agent
	User // the agent waits for an answer of its user
)

var roles = [...]string{"", "model", "tool", "process", "agent", "user"}

// String returns the word for a role; "" if it is unknown.
func (r Role) String() string { return roles[r] }

// RoleOf returns the role of a call: of an agent are also the rows for turns and agents, its process, and
// the wire of its driver.
func RoleOf(c *calls.Call) Role {
	spec := specOf(c)
	switch {
	case slices.Contains(spec.AsksUser, c.Kind):
		return User
	case c.Place.Turn, c.Place.Agent, c.Wire == agentWire, c.Protocol == processes && c.Kind == "agent":
		return Agent
	case c.Protocol == processes:
		return Process
	case spec.API != nil || spec.Live != protocol.NotLive:
		if c.Model != "" {
			return Model
		}
	case isServer(c), spec.Labels == protocol.Tools && c.Name != "":
		return Tool
	}
	return NoRole
}

// agentWire is the wire of an agent's driver in a run.
const agentWire = "agent"

// isServer reports whether a call is on the wire of a server of tools.
func isServer(c *calls.Call) bool {
	return slices.ContainsFunc(specOf(c).Joins, func(j protocol.Join) bool { return j.As == protocol.WithArguments })
}

type tree struct {
	ofRun bool

	nodes, roots, own []*node
	made              map[string][]made  // tool calls that models make, by their ids
	all               []made             // the same, with those without ids
	returned          map[string]back    // when the result of a tool call was first given to a model, by its id
	spawns            map[string]string  // the tool calls that have started agents, by the names of these
	models            map[string][]*node // calls to models by agents
	turns             map[turn]*node
	agents            map[string]*node // those that others have started
}

// A node is a call in the tree.
type node struct {
	*calls.Call
	isModel             bool
	agent, parent, turn string
	trace               string // the id of its trace
	prompt              *node  // of a turn, from the agent's driver
	agentType           string
	children            []*node
	placed              bool
}

// made is a tool call that a model makes in its answer.
type made struct {
	by   *node
	link protocol.Link
}

// back is the request that gives the result of a tool call to the model, and how the call ended by what it says.
type back struct {
	*node
	ended protocol.Phase
}

type turn struct{ agent, name string }

func specOf(c *calls.Call) *protocol.Spec { return all.SpecNamed(c.Protocol) }

func (t *tree) enter(c *calls.Call) {
	n := &node{Call: c}
	n.isModel = RoleOf(c) == Model
	for _, l := range c.Links {
		switch l.As {
		case protocol.OfAgent:
			n.agent = l.Text
		case protocol.OfAgentType:
			n.agentType = l.Text
		case protocol.OfParent:
			n.parent = l.Text
		case protocol.OfTurn:
			n.turn = l.Text
		case protocol.OfTrace:
			n.trace = traceID(l.Text)
		}
	}
	c.Place.Own = own(c, t.ofRun)
	if c.Place.Own != "" {
		t.own = append(t.own, n)
		return
	}
	t.nodes = append(t.nodes, n)
}

// own returns what an agent makes a call for, if that is for itself.
func own(c *calls.Call, ofRun bool) string {
	if ofRun && (specOf(c).API != nil && c.Model == "" || c.Protocol == carried.HTTP.Name()) {
		return "request"
	}
	for _, l := range slices.Backward(c.Links) {
		if l.As == protocol.ForItself {
			return l.Text
		}
	}
	return ""
}

// Counts reports whether a call of a run has to do with what the user asked for.
func Counts(c *calls.Call) bool { return own(c, true) == "" }

// index records what other calls refer to.
func (t *tree) index(n *node) {
	for _, l := range n.Links {
		switch l.As {
		case protocol.Calls:
			m := made{n, l}
			t.all = append(t.all, m)
			if l.Text != "" {
				t.made[l.Text] = append(t.made[l.Text], m)
			}
		case protocol.Returns:
			if _, known := t.returned[l.Text]; !known {
				t.returned[l.Text] = back{n, l.Ended}
			}
		case protocol.Spawned:
			t.spawns[l.Text] = l.Of
		}
	}
}

// latest returns the tool call of an id that was made last before a time; nil if there is none.
func (t *tree) latest(id string, before time.Time) *made {
	list := t.made[id]
	for i := range slices.Backward(list) {
		if !list[i].by.Start.After(before) {
			return &list[i]
		}
	}
	return nil
}

// spawner returns the call to a model that has started the agent of a call; nil if that is unknown. Ids of
// tool calls may come again, but an agent does not start itself.
func (t *tree) spawner(n *node) *node {
	if n.agent == "" {
		return nil
	}
	for _, m := range slices.Backward(t.made[t.spawns[n.agent]]) {
		if m.by.agent != n.agent && !m.by.Start.After(n.Start) {
			return m.by
		}
	}
	return nil
}

// placeExact joins a call with the call to a model that has made it, by the id of the tool call.
func (t *tree) placeExact(n *node) {
	for _, l := range n.Links {
		if l.As != protocol.CarriesOut {
			continue
		}
		if m := t.latest(l.Text, n.Start); m != nil {
			t.adopt(m, n, calls.Exact)
		}
	}
}

// adopt joins a call with the tool call that it carries out.
func (t *tree) adopt(m *made, n *node, how calls.Edge) {
	m.by.adopt(n, how)
	back, isBack := t.returnOf(m)
	if !isBack || back.ended != protocol.Fail || n.Stopped || !isServer(n.Call) || !back.Start.After(n.Start) {
		return
	}
	if back.Start.Before(endOf(n.Call)) || n.Outcome == session.Open || n.Outcome == session.Done && back.prompts() {
		n.Place.GivenUp = back.Start
	}
}

func (n *node) adopt(child *node, how calls.Edge) {
	child.placed, child.Place.Edge, child.Place.Parent = true, how, n.Frame
	n.children = append(n.children, child)
}

// placeModel puts a call to a model below the tool call that has started its agent, or else into a turn.
func (t *tree) placeModel(n *node) {
	if by := t.spawner(n); by != nil {
		t.agentOf(n, by, calls.Exact).adopt(n, calls.Exact)
		t.remember(n)
		return
	}
	if n.parent != "" {
		if before := t.models[n.parent]; len(before) > 0 {
			t.agentOf(n, before[len(before)-1], calls.ByTime).adopt(n, calls.Exact) // of the calls of its parent, the latest
			t.remember(n)
			return
		}
	}
	at, how, named := turn{n.agent, n.turn}, calls.Exact, n.turn
	if named == "" {
		at, how = turn{n.agent, t.turnOf(n)}, calls.Unjoined
	}
	top := t.turns[at]
	if top == nil {
		if t.turns == nil {
			t.turns = map[turn]*node{}
		}
		top = t.newTurn(n, named)
		t.turns[at] = top
	}
	top.hold(n)
	n.placed, n.Place.Parent = true, 0
	n.Place.Edge = how
	t.remember(n)
}

// newTurn adds a turn that begins with a call to a model. The agent may not name it.
func (t *tree) newTurn(n *node, name string) *node {
	top := &node{Call: &calls.Call{Frame: n.Frame, Kind: "turn", Start: n.Start, Offset: n.Offset, Wire: n.Wire, Session: n.Session, Place: calls.Place{Turn: true}}, turn: name}
	t.roots = append(t.roots, top)
	return top
}

// hold adds a call to a model to a turn.
func (top *node) hold(n *node) {
	top.Outcome, top.Reason, top.Stopped = n.Outcome, n.Reason, n.Stopped // of the last one
	top.children = append(top.children, n)
}

// prompts reports whether a request to a model brings words of the user after results.
func (n *node) prompts() bool {
	return slices.ContainsFunc(n.Links, func(l protocol.Link) bool { return l.As == protocol.Prompts })
}

// split begins a turn where the user has interrupted a tool: then its result comes with the next prompt.
func (t *tree) split() {
	for _, top := range slices.Clone(t.roots) {
		if !top.Place.Turn || top.turn != "" {
			continue
		}
		list := top.children
		top.children = nil
		for i, n := range list {
			if i > 0 && n.prompts() && slices.ContainsFunc(list[i-1].children, func(c *node) bool {
				return !c.Place.GivenUp.IsZero() || c.Stopped && stoppedAt(c.Call).Before(n.Start)
			}) {
				top = t.newTurn(n, "")
			}
			top.hold(n)
		}
	}
}

// maxPrompts bounds the prompts that are at work at once: of more, the latest count.
const maxPrompts = 64

// A prompt is what the driver of an agent asks, with what it has in common with calls to models.
type prompt struct {
	*node
	top     *node // its turn; nil until it has one
	words   uint64
	reports map[string]bool // ids of tool calls
}

// headTurns makes the prompts that an agent gets from its driver the heads of their turns.
func (t *tree) headTurns() {
	var waiting []*prompt
	for _, n := range t.nodes {
		if n.placed || !slices.Contains(specOf(n.Call).Prompts, n.Kind) {
			continue
		}
		p := &prompt{node: n, reports: map[string]bool{}}
		for _, l := range n.Links {
			switch l.As {
			case protocol.Asks:
				p.words = l.Arguments
			case protocol.Reports:
				p.reports[l.Text] = true
			}
		}
		waiting = append(waiting, p)
	}
	if len(waiting) == 0 {
		return
	}
	slices.SortStableFunc(t.roots, func(a, b *node) int { return a.Start.Compare(b.Start) })
	var atWork []*prompt
	t.roots = slices.DeleteFunc(t.roots, func(top *node) bool {
		for len(waiting) > 0 && !waiting[0].Start.After(top.Start) {
			atWork, waiting = append(atWork, waiting[0]), waiting[1:]
		}
		atWork = slices.DeleteFunc(atWork, func(p *prompt) bool {
			return p.Outcome != session.Open && endOf(p.Call).Before(top.Start)
		})
		atWork = atWork[max(0, len(atWork)-maxPrompts):]
		p, how := promptOf(atWork, top)
		if p == nil {
			return false
		}
		parts, isFirst := top.children, p.top == nil
		if isFirst {
			p.top, p.placed, p.Place.Prompt = top, true, true
			top.prompt, top.children = p.node, []*node{p.node}
			top.Frame, top.Start, top.Offset, top.Wire, top.Session = p.Frame, p.Start, p.Offset, p.Wire, p.Session
			top.Outcome, top.Reason, top.Stopped = p.Outcome, p.Reason, p.Stopped
		}
		for _, part := range parts {
			p.adopt(part, how)
		}
		return !isFirst
	})
}

// promptOf returns the prompt in whose time a turn begins and that has an id of it, or else that has the text
// of its first call to a model, or else is the only one in its time; nil if that is none, or several.
func promptOf(atWork []*prompt, top *node) (of *prompt, how calls.Edge) {
	unique := false
	for _, p := range atWork {
		switch is := p.heads(top); {
		case of == nil || is > how:
			of, how, unique = p, is, true
		case is == how:
			unique = false
		}
	}
	if !unique {
		return nil, calls.Unjoined
	}
	return of, how
}

// heads returns how sure it is that a turn that begins in the time of a prompt belongs to it.
func (p *prompt) heads(top *node) calls.Edge {
	if top.turn != "" && top.turn == p.turn {
		return calls.Exact
	}
	how := calls.ByTime
	for i, c := range top.children {
		for _, l := range c.Links {
			switch {
			case l.As == protocol.Calls && l.Text != "" && p.reports[l.Text]:
				return calls.Exact
			case l.As == protocol.Asks && i == 0 && l.Arguments == p.words && p.words != 0:
				how = calls.Matched
			}
		}
	}
	return how
}

// agentOf returns the row of the agent that makes a call, which is below the call that has started it.
func (t *tree) agentOf(n, by *node, how calls.Edge) *node {
	a := t.agents[n.agent]
	if a == nil {
		if t.agents == nil {
			t.agents = map[string]*node{}
		}
		a = &node{Call: &calls.Call{Frame: by.Frame, Kind: "agent", Name: cmp.Or(n.agentType, "agent"), ID: n.agent, Start: n.Start, Offset: n.Offset, Wire: n.Wire, Session: n.Session, Place: calls.Place{Agent: true}}}
		t.agents[n.agent] = a
		by.adopt(a, how)
	}
	a.Outcome, a.Reason, a.Stopped = n.Outcome, n.Reason, n.Stopped // of the last one
	return a
}

func (t *tree) remember(n *node) {
	if t.models == nil {
		t.models = map[string][]*node{}
	}
	t.models[n.agent] = append(t.models[n.agent], n)
}

// turnOf returns the turn of a call to a model where the agent does not name it: a call that brings the
// result of a tool call continues the turn before.
func (t *tree) turnOf(n *node) string {
	before := t.models[n.agent]
	for _, last := range slices.Backward(before) {
		if last.Conn != n.Conn && last.Protocol != n.Protocol {
			continue
		}
		for _, l := range n.Links {
			if l.As == protocol.Returns && slices.ContainsFunc(last.Links, func(m protocol.Link) bool {
				return m.As == protocol.Calls && (m.Text == l.Text && l.Text != "" || l.Text == "" && m.Tool == l.Tool)
			}) {
				n.turn = last.turn
				return n.turn
			}
		}
		break
	}
	n.turn = fmt.Sprint("begins at ", n.Frame)
	return n.turn
}

// match joins calls of tools whose wire has no id of the model's. The name of a wire may not be that
// which the agent has for the server: then it may be any server without a wire of its own.
func (t *tree) match() {
	wires := map[string]bool{} // that have the name of a server
	tools, seen := map[string]bool{}, map[[2]string]bool{}
	same := map[uint64][]made{} // with the same arguments
	for _, m := range t.all {
		tools[m.link.Tool] = true
		same[m.link.Arguments] = append(same[m.link.Arguments], m)
	}
	for _, n := range t.nodes {
		what := [2]string{n.Wire, n.Name}
		if _, isCall := argumentsOf(n.Call); !isCall || n.isModel || n.Wire == "" || wires[n.Wire] || seen[what] {
			continue
		}
		seen[what] = true
		for tool := range tools {
			if IsTool(tool, n.Wire, n.Name) {
				wires[n.Wire] = true
			}
		}
	}
	for _, n := range t.nodes {
		arguments, isCall := argumentsOf(n.Call)
		if n.placed || n.isModel || !isCall || n.Name == "" {
			continue
		}
		var by []made
		list := same[arguments]
		for len(list) > 0 { // the first ones are over, for this call and later ones
			if back, isBack := t.returnOf(&list[0]); !isBack || !back.Start.Before(n.Start) {
				break
			}
			list = list[1:]
		}
		same[arguments] = list
		server := n.Wire
		if !wires[server] {
			server = ""
		}
		for _, m := range list {
			if m.by.Start.After(n.Start) {
				break
			}
			back, isBack := t.returnOf(&m)
			switch {
			case isBack && back.Start.Before(n.Start), !IsTool(m.link.Tool, server, n.Name):
			case server == "" && t.isOther(m.link.Tool, n.Name, wires):
			case endOf(m.by.Call).After(n.Start) || isBack && back.Start.Before(endOf(n.Call)) && back.ended != protocol.Fail && n.Outcome != session.Open:
			default:
				by = append(by, m)
			}
		}
		how := calls.Matched
		if n.trace != "" {
			if own := slices.DeleteFunc(slices.Clone(by), func(m made) bool { return m.by.trace != n.trace }); len(own) > 0 {
				by, how = own, calls.Exact
			}
			by = slices.DeleteFunc(by, func(m made) bool { return m.by.trace != "" && m.by.trace != n.trace })
		}
		if len(by) > 1 && slices.ContainsFunc(by, func(m made) bool { return m.by.agent != by[0].by.agent }) {
			continue // two agents have made equal calls at once
		}
		if len(by) > 0 {
			t.adopt(&by[len(by)-1], n, how)
		}
	}
}

// traceID returns the id of the trace in a traceparent; "" if there is none.
func traceID(traceparent string) string {
	if parts := strings.Split(traceparent, "-"); len(parts) >= 4 && len(parts[1]) == 32 && strings.Trim(parts[1], "0") != "" {
		return parts[1]
	}
	return ""
}

// isOther reports whether a model's name of a tool is that of a server with a wire of its own.
func (t *tree) isOther(name, tool string, wires map[string]bool) bool {
	for server := range wires {
		if IsTool(name, server, tool) {
			return true
		}
	}
	return false
}

// returnOf returns when the result of a tool call was first given to a model. Without an id it is the next
// call to a model of the agent with a result of that tool.
func (t *tree) returnOf(m *made) (b back, ok bool) {
	if m.link.Text != "" {
		b, ok = t.returned[m.link.Text]
		return b, ok
	}
	later, _ := slices.BinarySearchFunc(t.models[m.by.agent], endOf(m.by.Call), func(n *node, end time.Time) int { return n.Start.Compare(end) })
	for _, n := range t.models[m.by.agent][later:] {
		for _, l := range n.Links {
			if l.As == protocol.Returns && l.Text == "" && l.Tool == m.link.Tool {
				return back{n, l.Ended}, true
			}
		}
	}
	return b, false
}

// argumentsOf returns the hash of the arguments of a call of a tool.
func argumentsOf(c *calls.Call) (hash uint64, ok bool) {
	for _, l := range c.Links {
		if l.As == protocol.WithArguments {
			return l.Arguments, l.Arguments != 0
		}
	}
	return 0, false
}

// IsTool reports whether a model's name of a tool, such as mcp__server__tool or server-tool, is that of
// a tool of a server, whose name may be unknown.
func IsTool(name, server, tool string) bool {
	rest, ok := strings.CutSuffix(plain(name), plain(tool))
	return ok && (rest == "" || strings.HasSuffix(rest, "_") && (server == "" || endsIn(strings.TrimRight(rest, "_"), plain(server))))
}

// endsIn reports whether the last words of a name are those of a server.
func endsIn(name, server string) bool {
	return strings.HasSuffix("_"+name, "_"+strings.Trim(server, "_"))
}

// plain returns a name with a low line for each other sign, as agents write names of tools.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '_'
	}, name)
}

// placeByTime joins a command that an agent runs with the only call to a model whose tools it waits for
// at that time. What is left stands for itself.
func (t *tree) placeByTime() {
	for _, n := range t.nodes {
		if n.placed {
			continue
		}
		var by []*node
		for _, m := range t.all {
			if !specOf(n.Call).Rules.NoWire || m.by.Start.After(n.Start) {
				break
			}
			back, isBack := t.returned[m.link.Text]
			if isBack && m.link.Text != "" && !endOf(m.by.Call).After(n.Start) && !back.Start.Before(n.Start) && !slices.Contains(by, m.by) {
				by = append(by, m.by)
			}
		}
		if len(by) == 1 {
			by[0].adopt(n, calls.ByTime)
			continue
		}
		t.roots = append(t.roots, n)
	}
	slices.SortStableFunc(t.roots, func(a, b *node) int { return a.Start.Compare(b.Start) })
}

// appendTo appends a call and what belongs to it, in the order of time.
func (n *node) appendTo(out []*calls.Call, depth int) []*calls.Call {
	n.Place.Depth = min(depth, 16)
	out = append(out, n.Call)
	slices.SortStableFunc(n.children, func(a, b *node) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Frame, b.Frame))
	})
	for _, child := range n.children {
		out = child.appendTo(out, depth+1)
	}
	return out
}

// sum sets the duration, the usage and the outcome of a turn, which are those of all calls in it.
func (n *node) sum() {
	n.Usage, n.Duration = n.total()
	var list []*calls.Call
	for c := range n.all() {
		list = append(list, c.Call)
	}
	stops := Stops(list)
	switch {
	case n.prompt != nil && !n.Stopped:
		return // its answer says how the turn ended
	case len(stops) == 0:
		n.waits()
		return
	case n.prompt == nil && slices.ContainsFunc(n.children, func(c *node) bool { return c.isModel && c.Start.After(stops[0].At) }):
		return // the turn went on after it
	}
	if n.Stopped = true; n.prompt == nil {
		n.Outcome = session.Cancelled
	}
	var story []string
	for i := range stops {
		story = append(story, cmp.Or(stops[i].Call.Name, stops[i].Call.Kind)+" "+stops[i].String())
	}
	n.Reason = strings.Join(story, "; ")
}

// A Stop is what a cancel did to a call of a turn.
type Stop struct {
	Call *calls.Call
	// At is when the call was cancelled, and After how long that is after the first call of the turn. Zero
	// At means that it never was: it went on for the time of After.
	At    time.Time
	After time.Duration
	// Late is how much later an answer came all the same; 0 if none did.
	Late time.Duration
}

// String says what happened to the call: "cancelled after 76ms, answered 1.8s later".
func (s *Stop) String() string {
	if s.At.IsZero() {
		if s.Call.Outcome == session.Open {
			return "goes on"
		}
		return "went on for " + table.Millis(s.After).String()
	}
	text := "cancelled"
	if s.After > 0 {
		text += " after " + table.Millis(s.After).String()
	}
	if s.Late > 0 {
		text += ", answered " + table.Millis(s.Late).String() + " later"
	}
	return text
}

// Stops returns how far the cancel of a turn went in the calls of the turn: those that were cancelled, the
// first one first, and then those that were at work but went on. Without a cancel there are none.
func Stops(turn []*calls.Call) (stops []Stop) {
	for _, c := range turn {
		if c.Stopped && !c.Place.Agent && !c.Place.Turn {
			s := Stop{Call: c, At: stoppedAt(c)}
			if c.Class == session.LateResult || c.Class == session.Crossed {
				s.Late = max(endOf(c).Sub(s.At), c.Closed.Sub(s.At))
			}
			stops = append(stops, s)
		}
	}
	if len(stops) == 0 {
		return nil
	}
	slices.SortStableFunc(stops, func(a, b Stop) int { return a.At.Compare(b.At) })
	first := stops[0].At
	for i := range stops {
		stops[i].After = stops[i].At.Sub(first)
	}
	for _, c := range turn {
		on := endOf(c).Sub(first)
		if !c.Stopped && c.Start.Before(first) && (on > 0 || c.Outcome == session.Open) && !c.Place.Agent && !c.Place.Turn {
			stops = append(stops, Stop{Call: c, After: on})
		}
	}
	return stops
}

// waits sets the outcome of a turn whose last call to a model has made a tool call that has no answer.
func (n *node) waits() {
	var last *node
	for _, c := range n.children {
		if c.isModel && (last == nil || !c.Start.Before(last.Start)) {
			last = c
		}
	}
	if last == nil || n.Outcome != session.Done {
		return
	}
	for _, c := range last.children {
		if !c.Place.GivenUp.IsZero() {
			n.Outcome, n.Reason = session.Abandoned, c.title()+" was given up"
			continue
		}
		switch c.Outcome {
		case session.Open, session.Abandoned, session.Died:
			if !c.isModel && !c.Place.Agent && !specOf(c.Call).Rules.NoWire { // a command may go on by itself
				n.Outcome, n.Reason = c.Outcome, c.title()+" has no answer"
			}
		}
	}
}

// stoppedAt is when a cancelled call was cancelled.
func stoppedAt(c *calls.Call) time.Time {
	if c.Asked.IsZero() {
		return endOf(c)
	}
	return c.Asked
}

// total returns the usage of all calls below n, and the time until the last of them ended.
func (n *node) total() (used protocol.Usage, took time.Duration) {
	for c := range n.all() {
		if !c.Place.Agent { // which is the sum of others
			if c != n.prompt { // and so it is
				used = used.Plus(c.Usage)
			}
			took = max(took, endOf(c.Call).Sub(n.Start))
		}
	}
	if n.prompt != nil && used.IsZero() {
		used = n.prompt.Usage
	}
	return used, took
}

func (n *node) title() string { return cmp.Or(n.Name, n.Kind) }

// all yields the calls below n.
func (n *node) all() iter.Seq[*node] {
	return func(yield func(*node) bool) { n.walk(yield) }
}

func (n *node) walk(yield func(*node) bool) bool {
	for _, c := range n.children {
		if !yield(c) || !c.walk(yield) {
			return false
		}
	}
	return true
}
