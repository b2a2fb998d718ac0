package store

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

// Field returns the value of a column; see [query.Record].
func (k *Kept) Field(name string) ([]byte, bool) {
	token := table.AppendValue(nil, keptColumns, name, k)
	return token, token != nil
}

// keptColumns are the columns of sessions of this machine.
var keptColumns = []table.Column[Kept]{
	{Name: "id", Title: "ID", Value: func(k *Kept) any { return k.ID }},
	{Title: "WHEN", Drop: 3, Value: func(k *Kept) any { return k.Shown().Local().Format("2006-01-02 15:04") }},
	{Name: "started", Value: func(k *Kept) any { return k.Started }},
	{Name: "ended", Value: func(k *Kept) any { return k.Ended }},
	{Name: "agent", Title: "AGENT", Least: 6, Value: func(k *Kept) any { return k.Agent }, Cell: func(k *Kept) string { return cmp.Or(k.Agent, "-") }},
	{Name: "client", Value: func(k *Kept) any { return k.Client }},
	{Name: "server", Title: "SERVER", Least: 8, Shown: table.IfAny, Value: func(k *Kept) any { return k.Server }},
	{Name: "project", Title: "PROJECT", Least: 8, Drop: 7, Shown: table.IfAny, Value: func(k *Kept) any { return k.Project }},
	{Name: "prompt", Title: "PROMPT", Least: 12, Shown: table.IfAny, Value: func(k *Kept) any { return k.Prompt }},
	{Name: "level", Title: "RECORD", Drop: 1, Shown: table.IfAny, Value: func(k *Kept) any { return string(k.Level) }},
	{Name: "protocols", Value: func(k *Kept) any {
		if len(k.Protocols) == 0 {
			return nil
		}
		return k.Protocols
	}},
	{Name: "frames", Value: func(k *Kept) any { return k.recorded(k.Frames) }},
	{Name: "calls", Title: "CALLS", Right: true, Drop: 4, Value: func(k *Kept) any { return k.Calls }, Cell: func(k *Kept) string { return k.count(k.Calls, "(live)", "(cut)") }},
	{Name: "failures", Title: "FAILURES", Right: true, Value: func(k *Kept) any { return k.Failures }, Cell: func(k *Kept) string { return k.count(k.Failures, "-", "-") }},
	{Name: "findings", Title: "FINDINGS", Right: true, Drop: 2, Shown: table.IfAny, Value: func(k *Kept) any { return k.recorded(k.Findings) }, Cell: func(k *Kept) string {
		if k.Transcript != nil {
			return ""
		}
		return k.count(k.Findings, "-", "-")
	}},
	{Name: "input_tokens", Value: func(k *Kept) any { return table.Count(k.Usage.Input) }},
	{Name: "cached_tokens", Value: func(k *Kept) any { return table.Count(k.Usage.Cached) }},
	{Name: "output_tokens", Value: func(k *Kept) any { return table.Count(k.Usage.Output) }},
	{Title: "TOKENS", Right: true, Drop: 5, Shown: table.IfAny, Value: func(k *Kept) any { return table.Count(k.Usage.Input + k.Usage.Output) }},
	{Name: "cost_usd", Title: "COST", Right: true, Drop: 6, Shown: table.IfAny, Value: func(k *Kept) any { return table.Dollars(k.Usage.Cost) }},
	{Name: "cost_by", Value: func(k *Kept) any { return k.Cost.By }},
	{Name: "incomplete", Value: func(k *Kept) any { return table.Flag(k.Incomplete) }},
	{Name: "live", Value: func(k *Kept) any { return table.Flag(k.Live) }},
	{Name: "lost", Value: func(k *Kept) any { return table.Flag(k.Lost) }},
	{Name: "size", Value: func(k *Kept) any { return k.Size }},
	{Name: "capture", Value: func(k *Kept) any { return k.file(false) }},
	{Name: "file", Value: func(k *Kept) any { return k.file(true) }},
}

// KeptFields are the fields of conditions on sessions.
var KeptFields = query.Fields{Names: table.Names(keptColumns), Flags: []string{"live", "lost", "incomplete"}}

// WriteKept prints sessions; with cost, the most expensive first.
func WriteKept(o table.Output, list []Kept, cost bool) error {
	if cost {
		slices.SortStableFunc(list, func(a, b Kept) int { return cmp.Compare(b.Usage.Cost, a.Usage.Cost) })
	}
	if o.Form == table.AsNDJSON {
		return table.Write(o, keptColumns, list)
	}
	return table.Write(o, columnsOfKept(o.Width, cost), list)
}

// columnsOfKept are the columns of sessions of this machine. On a narrow terminal, times have no year.
// The cost may be what matters.
func columnsOfKept(width int, cost bool) []table.Column[Kept] {
	list := slices.Clone(keptColumns)
	if at := slices.IndexFunc(list, func(c table.Column[Kept]) bool { return c.Title == "COST" }); cost {
		list[at].Drop = 0
	}
	if width > 0 && width < 100 {
		list[1].Value = func(k *Kept) any { return k.Shown().Local().Format("01-02 15:04") }
	}
	return list
}

// file returns the name of a capture, or of a transcript.
func (k *Kept) file(transcript bool) any {
	if transcript != (k.Transcript != nil) {
		return nil
	}
	return k.Capture
}

// recorded returns a number that only recordings have.
func (k *Kept) recorded(n int64) any {
	if k.Transcript != nil {
		return nil
	}
	return n
}

// count returns a number for people, or what stands for it.
func (k *Kept) count(n int64, live, cut string) string {
	switch {
	case k.Live:
		return live
	case k.Lost && (k.Run == nil || k.Run.Counts == nil):
		return cut
	}
	return strconv.FormatInt(n, 10)
}
