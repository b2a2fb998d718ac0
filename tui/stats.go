package tui

import (
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// statsRows is how many kinds fit.
func (m *Model) statsRows() int { return max(m.body()-m.statsHead(), 1) }

// statsHead is how many rows stand above the kinds: the traffic, the totals, and
// three more.
func (m *Model) statsHead() int { return 4 + len(m.totals()) + 3 }

// statsView draws the traffic over time, and a row for each kind.
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
		most := int64(0)
		for _, v := range values {
			most = max(most, v)
		}
		l := newLine(m.width)
		l.pad(1)
		l.left(th.Dim, s.label, 11)
		for _, v := range values {
			l.glyph(s.paint, spark(v, most))
		}
		l.pad(1)
		l.text(th.Number, m.peak(most, len(values), s.rate), 16)
		list = append(list, l.String())
	}
	list = append(append(list, m.totals()...), m.latencies(), "", m.kindsHead())
	top := m.stats.from(m.statsRows())
	for i := top; i < min(top+m.statsRows(), len(st.Kinds)); i++ {
		l := newLine(m.width)
		m.kindRow(l, &st.Kinds[i])
		if i == m.stats.at {
			l.selected(th)
		}
		list = append(list, l.String())
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

// peak writes the greatest of the values, a second where that is known.
func (m *Model) peak(most int64, values int, rate bool) string {
	st := &m.page.stats
	if !rate || !st.Timed || values == 0 {
		return "max " + size(most)
	}
	seconds := time.Duration(st.Slot * int64(len(st.Slots)) / int64(values)).Seconds()
	return "max " + size(int64(float64(most)/seconds)) + "/s"
}

// totals draws how exchanges ended and, below it, what became of cancels.
func (m *Model) totals() []string {
	th, st := m.theme, &m.page.stats
	ends, cancels := m.tally("exchanges"), m.tally("cancels")
	for o := session.Open; o <= session.Abandoned; o++ {
		ends.addFigure(th.Number, st.Exchanges[o], o.String())
	}
	for c := session.Pending; c <= session.Silent; c++ {
		cancels.addFigure(th.Cancel, st.Cancels[c], c.String())
	}
	if !cancels.any {
		return append([]string{""}, ends.lines()...)
	}
	return append(ends.lines(), cancels.lines()...)
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
	if n == 0 {
		return
	}
	t.any = true
	number := count(n)
	if t.line.used+len(number)+1+len(what) > t.line.room {
		t.full = append(t.full, t.line.String())
		t.line = newLine(t.m.width)
		t.line.pad(1 + tallyLabel + 1)
	}
	t.line.text(paint, number, len(number))
	t.line.text(t.m.theme.Dim, " "+what+"  ", len(what)+3)
}

func (t *tally) lines() []string { return append(t.full, t.line.String()) }

// latencies draws how the latencies of the selected kind are spread.
func (m *Model) latencies() string {
	th, st := m.theme, &m.page.stats
	l := newLine(m.width)
	l.pad(1)
	l.left(th.Dim, "latency", 11)
	// The selected kind, or the next one that is answered.
	at := m.stats.at
	for at < len(st.Kinds) && st.Kinds[at].Latency.Count == 0 {
		at++
	}
	if at >= len(st.Kinds) {
		return l.String()
	}
	k := &st.Kinds[at]
	var values []int64
	most := int64(0)
	for _, n := range k.Latency.Buckets() {
		values = append(values, n)
		most = max(most, n)
	}
	first, last := 0, len(values)-1
	for first < last && values[first] == 0 {
		first++
	}
	for last > first && values[last] == 0 {
		last--
	}
	l.text(th.Dim, span(int64(k.Latency.Min))+" ", 8)
	for _, v := range values[first : last+1] {
		l.glyph(th.Part, spark(v, most))
	}
	l.text(th.Dim, " "+span(int64(k.Latency.Max)), 8)
	l.text(th.Dim, "  "+k.Name, m.width)
	return l.String()
}

func (m *Model) kindsHead() string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	l.left(th.Dim, "KIND", m.kindWidth())
	for _, name := range []string{"FRAMES", "BYTES", "P50", "P90", "P99", "MAX", "1ST"} {
		l.whole(th.Dim, name, 7)
	}
	l.whole(th.Dim, "PARTS/S", 8)
	return l.String()
}

func (m *Model) kindWidth() int { return max(12, min(40, m.width-68)) }

func (m *Model) kindRow(l *line, k *store.Kind) {
	th := m.theme
	l.pad(1)
	l.left(th.Kind, k.Name, m.kindWidth())
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
		l.whole(th.Number, size(int64(rate)), 8)
	}
}
