package stats

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// Text writes a report for people, in tables that are no wider than width
// unless that is 0.
func (r *Report) Text(w io.Writer, width int, style *render.Style) error {
	b := append([]byte(r.headline()), '\n')
	for _, t := range []*table{r.messages(), r.latencies(), r.parts(), r.models(), r.names(), r.definitions()} {
		b = t.append(b, width, style)
	}
	if t := r.Tools; t != nil {
		b = fmt.Appendf(b, "sent with every conversation: %s, ~%s\n", render.Count(t.Bytes, "byte"), render.Count(t.Tokens, "token"))
	}
	for _, t := range []*table{r.cancels(), r.gaps(), r.holdups()} {
		b = t.append(b, width, style)
	}
	_, err := w.Write(b)
	return err
}

// headline returns the totals.
func (r *Report) headline() string {
	line := render.Count(r.Frames, "frame") + ", " + render.Count(r.Bytes, "byte") + ", "
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
		line += ", " + render.Dollars(int64(r.Cost))
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

// messages lists all kinds; the bars are their shares of the bytes.
func (r *Report) messages() *table {
	t := &table{titles: []string{"messages", "count", "bytes"}}
	most := maxOf(r.Kinds, func(k *Kind) float64 { return float64(k.Bytes) })
	for _, k := range r.Kinds {
		if k.Frames == 0 { // turns that nobody requested
			continue
		}
		share := float64(k.Bytes) / most
		t.addRow(share, share, r.nameOf(&k), strconv.FormatInt(k.Frames, 10), strconv.FormatInt(k.Bytes, 10))
	}
	return t
}

// latencies lists the answered kinds; the bars are full up to the median, and shaded up to the
// longest.
func (r *Report) latencies() *table {
	t := &table{titles: []string{"latency", "count", "p50", "p90", "p99", "max"}}
	most := maxOf(r.Kinds, func(k *Kind) float64 { return k.Latency.max() })
	for _, k := range r.Kinds {
		if q := k.Latency; q != nil {
			t.addRow(float64(q.P50)/most, float64(q.Max)/most,
				r.nameOf(&k), strconv.FormatInt(q.Count, 10), q.P50.String(), q.P90.String(), q.P99.String(), q.Max.String())
		}
	}
	return t
}

// parts lists the kinds answered in parts; the bars are the times to the first part.
func (r *Report) parts() *table {
	t := &table{titles: []string{"parts", "count", "per second", "first p50", "first max"}}
	most := maxOf(r.Kinds, func(k *Kind) float64 { return k.FirstPart.max() })
	for _, k := range r.Kinds {
		if k.Parts == 0 {
			continue
		}
		cells := []string{r.nameOf(&k), strconv.FormatInt(k.Parts, 10), "", "", ""}
		if k.PartsPerSecond > 0 {
			cells[2] = strconv.FormatFloat(k.PartsPerSecond, 'f', 1, 64)
		}
		q := k.FirstPart
		if q == nil {
			t.addRow(0, 0, cells...)
			continue
		}
		cells[3], cells[4] = q.P50.String(), q.Max.String()
		t.addRow(float64(q.P50)/most, float64(q.Max)/most, cells...)
	}
	return t
}

// models lists the models that were asked; the bars are their shares of the tokens.
func (r *Report) models() *table {
	t := &table{titles: []string{"models", "calls", "errors", "in", "cached", "out", "first p50", "tokens/s", "cost"}}
	most := maxOf(r.Models, func(m *Model) float64 { return float64(m.Usage.Input + m.Usage.Output) })
	for _, m := range r.Models {
		cells := []string{m.Name, number(m.Calls), number(m.Errors), number(m.Usage.Input), number(m.Usage.Cached), number(m.Usage.Output), "", "", ""}
		if q := m.FirstPart; q != nil {
			cells[6] = q.P50.String()
		}
		if m.TokensPerSecond > 0 {
			cells[7] = strconv.FormatFloat(m.TokensPerSecond, 'f', 1, 64)
		}
		if m.Cost > 0 {
			cells[8] = render.Dollars(int64(m.Cost))
		}
		share := float64(m.Usage.Input+m.Usage.Output) / most
		t.addRow(share, share, cells...)
	}
	return t
}

// names lists the names; the bars are their shares of the bytes of answers.
func (r *Report) names() *table {
	t := &table{titles: []string{"names", "calls", "errors", "p50", "p99", "bytes", "~tokens"}}
	most := maxOf(r.Names, func(n *Name) float64 { return float64(n.ResultBytes) })
	for _, n := range r.Names {
		if n.Calls == 0 {
			continue
		}
		cells := []string{r.titleOf(&n), number(n.Calls), number(n.Errors), "", "", number(n.ResultBytes), number(n.ResultTokens)}
		if q := n.Latency; q != nil {
			cells[3], cells[4] = q.P50.String(), q.P99.String()
		}
		share := float64(n.ResultBytes) / most
		t.addRow(share, share, cells...)
	}
	return t
}

// definitions lists the tools that servers define, the largest first; the bars are their
// shares of the bytes.
func (r *Report) definitions() *table {
	t := &table{titles: []string{"tool definitions", "bytes", "~tokens"}}
	tools := slices.DeleteFunc(slices.Clone(r.Names), func(n Name) bool { return n.DefinitionBytes == 0 })
	slices.SortStableFunc(tools, func(a, b Name) int { return cmp.Compare(b.DefinitionBytes, a.DefinitionBytes) })
	for _, n := range tools {
		share := float64(n.DefinitionBytes) / float64(tools[0].DefinitionBytes)
		t.addRow(share, share, n.Name, number(n.DefinitionBytes), number(n.DefinitionTokens))
	}
	return t
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// titleOf returns a name, with its kind if there are several kinds.
func (r *Report) titleOf(n *Name) string {
	title := n.Name
	if slices.ContainsFunc(r.Names, func(o Name) bool { return o.Kind != n.Kind || o.Protocol != n.Protocol }) {
		title += " (" + n.Kind + ")"
	}
	return title
}

// cancels lists cancels by class and by the kind of their target, if that is known; the bars
// are shares of all.
func (r *Report) cancels() *table {
	t := &table{titles: []string{"cancels", "count"}}
	total := float64(r.Cancels.total())
	add := func(name string, n int64) {
		if n > 0 {
			t.addRow(float64(n)/total, float64(n)/total, name, strconv.FormatInt(n, 10))
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
	return t
}

// gaps lists the exchanges with the longest gaps between parts.
func (r *Report) gaps() *table {
	t := &table{titles: []string{"gaps between parts", "frame", "p50", "p99", "max"}}
	for _, g := range r.Gaps {
		t.addRow(float64(g.P50)/float64(r.Gaps[0].Max), float64(g.Max)/float64(r.Gaps[0].Max),
			g.name(), strconv.FormatInt(g.Frame, 10), g.P50.String(), g.P99.String(), g.Max.String())
	}
	return t
}

// holdups lists the exchanges that were held back by large frames of others.
func (r *Report) holdups() *table {
	t := &table{titles: []string{"held back", "frame", "by frame", "for"}}
	for _, h := range r.HeldBack {
		share := float64(h.For) / float64(r.HeldBack[0].For)
		t.addRow(share, share, h.name(), strconv.FormatInt(h.Frame, 10), strconv.FormatInt(h.By, 10), h.For.String())
	}
	return t
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

// String writes a duration with three digits: 850µs, 31.2ms, 1.85s.
func (m Millis) String() string {
	d := time.Duration(m)
	for unit := time.Microsecond; unit <= time.Second; unit *= 1000 {
		for step := unit / 100; step <= unit; step *= 10 {
			if d < 1000*step {
				return d.Round(step).String()
			}
		}
	}
	return d.Round(time.Second).String()
}
