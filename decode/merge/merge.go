// Package merge compares two captures of the same connections from both of their ends: what left one end and
// never reached the other, what was changed on the way, and what was held. It reads the captures several times
// and keeps hashes of their frames.
package merge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/table"
)

// Options say what is compared.
type Options struct {
	Names  [2]string // of A and B
	Opener *source.Opener
	Config decode.Config
	Delay  time.Duration            // frames that were held longer are delayed
	Mask   func(text string) string // takes secrets out of texts
}

// Check returns an error of usage if the captures cannot be read several times, or the merged session not be
// written to a file.
func (o *Options) Check(out ...string) error {
	for _, name := range o.Names {
		if name == "-" || source.IsHub(name) || source.MayStillRun(name, o.Opener.Stdin) {
			return cmdline.Errorf("merge reads its inputs several times: save %s to a file first", source.Label(name))
		}
		for _, file := range out {
			if err := convert.CheckSave(name, file); err != nil {
				return err
			}
		}
	}
	a, errA := os.Stat(o.Names[0])
	b, errB := os.Stat(o.Names[1])
	switch {
	case errA == nil && errB == nil && os.SameFile(a, b):
		return cmdline.Errorf("A and B are one file, %s: name the capture of the other end", o.Names[0])
	case o.Delay <= 0:
		return cmdline.Errorf("invalid --delay %v: want a time over 0, such as 500ms", o.Delay)
	}
	return nil
}

// opener returns the opener of a capture.
func (o *Options) opener(i int) opener {
	return func(ctx context.Context) (capture.Reader, func(), error) {
		src, err := o.Opener.Session(ctx, o.Names[i], o.Config, false)
		if err != nil {
			return nil, nil, err
		}
		r, done, err := convert.Open(ctx, source.Label(o.Names[i]), src.Input, o.Config, frame.DirUnknown, func(_ frame.Framing, err error) error { return err })
		if err != nil {
			src.Close()
			return nil, nil, err
		}
		return r, func() { done(); src.Close() }, nil
	}
}

// A Finding is what happened to a frame between the ends.
type Finding struct {
	Name string `json:"finding"`
	Dir  string `json:"dir"`
	// A and B are the numbers of the frame in the captures; 0 where it is missing.
	A    int64     `json:"a,omitempty"`
	B    int64     `json:"b,omitempty"`
	Time time.Time `json:"time,omitzero"`     // by the clock of the controller's end, if that is known
	Held float64   `json:"held_ms,omitempty"` // at least
	Text string    `json:"message"`

	after int // index of the entry at the controller's end that it is told after
}

// A Report is what the comparison has found.
type Report struct {
	Findings []Finding
	// Reversed says that B is nearer to the controller.
	Reversed bool
	// Counts of frames: those at both ends, of these rewritten without a change of meaning, and those that one end
	// cannot have seen, or that the middle has asked and answered itself.
	Both, Rewritten, Uncovered, Own int
	Lost, Changed, Delayed, Vague   int
	Cut                             error // where a capture is cut

	options Options
	x       *alignment
	near    int // the side that is nearer to the controller
	clock   clock
	about   [2]capture.Session
	spans   [2]scan
	states  [2][]state
	alone   [2]int // connections of one end of which the other has nothing
	// By lane: how many entries have another, and how many there are. answered has the requests without another that
	// have an answer.
	pairs, sizes [2][]int
	answered     [2]map[int32]bool
}

// A state is what became of a frame.
type state uint8

const (
	isBoth state = iota
	isDelayed
	isChanged
	isLost
	isAdded
	isUncovered
	isOwn
)

// ErrNothing is the error for captures without a common frame.
var ErrNothing = errors.New("no frame of one capture is in the other: are these the two ends of the same connections?")

// Compare compares two captures.
func Compare(ctx context.Context, o Options) (*Report, error) {
	o.Config.Wire = true
	r := &Report{options: o}
	var sides [2]*side
	for i := range o.Names {
		s, about, cut, err := scanOf(ctx, o.opener(i), o.Config)
		if err == nil && len(s.entries) == 0 {
			err = errors.New("the input has no frames")
		}
		if err != nil {
			return nil, &InputError{i, err}
		}
		if cut != nil && r.Cut == nil {
			r.Cut = fmt.Errorf("%s: %w", o.Names[i], cut)
		}
		r.about[i], r.spans[i], sides[i] = about, *s, &s.side
	}
	for _, s := range r.spans {
		for i := range s.entries { // a request without a body counts where both ends see all requests of HTTP
			if e := &s.entries[i]; e.asks && r.spans[0].http && r.spans[1].http && !r.spans[0].rpc && !r.spans[1].rpc {
				e.own = false
			}
		}
	}
	r.x = align(sides[0], sides[1])
	r.orient()
	r.judge()
	if r.Both == 0 {
		return nil, ErrNothing
	}
	return r, r.describe(ctx)
}

// An InputError is an error in one of the captures.
type InputError struct {
	Side int
	Err  error
}

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// orient finds out which end is nearer to the controller: frames from there arrive later at the other.
func (r *Report) orient() {
	var samples [2][]sample
	for i, b := range r.x.other[0] {
		if b == 0 || !r.x.sure[i] {
			continue
		}
		e, f := &r.x.sides[0].entries[i], &r.x.sides[1].entries[b-1]
		if e.at != 0 && f.at != 0 && e.dir != frame.DirUnknown {
			samples[0] = append(samples[0], sample{e.at, e.at - f.at, e.dir == frame.U2C})
			samples[1] = append(samples[1], sample{f.at, f.at - e.at, f.dir == frame.U2C})
		}
	}
	clocks := [2]clock{estimate(samples[0]), estimate(samples[1])}
	if clocks[1].sent && clocks[1].received && clocks[1].clash < clocks[0].clash {
		r.near = 1
	}
	r.clock, r.Reversed = clocks[r.near], r.near == 1
}

// sample returns the times of an entry at both ends; false if one is unknown.
func (r *Report) sample(s, i int) (sample, bool) {
	e, f := r.both(s, i)
	return sample{e.at, e.at - f.at, e.dir == frame.U2C}, e.at != 0 && f.at != 0 && e.dir != frame.DirUnknown
}

// both returns the entries of a pair, the one at the controller's end first.
func (r *Report) both(s, i int) (near, far *entry) {
	near, far = &r.x.sides[s].entries[i], &r.x.sides[1-s].entries[r.x.other[s][i]-1]
	if s != r.near {
		near, far = far, near
	}
	return near, far
}

// judge finds the state of each entry.
func (r *Report) judge() {
	x, near, far := r.x, r.near, 1-r.near
	inGroup := make([][2]int, len(x.renamed)) // first and last pair, where there are no times
	for i, b := range x.other[near] {
		if b != 0 {
			g := &inGroup[x.groups[near][x.sides[near].entries[i].lane]]
			if g[0] == 0 {
				g[0] = i + 1
			}
			g[1] = i + 1
		}
	}
	var spans [2][][2]int // by lane: first and last pair
	for s, of := range x.sides {
		spans[s] = make([][2]int, of.lanes)
		r.pairs[s], r.sizes[s], r.answered[s] = make([]int, of.lanes), make([]int, of.lanes), map[int32]bool{}
		r.states[s] = make([]state, len(of.entries))
		for i := range of.entries {
			e := &of.entries[i]
			r.sizes[s][e.lane]++
			if x.other[s][i] != 0 {
				if r.pairs[s][e.lane]++; r.pairs[s][e.lane] == 1 {
					spans[s][e.lane][0] = i
				}
				spans[s][e.lane][1] = i
			} else if e.request != 0 && x.other[s][e.request-1] == 0 {
				r.answered[s][e.request] = true
			}
		}
	}
	told := [2]map[int32]bool{{}, {}}
	for _, s := range []int{near, far} {
		for i := range x.sides[s].entries {
			e := &x.sides[s].entries[i]
			st := &r.states[s][i]
			leaves := (e.dir == frame.U2C) == (s == far)
			*st = r.alonehood(s, i, leaves, inGroup, spans[s][e.lane])
			switch {
			case x.other[s][i] != 0 && s == near:
				*st = r.paired(s, i)
				continue
			case x.other[s][i] != 0:
				*st = isBoth
				continue
			case *st == isUncovered:
				r.Uncovered++
				continue
			case *st == isOwn:
				r.Own++
				continue
			}
			if r.pairs[s][e.lane] == 0 && x.sides[s].lanes > 1 {
				if !told[s][e.lane] {
					r.alone[s]++
				}
				if told[s][e.lane] || s == far {
					told[s][e.lane] = true
					*st = isOwn
					r.Own++
					continue
				}
				told[s][e.lane] = true
			}
			r.addBetween(s, i, *st)
		}
	}
	slices.SortStableFunc(r.Findings, func(f, g Finding) int { return cmp.Compare(f.after, g.after) })
}

// alonehood returns the state of an entry without another.
func (r *Report) alonehood(s, i int, leaves bool, inGroup [][2]int, span [2]int) state {
	x := r.x
	e := &x.sides[s].entries[i]
	other := x.sides[1-s]
	at, timed := x.expected(s, e)
	switch {
	case x.other[s][i] != 0:
		return isBoth
	case e.own:
		return isOwn
	case span[0] < i && i < span[1]: // covered, whatever the clocks say
	case timed && other.begin != 0:
		if other.misses(at) {
			return isUncovered
		}
	case s == r.near:
		if g := inGroup[x.groups[s][e.lane]]; i+1 < g[0] || i+1 > g[1] {
			return isUncovered
		}
	}
	if e.request > 0 && x.other[s][e.request-1] == 0 {
		return isOwn // the request says it
	}
	if leaves {
		return isLost
	}
	return isAdded
}

// paired judges a pair.
func (r *Report) paired(s, i int) state {
	near, far := r.both(s, i)
	r.Both++
	st := isBoth
	switch {
	case near.vague || far.vague:
		r.Vague++
	case near.bare != far.bare && !near.own:
		st = isChanged
		r.addBetween(s, i, st)
	case near.exact != far.exact || near.id != far.id:
		r.Rewritten++
	}
	if t, ok := r.sample(s, i); ok && r.clock.held(t) >= r.options.Delay && !near.own {
		r.addBetween(s, i, isDelayed)
		st = max(st, isDelayed)
	}
	return st
}

// addBetween adds a finding.
func (r *Report) addBetween(s, i int, st state) {
	e := &r.x.sides[s].entries[i]
	f := Finding{Dir: e.dir.String(), after: r.anchor(s, i)}
	number := [2]*int64{&f.A, &f.B}
	*number[s] = e.seq
	if b := r.x.other[s][i]; b != 0 {
		*number[1-s] = r.x.sides[1-s].entries[b-1].seq
	}
	if e.at != 0 {
		f.Time = time.Unix(0, e.at).UTC()
		if s != r.near && r.clock.isKnown() {
			add, _ := r.clock.offset(e.at)
			f.Time = f.Time.Add(add)
		}
	}
	switch st {
	case isLost:
		f.Name = session.LostBetween
		r.Lost++
	case isDelayed:
		f.Name = session.DelayedBetween
		t, _ := r.sample(s, i)
		f.Held = float64(r.clock.held(t)) / 1e6
		r.Delayed++
	default:
		f.Name = session.ChangedBetween
		r.Changed++
	}
	r.Findings = append(r.Findings, f)
}

// anchor returns the entry of the controller's end after which an entry is told: itself, its request, or what came
// before it.
func (r *Report) anchor(s, i int) int {
	x := r.x
	if s == r.near {
		return i
	}
	e := &x.sides[s].entries[i]
	if b := x.other[s][i]; b != 0 {
		return int(b - 1)
	}
	if e.request > 0 && x.other[s][e.request-1] != 0 {
		return int(x.other[s][e.request-1] - 1)
	}
	for _, step := range []int{-1, 1} {
		for j := i; j >= 0 && j < len(x.other[s]); j += step {
			if b := x.other[s][j]; b != 0 && x.sides[s].entries[j].lane == e.lane {
				return int(b - 1)
			}
		}
	}
	return 0
}

// letters name the captures.
var letters = [2]string{"A", "B"}

// describe writes the texts of the findings.
func (r *Report) describe(ctx context.Context) error {
	var details [2]map[int64]*detail
	for s := range r.options.Names {
		wanted, forms := map[int64]bool{}, map[int64]bool{}
		for _, f := range r.Findings[:min(len(r.Findings), maxDetails)] {
			n := [2]int64{f.A, f.B}[s]
			wanted[n] = true
			if f.A != 0 && f.B != 0 && f.Name == session.ChangedBetween && len(forms) < maxForms {
				forms[n] = true
			}
		}
		if len(wanted) == 0 {
			continue
		}
		var err error
		if details[s], err = detailsOf(ctx, r.options.opener(s), r.options.Config, wanted, forms); err != nil {
			return &InputError{s, err}
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text = r.options.Mask(r.textOf(f, details[0][f.A], details[1][f.B]))
	}
	return nil
}

// textOf describes a finding.
func (r *Report) textOf(f *Finding, a, b *detail) string {
	from, to := letters[r.near], letters[1-r.near]
	if f.Dir == frame.U2C.String() {
		from, to = to, from
	}
	number := map[string]int64{"A": f.A, "B": f.B}
	what := cmp.Or(a, b).title()
	if near, far := letters[r.near], letters[1-r.near]; number[near] == 0 {
		what += fmt.Sprintf(" (frame %d of %s)", number[far], far)
	}
	switch {
	case f.Name == session.LostBetween:
		text := fmt.Sprintf("%s left %s and never reached %s", what, from, to)
		if n := r.others(f); n > 0 {
			return text + ", as nothing of its connection did: " + render.Count(int64(n), "frame")
		}
		if r.isAnswered(f) {
			text += "; its answer came from between"
		}
		return text
	case f.Name == session.DelayedBetween:
		return fmt.Sprintf("%s was held for at least %s between %s and %s", what, brief(time.Duration(f.Held*1e6)), from, to)
	case number[from] == 0 && r.isAgain(f):
		return fmt.Sprintf("%s got %s again, which %s sent only once", to, what, from)
	case number[from] == 0:
		return fmt.Sprintf("%s got %s, which %s never sent", to, what, from)
	}
	text := what + " was changed between " + from + " and " + to
	if a == nil || b == nil {
		return text
	}
	if from == "A" {
		return text + ": " + difference(a, b)
	}
	return text + ": " + difference(b, a)
}

// index returns the side and the index of the entry of a finding about one capture.
func (r *Report) index(f *Finding) (s, i int) {
	seq := f.A
	if f.A == 0 {
		s, seq = 1, f.B
	}
	i, _ = slices.BinarySearchFunc(r.x.sides[s].entries, seq, func(e entry, seq int64) int { return cmp.Compare(e.seq, seq) })
	return s, i
}

func (r *Report) isAgain(f *Finding) bool {
	s, i := r.index(f)
	return r.x.again[s][i]
}

// others counts the frames of a connection of which nothing reached the other end; 0 if something did.
func (r *Report) others(f *Finding) int {
	s, i := r.index(f)
	lane := r.x.sides[s].entries[i].lane
	if r.x.sides[s].lanes == 1 || r.pairs[s][lane] > 0 {
		return 0
	}
	return r.sizes[s][lane]
}

// isAnswered reports whether a lost request has an answer all the same.
func (r *Report) isAnswered(f *Finding) bool {
	s, i := r.index(f)
	return r.answered[s][int32(i+1)]
}

// title names a message.
func (d *detail) title() string {
	if d == nil {
		return "a frame"
	}
	name := cmp.Or(d.name, d.line, d.protocol, "a frame")
	if d.line != "" && d.name != d.line && !strings.Contains(d.name, d.line) && d.id == "" {
		name = d.line
	}
	if name = render.Safe(render.Shorten(name, 80)); d.id != "" {
		name += " " + render.Safe(render.Shorten(d.id, 40))
	}
	return name
}

const maxShownChanges = 3

// difference says how a message was changed.
func difference(a, b *detail) string {
	var changes []string
	total := 0
	add := func(what, from, to string) {
		if total++; total <= maxShownChanges {
			changes = append(changes, strings.TrimSpace(what+" "+from+" → "+to))
		}
	}
	short := func(text []byte) string { return render.Safe(render.Shorten(string(text), 60)) }
	if a.line != b.line {
		add("", render.Safe(render.Shorten(a.line, 80)), render.Safe(render.Shorten(b.line, 80)))
	}
	switch {
	case a.form != nil && b.form != nil:
		w := jsondiff.Walk{Leaf: func(keys []string, va, vb []byte) {
			switch {
			case jsondiff.Same(va, vb):
			case len(keys) > 0 && jsondiff.HoldsID(keys[len(keys)-1]) && jsondiff.IsToken(va, a.id) && jsondiff.IsToken(vb, b.id):
			case va == nil:
				add(render.Safe(jsondiff.Join(keys)), "absent", short(vb))
			case vb == nil:
				add(render.Safe(jsondiff.Join(keys)), short(va), "absent")
			default:
				add(render.Safe(jsondiff.Join(keys)), short(va), short(vb))
			}
		}}
		w.Values(a.form, b.form)
	case a.size != b.size:
		add("", render.Count(int64(a.size), "byte"), render.Count(int64(b.size), "byte"))
	case a.text != nil && !bytes.Equal(a.text, b.text):
		n := 0
		for n < len(a.text) && n < len(b.text) && a.text[n] == b.text[n] {
			n++
		}
		changes, total = append(changes, fmt.Sprintf("from byte %d on", n)), total+1
	}
	if total > len(changes) {
		changes = append(changes, fmt.Sprintf("and %d more", total-len(changes)))
	}
	if len(changes) == 0 {
		return "the bytes differ"
	}
	return strings.Join(changes, ", ")
}

// Save writes the merged session to a file, in the format that its name tells.
func (r *Report) Save(ctx context.Context, name string) error {
	in, done, err := r.merged(ctx)
	if err != nil {
		return err
	}
	defer done()
	format, zstd := convert.FormatOf(name)
	o := convert.Options{Format: format, Zstd: zstd, Config: decode.Config{Workers: 1}, BothTimes: true}
	if err = convert.WriteFile(name, func(w io.Writer) error { return o.Write(ctx, w, in) }); errors.Is(err, capture.ErrCut) {
		return nil // it was told
	}
	return err
}

// merged returns the session of the controller's end with what was found: each frame has the time of the other end
// as its second one, in the clock of the first, and a note comes after each frame that something was found about.
func (r *Report) merged(ctx context.Context) (capture.Reader, func(), error) {
	in, done, err := r.options.opener(r.near)(ctx)
	if err != nil {
		return nil, nil, &InputError{r.near, err}
	}
	about := *in.Session()
	about.Comment = fmt.Sprintf("merged: A is %s, B is %s, the frames are those of %s; %s",
		r.options.Names[0], r.options.Names[1], letters[r.near], r.clock.describe(letters[r.near], letters[1-r.near]))
	return &merged{Reader: in, report: r, about: about}, done, nil
}

type merged struct {
	capture.Reader
	report *Report
	about  capture.Session
	seq    int64
	entry  int // of which seq is next
	told   int // findings
	notes  []capture.Record
}

// Session describes the merged session.
func (m *merged) Session() *capture.Session { return &m.about }

// Next reads the next record; see [capture.Reader].
func (m *merged) Next(rec *capture.Record) error {
	if len(m.notes) > 0 {
		*rec, m.notes = m.notes[0], m.notes[1:]
		return nil
	}
	if err := m.Reader.Next(rec); err != nil || rec.Kind != capture.Frame {
		if err == io.EOF && m.seq != m.report.spans[m.report.near].seq {
			return &capture.Error{Err: capture.ErrMalformed, Detail: "it has changed while it was read, or holds several frames in one"}
		}
		return err
	}
	m.seq++
	rec.Written = time.Time{}
	r := m.report
	entries := r.x.sides[r.near].entries
	if m.entry == len(entries) || entries[m.entry].seq != m.seq {
		return nil
	}
	if b := r.x.other[r.near][m.entry]; b != 0 && r.clock.isKnown() {
		if far := r.x.sides[1-r.near].entries[b-1]; far.at != 0 {
			add, _ := r.clock.offset(entries[m.entry].at)
			rec.Written = time.Unix(0, far.at).Add(add).UTC()
		}
	}
	for ; m.told < len(r.Findings) && r.Findings[m.told].after <= m.entry; m.told++ {
		f := &r.Findings[m.told]
		m.notes = append(m.notes, capture.Record{Kind: capture.Note, Time: rec.Time, Text: capture.Between{Between: f.Name, Text: f.Text}.Note(), Frame: frame.Frame{Conn: rec.Conn}})
	}
	m.entry++
	return nil
}

// Write prints the report as text, or its findings as NDJSON.
func (r *Report) Write(out table.Output) error {
	if out.Form == table.AsText {
		_, err := io.WriteString(out.To, r.draw())
		return err
	}
	return table.Write(out, []table.Column[Finding]{}, r.Findings)
}
