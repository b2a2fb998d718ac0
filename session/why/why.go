// Package why answers, in plain words, why something in a session stopped, hung, failed or took so long.
//
// A [Reader] gets all of a session, as the trackers of package session see it, and keeps what may explain
// something. Each [Answer] has the name of its verdict, whose rule docs/why.md has, and its evidence: frames
// and times. A verdict is only given where its rule surely holds, so there may be none.
package why

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/table"
)

// A Question is what is asked of a session; the zero Question is about all of it.
type Question struct {
	Call string // the id of a call, or "#" and the number of one of its frames
	At   string // a time: seconds since the beginning, a duration, or RFC 3339
	// Mask takes secrets out of a text; nil keeps it.
	Mask func(text string) string
}

// An Answer explains something.
type Answer struct {
	Verdict  string     `json:"verdict"`
	Text     string     `json:"text"`
	Do       string     `json:"do,omitempty"`
	Evidence []Evidence `json:"evidence"`
	Call     *About     `json:"call,omitempty"` // that it explains; nil for none in particular

	weight int
	at     time.Time
	of     *calls.Call   // that it explains; nil for none in particular
	also   []*calls.Call // and others
}

// About are the facts of a call, without what was said.
type About struct {
	Frame   int64        `json:"frame"`
	Kind    string       `json:"kind"`
	Name    string       `json:"name,omitempty"`
	ID      string       `json:"id,omitempty"`
	Outcome string       `json:"outcome"`
	Code    string       `json:"code,omitempty"`
	Took    table.Millis `json:"duration_ms"`
}

// Evidence is a frame, or a moment, that an answer is based on.
type Evidence struct {
	Frame int64         `json:"frame,omitempty"`
	Time  time.Time     `json:"time,omitzero"`
	Since *table.Millis `json:"offset_ms,omitempty"` // the beginning of the session
	Text  string        `json:"text"`
}

// A Reader reads a session. It is the [session.Watcher] of the session's trackers.
type Reader struct {
	*calls.Log
	question Question
	at       time.Duration // since the beginning, if moment is zero
	moment   time.Time

	list     []*calls.Call
	asked    []*calls.Call // questions to the user within a call
	early    []*calls.Call // those that are kept of the ones before list
	total    int
	findings []session.Finding
	events   []session.Event
	stderr   []session.Event // the last lines
	uses     uses
	offer    contract.Offer
	auth     auth
	streams  streams
	first    time.Time
	last     time.Time
}

// Bounds of what is kept of a long session.
const (
	maxCalls    = 1 << 11 // the last ones
	maxEarly    = 1 << 10 // and before those, the last that did not end well
	maxFindings = 1 << 10
	maxEvents   = 1 << 10
	maxStderr   = 16
)

// NewReader returns a reader that will answer a question.
func NewReader(q Question) (*Reader, error) {
	r := &Reader{question: q, offer: contract.Offer{SizesAlone: true}}
	r.Log = &calls.Log{Show: r.keep, Also: r.offer.Changed, Unfold: true}
	if q.At == "" {
		return r, nil
	}
	var err error
	if seconds, notSeconds := strconv.ParseFloat(q.At, 64); notSeconds == nil && seconds >= 0 && seconds < 1e9 {
		r.at = time.Duration(seconds * float64(time.Second))
	} else if r.at, err = time.ParseDuration(q.At); err != nil {
		if r.moment, err = time.Parse(time.RFC3339Nano, q.At); err != nil {
			return nil, fmt.Errorf("%q: want seconds since the beginning of the session, such as 12.5, or a time such as 2026-01-31T12:00:00Z", q.At)
		}
	}
	return r, nil
}

// keep keeps a call. Of those too long ago it keeps the ones that did not end well, or that are asked for.
func (r *Reader) keep(c *calls.Call) {
	if c.Operation != 0 && !specOf(c).Rules.NoWire { // it is part of a call
		if isQuestion(c.Kind) {
			r.asked = keepLast(r.asked, c, maxCalls)
		}
		return
	}
	r.total++
	r.list = append(r.list, c)
	if len(r.list) < 2*maxCalls {
		return
	}
	for _, old := range r.list[:maxCalls] {
		if old.Outcome.Failed() || old.Stopped || r.question.Call != "" && r.isMeant(old) {
			r.early = append(r.early, old)
		}
	}
	r.early = slices.Delete(r.early, 0, max(0, len(r.early)-maxEarly))
	r.list = slices.Delete(r.list, 0, maxCalls)
}

// isMeant reports whether the question is about a call.
func (r *Reader) isMeant(c *calls.Call) bool {
	if frame, ok := strings.CutPrefix(r.question.Call, "#"); ok {
		n, _ := strconv.ParseInt(frame, 10, 64)
		return c.Frame == n
	}
	return c.ID == r.question.Call || strings.Trim(c.ID, `"`) == r.question.Call
}

// Found keeps a finding.
func (r *Reader) Found(f session.Finding) {
	if f.Severity != session.Note {
		r.findings = keepLast(r.findings, f, maxFindings)
	}
}

// Happened keeps an event.
func (r *Reader) Happened(e session.Event) {
	r.note(e.Time)
	if e.Kind == "stderr" {
		r.stderr = keepLast(r.stderr, e, maxStderr)
		return
	}
	r.events = keepLast(r.events, e, maxEvents)
}

func (r *Reader) note(at time.Time) {
	if at.After(r.last) {
		r.last = at
	}
}

// keepLast appends an item to a list of which the last n matter.
func keepLast[T any](list []T, item T, n int) []T {
	if len(list) >= 2*n {
		list = slices.Delete(list, 0, n)
	}
	return append(list, item)
}

// maxAnswers is how many answers are given.
const maxAnswers = 3

// A Report is what a reader has found.
type Report struct {
	Answers []Answer `json:"answers"`
	// Text says what the session has, if nothing explains it, and More how many weaker answers there are.
	Text string `json:"text,omitempty"`
	More int    `json:"more,omitempty"`
}

// conclude returns all that was read. Wires are the names of the connections.
func (r *Reader) conclude(last time.Time, wires map[[2]int]string, ofRun bool) *talk {
	r.note(last)
	r.Finish(r.last)
	list := append(r.early, r.list...)
	if len(list) > 0 && r.first.IsZero() {
		r.first = list[0].Start.Add(-list[0].Offset)
	}
	return &talk{Reader: r, rows: join.Tree(list, wires, ofRun)}
}

// Report answers the question, after all of the session was read. Wires are the names of its connections.
func (r *Reader) Report(last time.Time, wires map[[2]int]string, ofRun bool) (*Report, error) {
	t := r.conclude(last, wires, ofRun)
	answers, err := t.answers()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Or(cmp.Compare(b.weight, a.weight), b.at.Compare(a.at)) })
	rep := &Report{Answers: answers[:min(len(answers), maxAnswers)], More: max(0, len(answers)-maxAnswers)}
	for i := range rep.Answers {
		a := &rep.Answers[i]
		if c := a.of; c != nil {
			a.Call = &About{c.Frame, c.Kind, c.Name, strings.Trim(c.ID, `"`), c.Outcome.String(), c.Code, table.Millis(c.Duration)}
		}
		for j := range a.Evidence {
			r.complete(&a.Evidence[j])
		}
	}
	if len(answers) == 0 {
		rep.Answers = []Answer{}
		rep.Text = "Nothing here explains it: " + t.summary()
	}
	return rep, nil
}

func (r *Reader) masked(text string) string {
	if r.question.Mask == nil {
		return text
	}
	return r.question.Mask(text)
}

// complete adds the time since the beginning to evidence.
func (r *Reader) complete(e *Evidence) {
	if !e.Time.IsZero() && !r.first.IsZero() {
		e.Time = e.Time.UTC()
		since := table.Millis(max(0, e.Time.Sub(r.first)))
		e.Since = &since
	}
}

// Write writes the report: as text, or as JSON.
func (rep *Report) Write(out table.Output) error {
	if out.Form != table.AsText {
		return out.Document(rep)
	}
	var b strings.Builder
	if rep.Text != "" {
		b.WriteString(wrapped(rep.Text, out.Width, "") + "\n")
	}
	for i, a := range rep.Answers {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(out.Style.Kind.Text(wrapped(render.Safe(a.Text), out.Width, "")) + "\n")
		if a.Do != "" {
			b.WriteString(wrapped(a.Do, out.Width, "") + "\n")
		}
		for _, e := range a.Evidence {
			frame, since := "", ""
			if e.Frame > 0 {
				frame = "#" + strconv.FormatInt(e.Frame, 10)
			}
			if e.Since != nil {
				since = strconv.FormatFloat(time.Duration(*e.Since).Seconds(), 'f', 3, 64)
			}
			line := fmt.Sprintf("  %6s  %9s  %s", frame, since, render.Safe(e.Text))
			if out.Width > 0 {
				line = string(render.AppendFit(nil, []byte(line), out.Width))
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	if rep.More > 0 {
		fmt.Fprintf(&b, "\nwirectl calls --failed and wirectl lint have more.\n")
	}
	_, err := io.WriteString(out.To, b.String())
	return err
}

// wrapped breaks a text into lines, if they have a width.
func wrapped(text string, width int, indent string) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		n := render.Cells([]byte(word))
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
