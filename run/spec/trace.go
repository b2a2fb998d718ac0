package spec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/table"
)

// A Trace is what a session shows of its tools, its models, and how it ended.
type Trace struct {
	Name  string // of the session, for messages
	Tools []*Tool
	Path  []Decision

	run      *history.Run // nil if it is not that of an agent
	left     string       // what an agent asked that the record which it plays again does not have
	tree     []*calls.Call
	findings []session.Finding
	unkept   map[string]int64
	usage    protocol.Usage
	unpriced string // a model whose price is unknown
	counted  bool   // tokens are known
	took     time.Duration
	mask     func(string) string
	unseen   string // why it may lack calls of tools; "" if it has all
}

// A Tool is a call of a tool.
type Tool struct {
	Name string // as the model calls it or, if no model is seen to call it, as it is at its server

	id        string
	arguments []byte      // as the model wrote them, if that is seen; nil if they are unknown
	hash      uint64      // of them; 0 if they are unknown
	got       []byte      // the arguments that its server got; nil if they are unknown
	by        *calls.Call // to the model that calls it; nil if that is not seen
	at        *calls.Call // at its server; nil if that is not seen
}

// Frame is the number of the frame that shows the call.
func (t *Tool) Frame() int64 {
	if t.at != nil {
		return t.at.Frame
	}
	return t.by.Last
}

// cutMCP cuts the name that agents give to a tool of an MCP server.
func cutMCP(name string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if ok {
		server, tool, ok = strings.Cut(rest, "__")
	}
	return server, tool, ok
}

// place returns the tool's server and its name there; "" if they are unknown.
func (t *Tool) place() (server, tool string) {
	if server, tool, ok := cutMCP(t.Name); ok {
		return server, tool
	}
	switch {
	case t.at == nil:
		return "", ""
	case isTold(t.at): // as Codex tells it
		server, tool, _ = strings.Cut(t.at.Name, "/")
		return server, tool
	}
	return t.at.Wire, t.at.Name
}

// is reports whether a name is that of the tool: what the model calls it, what its server does, or the name
// of the server and that of the tool.
func (t *Tool) is(name string) bool {
	if name == t.Name || t.at != nil && name == t.at.Name {
		return true
	}
	server, tool := t.place()
	_, named, ok := cutMCP(name)
	switch {
	case tool == "" || name == tool:
		return tool != ""
	case server == "": // there is one, whose name is unknown
		return ok && named == tool
	}
	return len(name) > len(tool) && join.IsTool(name, server, tool)
}

// full returns the name with that of its server, if it is known: another server may have a tool of that name.
func (t *Tool) full() string {
	if t.at == nil || t.Name != t.at.Name || t.at.Wire == "" || isTold(t.at) || strings.ContainsAny(t.at.Wire, ".:/") { // an address
		return t.Name
	}
	return "mcp__" + t.at.Wire + "__" + t.Name
}

func isTold(c *calls.Call) bool { return all.SpecNamed(c.Protocol).Rules.NoWire }

// isTool reports whether a call is one of a tool, at its server or as an agent tells it.
func isTool(c *calls.Call) bool {
	isCall := c.Kind == "tools/call" || isTold(c) && c.Kind != "prompt"
	return isCall && join.RoleOf(c) == join.Tool && c.Name != "" && c.Place.Own == "" && !c.Place.Agent && !c.Place.Turn
}

// A Decision is what a model chose to do next: to call a tool, or to end.
type Decision struct {
	Turn  int // of the user, from 1; 0 if there are no turns
	Frame int64
	Tool  *Tool // nil for an answer

	text    string // the beginning of the answer
	sum     uint64 // of all of it
	stop    string
	outcome session.Outcome
}

// A Reader reads sessions.
type Reader struct {
	Opener *source.Opener
	Config decode.Config
	Ignore []jsondiff.Path // in arguments
}

// Bounds of what is kept of a session.
const (
	maxArguments    = 1 << 20 // of a call, in bytes
	maxAllArguments = 64 << 20
	maxText         = 400
)

type answer struct {
	text string
	sum  uint64
}

// collector keeps what the calls of a session do not.
type collector struct {
	arguments map[int64][]byte // by the frame of the request
	size      int
	said      map[int64][]byte
	answers   map[int64]answer
	first     time.Time
	outlined  bool // texts were not recorded
}

var seed = maphash.MakeSeed()

func (k *collector) see(it *decode.Item) {
	if k.first.IsZero() {
		k.first = it.Time
	}
	k.outlined = k.outlined || it.Outlined
	spec := all.Of(it.Protocol)
	if it.Message.Phase != protocol.Open || it.Outlined || it.Err != nil && it.Err != it.Frame.Flaw {
		return
	}
	path := []string{"arguments"}
	if i := slices.IndexFunc(spec.Joins, func(j protocol.Join) bool { return j.As == protocol.WithArguments }); i >= 0 {
		path = strings.Split(spec.Joins[i].Path, "//")
	} else if !spec.Rules.NoWire {
		return
	}
	raw, ok := jsonscan.Get(it.Payload, path...)
	if !ok {
		raw = []byte("{}")
	}
	if len(raw) <= maxArguments && k.size+len(raw) <= maxAllArguments && jsonscan.WellFormed(raw) == nil {
		k.size += len(raw)
		k.arguments[it.Seq] = jsonscan.AppendCompact(nil, raw)
	}
}

// changed keeps the text of an answer until it is complete.
func (k *collector) changed(e *session.Exchange, _ int64) {
	if len(e.Said) > 0 {
		k.said[e.First] = e.Said
	}
	if text, ok := k.said[e.First]; ok && e.Outcome != session.Open {
		k.answers[e.First] = answer{strings.ToValidUTF8(render.Clip(string(text), maxText), "�"), maphash.Bytes(seed, text)}
		delete(k.said, e.First)
	}
}

// Read reads a session to its end.
func (r *Reader) Read(ctx context.Context, name string) (*Trace, error) {
	fail := func(err error) (*Trace, error) {
		if _, ok := errors.AsType[*source.Error](err); ok {
			return nil, err
		}
		return nil, &source.Error{Err: fmt.Errorf("%s: %w", source.Label(name), err)}
	}
	t := &Trace{Name: source.Label(name)}
	if folder, err := r.Opener.RunFolder(name); err != nil {
		return fail(err)
	} else if folder != "" {
		run, err := history.ReadRun(folder)
		if err != nil {
			return fail(err)
		}
		t.run = &run
		if run.Live {
			return fail(errors.New("it still runs"))
		}
	}
	cfg := r.Config
	cfg.Workers, cfg.Resync = 1, true
	src, err := r.Opener.Session(ctx, name, cfg, false)
	if err != nil {
		return fail(err)
	}
	defer src.Close()
	var list []*calls.Call
	k := &collector{arguments: map[int64][]byte{}, said: map[int64][]byte{}, answers: map[int64]answer{}}
	log := &calls.Log{Show: func(c *calls.Call) { list = append(list, c) }, Also: k.changed}
	ts := &track.Trackers{Forms: true, Joins: true, Whole: true, Said: true, Asked: true, Watcher: log}
	f := track.NewFollower(ts, src.Input, cfg)
	var drifts lint.Drifts
	safety := new(lint.Safety)
	cfg.Event = f.Event
	cfg.Note = func(before int64, rec *capture.Record) {
		if n, ok := tap.ParseNote(rec); ok && n.Tap == tap.Drift {
			drifts.AddNote(before, rec.Conn, n.Changes, n.Pin)
		}
	}
	result, err := decode.Run(ctx, src.Input, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			log.First = it.First
			k.see(it)
			drifts.AddFrame(it.Seq, it.Frame.Conn, &it.Message)
			safety.AddFrame(it.Seq, all.Of(it.Protocol), it.Frame, &it.Message, it.Payload, ts.Wires[[2]int{it.Frame.Conn}])
			return f.View(dst, it)
		}
	})
	if err != nil {
		return fail(err)
	}
	f.End()
	log.Finish(f.Last)
	of := lint.Session{}
	for _, tr := range ts.List {
		of.Add(tr.Protocol.Name(), tr.Tracker)
	}
	of.AddSafety(safety)
	of.AddDrifts(&drifts)
	t.tree = join.Tree(list, ts.Wires, ts.OfRun)
	if ts.OfRun {
		of.AddFindings(join.Findings(t.tree))
	}
	t.findings, t.unkept, t.mask = of.Findings, of.Unkept, ts.Hide
	if t.took = max(0, f.Last.Sub(k.first)); k.first.IsZero() || f.Last.IsZero() {
		t.took = -1
	}
	if t.run != nil && !t.run.Ended.IsZero() {
		t.took = t.run.Ended.Sub(t.run.Started)
	}
	if !slices.ContainsFunc(list, speaks) {
		return fail(t.nothing(&result))
	}
	t.collect(k, list)
	return t, nil
}

// speaks reports whether a call is one of a wire, and no process.
func speaks(c *calls.Call) bool {
	return !slices.Contains([]join.Role{join.Process, join.Agent}, join.RoleOf(c)) || c.Place.Turn
}

// nothing says why there is nothing to judge.
func (t *Trace) nothing(result *decode.Result) error {
	switch {
	case t.run != nil && len(t.run.Notes) > 0:
		return fmt.Errorf("no call was recorded; not seen: %s", strings.Join(t.run.Notes, "; "))
	case t.run != nil || result.Frames == 0:
		return errors.New("no call was recorded")
	case result.First != nil:
		return result.First
	}
	return fmt.Errorf("there are no calls: %s", result.Unknown())
}

// collect finds the calls of tools and the decisions of models in the tree.
func (t *Trace) collect(k *collector, list []*calls.Call) {
	made := map[int64][]*Tool{} // by the frame of the call to a model
	tools := map[*calls.Call]*Tool{}
	for _, c := range t.tree {
		if join.RoleOf(c) != join.Model || c.Place.Own != "" {
			continue
		}
		for _, l := range c.Links {
			if l.As == protocol.Calls && k.outlined {
				t.unseen = "the names of the tools that models call were not recorded (--record metadata)"
			} else if l.As == protocol.Calls {
				tool := &Tool{Name: l.Tool, id: l.Text, hash: l.Arguments, by: c}
				if l.Arguments != 0 {
					tool.arguments = jsonscan.AppendCompact(nil, []byte(cmp.Or(string(l.Written), "{}")))
				}
				made[c.Frame] = append(made[c.Frame], tool)
			}
		}
	}
	for _, c := range t.tree {
		if !isTool(c) {
			continue
		}
		tool := &Tool{Name: c.Name, at: c, arguments: k.arguments[c.Frame], got: k.arguments[c.Frame]}
		if tool.arguments != nil {
			tool.hash = protocol.HashOfArguments(tool.arguments)
		}
		tools[c] = tool
		if i := slices.IndexFunc(made[c.Place.Parent], func(m *Tool) bool {
			return m.at == nil && c.Place.Edge >= calls.Matched && carriesOut(c, m, tool.hash)
		}); i >= 0 {
			made[c.Place.Parent][i].seenAt(tool)
			delete(tools, c)
		}
	}
	t.pairAltered(made, tools)
	models, turn := false, 0
	for _, c := range t.tree {
		if c.Place.Depth == 0 && (c.Place.Turn || join.RoleOf(c) == join.Model && c.Place.Own == "") {
			turn++
		}
		switch tool := tools[c]; {
		case join.RoleOf(c) == join.Model && c.Place.Own == "":
			models = true
			t.decide(c, turn, made[c.Frame], k.answers[c.Frame])
		case tool != nil:
			t.Tools = append(t.Tools, tool)
		}
	}
	if !models {
		for _, tool := range t.Tools {
			t.Path = append(t.Path, Decision{Frame: tool.Frame(), Tool: tool})
		}
		isShown := func(c *calls.Call) bool { // a transcript, or the wire of a server
			spec := all.SpecNamed(c.Protocol)
			isServer := slices.ContainsFunc(spec.Joins, func(j protocol.Join) bool { return j.As == protocol.WithArguments })
			return spec.Labels == protocol.Tools && (isTold(c) && speaks(c) || isServer && t.run == nil)
		}
		if !slices.ContainsFunc(list, isShown) {
			t.unseen = "the session has no call to a model, and does not show which tools are called"
		}
	}
	t.count(list)
}

// seenAt notes which call at a server carries out that of a model.
func (t *Tool) seenAt(own *Tool) {
	t.at, t.got = own.at, own.got
	if t.arguments == nil {
		t.arguments, t.hash = own.arguments, own.hash
	}
}

// pairAltered pairs what models called with calls at servers whose arguments the agent, or a hook of its user, has changed:
// the same tool, after the answer of the model, and no other call of it is left. Without this, one call would count as two.
func (t *Trace) pairAltered(made map[int64][]*Tool, tools map[*calls.Call]*Tool) {
	for _, c := range t.tree {
		own, last := tools[c], (*Tool)(nil)
		for _, m := range t.tree {
			if own == nil || m.Start.After(c.Start) {
				break
			}
			if join.RoleOf(m) != join.Model || m.Start.Add(m.Duration).After(c.Start) {
				continue
			}
			for _, tool := range made[m.Frame] {
				if tool.at == nil && (tool.Name == c.Name || c.Wire != "" && join.IsTool(tool.Name, c.Wire, c.Name)) {
					last = tool
					break
				}
			}
		}
		if last != nil {
			last.seenAt(own)
			delete(tools, c)
		}
	}
}

// carriesOut reports whether a call at a server is one that a model has made.
func carriesOut(c *calls.Call, m *Tool, hash uint64) bool {
	for _, l := range c.Links {
		if l.As == protocol.CarriesOut && l.Text == m.id {
			return true
		}
	}
	return join.IsTool(m.Name, "", c.Name) && (hash == m.hash || hash == 0)
}

// decide adds the decisions of a call to a model. What it called before it failed counts if a server got it.
func (t *Trace) decide(c *calls.Call, turn int, made []*Tool, said answer) {
	for _, tool := range made {
		if c.Outcome == session.Done || tool.at != nil {
			t.Tools = append(t.Tools, tool)
			t.Path = append(t.Path, Decision{Turn: turn, Frame: c.Last, Tool: tool})
		}
	}
	if len(made) == 0 || c.Outcome != session.Done {
		t.Path = append(t.Path, Decision{Turn: turn, Frame: c.Last, text: said.text, sum: said.sum, stop: c.StopReason, outcome: c.Outcome})
	}
}

// count sums up tokens and costs: those of the calls to models or, without any, those that the agent tells.
func (t *Trace) count(list []*calls.Call) {
	ofModels := slices.ContainsFunc(list, func(c *calls.Call) bool { return join.RoleOf(c) == join.Model })
	for _, c := range list {
		if ofModels && join.RoleOf(c) != join.Model || !ofModels && c.Operation != 0 || c.Usage.IsZero() {
			continue
		}
		t.counted = true
		t.usage = t.usage.Plus(c.Usage)
		if c.Usage.Cost == 0 {
			t.unpriced = cmp.Or(c.Model, c.Name, c.Kind)
		}
	}
}

// outcome says how the session ended, and in which frame: as its last turn did or, without turns, as the first of its calls
// that did not end well.
func (t *Trace) outcome() (session.Outcome, *calls.Call) {
	var last, bad *calls.Call
	for _, c := range t.tree {
		switch {
		case c.Place.Depth > 0 || c.Place.Own != "" || !speaks(c):
		case c.Place.Turn, join.RoleOf(c) == join.Model, isTold(c) && c.Operation == 0 && join.RoleOf(c) != join.Tool:
			last = c
		case bad == nil && c.Outcome != session.Done && c.Outcome != session.Probe:
			bad = c
		}
	}
	switch {
	case last != nil:
		return last.Outcome, last
	case bad != nil:
		return bad.Outcome, bad
	}
	return session.Done, nil
}

// late says what went on after a cancel: calls that began, or did not end, in the turn that was cancelled. Without
// turns, a cancel is of one call.
func (t *Trace) late() (said []string) {
	for i := 0; i < len(t.tree); {
		end := i + 1
		for end < len(t.tree) && t.tree[end].Place.Depth > 0 {
			end++
		}
		said = append(said, lateIn(t.tree[i:end])...)
		i = end
	}
	return said
}

// grace is how long after a cancel something may still end by itself.
const grace = time.Second

func lateIn(turn []*calls.Call) (said []string) {
	stops := join.Stops(turn)
	if len(stops) == 0 {
		return nil
	}
	first := stops[0]
	since := "the cancel of " + title(first.Call)
	for _, s := range stops {
		switch {
		case s.At.IsZero() && (s.After > grace || s.Call.Outcome == session.Open):
			said = append(said, fmt.Sprintf("%s %s after %s", title(s.Call), s.String(), since))
		case s.Late > grace:
			said = append(said, fmt.Sprintf("%s was answered %s after its cancel", title(s.Call), table.Millis(s.Late)))
		}
	}
	for _, c := range turn {
		if !c.Place.Turn && !c.Place.Agent && c.Start.After(first.At) && !first.At.IsZero() {
			said = append(said, fmt.Sprintf("%s began %s after %s", title(c), table.Millis(c.Start.Sub(first.At)), since))
		}
	}
	return said
}

// title names a call, with its frame.
func title(c *calls.Call) string {
	return fmt.Sprintf("%s (frame %d)", render.Safe(cmp.Or(c.Name, c.Kind)), c.Frame)
}
