package tui

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// findingLines is how many rows a finding takes.
const findingLines = 2

func (m *Model) selectedFinding() *store.Finding {
	if i := m.findings.at - m.page.findings.From; i >= 0 && i < len(m.page.findings.List) {
		return &m.page.findings.List[i]
	}
	return nil
}

// findingsView draws what was found, the rule below each, and all of what is said
// about the selected one.
func (m *Model) findingsView(n int) []string {
	th := m.theme
	head := newLine(m.width)
	head.pad(1)
	head.text(th.Dim, "FINDINGS  enter jumps to the frame", m.width)
	list := []string{head.String()}
	for i := range m.page.findings.List {
		f := &m.page.findings.List[i]
		l := newLine(m.width)
		m.finding(l, f)
		if m.page.findings.From+i == m.findings.at {
			l.selected(th)
		}
		list = append(list, l.String(), m.ruleLine(f))
	}
	if f := m.selectedFinding(); f != nil {
		whole := append([]string{m.rule(f.Name)}, m.wrapped(render.Paint{}, f.Message)...)
		whole = append(whole, m.wrapped(m.theme.Dim, f.Rule+". "+f.Do)...)
		return append(padded(list, n-m.previewRows()), padded(whole, m.previewRows())...)
	}
	if len(m.page.findings.List) == 0 {
		l := newLine(m.width)
		l.pad(3)
		l.text(th.Done, glyphDone+" no rule was broken", m.width)
		list = append(list, l.String())
	}
	return padded(list, n)
}

// ruleLine says which rule a finding is about, and what to do.
func (m *Model) ruleLine(f *store.Finding) string {
	l := newLine(m.width)
	l.pad(4)
	l.text(m.theme.Dim, f.Rule+". "+f.Do, m.width)
	return l.String()
}

func (m *Model) findingLine(f *store.Finding) string {
	l := newLine(m.width)
	m.finding(l, f)
	return l.String()
}

func (m *Model) finding(l *line, f *store.Finding) {
	th := m.theme
	paint, glyph := th.Note, "i"
	switch f.Severity {
	case session.Error:
		paint, glyph = th.Error, glyphFinding
	case session.Warning:
		paint, glyph = th.Warning, glyphWarning
	}
	l.pad(1)
	l.glyph(paint, glyph)
	l.pad(1)
	l.left(paint, f.Name, 16)
	var frames []string
	for _, seq := range f.Frames {
		frames = append(frames, "#"+count(seq))
	}
	width := 18
	if m.width < 76 {
		width = 9
	}
	l.left(th.Number, strings.Join(frames, " "), width)
	l.text(render.Paint{}, f.Message, m.width)
}

// statsRows is how many kinds fit.
func (m *Model) statsRows() int { return max(m.body()-statsHead, 1) }

// statsHead is how many rows stand above the kinds.
const statsHead = 10

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
	list = append(list, "", m.totals(), m.latencies(), "")
	list = append(list, m.kindsHead())
	m.stats.move(0, len(st.Kinds), m.statsRows())
	for i := m.stats.top; i < min(m.stats.top+m.statsRows(), len(st.Kinds)); i++ {
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

// totals draws how exchanges ended and what became of cancels.
func (m *Model) totals() string {
	th, st := m.theme, &m.page.stats
	l := newLine(m.width)
	l.pad(1)
	l.left(th.Dim, "exchanges", 11)
	for o := session.Open; o <= session.Abandoned; o++ {
		if n := st.Exchanges[o]; n > 0 {
			l.text(th.Number, count(n), 12)
			l.text(th.Dim, " "+o.String()+"  ", 14)
		}
	}
	for c := session.Pending; c <= session.Silent; c++ {
		if n := st.Cancels[c]; n > 0 {
			l.text(th.Cancel, glyphCancel+" "+count(n), 12)
			l.text(th.Dim, " "+c.String()+"  ", 20)
		}
	}
	return l.String()
}

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

// peersView draws the connections, and below them what was said beside the
// frames.
func (m *Model) peersView(n int) []string {
	th, p := m.theme, &m.page.peers
	rows := min(len(p.Peers), max(n/2, 3))
	m.peers.move(0, len(p.Peers), rows)
	top := min(m.peers.top, len(p.Peers))
	shown := p.Peers[top:min(top+rows, len(p.Peers))]
	width := m.peerWidth(shown)
	head := newLine(m.width)
	head.pad(1)
	head.left(th.Dim, "CONN", 5)
	head.left(th.Dim, "WHAT", width)
	head.right(th.Dim, "→ FRAMES", 9)
	head.right(th.Dim, "BYTES", 6)
	head.right(th.Dim, "← FRAMES", 9)
	head.right(th.Dim, "BYTES", 6)
	head.left(th.Dim, "STATE", 20)
	head.text(th.Dim, "STALLS", 20)
	list := []string{head.String()}
	for i := range shown {
		l := newLine(m.width)
		m.peerRow(l, &shown[i], width)
		if top+i == m.peers.at {
			l.selected(th)
		}
		list = append(list, l.String())
	}
	list = append(list, m.rule("standard error and events · "+count(int64(p.Total))))
	room := max(n-len(list), 0)
	for _, line := range p.Lines[max(len(p.Lines)-room, 0):] {
		l := newLine(m.width)
		l.pad(1)
		if !line.Time.IsZero() {
			l.left(th.Dim, line.Time.UTC().Format("15:04:05.000"), 12)
		}
		if len(p.Peers) > 1 {
			l.right(th.ID, count(int64(line.Conn)), 4)
		}
		paint := th.Note
		if line.Kind == capture.Stderr {
			paint = render.Paint{}
		}
		l.text(paint, strings.TrimRight(line.Text, "\r\n"), m.width)
		list = append(list, l.String())
	}
	return padded(list, n)
}

// peerWidth is how wide the names of some peers are: as they need it, if there is
// room.
func (m *Model) peerWidth(shown []store.Peer) int {
	need := 10
	for i := range shown {
		need = max(need, ansi.StringWidth(m.peerName(&shown[i])))
	}
	return max(10, min(m.width-90, need))
}

func (m *Model) peerName(p *store.Peer) string {
	if p.Name == "" {
		return m.page.peers.Session.Unit
	}
	return p.Name
}

func (m *Model) peerRow(l *line, p *store.Peer, width int) {
	th := m.theme
	l.pad(1)
	l.left(th.ID, count(int64(max(p.Conn, 1))), 5)
	l.left(render.Paint{}, m.peerName(p), width)
	l.right(th.Number, count(p.Frames[frame.C2U]+p.Frames[0]), 9)
	l.right(th.Dim, size(p.Bytes[frame.C2U]+p.Bytes[0]), 6)
	l.right(th.Number, count(p.Frames[frame.U2C]), 9)
	l.right(th.Dim, size(p.Bytes[frame.U2C]), 6)
	state, paint := "open", th.Done
	switch {
	case p.Exit != "":
		state, paint = p.Exit, th.Warning
	case p.Half[frame.C2U] && p.Half[frame.U2C]:
		state, paint = "closed", th.Dim
	case p.Half[frame.C2U]:
		state, paint = "→ ended", th.Warning
	case p.Half[frame.U2C]:
		state, paint = "← ended", th.Warning
	}
	if p.Note != "" {
		state, paint = state+" "+glyphWarning, th.Warning
	}
	l.left(paint, state, 20)
	for d, arrow := range []string{"", glyphOut, glyphIn} {
		if p.Stall[d] > 0 {
			l.text(th.Warning, arrow+" "+span(int64(p.StallTotal[d]))+" ", 20)
		}
	}
	l.text(th.Warning, p.Note, m.width)
}
