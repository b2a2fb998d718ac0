package tui

import (
	"slices"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/store"
)

// A window is the time that lanes show.
type window struct {
	from, to int64
	width    int // cells
}

// window fits the time to the rows, and zooms and pans as was asked for.
func (m *Model) window(width int) window {
	w := window{width: width}
	for i := range m.page.ids.List {
		x := &m.page.ids.List[i]
		if x.Group != nil && x.Group.Head == nil {
			continue
		}
		if x.Group != nil {
			x = &store.Exchange{Opened: x.Group.Head.Opened, Closed: x.Group.Head.Over, Outcome: x.Group.Head.Outcome}
		}
		if w.from == 0 || x.Opened < w.from {
			w.from = x.Opened
		}
		w.to = max(w.to, endOf(x, m.page.now))
	}
	w.to = max(w.to, w.from+1)
	span := w.to - w.from
	for range m.ids.zoom {
		span = max(span/2, 1)
	}
	for range -m.ids.zoom {
		span *= 2
	}
	if x := m.ids.selected(m.page.ids); x != nil && m.ids.zoom > 0 && endOf(x, m.page.now) < w.to-span { // it would be out of sight
		w.to = max(x.Opened-span/8, w.from) + span
	}
	w.to += span / 4 * int64(m.ids.pan)
	w.from = w.to - span
	return w
}

// endOf returns when an exchange ended, or now if it has not.
func endOf(x *store.Exchange, now int64) int64 {
	if x.Open() {
		return now
	}
	return max(x.Closed, x.LastPart, x.Confirmed)
}

// cell returns the cell of a time, which may lie outside.
func (w window) cell(at int64) int {
	return int(float64(at-w.from) / float64(w.to-w.from) * float64(w.width-1))
}

// axis draws the scale of the lanes: the times since the beginning of the
// session, or numbers of frames.
func (m *Model) axis(l *line, w window) {
	end := l.used + w.width
	const step = 16
	var ticks []int64
	lanes := slices.ContainsFunc(m.page.ids.List, func(x store.Exchange) bool { return x.Group == nil })
	for x := 0; lanes && x+8 <= w.width; x += step {
		at := w.from + int64(float64(w.to-w.from)*float64(x)/float64(max(w.width-1, 1)))
		ticks = append(ticks, at)
	}
	for i, label := range m.tickLabels(ticks) {
		l.glyph(m.theme.Rule, "╷")
		l.left(m.theme.Dim, label, min(step-2, w.width-i*step-2))
	}
	l.pad(end - l.used)
}

// tickLabels names places on the axis, with as many digits as it takes to tell them apart.
// A place before the session, or equal to the previous one, has no name.
func (m *Model) tickLabels(at []int64) []string {
	labels, o := make([]string, len(at)), &m.page.overview
	for more := 0; more <= maxDigits; more++ {
		for i, t := range at {
			switch {
			case i > 0 && t == at[i-1]:
			case o.Timed && t >= o.First:
				labels[i] = spanTo(t-o.First, more)
			case !o.Timed && t > 0:
				labels[i] = "#" + count(t)
			}
		}
		if !repeats(labels) {
			break
		}
	}
	return labels
}

// repeats reports whether a label that is not blank equals the one before.
func repeats(labels []string) bool {
	for i := 1; i < len(labels); i++ {
		if labels[i] != "" && labels[i] == labels[i-1] {
			return true
		}
	}
	return false
}

// letters stand for roles, also where there is no colour.
var letters = [...]string{join.NoRole: " ", join.Model: "M", join.Tool: "T", join.Process: "P", join.Agent: "A", join.User: "U"}

// role returns the colour of what works in an exchange. With the critical path lit, others are faint.
func (m *Model) role(x *store.Exchange) render.Paint {
	if m.ids.lit && len(x.Path) == 0 {
		return m.theme.Dim
	}
	return m.theme.Roles[x.Role]
}

// covers reports whether one of these spans has a time. The last one may have no end yet.
func covers(spans []store.Span, w window, cell int) bool {
	return slices.ContainsFunc(spans, func(s store.Span) bool {
		return w.cell(s.From) <= cell && (s.To == 0 || cell <= w.cell(s.To))
	})
}

// free returns the widest part of a lane that an exchange leaves blank, without the cells next
// to it.
func (w window) free(x *store.Exchange, now int64) (from, to int) {
	to = w.cell(x.Opened) - 1
	if after := w.cell(endOf(x, now)) + 2; w.width-after > to {
		from, to = max(after, 0), w.width
	}
	return from, min(to, w.width)
}

// lane draws the life of an exchange over time, and a text where it leaves room.
func (m *Model) lane(l *line, x *store.Exchange, w window, said string) {
	th := m.theme
	from, to := w.free(x, m.page.now)
	end := endOf(x, m.page.now)
	begin, stop := w.cell(x.Opened), w.cell(end)
	first, last := w.cell(x.FirstPart), w.cell(x.LastPart)
	asked := -1
	if x.Cancelled {
		asked = w.cell(x.Asked)
	}
	parts := m.partsOf(x, w)
	most := 1
	for _, n := range parts {
		most = max(most, n)
	}
	paint, glyph := th.outcome(x)
	role := m.role(x)
	for c, used := 0, l.used; c < w.width; c++ {
		if c == from && said != "" {
			l.addText(th.Failed, words(said, to-from), to-from)
			l.pad(used + to - l.used)
			if c = to; c >= w.width {
				break
			}
		}
		late := x.Cancelled && c > asked
		draw := l.glyph
		if m.ids.lit && covers(x.Path, w, c) {
			draw = func(_ render.Paint, s string) { l.glyph(th.Lit, s) }
		}
		switch {
		case c == asked:
			draw(th.Cancel, glyphCancel)
		case c == stop && !x.Open() && stop > begin || c == stop && begin == stop:
			draw(paint, glyph)
		case c == stop && x.Open():
			draw(th.Open, glyphOpen)
		case c < begin || c > stop:
			l.pad(1)
		case parts[c] > 0 && late:
			draw(th.After, glyphAfter)
		case parts[c] > 0:
			draw(role, bars[min(2+parts[c]*6/most, 7)])
		case c == begin && x.Role == join.NoRole:
			draw(th.Wait, glyphBegin)
		case c == begin:
			draw(role, glyphBegin)
		case x.Parts > 0 && c > first && c < last && (late || x.Role <= join.Model):
			draw(th.Gap, glyphGap)
		case late:
			draw(th.After, glyphSilent)
		case x.Role != join.NoRole && !covers(x.Waits, w, c):
			draw(role, glyphWork)
		default:
			draw(th.Wait, glyphWait)
		}
	}
}

// headLane draws a turn or an agent over time: when something below it was at work, and how it ended.
func (m *Model) headLane(l *line, h *store.Head, w window) {
	th := m.theme
	end := h.Over
	if h.GoesOn() {
		end = m.page.now
	}
	paint, glyph := th.outcome(&store.Exchange{Outcome: h.Outcome})
	begin, stop, asked := w.cell(h.Opened), w.cell(end), w.width
	if len(h.Stops) > 0 {
		asked = w.cell(h.Stops[0].At)
	}
	role := th.Roles[join.Agent]
	for c := range w.width {
		switch {
		case c < begin || c > stop:
			l.pad(1)
		case c == stop:
			l.glyph(paint, glyph)
		case slices.ContainsFunc(h.Stops, func(s store.Stop) bool { return s.At != 0 && w.cell(s.At) == c }):
			l.glyph(th.Cancel, glyphCancel)
		case c == begin:
			l.glyph(role, glyphBegin)
		case c > asked:
			l.glyph(th.After, glyphAfter)
		case covers(h.Waits, w, c) && !covers(h.Waits, w, c-1): // the work up to here
			l.glyph(role, glyphWork)
		case covers(h.Waits, w, c):
			l.glyph(th.Wait, glyphWait)
		default:
			l.glyph(role, glyphWork)
		}
	}
}

// partsOf counts the parts of an exchange in each cell of the window. Where
// slots of time are wider than a cell their parts are spread.
func (m *Model) partsOf(x *store.Exchange, w window) []int {
	cells := make([]int, w.width)
	if x.Slot == 0 {
		return cells
	}
	for i, n := range x.Ticks {
		if n == 0 {
			continue
		}
		from := x.Opened + int64(i)*x.Slot
		a, b := w.cell(max(from, x.FirstPart)), w.cell(min(from+x.Slot-1, x.LastPart))
		b = min(b, a+int(n)-1) // no more cells than parts
		for c := max(a, 0); c <= b && c < w.width; c++ {
			cells[c] += max(int(n)/(b-a+1), 1)
		}
	}
	return cells
}
