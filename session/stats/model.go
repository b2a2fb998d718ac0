package stats

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// A Model sums up the finished calls of a model.
type Model struct {
	Protocol  string        `json:"protocol"`
	Name      string        `json:"name"`
	Calls     int64         `json:"calls"`
	Errors    int64         `json:"errors"`
	Usage     Usage         `json:"tokens"`
	Cost      table.Dollars `json:"cost_usd,omitempty"`
	FirstPart *Quantiles    `json:"first_part_ms,omitempty"`
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
			Usage: Usage{Input: u.Input, Cached: u.Cached, Output: u.Output}, Cost: table.Dollars(u.Cost), StopReasons: Counts{}, ToolCalls: Counts{},
		}
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
