package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/diff"
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

// What is a kind of divergence.
type What string

const (
	Differs    What = "differs"    // a frame is not as recorded
	Unforeseen What = "unforeseen" // a frame has no counterpart
	Late       What = "late"       // a frame did not arrive in time
	Gone       What = "gone"       // the connection ended too early
)

// A Divergence is a difference between the peer and the recording.
type Divergence struct {
	What     What
	Text     string
	Recorded *Side // nil if nothing was recorded
	Live     *Side // nil if nothing arrived
	Changes  []Change

	step *step // the recorded frame, or nil
}

// maxDivergences bounds the divergences that are kept with their frames. After that, only
// the texts of those about a recorded frame are kept.
const maxDivergences = 1000

// diverge adds a divergence, which ends the run unless goesOn and KeepGoing are set. st and h
// may each be nil.
func (r *run) diverge(d Divergence, st *step, h *liveFrame, goesOn bool) {
	r.result.Differences++
	r.stopped = r.stopped || !goesOn || !r.options.KeepGoing
	if r.options.Diverged != nil {
		r.options.Diverged(&d)
	}
	if d.step = st; len(r.result.Divergences) < maxDivergences {
		if st != nil {
			d.Recorded = st.side(st.seq)
		}
		if h != nil {
			d.Live = h.side(0)
		}
	} else if d.Changes = nil; st == nil {
		return
	}
	r.result.Divergences = append(r.result.Divergences, &d)
}

// cases returns the outcome of each frame of the peep.
func (p *pass) cases() (list []Case) {
	of := make(map[*step]*Divergence)
	for _, d := range p.result.Divergences {
		if d.step != nil && of[d.step] == nil {
			of[d.step] = d
		}
	}
	for _, st := range p.script.steps {
		if st.dir == p.options.Side {
			continue
		}
		d := of[st]
		list = append(list, Case{p.script.nameOf(st), d, d == nil && (!p.came[st] || p.skips(st.message.Kind))})
	}
	for _, d := range p.result.Divergences {
		if d.step == nil || d.step.dir == p.options.Side {
			list = append(list, Case{Name: d.Text, Divergence: d})
		}
	}
	return list
}

// nameOf names a frame and its request: "frame 4, result 2 to tools/call 2".
func (s *Script) nameOf(st *step) string {
	name := st.String()
	if st.exchange != 0 && st.opens == 0 {
		name += " to " + s.steps[s.opened[st.exchange].step].reading.String()
	}
	return name
}

// A Side is a frame, recorded or live.
type Side struct {
	Seq     int64 // 0 if it is live
	Kind    string
	ID      string
	Payload []byte // in its JSON form if it has one
}

func (m *reading) side(seq int64) *Side {
	s := &Side{Seq: seq, Kind: string(m.message.Kind), ID: string(m.id()), Payload: m.value()}
	if m.part != nil { // without what is not compared
		p := *m.part
		p.Head, p.Home = nil, ""
		if p.Body != nil {
			p.Body = p.content("")
		}
		s.Payload = p.form()
	}
	return s
}

// String names a frame of the recording: "frame 5, result 1".
func (st *step) String() string {
	if st.seq == 0 {
		return st.reading.String() + " of the recording"
	}
	return fmt.Sprintf("frame %d, %v", st.seq, &st.reading)
}

// id returns the id of the message, which may be in a part.
func (m *reading) id() []byte {
	if len(m.inner.Kind) > 0 {
		return m.inner.ID.Text
	}
	return m.message.ID.Text
}

// String names a message: "result 1".
func (m *reading) String() string {
	kind, id := string(m.message.Kind), m.id()
	switch {
	case !m.well:
		return "an invalid message"
	case len(id) == 0:
		return kind
	}
	return kind + " " + string(render.AppendSafe(nil, id))
}

// appendText appends the changes and then both frames side by side, in at most width
// cells; 0 means no limit.
func (d *Divergence) appendText(b []byte, width int, style *render.Style) []byte {
	if b = d.appendChanges(b, width, style); len(d.Changes) > 0 {
		b = append(b, '\n')
	}
	return appendBeside(b, d.Recorded, d.Live, width, style)
}

func (d *Divergence) appendChanges(b []byte, width int, style *render.Style) []byte {
	for i, c := range d.Changes {
		if i == maxChanges {
			b = fmt.Appendf(b, "  and %d more\n", len(d.Changes)-i)
			break
		}
		b = append(b, "  "...)
		if c.Path != "" {
			b = append(style.Key.Append(b, render.Safe(c.Path)), ": "...)
		}
		b = append(style.String.Append(b, shown(c.Recorded, width)), " → "...)
		b = append(style.String.Append(b, shown(c.Live, width)), '\n')
	}
	return b
}

const (
	maxChanges = 10
	maxLines   = 400 // of a payload, that are compared
	maxRows    = 40  // shown rows
	rowsBefore = 6   // rows before the first difference
)

// appendBeside appends two frames side by side; one of them may be nil.
func appendBeside(b []byte, recorded, live *Side, width int, style *render.Style) []byte {
	title := [2]string{"recorded: " + recorded.title(), "live: " + live.title()}
	rows := diff.Beside(recorded.lines(), live.lines())
	column := max((width-3)/2, 10)
	if width == 0 {
		column = widest(append(rows, title))
	}
	b = appendRow(b, title[0], title[1], " │ ", column, style.Dim)
	from := max(slices.IndexFunc(rows, func(r [2]string) bool { return r[0] != r[1] })-rowsBefore, 0)
	to := min(from+maxRows, len(rows))
	if from > 0 {
		b = fmt.Appendf(b, "… %s\n", render.Count(int64(from), "line"))
	}
	for _, r := range rows[from:to] {
		if r[0] == r[1] {
			b = appendRow(b, r[0], r[1], " │ ", column, style.Dim)
		} else {
			b = appendRow(b, r[0], r[1], " ≠ ", column, style.Error)
		}
	}
	if to < len(rows) {
		b = fmt.Appendf(b, "… %s\n", render.Count(int64(len(rows)-to), "line"))
	}
	return b
}

// widest returns the width of a column that fits all rows.
func widest(rows [][2]string) int {
	column := 0
	for _, r := range rows {
		column = max(column, render.Cells([]byte(render.Safe(r[0]))), render.Cells([]byte(render.Safe(r[1]))))
	}
	return column
}

func appendRow(b []byte, left, right, bar string, column int, paint render.Paint) []byte {
	cell := render.AppendFit(nil, []byte(left), column)
	b = append(b, cell...)
	b = append(b, strings.Repeat(" ", max(0, column-render.Cells(cell)))...)
	b = paint.Append(b, bar)
	return append(bytes.TrimRight(render.AppendFit(b, []byte(right), column), " "), '\n')
}

func (s *Side) title() string {
	switch {
	case s == nil:
		return "nothing"
	case s.Seq == 0:
		return strings.TrimSpace(s.Kind + " " + s.ID)
	}
	return strings.TrimSpace(fmt.Sprintf("frame %d %s %s", s.Seq, s.Kind, s.ID))
}

// lines returns a payload as lines of text.
func (s *Side) lines() []string {
	if s == nil || len(s.Payload) == 0 {
		return nil
	}
	text := s.Payload
	if isJSON(text) {
		text = render.AppendJSON(nil, text, "  ", "", nil)
	} else {
		text = render.Hex{End: len(text)}.Append(nil, text, nil)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[:min(len(lines), maxLines)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Summary counts the points by their outcome.
func Summary(points []*Point) string {
	counts, broken, reached := map[session.Class]int{}, 0, 0
	for _, p := range points {
		if p.Breaks() {
			broken++
		}
		if p.Reached {
			reached++
			counts[p.Class]++
		}
	}
	text := fmt.Sprintf("cancelled at %d of %d points", reached, len(points))
	for class := session.Pending; class <= session.Silent; class++ {
		if n := counts[class]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, class)
		}
	}
	if broken > 0 {
		text += fmt.Sprintf("; rules are broken at %d", broken)
	}
	return text
}

// shown returns a value for display; absent values are a dash. If width is 0, it is not
// shortened.
func shown(value string, width int) string {
	switch {
	case value == "":
		return "–"
	case width == 0:
		return render.Safe(value)
	}
	return string(render.AppendFit(nil, []byte(value), maxShown))
}

// maxShown is how much of a value is shown, in cells.
const maxShown = 60

// Summary counts the frames of a run.
func (r *Result) Summary() string {
	text := fmt.Sprintf("%s sent, %d received as recorded", render.Count(r.Sent, "frame"), r.Matched)
	if r.Extra > 0 {
		text += fmt.Sprintf(", %d more", r.Extra)
	}
	if r.Missing > 0 {
		text += fmt.Sprintf(", %d missing", r.Missing)
	}
	for i, v := range r.Versions {
		text += []string{"; version ", ", "}[min(i, 1)] + render.Safe(v)
	}
	return text
}
