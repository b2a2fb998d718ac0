package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/table"
)

func specOf(c *calls.Call) *protocol.Spec { return all.SpecNamed(c.Protocol) }

// isEndless reports whether a request need not be answered before its connection ends.
func (t *talk) isEndless(c *calls.Call) bool {
	rules := &specOf(c).Rules
	return slices.Contains(rules.Endless, c.Kind) || rules.Subscribe != "" && c.Kind == rules.Subscribe || strings.HasPrefix(c.Kind, "GET ") || strings.Contains(c.Kind, "subscri")
}

// slowCall is how long a call or a turn takes that may be worth an explanation.
const slowCall = 10 * time.Second

// slow answers what took so long in the longest turn or call that nothing else explains.
func (t *talk) slow() []Answer {
	var longest *calls.Call
	for _, c := range t.rows {
		if t.explained[c] || c.Place.Agent || c.Place.Depth > 0 || c.Operation != 0 || c.Stopped || c.Duration < slowCall || t.isEndless(c) || specOf(c).Rules.NoWire && c.Kind != "prompt" || c.Outcome != session.Done {
			continue
		}
		if longest == nil || c.Duration > longest.Duration {
			longest = c
		}
	}
	if longest == nil {
		return nil
	}
	return []Answer{t.spent(longest)}
}

// A share is what a part of the time of a call was spent on.
type share struct {
	what string
	took time.Duration
	// The longest piece of it: its frame, its beginning and its length.
	seq     int64
	start   time.Time
	longest time.Duration
}

// spent answers what a call, or a turn, spent its time on: the steps of its critical path.
func (t *talk) spent(c *calls.Call) Answer {
	at := slices.Index(t.rows, c)
	end := at + 1
	for end < len(t.rows) && t.rows[end].Place.Depth > c.Place.Depth {
		end++
	}
	var shares []share
	add := func(what string, from, to time.Time, seq int64) {
		took := to.Sub(from)
		if took <= 0 {
			return
		}
		i := slices.IndexFunc(shares, func(s share) bool { return s.what == what })
		if i < 0 {
			i = len(shares)
			shares = append(shares, share{what: what})
		}
		shares[i].took += took
		if s := &shares[i]; took > s.longest {
			s.seq, s.start, s.longest = seq, from, took
		}
	}
	done := c.Start
	for _, s := range t.steps(c, t.rows[at:end]) {
		add("the agent itself, or its user", done, s.From, 0)
		t.split(s, add)
		if s.To.After(done) {
			done = s.To
		}
	}
	if c.Place.Turn || specOf(c).Rules.NoWire {
		add(map[bool]string{true: "the agent itself, or its user", false: "the model and the agent"}[c.Place.Turn], done, t.endOf(c), 0)
	}
	slices.SortStableFunc(shares, func(a, b share) int { return cmp.Compare(b.took, a.took) })
	a := Answer{Verdict: "slow", weight: 20, of: c, at: c.Start}
	var parts []string
	for _, s := range shares[:min(len(shares), 4)] {
		parts = append(parts, table.Millis(s.took).String()+" in "+s.what)
		if s.seq > 0 && s.longest < s.took {
			a.Evidence = append(a.Evidence, Evidence{Frame: s.seq, Time: s.start, Text: fmt.Sprintf("the longest of it: %s, %s", s.what, table.Millis(s.longest))})
		} else if s.seq > 0 && s.seq != c.Frame {
			a.Evidence = append(a.Evidence, Evidence{Frame: s.seq, Time: s.start, Text: fmt.Sprintf("%s, %s", s.what, table.Millis(s.took))})
		}
	}
	name := title(c)
	if c.Place.Turn {
		name = "The longest turn, " + c.Name + ","
	}
	switch {
	case c.Duration == 0:
		a.Text = fmt.Sprintf("%s ended as %s; its times are not known.", name, c.Outcome)
	case c.Outcome == session.Open:
		a.Text = fmt.Sprintf("%s is still open after %s", name, table.Millis(c.Duration))
	default:
		a.Text = fmt.Sprintf("%s took %s, and ended as %s", name, table.Millis(c.Duration), c.Outcome)
	}
	if len(parts) > 0 {
		a.Text += ": " + strings.Join(parts, ", ")
	}
	a.Text = sentence(a.Text)
	if a.Verdict = "slow"; c.Duration < slowCall {
		a.Verdict = "nothing"
	}
	a.Evidence = append([]Evidence{t.began(c)}, append(a.Evidence, t.ended(c))...)
	return a
}

// steps returns the critical path through a call and what is below it.
func (t *talk) steps(c *calls.Call, rows []*calls.Call) []join.Step {
	if c.Place.Turn {
		return join.CriticalPath(rows)
	}
	if !specOf(c).Rules.NoWire {
		return t.asking(c)
	}
	var steps []join.Step
	at := c.Start
	for _, o := range byStart(t.rows) { // the tools of the turn of a transcript, without those at the same time
		if o.Operation == c.Frame && o.Kind != "prompt" && o.Duration > 0 && !t.endOf(o).Before(at) {
			from := o.Start
			if from.Before(at) {
				from = at
			}
			steps = append(steps, join.Step{Call: o, From: from, To: t.endOf(o)})
			at = t.endOf(o)
		}
	}
	for i, s := range steps { // what is between them is the model's
		if i == 0 && s.From.After(c.Start) {
			steps = append(steps, join.Step{Call: nil, From: c.Start, To: s.From})
		} else if i > 0 && s.From.After(steps[i-1].To) {
			steps = append(steps, join.Step{Call: nil, From: steps[i-1].To, To: s.From})
		}
	}
	slices.SortStableFunc(steps, func(a, b join.Step) int { return a.From.Compare(b.From) })
	return steps
}

// asking returns the steps of a call: its own, and the questions to the user within it.
func (t *talk) asking(c *calls.Call) (steps []join.Step) {
	at := c.Start
	for _, q := range byStart(t.asked) {
		from, to := q.Start, t.endOf(q)
		if from.Before(at) {
			from = at
		}
		if q.Operation != c.Frame || !from.Before(to) || to.After(t.endOf(c)) {
			continue
		}
		if from.After(at) {
			steps = append(steps, join.Step{Call: c, From: at, To: from})
		}
		steps, at = append(steps, join.Step{Call: q, From: from, To: to}), to
	}
	return append(steps, join.Step{Call: c, From: at, To: t.endOf(c)})
}

// split adds what a step of a critical path was spent on.
func (t *talk) split(s join.Step, add func(what string, from, to time.Time, seq int64)) {
	c := s.Call
	switch {
	case c == nil:
		add("the model and the agent", s.From, s.To, 0)
	case isQuestion(c.Kind):
		add("permission, or another answer of the user", s.From, s.To, c.Frame)
	case c.Model == "":
		add(cmp.Or(c.Name, c.Kind), s.From, s.To, c.Frame)
	case c.Outcome.Failed():
		add("requests to the model that failed", s.From, s.To, c.Frame)
	case c.FirstPart == 0:
		add("the model", s.From, s.To, c.Frame)
	default:
		first := c.Start.Add(c.FirstPart)
		if first.Before(s.From) {
			first = s.From
		} else if first.After(s.To) {
			first = s.To
		}
		add("the model until its first token", s.From, first, c.Frame)
		add("the model's text", first, s.To, c.Frame)
	}
}

// isQuestion reports whether a request asks the user.
func isQuestion(kind string) bool {
	kind = strings.ToLower(kind)
	for _, word := range []string{"permission", "approval", "elicitation", "can_use_tool", "userinput", "user_input"} {
		if strings.Contains(kind, word) {
			return true
		}
	}
	return false
}
