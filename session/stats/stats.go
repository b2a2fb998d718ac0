// Package stats summarizes sessions: how many messages of each kind there were, how long
// answers took, how they were streamed, and how cancels turned out.
//
// The numbers are those of package session. This package arranges them as an
// object for programs and as tables for people.
package stats

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/table"
)

// A Report sums up sessions. Its JSON form is documented with the command; unknown values are
// left out.
type Report struct {
	// Versions are the stated versions of each protocol.
	Versions map[string][]string `json:"versions,omitempty"`
	Frames   int64               `json:"frames"`
	Bytes    int64               `json:"bytes"`
	// Operations counts the exchanges that belong to no other; nil if that is all of them.
	Operations Counts `json:"operations,omitempty"`
	Exchanges  Counts `json:"exchanges"`
	Usage      *Usage `json:"tokens,omitempty"`
	Priced
	Cancels Counts  `json:"cancels"`
	Kinds   []Kind  `json:"kinds"`
	Names   []Name  `json:"names,omitempty"`
	Models  []Model `json:"models,omitempty"`
	Tools   *Tools  `json:"tools,omitempty"`
	// Sessions and days are there if there are several, and agents that another one has started.
	Sessions []Sum `json:"sessions,omitempty"`
	Agents   []Sum `json:"agents,omitempty"`
	// Prompted are tools with the part of the input and the cost that is theirs by bytes: an allocation.
	Prompted []Sum    `json:"tools_allocated,omitempty"`
	Days     []Sum    `json:"days,omitempty"`
	Gaps     []Gap    `json:"gaps,omitempty"`
	HeldBack []Holdup `json:"held_back,omitempty"`

	operations Counts
}

// Usage counts the tokens of models, as reported by providers and agents.
type Usage struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
	// The most that these may be, if agents do not say what they count; otherwise 0.
	InputMax  int64 `json:"input_max,omitempty"`
	CachedMax int64 `json:"cached_max,omitempty"`
	OutputMax int64 `json:"output_max,omitempty"`
}

func (u *Usage) addUsage(v protocol.Usage) {
	for _, of := range []struct {
		sum, most   *int64
		of, perhaps int64
	}{
		{&u.Input, &u.InputMax, v.Input, v.Perhaps.Input},
		{&u.Cached, &u.CachedMax, v.Cached, v.Perhaps.Cached},
		{&u.Output, &u.OutputMax, v.Output, v.Perhaps.Output},
	} {
		perhaps := max(*of.most-*of.sum, 0) + of.perhaps
		if *of.sum += of.of; perhaps > 0 {
			*of.most = *of.sum + perhaps
		}
	}
}

// Priced is what tokens cost.
type Priced struct {
	Cost table.Dollars `json:"cost_usd,omitempty"`
	// By says by which prices: "list prices of 2026-03", "your prices", "reported", or "in part list prices of 2026-03".
	By string `json:"cost_by,omitempty"`

	listed, priced int64
	from, to       string // the dates of list prices
	unpriced       bool   // there are tokens without a cost
}

// Spend adds the cost of a usage of a model.
func (p *Priced) Spend(u protocol.Usage, model string) {
	p.Cost += table.Dollars(u.Cost)
	p.listed += u.Listed
	p.priced += u.Priced
	p.date(u, model)
	p.By = p.by()
}

// Include adds another cost.
func (p *Priced) Include(q Priced) {
	p.Cost += q.Cost
	p.listed += q.listed
	p.priced += q.priced
	p.unpriced = p.unpriced || q.unpriced
	if q.from != "" && (p.from == "" || q.from < p.from) {
		p.from = q.from
	}
	p.to = max(p.to, q.to)
	p.By = p.by()
}

// date notes the date of the list price of a model, and whether some of its tokens have no price.
func (p *Priced) date(u protocol.Usage, model string) {
	p.unpriced = p.unpriced || u.Input+u.Output > 0 && (u.Cost == 0 || u.Apart && u.Listed > 0)
	if price, _ := (prices.Book{Listed: prices.Listed()}).Of(model); u.Listed > 0 && price.Date != "" {
		if p.from == "" || price.Date < p.from {
			p.from = price.Date
		}
		p.to = max(p.to, price.Date)
	}
}

func (p *Priced) by() string {
	all := int64(p.Cost)
	if all == 0 {
		return ""
	}
	by := "reported"
	switch {
	case p.listed > 0:
		by = "list prices"
		if p.from != "" {
			by += " of " + p.from
		}
		if p.to != p.from {
			by += " to " + p.to
		}
	case p.priced > 0:
		by = "your prices"
	}
	if n := p.listed + p.priced; p.unpriced || n > 0 && (n < all || p.listed > 0 && p.priced > 0) {
		by = "in part " + by
	}
	return by
}

// CostBy says by which prices a usage of a model cost something; "" if it cost nothing.
func CostBy(u protocol.Usage, model string) string {
	var p Priced
	p.Spend(u, model)
	return p.By
}

// A Sum sums up calls.
type Sum struct {
	Name   string `json:"name"`
	Calls  int64  `json:"calls"`
	Errors int64  `json:"errors"`
	Usage  Usage  `json:"tokens"`
	Priced
}

// AddCall adds a call.
func (s *Sum) AddCall(o session.Outcome, u protocol.Usage, model string) {
	if s.Calls++; o.Failed() {
		s.Errors++
	}
	s.Usage.addUsage(u)
	s.Spend(u, model)
}

// Include adds another usage.
func (u *Usage) Include(v Usage) {
	u.addUsage(protocol.Usage{Input: v.Input, Cached: v.Cached, Output: v.Output, Perhaps: protocol.Tokens{
		Input: max(v.InputMax-v.Input, 0), Cached: max(v.CachedMax-v.Cached, 0), Output: max(v.OutputMax-v.Output, 0),
	}})
}

// Counts are numbers of occurrences by name. Zeros are omitted.
type Counts map[string]int64

// A Kind sums up one kind of message and the exchanges that it opened.
type Kind struct {
	Protocol  string `json:"protocol"`
	Kind      string `json:"kind"`
	Frames    int64  `json:"frames"`
	Bytes     int64  `json:"bytes"`
	Exchanges Counts `json:"exchanges,omitempty"`
	// Joined counts the exchanges that belong to an operation of another kind.
	Joined int64 `json:"joined,omitempty"`
	// Latency is from request to answer, FirstPart from request to first part.
	Latency        *Quantiles `json:"latency_ms,omitempty"`
	FirstPart      *Quantiles `json:"first_part_ms,omitempty"`
	Parts          int64      `json:"parts,omitempty"`
	PartsPerSecond float64    `json:"parts_per_second,omitempty"`
	Cancels        Counts     `json:"cancels,omitempty"`
}

// A Name sums up the exchanges that name one thing, such as a tool. A tool that was defined and
// never called has one too. Tokens are estimates; see [Tokens].
type Name struct {
	Protocol string `json:"protocol"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	// Calls counts operations, and Errors those that failed. Joined counts the exchanges that
	// belong to other operations.
	Calls     int64      `json:"calls"`
	Errors    int64      `json:"errors"`
	Joined    int64      `json:"joined,omitempty"`
	Exchanges Counts     `json:"exchanges,omitempty"`
	Latency   *Quantiles `json:"latency_ms,omitempty"`
	// ResultBytes is the size of the answers.
	ResultBytes  int64 `json:"result_bytes"`
	ResultTokens int64 `json:"result_tokens_estimate"`
	// DefinitionBytes is the size of the tool in the answer to tools/list.
	DefinitionBytes  int64 `json:"definition_bytes,omitempty"`
	DefinitionTokens int64 `json:"definition_tokens_estimate,omitempty"`
}

// Tools are the tools that servers define. A client sends them to its model with every
// conversation.
type Tools struct {
	Count  int64 `json:"count"`
	Bytes  int64 `json:"definition_bytes"`
	Tokens int64 `json:"definition_tokens_estimate"`
}

// Tokens estimates the tokens of a text by its size: one for four bytes.
func Tokens(bytes int64) int64 { return (bytes + 2) / 4 }

// Quantiles describe a distribution of durations.
type Quantiles struct {
	Count int64        `json:"count"`
	P50   table.Millis `json:"p50"`
	P90   table.Millis `json:"p90"`
	P99   table.Millis `json:"p99"`
	Max   table.Millis `json:"max"`
}

// A Gap is the longest time that an exchange waited for the next part.
type Gap struct {
	Exchange
	P50 table.Millis `json:"p50_ms"`
	P99 table.Millis `json:"p99_ms"`
	Max table.Millis `json:"max_ms"`
}

// A Holdup is how long a large frame of another exchange kept one waiting.
type Holdup struct {
	Exchange
	By  int64        `json:"by"` // the large frame
	For table.Millis `json:"for_ms"`
}

// An Exchange is named by the number of its first frame.
type Exchange struct {
	Frame int64  `json:"frame"`
	Kind  string `json:"kind"`
	ID    string `json:"id,omitempty"` // as it was written
}

// New returns an empty report.
func New() *Report {
	return &Report{Exchanges: Counts{}, Cancels: Counts{}, Kinds: []Kind{}, operations: Counts{}, Versions: map[string][]string{}}
}

// Add adds the figures of a protocol's tracker. If the times of its frames are unknown there
// are no durations.
func (r *Report) Add(protocol string, t *session.Tracker, timed bool) {
	s := t.Stats()
	r.Frames += s.Frames
	r.Bytes += s.Bytes
	for class, n := range s.Cancels {
		r.Cancels.addCount(session.Class(class).String(), n)
	}
	for _, k := range s.Kinds {
		kind := KindOf(protocol, k, timed)
		for outcome, n := range kind.Exchanges {
			r.Exchanges.addCount(outcome, n)
		}
		for outcome, n := range k.Outcomes {
			r.operations.addCount(session.Outcome(outcome).String(), n-k.Joined[outcome])
		}
		r.Kinds = append(r.Kinds, kind)
	}
	r.AddNames(protocol, s.Kinds, timed)
	r.AddModels(protocol, s.Models, timed)
	if r.operations.total() < r.Exchanges.total() {
		r.Operations = r.operations
	}
	if versions := t.Versions(); len(versions) > 0 {
		r.Versions[protocol] = versions
	}
	for _, m := range s.Models {
		r.date(m.Usage, m.Name)
	}
	r.Spend(s.Usage, "")
	if u := s.Usage; u.Input+u.Cached+u.Output+u.Perhaps.Input+u.Perhaps.Output > 0 {
		if r.Usage == nil {
			r.Usage = new(Usage)
		}
		r.Usage.addUsage(u)
	}
	slices.SortStableFunc(r.Kinds, func(a, b Kind) int { return cmp.Compare(b.Frames, a.Frames) })
	if timed {
		r.addStalls(t)
	}
}

// AddNames adds the names that exchanges of a protocol have.
func (r *Report) AddNames(protocol string, kinds []*session.Kind, timed bool) {
	for _, k := range kinds {
		for _, n := range k.Names {
			r.Names = append(r.Names, nameOf(protocol, k, n, timed))
		}
	}
	sortNames(r.Names)
}

func nameOf(protocol string, k, n *session.Kind, timed bool) Name {
	name := Name{
		Protocol: protocol, Kind: k.Name, Name: strings.ToValidUTF8(n.Name, "\ufffd"), Exchanges: Counts{},
		ResultBytes: n.Answered, ResultTokens: Tokens(n.Answered),
	}
	for o := range n.Outcomes {
		outcome := session.Outcome(o)
		name.Exchanges.addCount(outcome.String(), n.Outcomes[o])
		calls := n.Outcomes[o] - n.Joined[o]
		name.Calls += calls
		name.Joined += n.Joined[o]
		if outcome.Failed() {
			name.Errors += calls
		}
	}
	if timed {
		name.Latency = quantiles(&n.Latency)
	}
	return name
}

// sortNames sorts by the number of calls, then by the size of the definition.
func sortNames(names []Name) {
	slices.SortStableFunc(names, func(a, b Name) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(b.DefinitionBytes, a.DefinitionBytes))
	})
}

// AddTools adds the tools that servers define to the names.
func (r *Report) AddTools(tools []Tool) {
	if len(tools) == 0 {
		return
	}
	const kind = "tools/call"
	called := make(map[string]int)
	for i, n := range r.Names {
		if n.Kind == kind {
			called[n.Protocol+" "+n.Name] = i
		}
	}
	r.Tools = &Tools{Count: int64(len(tools))}
	for _, t := range tools {
		r.Tools.Bytes += t.Bytes
		at, was := called[t.Protocol+" "+t.Name]
		if !was {
			at = len(r.Names)
			r.Names = append(r.Names, Name{Protocol: t.Protocol, Kind: kind, Name: t.Name})
		}
		r.Names[at].DefinitionBytes, r.Names[at].DefinitionTokens = t.Bytes, Tokens(t.Bytes)
	}
	r.Tools.Tokens = Tokens(r.Tools.Bytes)
	sortNames(r.Names)
}

func (c Counts) addCount(name string, n int64) {
	if n > 0 {
		c[name] += n
	}
}

// total returns the sum of all.
func (c Counts) total() (sum int64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// KindOf sums up a kind of messages of a protocol.
func KindOf(protocol string, k *session.Kind, timed bool) Kind {
	kind := Kind{
		Protocol: protocol, Kind: k.Name, Frames: k.Frames, Bytes: k.Bytes,
		Exchanges: Counts{}, Cancels: Counts{}, Parts: k.Parts,
	}
	for outcome, n := range k.Outcomes {
		kind.Exchanges.addCount(session.Outcome(outcome).String(), n)
	}
	for _, n := range k.Joined {
		kind.Joined += n
	}
	for class, n := range k.Cancels {
		kind.Cancels.addCount(session.Class(class).String(), n)
	}
	if timed {
		kind.Latency, kind.FirstPart = quantiles(&k.Latency), quantiles(&k.FirstPart)
		kind.PartsPerSecond = math.Round(k.PartsPerSecond()*100) / 100
	}
	return kind
}

// quantiles returns the quantiles of a histogram; nil if it is empty.
func quantiles(h *session.Histogram) *Quantiles {
	if h.Count == 0 {
		return nil
	}
	at := func(q float64) table.Millis { return table.Millis(h.Quantile(q)) }
	return &Quantiles{Count: h.Count, P50: at(.5), P90: at(.9), P99: at(.99), Max: table.Millis(h.Max)}
}

// addStalls adds the exchanges that waited, among those that are kept.
func (r *Report) addStalls(t *session.Tracker) {
	for e := range t.Exchanges() {
		gap := table.Millis(e.Gap(1))
		if gap == 0 && e.HeldBack == 0 {
			continue
		}
		name := Exchange{e.First, e.Kind, strings.ToValidUTF8(string(e.ID.Text), "\ufffd")}
		if gap > 0 {
			r.Gaps = append(r.Gaps, Gap{name, table.Millis(e.Gap(.5)), table.Millis(e.Gap(.99)), gap})
		}
		if e.HeldBack > 0 {
			r.HeldBack = append(r.HeldBack, Holdup{name, e.HeldBy, table.Millis(e.HeldBack)})
		}
	}
	r.Gaps = top(r.Gaps, func(g Gap) table.Millis { return g.Max })
	r.HeldBack = top(r.HeldBack, func(h Holdup) table.Millis { return h.For })
}

// listed is how many of the worst are listed.
const listed = 5

// top returns the longest of list, the longest first.
func top[T any](list []T, of func(T) table.Millis) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(of(b), of(a)) })
	return list[:min(len(list), listed)]
}

// A Tool is the name of a tool and the size of its definition.
type Tool struct {
	Protocol, Name string
	Bytes          int64
}

// maxLabel is how much of a name the tracker keeps, in bytes.
const maxLabel = 256

// ToolsOf returns the tools that were ever listed, in the order in which they first were.
func ToolsOf(o *contract.Offer) (tools []Tool) {
	for name, tool := range o.All() {
		label := strings.ToValidUTF8(name[:min(len(name), maxLabel)], "\ufffd")
		tools = append(tools, Tool{tool.Protocol.Name(), label, int64(tool.Bytes)})
	}
	return tools
}

// A Model sums up the finished calls of a model.
type Model struct {
	Protocol string `json:"protocol"`
	Name     string `json:"name"`
	Calls    int64  `json:"calls"`
	Errors   int64  `json:"errors"`
	Usage    Usage  `json:"tokens"`
	Priced
	FirstPart *Quantiles `json:"first_part_ms,omitempty"`
	// TokensPerSecond is how fast answers came, from the first part to the end.
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	StopReasons     Counts  `json:"stop_reasons,omitempty"`
	ToolCalls       Counts  `json:"tool_calls,omitempty"`
}

// AddModels adds models, the one with the most calls first.
func (r *Report) AddModels(protocol string, models []*session.Model, timed bool) {
	for _, m := range models {
		if m.Calls == 0 {
			continue
		}
		u := m.Usage
		out := Model{
			Protocol: protocol, Name: strings.ToValidUTF8(m.Name, "\ufffd"), Calls: m.Calls, Errors: m.Failed,
			Usage: Usage{Input: u.Input, Cached: u.Cached, Output: u.Output}, StopReasons: Counts{}, ToolCalls: Counts{},
		}
		out.Spend(u, m.Name)
		for name, n := range m.StopReasons {
			out.StopReasons.addCount(strings.ToValidUTF8(name, "\ufffd"), n)
		}
		for name, n := range m.ToolCalls {
			out.ToolCalls.addCount(strings.ToValidUTF8(name, "\ufffd"), n)
		}
		if timed {
			out.FirstPart = quantiles(&m.FirstPart)
			out.TokensPerSecond = math.Round(m.TokensPerSecond()*10) / 10
		}
		r.Models = append(r.Models, out)
	}
	slices.SortStableFunc(r.Models, func(a, b Model) int { return cmp.Compare(b.Calls, a.Calls) })
}
