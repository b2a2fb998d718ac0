package stats

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// Text writes a report for people, in tables.
func (r *Report) Text(out table.Output) error {
	b, to := bytes.NewBufferString(r.headline()+"\n"), out.To
	out.To = b
	r.kinds(b, out)
	models(b, out, r.Models)
	summed(b, out, "sessions", r.Sessions, false)
	summed(b, out, "agents", r.Agents, false)
	summed(b, out, "tools in prompts (allocated)", r.Prompted, true)
	summed(b, out, "days", r.Days, false)
	r.names(b, out)
	r.definitions(b, out)
	r.cancels(b, out)
	stalls(b, out, r.Gaps, r.HeldBack)
	_, err := to.Write(b.Bytes())
	return err
}

// section writes a blank line and a table; nothing for a table without rows.
func section[R any](b *bytes.Buffer, out table.Output, list []R, columns ...table.Column[R]) {
	if len(list) > 0 {
		b.WriteByte('\n')
		_ = table.Write(out, columns, list) // into memory
	}
}

// label is a column of names, which are cut on a narrow terminal.
func label[R any](title string, of func(r *R) string) table.Column[R] {
	return table.Column[R]{Title: title, Cell: of, Least: 12, Most: 40}
}

// figure is a column of numbers or durations.
func figure[R any](title string, drop int, of func(r *R) string) table.Column[R] {
	return table.Column[R]{Title: title, Cell: of, Right: true, Drop: drop}
}

// size is a column of sizes, which a session without bytes does not have.
func size[R any](has bool, title string, drop int, of func(r *R) int64) table.Column[R] {
	c := figure(title, drop, func(r *R) string {
		if !has {
			return ""
		}
		return number(of(r))
	})
	c.Shown = table.IfAny
	return c
}

// bars is a column of bars, which are full up to solid, and shaded up to shade, of the most.
func bars[R any](most float64, of func(r *R) (solid, shade float64)) table.Column[R] {
	return table.Column[R]{Title: " ", Value: func(r *R) any {
		solid, shade := of(r)
		return table.Bar{Solid: solid / most, Shade: shade / most}
	}}
}

// shares is a column of bars for the shares of the largest number.
func shares[R any](list []R, of func(r *R) int64) table.Column[R] {
	return bars(maxOf(list, func(r *R) float64 { return float64(of(r)) }), func(r *R) (solid, shade float64) {
		return float64(of(r)), float64(of(r))
	})
}

// headline returns the totals.
func (r *Report) headline() string {
	line := render.Count(r.Frames, "frame") + ", "
	if r.Bytes > 0 || r.Frames == 0 {
		line += render.Count(r.Bytes, "byte") + ", "
	}
	exchanges := render.Count(r.Exchanges.total(), "exchange")
	if r.Operations != nil {
		line += render.Count(r.Operations.total(), "operation") + r.Operations.outcomes() + " of " + exchanges
	} else {
		line += exchanges + r.Exchanges.outcomes()
	}
	if u := r.Usage; u != nil {
		in := render.Count(u.Input, "token")
		if u.InputMax > 0 {
			in = render.Range(u.Input, u.InputMax) + " tokens"
		}
		line += fmt.Sprintf(", %s in (%s cached), %s out", in, render.Range(u.Cached, u.CachedMax), render.Range(u.Output, u.OutputMax))
	}
	if r.Cost > 0 {
		line += ", " + render.Dollars(int64(r.Cost)) + " (" + r.By + ")"
	}
	if about := r.about(); about != "" {
		line = about + ": " + line
	}
	return line
}

// about names the protocol, if there is only one, and the versions: "mcp 2025-11-25".
func (r *Report) about() string {
	if p := r.protocol(); p != "" {
		return strings.TrimSpace(p + " " + render.Safe(strings.Join(r.Versions[p], ", ")))
	}
	var list []string
	for _, p := range slices.Sorted(maps.Keys(r.Versions)) {
		list = append(list, p+" "+render.Safe(strings.Join(r.Versions[p], ", ")))
	}
	return strings.Join(list, ", ")
}

// outcomes says how exchanges ended: " (3 done, 1 failed)".
func (c Counts) outcomes() string {
	var parts []string
	for o := session.Open; o <= session.Abandoned; o++ {
		if n := c[o.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, o))
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// kinds lists all kinds with their shares of the bytes; the answered ones with bars that are full up
// to the median and shaded up to the longest; and those answered in parts with the times to the first.
func (r *Report) kinds(b *bytes.Buffer, out table.Output) {
	chosen := func(choose func(k *Kind) bool) (list []Kind) {
		for _, k := range r.Kinds {
			if choose(&k) {
				list = append(list, k)
			}
		}
		return list
	}
	upTo := func(of func(k *Kind) *Quantiles) table.Column[Kind] {
		return bars(maxOf(r.Kinds, func(k *Kind) float64 { return of(k).max() }), func(k *Kind) (solid, shade float64) {
			if q := of(k); q != nil {
				solid = float64(q.P50)
			}
			return solid, of(k).max()
		})
	}
	section(b, out, chosen(func(k *Kind) bool { return k.Frames > 0 }), // not of turns that nobody requested
		label("messages", r.nameOf),
		figure("count", 0, func(k *Kind) string { return number(k.Frames) }),
		size(r.Bytes > 0, "bytes", 0, func(k *Kind) int64 { return k.Bytes }),
		shares(r.Kinds, func(k *Kind) int64 { return k.Bytes }))
	section(b, out, chosen(func(k *Kind) bool { return k.Latency != nil }),
		label("latency", r.nameOf),
		figure("count", 2, func(k *Kind) string { return number(k.Latency.Count) }),
		figure("p50", 0, func(k *Kind) string { return k.Latency.P50.String() }),
		figure("p90", 1, func(k *Kind) string { return k.Latency.P90.String() }),
		figure("p99", 3, func(k *Kind) string { return k.Latency.P99.String() }),
		figure("max", 0, func(k *Kind) string { return k.Latency.Max.String() }),
		upTo(func(k *Kind) *Quantiles { return k.Latency }))
	section(b, out, chosen(func(k *Kind) bool { return k.Parts > 0 }),
		label("parts", r.nameOf),
		figure("count", 0, func(k *Kind) string { return number(k.Parts) }),
		figure("per second", 2, func(k *Kind) string { return decimal(k.PartsPerSecond) }),
		figure("first p50", 0, func(k *Kind) string { return k.FirstPart.cell(func(q *Quantiles) table.Millis { return q.P50 }) }),
		figure("first max", 1, func(k *Kind) string { return k.FirstPart.cell(func(q *Quantiles) table.Millis { return q.Max }) }),
		upTo(func(k *Kind) *Quantiles { return k.FirstPart }))
}

// models lists the models that were asked; the bars are their shares of the tokens.
func models(b *bytes.Buffer, out table.Output, list []Model) {
	section(b, out, list,
		label("models", func(m *Model) string { return m.Name }),
		figure("calls", 0, func(m *Model) string { return number(m.Calls) }),
		figure("errors", 0, func(m *Model) string { return number(m.Errors) }),
		figure("in", 0, func(m *Model) string { return number(m.Usage.Input) }),
		figure("cached", 3, func(m *Model) string { return number(m.Usage.Cached) }),
		figure("out", 0, func(m *Model) string { return number(m.Usage.Output) }),
		figure("first p50", 2, func(m *Model) string { return m.FirstPart.cell(func(q *Quantiles) table.Millis { return q.P50 }) }),
		figure("tokens/s", 1, func(m *Model) string { return decimal(m.TokensPerSecond) }),
		figure("cost", 4, func(m *Model) string { return m.dollars() }),
		shares(list, func(m *Model) int64 { return m.Usage.Input + m.Usage.Output }))
}

// dollars returns a cost for people; "" for none.
func (p *Priced) dollars() string {
	if p.Cost == 0 {
		return ""
	}
	return render.Dollars(int64(p.Cost))
}

// summed lists sums; the bars are their shares of the cost, or of the tokens. Parts of calls have no outcome, and no output.
func summed(b *bytes.Buffer, out table.Output, title string, list []Sum, parts bool) {
	share := func(s *Sum) int64 { return s.Usage.Input + s.Usage.Output }
	if slices.ContainsFunc(list, func(s Sum) bool { return s.Cost > 0 }) {
		share = func(s *Sum) int64 { return int64(s.Cost) }
	}
	columns := []table.Column[Sum]{
		label(title, func(s *Sum) string { return render.Safe(s.Name) }),
		figure("calls", 0, func(s *Sum) string { return number(s.Calls) }),
		figure("errors", 0, func(s *Sum) string { return number(s.Errors) }),
		figure("in", 0, func(s *Sum) string { return number(s.Usage.Input) }),
		figure("cached", 2, func(s *Sum) string { return number(s.Usage.Cached) }),
		figure("out", 0, func(s *Sum) string { return number(s.Usage.Output) }),
		figure("cost", 1, func(s *Sum) string { return s.dollars() }),
		shares(list, share),
	}
	section(b, out, list, slices.DeleteFunc(columns, func(c table.Column[Sum]) bool { return parts && (c.Title == "errors" || c.Title == "out") })...)
}

// names lists the names; the bars are their shares of the bytes of answers.
func (r *Report) names(b *bytes.Buffer, out table.Output) {
	section(b, out, slices.DeleteFunc(slices.Clone(r.Names), func(n Name) bool { return n.Calls == 0 }),
		label("names", r.titleOf),
		figure("calls", 0, func(n *Name) string { return number(n.Calls) }),
		figure("errors", 0, func(n *Name) string { return number(n.Errors) }),
		figure("p50", 2, func(n *Name) string { return n.Latency.cell(func(q *Quantiles) table.Millis { return q.P50 }) }),
		figure("p99", 3, func(n *Name) string { return n.Latency.cell(func(q *Quantiles) table.Millis { return q.P99 }) }),
		size(r.Bytes > 0, "bytes", 0, func(n *Name) int64 { return n.ResultBytes }),
		size(r.Bytes > 0, "~tokens", 1, func(n *Name) int64 { return n.ResultTokens }),
		shares(r.Names, func(n *Name) int64 { return n.ResultBytes }))
}

// definitions lists the tools that servers define, the largest first; the bars are their
// shares of the bytes.
func (r *Report) definitions(b *bytes.Buffer, out table.Output) {
	tools := slices.DeleteFunc(slices.Clone(r.Names), func(n Name) bool { return n.DefinitionBytes == 0 })
	slices.SortStableFunc(tools, func(a, b Name) int { return cmp.Compare(b.DefinitionBytes, a.DefinitionBytes) })
	section(b, out, tools,
		label("tool definitions", func(n *Name) string { return n.Name }),
		figure("bytes", 0, func(n *Name) string { return number(n.DefinitionBytes) }),
		figure("~tokens", 1, func(n *Name) string { return number(n.DefinitionTokens) }),
		shares(tools, func(n *Name) int64 { return n.DefinitionBytes }))
	if t := r.Tools; t != nil {
		fmt.Fprintf(b, "sent with every conversation: %s, ~%s\n", render.Count(t.Bytes, "byte"), render.Count(t.Tokens, "token"))
	}
}

// cancels lists cancels by class and by the kind of their target, if that is known; the bars
// are shares of all.
func (r *Report) cancels(b *bytes.Buffer, out table.Output) {
	type row struct {
		name  string
		count int64
	}
	var list []row
	add := func(name string, n int64) {
		if n > 0 {
			list = append(list, row{name, n})
		}
	}
	for class := session.Pending; class <= session.Silent; class++ {
		rest := r.Cancels[class.String()]
		for _, k := range r.Kinds {
			n := k.Cancels[class.String()]
			add(class.String()+" "+r.nameOf(&k), n)
			rest -= n
		}
		add(class.String(), rest)
	}
	section(b, out, list,
		label("cancels", func(x *row) string { return x.name }),
		figure("count", 0, func(x *row) string { return number(x.count) }),
		bars(float64(r.Cancels.total()), func(x *row) (solid, shade float64) { return float64(x.count), float64(x.count) }))
}

// stalls lists the exchanges with the longest gaps between parts, and those that were held back by
// large frames of others.
func stalls(b *bytes.Buffer, out table.Output, gaps []Gap, heldBack []Holdup) {
	section(b, out, gaps,
		label("gaps between parts", func(g *Gap) string { return g.name() }),
		figure("frame", 0, func(g *Gap) string { return number(g.Frame) }),
		figure("p50", 1, func(g *Gap) string { return g.P50.String() }),
		figure("p99", 2, func(g *Gap) string { return g.P99.String() }),
		figure("max", 0, func(g *Gap) string { return g.Max.String() }),
		bars(maxOf(gaps, func(g *Gap) float64 { return float64(g.Max) }), func(g *Gap) (solid, shade float64) { return float64(g.P50), float64(g.Max) }))
	section(b, out, heldBack,
		label("held back", func(h *Holdup) string { return h.name() }),
		figure("frame", 0, func(h *Holdup) string { return number(h.Frame) }),
		figure("by frame", 1, func(h *Holdup) string { return number(h.By) }),
		figure("for", 0, func(h *Holdup) string { return h.For.String() }),
		shares(heldBack, func(h *Holdup) int64 { return int64(h.For) }))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// decimal writes a number with one decimal; nothing for 0.
func decimal(f float64) string {
	if f <= 0 {
		return ""
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

// titleOf returns a name, with its kind if there are several kinds.
func (r *Report) titleOf(n *Name) string {
	title := n.Name
	if slices.ContainsFunc(r.Names, func(o Name) bool { return o.Kind != n.Kind || o.Protocol != n.Protocol }) {
		title += " (" + n.Kind + ")"
	}
	return title
}

// nameOf returns the name of a kind, with its protocol if there are several.
func (r *Report) nameOf(k *Kind) string {
	if r.protocol() != "" {
		return k.Kind
	}
	return k.Protocol + " " + k.Kind
}

// protocol returns the protocol of all kinds, or "" if there are several.
func (r *Report) protocol() string {
	if len(r.Kinds) == 0 {
		return ""
	}
	name := r.Kinds[0].Protocol
	if slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Protocol != name }) {
		return ""
	}
	return name
}

func (e *Exchange) name() string { return strings.TrimSpace(e.Kind + " " + e.ID) }

// cell writes one of the durations; nothing if there are none.
func (q *Quantiles) cell(of func(*Quantiles) table.Millis) string {
	if q == nil {
		return ""
	}
	return of(q).String()
}

// max returns the longest duration; 0 if there is none.
func (q *Quantiles) max() float64 {
	if q == nil {
		return 0
	}
	return float64(q.Max)
}

// maxOf returns the maximum of a value over a list, and at least 1.
func maxOf[T any](list []T, of func(*T) float64) float64 {
	most := 1.0
	for i := range list {
		most = max(most, of(&list[i]))
	}
	return most
}
