package diff

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// What an agent tells about itself is compared with what was on its wires by the calls to models and of
// tools, which both show. All else is on one side only, and no difference.

// An account is what a session shows of an agent's calls.
type account struct {
	wire   bool // some messages were on a wire
	told   bool // some messages are what an agent tells
	models []*modelCall
	at     map[any]*modelCall // by the first frame of the exchange, or the turn of a told answer
	tools  []*toolCall
	byID   map[string]*toolCall // the latest
	ran    []*toolCall          // calls of tools as their servers got them
	others map[string]int       // the kinds of other requests
	missed int                  // calls beyond maxAccount
}

// maxAccount bounds the calls of an account: those to models, and those of tools.
const maxAccount = 1 << 16

// A modelCall is a call to a model. At is where it begins.
type modelCall struct {
	answer
	at       int64
	kind, id string
	outcome  session.Outcome
	reason   string
	own      string // what the agent does with it for itself
	tools    []*toolCall
	links    int        // that are known
	with     *modelCall // of the other session
}

// A toolCall is a call of a tool.
type toolCall struct {
	at        int64
	id, name  string
	arguments uint64 // a hash; 0 if unknown
	outcome   session.Outcome
	reason    string
	by        *modelCall // that has made it
	ran       bool       // it was seen at its server
	with      *toolCall
}

// tells reports whether messages of a protocol are what an agent tells about itself. What an observer tells of
// its processes has links to other wires.
func tells(p protocol.Protocol) bool {
	spec := all.Of(p)
	return spec.Rules.NoWire && len(spec.Joins) == 0
}

// hear adds a message that an agent tells.
func (a *account) hear(r *Record, m *protocol.Message) {
	if r.Protocol == nil || !tells(r.Protocol) {
		a.wire = a.wire || r.Protocol != nil && !all.Rules(r.Protocol).NoWire
		return
	}
	a.told = true
	switch turn := string(m.Ref.Text); {
	case m.Phase == protocol.Part && len(m.Model) > 0:
		c := a.at[turn]
		if c == nil || m.Count > 0 {
			if a.isFull(len(a.models)) {
				return
			}
			c = &modelCall{at: r.Seq, kind: string(m.Kind), id: turn, outcome: session.Done}
			a.at[turn], a.models = c, append(a.models, c)
		}
		c.model, c.stopReason = string(m.Model), cmp.Or(string(m.StopReason), c.stopReason)
		c.used = c.used.Plus(m.Usage)
	case m.Phase == protocol.Open && m.ID.Space == protocol.SpaceID:
		arguments, _ := jsonscan.Get(r.Payload, "arguments")
		a.addTool(a.at[string(m.Operation.Of.Text)], &toolCall{at: r.Seq, id: string(m.ID.Text), name: string(m.Label), arguments: protocol.HashOfArguments(arguments)})
	}
}

// addTool adds a call of a tool that a model has made, which may be unknown.
func (a *account) addTool(by *modelCall, t *toolCall) {
	if t.by = by; by != nil {
		by.tools = append(by.tools, t)
	}
	if t.id = plain(t.id); !a.isFull(len(a.tools)) {
		a.tools = append(a.tools, t)
		a.byID[t.id] = t
	}
}

// learn notes how an exchange has gone so far, or has ended.
func (a *account) learn(e *session.Exchange, answered answer) {
	spec := all.Of(e.Protocol)
	switch {
	case e.Model != "" && (spec.API != nil || spec.Live != protocol.NotLive):
		c := a.at[e.First]
		if c == nil && !a.isFull(len(a.models)) {
			c = &modelCall{at: e.First, kind: e.Kind, id: string(e.ID.Text)}
			a.at[e.First], a.models = c, append(a.models, c)
		}
		if c != nil {
			c.answer, c.outcome, c.reason = answered, e.Outcome, e.Reason
			for ; c.links < len(e.Links); c.links++ {
				a.link(c, &e.Links[c.links])
			}
		}
	case tells(e.Protocol):
		if t := a.byID[plain(string(e.ID.Text))]; t != nil && t.at == e.First {
			t.outcome, t.reason = e.Outcome, e.Reason
		}
	case e.Outcome != session.Open && e.Mark == 0:
		e.Mark = 1
		a.run(e)
	}
}

// run adds a request that is none to a model.
func (a *account) run(e *session.Exchange) {
	t := &toolCall{at: e.First, name: e.Name, outcome: e.Outcome, reason: e.Reason, ran: true}
	for _, l := range e.Links {
		switch l.As {
		case protocol.CarriesOut:
			t.id = l.Text
		case protocol.WithArguments:
			t.arguments = l.Arguments
		}
	}
	switch {
	case t.name == "" || t.id == "" && t.arguments == 0:
		if !all.Rules(e.Protocol).NoWire {
			a.others[e.Kind]++
		}
	case !a.isFull(len(a.ran)):
		a.ran = append(a.ran, t)
	}
}

// isFull reports whether no more calls are kept than n, and counts those.
func (a *account) isFull(n int) bool {
	if n >= maxAccount {
		a.missed++
	}
	return n >= maxAccount
}

// link adds what a call to a model has in common with others.
func (a *account) link(c *modelCall, l *protocol.Link) {
	switch l.As {
	case protocol.Calls:
		a.addTool(c, &toolCall{at: c.at, id: l.Text, name: l.Tool, arguments: l.Arguments})
	case protocol.Returns:
		if t := a.byID[l.Text]; t != nil && l.Text != "" && t.outcome == session.Open {
			switch l.Ended {
			case protocol.Close:
				t.outcome = session.Done
			case protocol.Fail:
				t.outcome = session.ToolError
			}
		}
	case protocol.ForItself:
		c.own = l.Text
	}
}

// plain returns an id without the quotation marks of JSON.
func plain(id string) string {
	if text, ok := jsonscan.Unquote([]byte(id)); ok {
		return string(text)
	}
	return id
}

// isTold reports whether a session is only what an agent tells about itself.
func (a *account) isTold() bool { return a.told && !a.wire }

// attribute finds out which calls that models have made are those which servers got. Those of no model stand
// for themselves.
func (a *account) attribute() {
	like := map[uint64][]*toolCall{} // by their arguments
	for _, t := range a.tools {
		like[t.arguments] = append(like[t.arguments], t)
	}
	for _, r := range a.ran {
		made := a.byID[r.id]
		if made == nil && r.id == "" {
			same := slices.DeleteFunc(like[r.arguments], func(t *toolCall) bool { return t.ran })
			like[r.arguments] = same
			same = slices.DeleteFunc(slices.Clone(same), func(t *toolCall) bool { return !join.IsTool(t.name, "", r.name) })
			if len(same) > 1 {
				continue // it may be any of them
			} else if len(same) == 1 {
				made = same[0]
			}
		}
		if made != nil {
			made.ran, made.outcome, made.reason = true, r.outcome, r.reason
			continue
		}
		a.tools = append(a.tools, r)
		a.byID[r.id] = r
	}
}

// accounts compares what was on the wires of an agent with what it tells.
func (c *comparison) accounts() error {
	wire, told, names := &c.a.account, &c.b.account, [2]string{"A", "B"}
	if wire.isTold() {
		wire, told, names = told, wire, [2]string{"B", "A"}
	}
	wire.attribute()
	if len(wire.models)+len(wire.tools) == 0 {
		return fmt.Errorf("%s is what an agent tells about its calls to models and tools, and %s has none: compare it with what was on their wires", names[1], names[0])
	}
	pairTools(wire, told)
	pairModels(wire, told)
	n := notes{names: names}
	served := map[string]bool{}
	for _, w := range wire.tools {
		served[w.name] = true
	}
	serves := func(t *toolCall) bool {
		for name := range served {
			if join.IsTool(t.name, "", name) {
				return true
			}
		}
		return false
	}
	for i, of := range []*Session{c.a, c.b} {
		for _, m := range of.account.models {
			switch {
			case m.with == nil && m.own != "":
				n.own = append(n.own, m.own)
			case m.with == nil && len(wire.models) == 0:
				n.models++
			case m.with == nil:
				c.onlyIn(i, m.kind, sideAt(m.at, m.id), m.outcome, m.reason)
			case i == 0:
				n.pairs[0]++
				c.model(m, m.with)
			}
		}
		for _, t := range of.account.tools {
			switch {
			case t.with == nil && t.by != nil && t.by.own != "" && t.by.with == nil:
			case t.with == nil && len(wire.models) == 0 && !serves(t):
				n.tools++
			case t.with == nil:
				c.onlyIn(i, t.name, sideAt(t.at, t.id), t.outcome, t.reason)
			case i == 0:
				n.pairs[1]++
				c.tool(t, t.with)
			}
		}
	}
	place := func(d *Difference) [2]int64 {
		if d.A == nil {
			return [2]int64{math.MaxInt64, d.B.Opened}
		}
		return [2]int64{d.A.Opened}
	}
	slices.SortStableFunc(c.report.Differences, func(x, y Difference) int {
		px, py := place(&x), place(&y)
		return slices.Compare(px[:], py[:])
	})
	n.others, n.missed = wire.others, wire.missed+told.missed
	c.report.Note = n.String()
	return nil
}

// pairTools pairs calls of tools by their ids, or by what they call with which arguments where the wire has
// no ids.
func pairTools(wire, told *account) {
	type key struct {
		id        string
		arguments uint64 // of a call without an id
	}
	queues := map[key][]*toolCall{}
	for _, w := range wire.tools {
		k := key{id: w.id}
		if w.id == "" {
			k.arguments = w.arguments
		}
		queues[k] = append(queues[k], w)
	}
	pair := func(t *toolCall, k key, same func(w *toolCall) bool) {
		queue := queues[k]
		if i := slices.IndexFunc(queue, same); t.with == nil && i >= 0 {
			t.with, queue[i].with = queue[i], t
			queues[k] = slices.Delete(queue, i, i+1)
		}
	}
	for _, t := range told.tools {
		pair(t, key{id: t.id}, func(*toolCall) bool { return t.id != "" })
		if _, id, ok := strings.Cut(t.id, "__"); ok { // Gemini CLI writes the name before the id
			pair(t, key{id: id}, func(w *toolCall) bool { return w.name == t.name })
		}
	}
	for _, t := range told.tools {
		pair(t, key{arguments: t.arguments}, func(w *toolCall) bool { return join.IsTool(t.name, "", w.name) })
	}
}

// pairModels pairs calls to models: those that make the same calls of tools, then those with the same
// tokens, and then the others of the same models, in their order.
func pairModels(wire, told *account) {
	pair := func(w, t *modelCall) {
		if w != nil && w.with == nil && t.with == nil {
			w.with, t.with = t, w
		}
	}
	for _, t := range told.models {
		for _, tool := range t.tools {
			if tool.with != nil {
				pair(tool.with.by, t)
			}
		}
	}
	of := func(m *modelCall) [3]int64 { return [3]int64{m.used.Input, m.used.Cached, m.used.Output} }
	free := func(list []*modelCall) []*modelCall {
		return slices.DeleteFunc(slices.Clone(list), func(m *modelCall) bool { return m.with != nil || m.own != "" })
	}
	inOrder := func(same func(w, t *modelCall) bool) {
		w, t := free(wire.models), free(told.models)
		alike := func(i, j int) bool {
			return w[i].model == t[j].model && w[i].outcome == session.Done && same(w[i], t[j])
		}
		Alignments(len(w), len(t), alike, func(a0, a1, b0, b1 int) {
			if a1-a0 == 1 && b1-b0 == 1 && alike(a0, b0) {
				pair(w[a0], t[b0])
			}
		})
	}
	inOrder(func(w, t *modelCall) bool { return of(w) == of(t) && len(w.tools) == len(t.tools) })
	equal := map[[3]int64][]*modelCall{} // those of agents that work at the same time may be in another order
	for _, w := range free(wire.models) {
		equal[of(w)] = append(equal[of(w)], w)
	}
	for _, t := range free(told.models) {
		if list := equal[of(t)]; len(list) > 0 && t.used.Input+t.used.Output > 0 {
			pair(list[0], t)
			equal[of(t)] = list[1:]
		}
	}
	inOrder(func(*modelCall, *modelCall) bool { return true })
}

// sideAt describes a call in a report.
func sideAt(at int64, id string) *Side { return &Side{ID: id, Opened: at, Frames: []int64{at}} }

// onlyIn reports a call that only one session has.
func (c *comparison) onlyIn(session int, kind string, s *Side, o session.Outcome, reason string) {
	d := Difference{What: Exchange, Kind: kind}
	if o.Failed() || o.Stopped() {
		s.Value = render.Clip(strings.TrimSuffix(o.String()+": "+reason, ": "), maxValue)
	}
	if session == 0 {
		d.A = s
		c.report.OnlyA++
	} else {
		d.B = s
		c.report.OnlyB++
	}
	c.report.addDifference(d)
}

// model compares two calls to models. Tokens are only known of answers that have come to their end.
func (c *comparison) model(a, b *modelCall) {
	before := c.report.Total
	field := func(name, va, vb string) {
		if va != vb && va != "" && vb != "" && !jsondiff.Ignored(c.options.Ignore, []string{name}) {
			d := Difference{What: Model, Kind: a.kind, Path: name, A: sideAt(a.at, a.id), B: sideAt(b.at, b.id)}
			d.A.Value, d.B.Value = va, vb
			c.report.addDifference(d)
		}
	}
	field("model", a.model, b.model)
	field("stop_reason", a.stopReason, b.stopReason)
	if none := (protocol.Usage{}); a.outcome == session.Done && b.outcome == session.Done && a.used != none && b.used != none {
		tokens := func(name string, na, pa, nb, pb int64) {
			if na+pa < nb || nb+pb < na {
				field(name, number(na), number(nb))
			}
		}
		ua, ub := &a.used, &b.used
		tokens("input_tokens", ua.Input, ua.Perhaps.Input, ub.Input, ub.Perhaps.Input)
		tokens("cached_tokens", ua.Cached, ua.Perhaps.Cached, ub.Cached, ub.Perhaps.Cached)
		tokens("output_tokens", ua.Output, ua.Perhaps.Output, ub.Output, ub.Perhaps.Output)
	}
	if c.report.Total > before {
		c.report.Differ++
	}
}

// tool compares two calls of tools.
func (c *comparison) tool(a, b *toolCall) {
	before := c.report.Total
	add := func(what What, path, va, vb string) {
		d := Difference{What: what, Kind: a.name, Path: path, A: sideAt(a.at, a.id), B: sideAt(b.at, b.id)}
		d.A.Value, d.B.Value = va, vb
		c.report.addDifference(d)
	}
	if !join.IsTool(a.name, "", b.name) && !join.IsTool(b.name, "", a.name) {
		add(Payload, "name", a.name, b.name)
	}
	if a.arguments != b.arguments && a.arguments != 0 && b.arguments != 0 {
		add(Payload, "arguments", c.a.arguments(a), c.b.arguments(b))
	}
	if a.outcome != session.Open && b.outcome != session.Open && (a.outcome == session.Done) != (b.outcome == session.Done) {
		add(Outcome, "", a.ending(), b.ending())
	}
	if c.report.Total > before {
		c.report.Differ++
	}
}

// ending returns how a call ended, and why.
func (t *toolCall) ending() string {
	return render.Clip(strings.TrimSuffix(t.outcome.String()+": "+t.reason, ": "), maxValue)
}

// arguments returns the arguments of a call, as they are in the message that has them.
func (s *Session) arguments(t *toolCall) string {
	e := s.load(s.at(t.at))
	if e == nil {
		return ""
	}
	for _, path := range [][]string{{"arguments"}, {"params", "arguments"}} {
		if raw, ok := jsonscan.Get(e.messages[0].payload(), path...); ok && protocol.HashOfArguments(raw) == t.arguments {
			return render.Shorten(raw, maxValue)
		}
	}
	for _, api := range []llm.API{llm.Messages, llm.Responses, llm.Chat, llm.Contents} {
		for _, chunks := range []bool{true, false} {
			answer := llm.Answer{MostCalls: 128, MostArguments: 20 << 10}
			d := llm.Decoder{API: api, Answer: &answer, Chunks: chunks, Calls: true}
			for i := range e.messages {
				_, _ = d.Read(e.messages[i].payload())
			}
			for i := 0; ; i++ {
				_, _, raw, ok := answer.Begun(i)
				if !ok {
					break
				}
				if protocol.HashOfArguments(raw) == t.arguments {
					return render.Shorten(raw, maxValue)
				}
			}
		}
	}
	return ""
}

// notes is what was compared, and what only one session can have.
type notes struct {
	names         [2]string // of the wire, and of what is told
	pairs         [2]int64  // calls to models and of tools that both have
	models, tools int64     // calls that the wire does not have, because it is of none
	own           []string
	others        map[string]int
	missed        int
}

func (n *notes) String() string {
	text := fmt.Sprintf("%s is the wire, and %s what the agent tells: both have %s and %s, compared without texts", n.names[0], n.names[1],
		render.Count(n.pairs[0], "model call"), render.Count(n.pairs[1], "tool call"))
	if n.models > 0 {
		text += fmt.Sprintf("; the wire has none of the %[2]s in %[1]s", n.names[1], render.Count(n.models, "model call"))
	}
	if n.tools > 0 {
		text += "; no server on the wire has the tools of " + render.Count(n.tools, "other call")
	}
	var wire []string
	counts := func(noun, rest string, of map[string]int) {
		var list []string
		total := 0
		for _, kind := range slices.Sorted(maps.Keys(of)) {
			total += of[kind]
			list = append(list, fmt.Sprintf("%s ×%d", kind, of[kind]))
		}
		if len(list) > maxKinds {
			list = append(list[:maxKinds], "…")
		}
		if total > 0 {
			wire = append(wire, fmt.Sprintf("%s%s (%s)", render.Count(int64(total), noun), rest, strings.Join(list, ", ")))
		}
	}
	own := map[string]int{}
	for _, what := range n.own {
		own[what]++
	}
	counts("call", " of the agent for itself", own)
	counts("other request", "", n.others)
	if len(wire) > 0 {
		text += fmt.Sprintf("; only %s has %s", n.names[0], strings.Join(wire, ", "))
	}
	if n.missed > 0 {
		text += fmt.Sprintf("; %d calls beyond the first %d are not compared", n.missed, maxAccount)
	}
	return text
}

// maxKinds bounds the kinds of requests that a note names.
const maxKinds = 8
