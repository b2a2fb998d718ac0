package tui

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/store"
)

// statsRows is how many lines of the tables fit.
func (m *Model) statsRows() int { return max(m.body()-m.statsHead(), 1) }

// statsHead is how many rows are above the tables: the traffic, the totals, and two more.
func (m *Model) statsHead() int { return 4 + len(m.totals()) + 2 }

// A statLine is a line of the tables: of a name, of a kind, or of neither.
type statLine struct {
	name *stats.Name
	kind *store.Kind
	draw func(*line)
}

func (s *statLine) selectable() bool { return s.name != nil || s.kind != nil }

// A statKey says which line it is, wherever it is in the tables.
type statKey struct{ protocol, kind, name string }

func (s *statLine) key() (k statKey) {
	switch {
	case s.name != nil:
		return statKey{s.name.Protocol, s.name.Kind, s.name.Name}
	case s.kind != nil:
		return statKey{protocol: s.kind.Protocol, kind: s.kind.Name}
	}
	return k
}

// keepStat keeps the chosen line selected, and where it is on the screen, when there are more
// lines, or others come first.
func (m *Model) keepStat() {
	if m.chosen == (statKey{}) {
		return
	}
	for i, l := range m.statLines() {
		if l.key() == m.chosen {
			m.stats.at, m.stats.top = i, max(m.stats.top+i-m.stats.at, 0)
			return
		}
	}
}

// statLines returns the tables: models, names, and the kinds of messages.
func (m *Model) statLines() (list []statLine) {
	st := &m.page.stats
	if len(st.Models) > 0 {
		list = append(list, statLine{draw: m.modelsHead})
		for i := range st.Models {
			list = append(list, statLine{draw: func(l *line) { m.modelRow(l, &st.Models[i]) }})
		}
		list = append(list, statLine{draw: func(*line) {}})
	}
	if len(st.Names) > 0 {
		list = append(list, statLine{draw: m.namesHead})
		for i := range st.Names {
			n := &st.Names[i]
			list = append(list, statLine{name: n, draw: func(l *line) { m.nameRow(l, n) }})
		}
		if st.Tools != nil {
			list = append(list, statLine{draw: m.definitions})
		}
		list = append(list, statLine{draw: func(*line) {}})
	}
	list = append(list, statLine{draw: m.kindsHead})
	for i := range st.Kinds {
		k := &st.Kinds[i]
		list = append(list, statLine{kind: k, draw: func(l *line) { m.kindRow(l, k) }})
	}
	return list
}

// moveInStats moves in the tables, past their headings.
func (m *Model) moveInStats(by int) {
	lines, n := m.statLines(), m.statsRows()
	m.stats.move(by, 0, len(lines), n)
	step := 1
	if by < 0 {
		step = -1
	}
	for range 2 { // there may be none in that direction
		for at := m.stats.at; at >= 0 && at < len(lines); at += step {
			if lines[at].selectable() {
				m.stats.move(at-m.stats.at, 0, len(lines), n)
				if at == 1 {
					m.stats.top = 0
				}
				m.chosen = lines[at].key()
				return
			}
		}
		step = -step
	}
}

// selectedStat returns the selected line, or the next one if that is a heading.
func (m *Model) selectedStat() (statLine, int) {
	lines := m.statLines()
	for at := m.stats.at; at < len(lines); at++ {
		if lines[at].selectable() {
			return lines[at], at
		}
	}
	return statLine{}, -1
}

// statsView draws the traffic over time, and a row for each name and each kind.
func (m *Model) statsView(n int) []string {
	th, st := m.theme, &m.page.stats
	var list []string
	width := max(m.width-30, 10)
	for _, s := range []struct {
		label string
		paint render.Paint
		of    func(*store.Traffic) int64
		rate  bool
	}{
		{"frames out", th.C2U, func(t *store.Traffic) int64 { return t.Frames[frame.C2U] + t.Frames[0] }, true},
		{"frames in", th.U2C, func(t *store.Traffic) int64 { return t.Frames[frame.U2C] }, true},
		{"bytes", th.Number, func(t *store.Traffic) int64 { return t.Bytes[0] + t.Bytes[1] + t.Bytes[2] }, true},
		{"in flight", th.Open, func(t *store.Traffic) int64 { return t.InFlight }, false},
	} {
		values := resample(st.Slots, width, s.of, !s.rate)
		most := slices.Max(values)
		l := newLine(m.width)
		l.pad(1)
		l.left(th.Dim, s.label, 11)
		for _, v := range values {
			l.glyph(s.paint, spark(v, most))
		}
		l.pad(1)
		l.addText(th.Number, m.peak(most, len(values), s.rate), 16)
		list = append(list, l.String())
	}
	list = append(append(list, m.totals()...), m.latencies(), "")
	lines, top := m.statLines(), m.stats.from(m.statsRows())
	_, at := m.selectedStat()
	for i := top; i < min(top+m.statsRows(), len(lines)); i++ {
		list = append(list, m.row(i == at, lines[i].draw))
	}
	return padded(list, n)
}

// spark is the bar of a value.
func spark(v, most int64) string {
	if v == 0 || most == 0 {
		return " "
	}
	return bars[min(int(v*int64(len(bars))/(most+1)), len(bars)-1)]
}

// resample makes a row of that many values: sums, or greatest values.
func resample(slots []store.Traffic, width int, of func(*store.Traffic) int64, greatest bool) []int64 {
	values := make([]int64, min(width, max(len(slots), 1)))
	for i := range slots {
		v := &values[i*len(values)/len(slots)]
		if x := of(&slots[i]); greatest {
			*v = max(*v, x)
		} else {
			*v += x
		}
	}
	return values
}

// peak writes the greatest of the values, per second if times are known.
func (m *Model) peak(most int64, values int, rate bool) string {
	st := &m.page.stats
	if !rate || !st.Timed || values == 0 {
		return "max " + size(most)
	}
	seconds := time.Duration(st.Slot * int64(len(st.Slots)) / int64(values)).Seconds()
	return "max " + size(int64(float64(most)/seconds)) + "/s"
}

// totals draws how exchanges ended and, below it, how cancels turned out, and the tokens
// that were used, with their cost.
func (m *Model) totals() []string {
	th, st := m.theme, &m.page.stats
	ends, cancels := m.tally("exchanges"), m.tally("cancels")
	for o := session.Open; o <= session.Abandoned; o++ {
		paint := th.Number
		if o.Failed() {
			paint = th.Failed
		}
		ends.addFigure(paint, st.Exchanges[o], o.String())
	}
	for c := session.Pending; c <= session.Silent; c++ {
		cancels.addFigure(th.Cancel, st.Cancels[c], c.String())
	}
	tokens := m.tally("tokens")
	tokens.addFigure(th.Number, st.Usage.Input, "input")
	tokens.addFigure(th.Number, st.Usage.Cached, "cached")
	tokens.addFigure(th.Number, st.Usage.Output, "output")
	if st.Usage.IsUnclear() {
		tokens.addFigure(th.Number, st.Usage.Perhaps.Input+st.Usage.Perhaps.Output, "more perhaps")
	}
	if st.Usage.Cost > 0 {
		tokens.add(th.Number, render.Dollars(st.Usage.Cost), "cost")
	}
	list := ends.lines()
	if cancels.any {
		list = append(list, cancels.lines()...)
	}
	if tokens.any {
		list = append(list, tokens.lines()...)
	}
	if len(list) == 1 {
		return append([]string{""}, list...)
	}
	return list
}

// A tally counts things of several kinds, in as many lines as it takes.
type tally struct {
	m    *Model
	line *line
	full []string
	any  bool
}

const tallyLabel = 11

func (m *Model) tally(label string) *tally {
	t := &tally{m: m, line: newLine(m.width)}
	t.line.pad(1)
	t.line.left(m.theme.Dim, label, tallyLabel)
	return t
}

func (t *tally) addFigure(paint render.Paint, n int64, what string) {
	if n != 0 {
		t.add(paint, count(n), what)
	}
}

func (t *tally) add(paint render.Paint, number, what string) {
	t.any = true
	if t.line.used+len(number)+1+len(what) > t.line.room {
		t.full = append(t.full, t.line.String())
		t.line = newLine(t.m.width)
		t.line.pad(1 + tallyLabel + 1)
	}
	t.line.addText(paint, number, len(number))
	t.line.addText(t.m.theme.Dim, " "+what+"  ", len(what)+3)
}

func (t *tally) lines() []string { return append(t.full, t.line.String()) }

// latencies draws the distribution of the latencies of the selected kind, or of the kind of
// the selected name.
func (m *Model) latencies() string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	l.left(th.Dim, "latency", 11)
	k := m.answeredKind()
	if k == nil {
		return ""
	}
	var values []int64 // from the first to the last that is not 0
	for _, n := range k.Latency.Buckets() {
		if n > 0 || len(values) > 0 {
			values = append(values, n)
		}
	}
	for values[len(values)-1] == 0 { // k has answers
		values = values[:len(values)-1]
	}
	bars := make([]int64, min(len(values), max(m.width-l.used-18-len(k.Name), 8)))
	for i, n := range values {
		bars[i*len(bars)/len(values)] += n
	}
	most := slices.Max(bars)
	l.addText(th.Dim, span(int64(k.Latency.Min))+" ", 8)
	for _, v := range bars {
		l.glyph(th.Part, spark(v, most))
	}
	l.addText(th.Dim, " "+span(int64(k.Latency.Max)), 8)
	l.addText(th.Dim, "  "+k.Name, m.width)
	return l.String()
}

// answeredKind returns the kind that is selected or that the selection belongs to, or the
// next one that has answers; nil if there is none.
func (m *Model) answeredKind() *store.Kind {
	kinds := m.page.stats.Kinds
	selected, _ := m.selectedStat()
	at := slices.IndexFunc(kinds, func(k store.Kind) bool {
		return selected.kind != nil && k.Protocol == selected.kind.Protocol && k.Name == selected.kind.Name ||
			selected.name != nil && k.Protocol == selected.name.Protocol && k.Name == selected.name.Kind
	})
	for at = max(at, 0); at < len(kinds); at++ {
		if kinds[at].Latency.Count > 0 {
			return &kinds[at]
		}
	}
	return nil
}

func (m *Model) namesHead(l *line) {
	th := m.theme
	m.statName(l, th.Dim, "NAME", m.page.widths.names)
	l.right(th.Dim, "CALLS", 7)
	l.right(th.Dim, "ERRORS", 6)
	l.columns(th.Dim, "P50", "P99", "BYTES", "~TOKENS")
	if m.page.stats.Tools != nil {
		l.columns(th.Dim, "DEFINED")
	}
	m.nameKind(l, "KIND")
}

// nameKind draws the last column, if there is room for the longest.
func (m *Model) nameKind(l *line, kind string) {
	if l.used+1+m.page.widths.nameKinds <= l.room {
		l.pad(1)
		l.addText(m.theme.Dim, kind, l.room)
	}
}

// statWidths are the longest names of the tables, in characters.
type statWidths struct{ names, nameKinds, models, kinds int }

func widthsOf(s *store.Stats) (w statWidths) {
	for i := range s.Names {
		w.names = max(w.names, utf8.RuneCountInString(s.Names[i].Name))
		w.nameKinds = max(w.nameKinds, utf8.RuneCountInString(s.Names[i].Kind))
	}
	for i := range s.Models {
		w.models = max(w.models, utf8.RuneCountInString(s.Models[i].Name))
	}
	for i := range s.Kinds {
		w.kinds = max(w.kinds, utf8.RuneCountInString(s.Kinds[i].Name))
	}
	return w
}

// statName draws the name in a row of a table whose longest name is that long. The last
// columns of a table are left out before a name is cut.
func (m *Model) statName(l *line, paint render.Paint, name string, longest int) {
	l.pad(1)
	l.name(paint, name, max(12, min(longest, m.width-17)))
}

// columns draws columns of 7 cells, as long as they fit.
func (l *line) columns(paint render.Paint, texts ...string) {
	for _, text := range texts {
		l.whole(paint, text, 7)
	}
}

// nameRow draws the row of a name. Tokens are estimates.
func (m *Model) nameRow(l *line, n *stats.Name) {
	th := m.theme
	m.statName(l, th.Kind, n.Name, m.page.widths.names)
	l.right(th.Number, count(n.Calls), 7)
	l.right(th.Failed, number(n.Errors), 6)
	p50, p99 := "", ""
	if q := n.Latency; q != nil {
		p50, p99 = span(int64(q.P50)), span(int64(q.P99))
	}
	l.columns(render.Paint{}, p50, p99)
	bytes, tokens := "", ""
	if n.Calls > 0 {
		bytes, tokens = size(n.ResultBytes), "~"+size(n.ResultTokens)
	}
	l.whole(th.Number, bytes, 7)
	l.whole(th.Dim, tokens, 7)
	if defined := ""; m.page.stats.Tools != nil {
		if n.DefinitionBytes > 0 {
			defined = size(n.DefinitionBytes)
		}
		l.whole(th.Number, defined, 7)
	}
	m.nameKind(l, n.Kind)
}

func (m *Model) modelsHead(l *line) {
	th := m.theme
	m.statName(l, th.Dim, "MODEL", m.page.widths.models)
	l.right(th.Dim, "CALLS", 7)
	l.right(th.Dim, "ERRORS", 6)
	l.columns(th.Dim, "IN", "CACHED", "OUT", "FIRST", "TOK/S", "COST")
}

// modelRow draws the row of a model. FIRST is the median time to the first token.
func (m *Model) modelRow(l *line, x *stats.Model) {
	th := m.theme
	m.statName(l, th.Kind, x.Name, m.page.widths.models)
	l.right(th.Number, count(x.Calls), 7)
	l.right(th.Failed, number(x.Errors), 6)
	first, rate, cost := "", "", ""
	if q := x.FirstPart; q != nil {
		first = span(int64(q.P50))
	}
	if x.TokensPerSecond > 0 {
		rate = strconv.FormatFloat(x.TokensPerSecond, 'f', 0, 64)
	}
	if x.Cost > 0 {
		cost = render.Dollars(int64(x.Cost))
	}
	l.columns(th.Number, size(x.Usage.Input), size(x.Usage.Cached), size(x.Usage.Output), first, rate, cost)
}

// definitions draws how much the definitions of tools take.
func (m *Model) definitions(l *line) {
	t := m.page.stats.Tools
	l.pad(1)
	l.addText(m.theme.Bold, "sent with every conversation: "+count(t.Count)+" "+plural(t.Count, "tool", "tools")+", "+size(t.Bytes)+" bytes, ~"+size(t.Tokens)+" tokens", l.room)
	l.addText(m.theme.Dim, "  (~ is an estimate: bytes/4)", l.room)
}

func (m *Model) kindsHead(l *line) {
	th := m.theme
	m.statName(l, th.Dim, "KIND", m.page.widths.kinds)
	l.columns(th.Dim, "FRAMES", "BYTES", "P50", "P90", "P99", "MAX", "1ST")
	l.whole(th.Dim, "PARTS/S", 8)
}

func (m *Model) kindRow(l *line, k *store.Kind) {
	th := m.theme
	m.statName(l, th.Kind, k.Name, m.page.widths.kinds)
	l.right(th.Number, count(k.Frames), 7)
	l.right(th.Dim, size(k.Bytes), 7)
	quantile := func(h *session.Histogram, q float64) {
		text := ""
		if h.Count > 0 && m.page.stats.Timed {
			text = span(int64(h.Quantile(q)))
		}
		l.whole(render.Paint{}, text, 7)
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 1} {
		quantile(&k.Latency, q)
	}
	quantile(&k.FirstPart, 0.5)
	if rate := k.PartsPerSecond(); rate > 0 {
		text := strconv.FormatFloat(rate, 'f', 1, 64)
		if rate >= 100 {
			text = size(int64(rate))
		}
		l.whole(th.Number, text, 8)
	}
}
