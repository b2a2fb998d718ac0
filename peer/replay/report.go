package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// Forms are the forms of a report.
var Forms = []string{table.AsText, table.AsNDJSON, table.AsJUnit}

// A Reporter writes the results of runs, which may be concurrent.
type Reporter struct {
	table.Output
	Brief bool // write divergences in their short form
	Named bool // put the connection into the names of JUnit suites

	mu     sync.Mutex
	suites []table.Suite
	points *table.Printer[Point]
}

// Trace returns a function that writes each frame; nil if the form has no frames.
func (w *Reporter) Trace(start time.Time) func(Event) {
	if w.Form != table.AsNDJSON {
		return nil
	}
	return func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _ = w.To.Write(appendLine(nil, event(&e, start))) // the report will fail, too
	}
}

// AddResult writes the result of a run.
func (w *Reporter) AddResult(who string, r *Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b []byte
	switch w.Form {
	case table.AsJUnit:
		if w.Named {
			who = fmt.Sprintf("%s, connection %d", who, r.Conn)
		}
		w.suites = append(w.suites, r.suite(who))
		return nil
	case table.AsNDJSON:
		for _, d := range r.Divergences {
			b = appendLine(b, divergence(d, r.Conn))
		}
		b = appendLine(b, struct {
			Replay string `json:"replay"`
			*Result
			Diverged bool `json:"diverged"`
		}{"result", r, r.Differences > 0})
	default:
		for _, d := range r.Divergences {
			if w.Brief {
				b = d.appendShort(b, w.Width, w.Style)
			} else {
				b = d.appendText(b, w.Width, w.Style)
			}
		}
	}
	_, err := w.To.Write(b)
	return err
}

// AddPoint writes a point of a sweep.
func (w *Reporter) AddPoint(p *Point) error {
	if w.points == nil {
		w.points = &table.Printer[Point]{Output: w.Output, Columns: pointColumns, Live: true, Below: (*Point).texts}
	}
	w.points.Print(p)
	return w.points.Err()
}

// Close writes the JUnit report, which is complete only now.
func (w *Reporter) Close() error {
	if w.Form != table.AsJUnit {
		return nil
	}
	suites := table.Suites{Name: "wirectl replay", List: w.suites}
	return suites.Write(w.To)
}

// suite returns a run as a suite: a test for each recorded frame of the peer, and one for
// each frame that was not recorded.
func (r *Result) suite(name string) table.Suite {
	suite := table.Suite{Name: name}
	for _, c := range r.Cases {
		test := table.Case{Class: name, Name: render.Safe(c.Name)}
		if d := c.Divergence; d != nil {
			text := string(d.appendShort(nil, 0, new(render.Style)))
			test.Failure = &table.Failure{Type: string(d.What), Message: render.Safe(d.Text), Text: text}
		}
		if c.Skipped {
			test.Skipped = &struct{}{}
		}
		suite.Append(test)
	}
	return suite
}

// DifferenceText describes the first difference and counts the others.
func (r *Result) DifferenceText() string {
	first := r.Divergence().Text
	if r.Differences == 1 {
		return first
	}
	return fmt.Sprintf("%s; the first: %s", render.Count(r.Differences, "difference"), first)
}

// event and divergence are lines of NDJSON.

func event(e *Event, start time.Time) table.Object {
	return table.Object{
		"replay", "frame", "ms", milliseconds(e.Time.Sub(start)), "dir", e.Dir.String(), "frame", table.Count(e.Recorded),
		"kind", e.Kind, "id", optional(e.ID),
	}
}

func divergence(d *Divergence, conn int) table.Object {
	o := table.Object{"replay", "divergence", "conn", table.Count(int64(conn)), "divergence", d.What, "message", d.Text}
	if len(d.Changes) > 0 {
		o = append(o, "changes", d.Changes)
	}
	return append(o, "recorded", d.Recorded.object(), "live", d.Live.object())
}

// object returns a frame; nothing if there is none.
func (s *Side) object() any {
	if s == nil {
		return nil
	}
	o := table.Object{"frame", table.Count(s.Seq), "kind", s.Kind, "id", optional(s.ID)}
	if _, err := json.Marshal([]json.RawMessage{s.Payload}); isJSON(s.Payload) && err == nil { // it may be nested too deeply
		return append(o, "payload", json.RawMessage(s.Payload))
	} else if len(s.Payload) > 0 {
		return append(o, "raw", s.Payload)
	}
	return o
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func appendLine(b []byte, v any) []byte { return append(append(b, jsonscan.MustMarshal(v)...), '\n') }

// pointColumns are the columns of a sweep. A point that was not reached has no figures in text.
var pointColumns = []table.Column[Point]{
	{Name: "replay", Value: func(*Point) any { return "cancel" }},
	{Name: "after", Title: "after", Right: true, Usual: 7, Value: func(p *Point) any { return int64(p.After) }},
	{Name: "reached", Value: func(p *Point) any { return p.Reached }},
	{Name: "why", Value: func(p *Point) any { return p.Why }},
	{Name: "class", Title: "class", Usual: 15, Paint: paintClass, Cell: classCell, Value: func(p *Point) any {
		if !p.Reached {
			return nil
		}
		return p.Class.String()
	}},
	pointFigure("parts", 5, "%d", func(p *Point) any { return p.Parts }),
	pointFigure("bytes", 8, "%d", func(p *Point) any { return p.Bytes }),
	pointFigure("ms", 8, "%.1f", func(p *Point) any { return milliseconds(p.Took) }),
	{Name: "confirmed", Title: "confirmed", Value: func(p *Point) any { return p.Confirmed }, Cell: func(p *Point) string {
		switch {
		case !p.Reached:
			return ""
		case p.Confirmed:
			return "yes"
		}
		return "no"
	}},
	{Name: "findings", Title: "findings", Cell: findingsCell, Value: func(p *Point) any {
		return append([]session.Finding{}, p.Findings...)
	}},
}

func pointFigure(name string, width int, format string, of func(p *Point) any) table.Column[Point] {
	return table.Column[Point]{
		Name: name, Title: name, Right: true, Usual: width, Value: func(p *Point) any { return of(p) },
		Cell: func(p *Point) string {
			if !p.Reached {
				return ""
			}
			return fmt.Sprintf(format, of(p))
		},
	}
}

func classCell(p *Point) string {
	if !p.Reached {
		return "not sent: " + p.Why
	}
	return p.Class.String()
}

func paintClass(p *Point, style *render.Style) render.Paint {
	if p.Reached && p.Breaks() {
		return style.Error
	}
	return render.Paint{}
}

// findingsCell returns the names of the findings, each once.
func findingsCell(p *Point) string {
	var names []string
	for _, f := range p.Findings {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// texts returns a line for each finding.
func (p *Point) texts() (lines []string) {
	for _, f := range p.Findings {
		lines = append(lines, fmt.Sprintf("       %s %s: %s", f.Severity, f.Name, render.Safe(f.Message)))
	}
	return lines
}

// appendShort appends the short form of a divergence: its text and the changes.
func (d *Divergence) appendShort(b []byte, width int, style *render.Style) []byte {
	b = append(style.Error.Append(b, render.Safe(d.Text)), '\n')
	return d.appendChanges(b, width, style)
}
