package context

import (
	"time"

	"github.com/wirectl/wirectl/table"
)

// A CallRow is a call as written to JSON.
type CallRow struct {
	Call         int             `json:"call"`
	Conversation int             `json:"conversation"`
	Turn         int             `json:"turn"`
	Frame        int64           `json:"frame"`
	Start        *time.Time      `json:"start,omitempty"`
	Model        string          `json:"model,omitempty"`
	Answer       string          `json:"answer,omitempty"`
	Agent        string          `json:"agent,omitempty"`
	AgentType    string          `json:"agent_type,omitempty"`
	Own          string          `json:"own,omitempty"`
	Transcript   bool            `json:"transcript,omitempty"`
	Input        int64           `json:"input_tokens"`
	Cached       *int64          `json:"cached_tokens,omitempty"`
	Written      int64           `json:"written_tokens,omitempty"`
	Output       int64           `json:"output_tokens"`
	Bytes        int64           `json:"bytes"`
	Parts        map[string]Part `json:"parts"`
	Previous     int             `json:"previous,omitempty"`
	Branch       bool            `json:"branch,omitempty"`
	Equal        bool            `json:"equal,omitempty"`
	Same         *Share          `json:"same,omitempty"`
	New          *Share          `json:"new,omitempty"`
	Dropped      *Share          `json:"dropped,omitempty"`
	Compacted    string          `json:"compacted,omitempty"`
	IdleMS       *float64        `json:"idle_ms,omitempty"`
	Changes      []Change        `json:"changes,omitempty"`
	Verdict      *Verdict        `json:"verdict,omitempty"`
	// Items are those that come first in this call, or all.
	Items []ItemRow `json:"items"`
}

// An ItemRow is an item of a call as written to JSON.
type ItemRow struct {
	Place  int    `json:"place"`
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text,omitempty"`
	Bytes  int64  `json:"bytes"`
	Tokens int64  `json:"tokens_estimate,omitempty"`
	Age    int    `json:"age"`
	First  int64  `json:"first"`
	Held   bool   `json:"held,omitempty"`
}

// Row returns a call with its items: those that come first in it, or all.
func (v *View) Row(c *Call, all bool) *CallRow {
	r := &CallRow{
		Call: c.Number, Conversation: c.Conversation, Turn: c.Turn, Frame: c.Frame, Model: c.Model, Answer: c.ID, Agent: c.Agent, AgentType: c.Type,
		Own: c.Own, Transcript: c.Told, Input: c.Input, Written: c.Written, Output: c.Output, Bytes: c.Bytes(), Parts: map[string]Part{},
		Previous: c.Previous, Branch: c.Branch, Equal: c.Equal, Compacted: c.Compacted, Changes: c.Changes, Verdict: v.Verdict(c), Items: []ItemRow{},
	}
	if !c.Time.IsZero() {
		at := c.Time.UTC()
		r.Start = &at
	}
	if c.CacheTold {
		r.Cached = &c.Cached
	}
	if c.Previous > 0 {
		r.Same, r.New, r.Dropped = &Share{int64(c.Same), c.SameSize}, &c.New, &c.Dropped
		if p := v.byNumber(c.Previous); p != nil && !p.Last.IsZero() && !c.Time.IsZero() {
			idle := float64(c.Time.Sub(p.Last).Microseconds()) / 1e3
			r.IdleMS = &idle
		}
	}
	rows := c.Rows()
	for k, s := range c.Sums {
		if s.Count > 0 {
			p := Part{Count: s.Count, Bytes: s.Bytes, Tokens: estimate(s.Bytes)}
			if c.Input > 0 {
				p.Tokens = 0
			}
			r.Parts[Kind(k).String()] = p
		}
	}
	for _, i := range rows {
		if i.Tokens > 0 {
			p := r.Parts[i.Kind.String()]
			p.Tokens += i.Tokens
			r.Parts[i.Kind.String()] = p
		}
		if all || i.Turn == c.Turn {
			r.Items = append(r.Items, ItemRow{i.Place, i.Kind.String(), i.Name, i.Path, i.Head, i.Bytes, i.Tokens, c.Turn - i.Turn, i.Frame, i.Held})
		}
	}
	return r
}

// writeJSON prints the calls: a line for each, or all in a document.
func (v *View) writeJSON(out table.Output) error {
	all := struct {
		LeftOut int        `json:"left_out,omitempty"`
		Calls   []*CallRow `json:"calls"`
	}{v.Dropped, []*CallRow{}}
	for _, c := range v.Calls {
		row := v.Row(c, false)
		if out.Form != table.AsNDJSON {
			all.Calls = append(all.Calls, row)
		} else if err := out.Document(row); err != nil {
			return err
		}
	}
	if out.Form == table.AsNDJSON {
		return nil
	}
	return out.Document(all)
}
