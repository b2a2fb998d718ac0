package tui

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/store"
)

// idsState is the state of the list of exchanges.
type idsState struct {
	sort     store.Sort
	group    store.Grouping
	folds    store.Folds
	unfolded store.Folds // operations
	cut      store.Folds // rows of the tree of a run that are folded
	grouped  bool        // by the user
	tail     bool        // the last one of the tree is selected, and the next will be
	openOnly bool
	at       store.Spot // the selected one; zero is the first, whichever it is
	chosen   bool       // the user moved to it: it stays selected when it is the first, or the last of a tree
	moved    int        // since the last page
	line     int        // of the screen that it is on
	lit      bool       // the critical path is
	zoom     int        // doublings of the scale
	pan      int        // in quarters of the window
	widest   int        // the widest name of the tree so far, with its place, in cells
	conn     int        // and of a connection
	wire     int        // and of a wire
}

// query asks for n rows after the last page.
func (st *idsState) query(n int, last store.IDs) store.IDsQuery {
	q := store.IDsQuery{
		Sort: st.sort, Group: st.group, Folds: st.folds.Clone(), Unfolded: st.unfolded.Clone(), Cut: st.cut.Clone(), OpenOnly: st.openOnly,
		At: st.at, Move: st.moved, Line: st.line, N: n,
	}
	switch i := st.line + st.moved; {
	case st.tail:
		q.Move = farAway
	case st.moved == 0 || len(last.List) == 0:
	case i >= 0 && i < len(last.List): // the row that the user sees, wherever it is now
		q.At, q.Move, q.Line = last.List[i].Spot(), 0, i
	default:
		q.At = last.At
	}
	return q
}

// move moves the selection. The first row, or the last of a tree, is followed after the key
// for it, or after a key that would go beyond it.
func (st *idsState) move(by int, p store.IDs) {
	if st.moved == 0 {
		beyond := by < 0 && p.Index == 0 || by > 0 && st.group == store.GroupRun && p.Index == p.Total-1
		st.chosen = by != farAway && by != -farAway && !beyond
	}
	st.moved += by
	st.tail = false
}

// settle copies the selection of the store. If nothing was chosen, the first row stays
// selected as the first, so that the newest is, unless the screen is frozen.
func (st *idsState) settle(p store.IDs, frozen bool) {
	if p.Total == 0 {
		return
	}
	st.at, st.moved, st.line = p.At, 0, p.Index-p.Top
	for i := range p.List {
		if x := &p.List[i]; x.Group == nil {
			st.widest, st.conn, st.wire = max(st.widest, treeWidth(x)), max(st.conn, ansi.StringWidth(x.Peer)), max(st.wire, ansi.StringWidth(x.Wire))
		}
	}
	free := !st.chosen && !frozen
	st.tail = free && st.group == store.GroupRun && p.Index == p.Total-1
	if free && p.Index == 0 {
		st.at = store.Spot{}
	}
}

// fold folds the rows below the selected heading or operation, or unfolds them. If the
// selected row is below one, that is folded.
func (st *idsState) fold(p store.IDs) {
	i := p.Index - p.Top
	if i < 0 || i >= len(p.List) {
		return
	}
	switch x := &p.List[i]; {
	case x.Group != nil:
		st.folds.Turn(x.Group.Number)
	case st.group == store.GroupRun:
		st.foldTree(x)
	case x.Operation != 0:
		st.unfolded.Turn(x.Operation)
		st.at = store.Spot{Number: x.Operation}
		st.line = max(st.line-1, 0)
	case x.Joined > 0:
		st.unfolded.Turn(x.Mark)
	case st.group != store.Ungrouped:
		st.folds.Turn(x.Within)
		st.at = store.Spot{Number: x.Within, Heading: true}
		st.line = max(st.line-1, 0)
	}
}

// foldAll folds or unfolds all groups, or all operations if there are no groups.
func (st *idsState) foldAll() {
	of := &st.folds
	switch st.group {
	case store.Ungrouped:
		of = &st.unfolded
	case store.GroupRun:
		of = &st.cut
	}
	*of = store.Folds{All: !of.All && len(of.But) == 0}
}

// selected returns the selected exchange; nil if that is a heading.
func (st *idsState) selected(p store.IDs) *store.Exchange {
	if i := p.Index - p.Top; i >= 0 && i < len(p.List) && p.List[i].Group == nil {
		return &p.List[i]
	}
	return nil
}

// head returns the selected turn or agent; nil if the selected row is none.
func (st *idsState) head(p store.IDs) *store.Head {
	if i := p.Index - p.Top; i >= 0 && i < len(p.List) && p.List[i].Group != nil {
		return p.List[i].Group.Head
	}
	return nil
}

func (m *Model) idsKey(k tea.KeyMsg) tea.Cmd {
	keys, st := &m.keys, &m.ids
	if by, ok := movement(&m.keys, k, m.rows()); ok {
		return m.move(by)
	}
	switch {
	case key.Matches(k, keys.Open):
		return m.openSelected()
	case key.Matches(k, keys.Sort) && st.group == store.GroupRun:
		m.notice = "by run, the oldest stay first (b changes the grouping)"
		return nil
	case key.Matches(k, keys.Sort):
		st.sort = st.sort.Next()
		m.notice = st.sort.String() + " first"
		s, chosen := m.store, st.sort
		return m.change(func() { s.KeepSort(chosen) })
	case key.Matches(k, keys.Group):
		st.group, st.folds, st.grouped, st.tail = st.group.Next(), store.Folds{}, true, false
		m.notice = "grouped by " + st.group.String()
	case key.Matches(k, keys.Fold):
		st.fold(m.page.ids)
	case key.Matches(k, keys.FoldAll):
		st.foldAll()
	case key.Matches(k, keys.Path) && m.page.overview.Joins:
		st.lit = !st.lit
		st.group, st.grouped = store.GroupRun, true
	case key.Matches(k, keys.Live):
		st.openOnly = !st.openOnly
		st.at, st.line, st.chosen = store.Spot{}, 0, false
	case key.Matches(k, keys.Wider):
		st.zoom = min(st.zoom+1, 40)
	case key.Matches(k, keys.Narrower):
		st.zoom = max(st.zoom-1, -20)
	case key.Matches(k, keys.Left):
		st.pan--
	case key.Matches(k, keys.Right):
		st.pan++
	case key.Matches(k, keys.Fit):
		st.zoom, st.pan = 0, 0
	case key.Matches(k, keys.Cancel) && m.selectsRun():
		return m.interrupt(m.page.ids)
	default:
		return m.exchangeKey(k, st.selected(m.page.ids))
	}
	return m.askStore()
}

// minLane is the least width of lanes beside long names.
const minLane = 8

// columns are the widths of the table.
type idColumns struct {
	conn, wire, fold, id, kind, lane, parts, bytes, latency, outcome int
}

func (m *Model) idColumns() idColumns {
	c := idColumns{id: 10, kind: 22, parts: 6, bytes: 6, latency: 7, outcome: 20}
	switch {
	case m.width >= 76 && m.width < 90:
		c = idColumns{id: 9, kind: 14, latency: 6, outcome: 13}
	case m.width < 76:
		c = idColumns{id: 6, kind: 14, latency: 6, outcome: 13}
	case m.width < 130:
		c = idColumns{id: 8, kind: 20, parts: 5, bytes: 5, latency: 6, outcome: 17}
	case m.width > 180:
		c.kind, c.id = 30, 16
	}
	if o := &m.page.overview; o.Conns > 1 && m.width >= 100 && m.ids.group != store.GroupConn {
		c.conn = max(4, min(m.ids.conn, m.width/5))
	}
	if m.page.overview.Joined > 0 {
		c.fold = 2
	}
	if m.ids.group == store.GroupRun { // names are in a tree, with their places
		c.kind, c.id, c.fold, c.conn = c.kind+c.id+6, 0, 0, 0
		if m.page.overview.Joins && m.width >= 100 {
			c.wire = min(m.ids.wire, 16)
		}
	}
	c.kind = max(c.kind, min(m.page.overview.Longest, m.width/3))
	used := c.fold
	for _, w := range []int{c.conn, c.wire, c.id, c.kind, c.parts, c.bytes, c.latency, c.outcome} {
		if w > 0 {
			used += w + 1
		}
	}
	// A name is cut only if it would leave no room for its lane. So is a prompt, whose lane
	// is wider on a large screen.
	c.lane = max(m.width-used-5, 8)
	more := min(m.page.overview.Longest-c.kind, c.lane-minLane)
	if m.ids.group == store.GroupRun {
		more = min(m.ids.widest-c.kind, c.lane-minLane-max(m.width-80, 0)/3)
	}
	if more > 0 {
		c.kind, c.lane = c.kind+more, c.lane-more
	}
	return c
}

// wide reports whether the screen has room for the payload at the right of the frames.
func (m *Model) wide() bool { return m.width >= 160 }

// split draws two things side by side in n rows, of which the left one has so many cells.
func (m *Model) split(room, n int, left, right func() []string) []string {
	all, rule := m.width, m.theme.Rule.On+"│"+m.theme.Rule.Off
	defer func() { m.width = all }()
	m.width = room
	rows := padded(left(), n)
	m.width = all - room - 1
	for i, row := range padded(right(), n) {
		rows[i] += strings.Repeat(" ", room-ansi.StringWidth(rows[i])) + rule + row
	}
	return rows
}

// idsView draws the exchanges.
func (m *Model) idsView(n int) []string {
	c := m.idColumns()
	w := m.window(c.lane)
	list := []string{m.idsHead(c, w)}
	for i := range m.page.ids.List {
		x := &m.page.ids.List[i]
		draw := func(l *line) { m.idRow(l, x, c, w) }
		switch {
		case x.Group != nil && x.Group.Head != nil:
			draw = func(l *line) { m.headRow(l, x, c, w) }
		case x.Group != nil:
			draw = func(l *line) { m.groupRow(l, x.Group, c) }
		}
		list = append(list, m.row(i == m.page.ids.Index-m.page.ids.Top, draw))
	}
	if len(m.page.ids.List) == 0 {
		list = append(list, m.noExchange())
	}
	return padded(list, n+1)
}

// noExchange says why there is no row.
func (m *Model) noExchange() string {
	yet, filtered := "no call yet", "no call matches the filter"
	if m.ids.openOnly && m.page.overview.Exchanges > 0 {
		yet = "nothing is in flight (" + m.keys.Live.Help().Key + " shows the others)"
		filtered = yet
	}
	return m.nothing(yet, filtered)
}

func (m *Model) idsHead(c idColumns, w window) string {
	th := m.theme
	l := newLine(m.width)
	l.pad(3)
	l.pad(c.fold)
	l.left(th.Dim, "NAME", c.kind)
	l.left(th.Dim, "ID", c.id)
	l.left(th.Dim, "CONN", c.conn)
	l.left(th.Dim, "WIRE", c.wire)
	m.axis(l, w)
	l.pad(1)
	l.right(th.Dim, "PARTS", c.parts)
	l.right(th.Dim, "BYTES", c.bytes)
	took := "TOOK"
	if m.ids.lit {
		took = "PATH"
	}
	l.right(th.Dim, took, c.latency)
	l.left(th.Dim, "OUTCOME", c.outcome)
	return l.String()
}

func (m *Model) idRow(l *line, x *store.Exchange, c idColumns, w window) {
	th := m.theme
	paint, glyph := th.outcome(x)
	switch {
	case x.Note != "":
		l.glyph(th.Marked, glyphMark)
	case x.Findings > 0:
		l.glyph(th.Error, glyphFinding)
	default:
		l.pad(1)
	}
	if m.ids.group == store.GroupRun && m.page.overview.Joins && x.Role != join.NoRole {
		m.letter(l, x)
	} else {
		arrow(l, th, x.Opener)
	}
	l.pad(1)
	if c.fold > 0 {
		m.foldMark(l, x)
	}
	said := "" // why it failed, if it fits better on the lane than after the name
	if from, to := w.free(x, m.page.now); x.Outcome.Failed() && to-from > c.kind-ansi.StringWidth(render.Safe(cmp.Or(x.Name, x.Kind)))-2*x.Level {
		short := *x
		said, short.Failure, short.Reason = whyOf(x), session.Failure{}, ""
		x = &short
	}
	if m.ids.group == store.GroupRun {
		m.treeName(l, x, c.kind)
	} else {
		end := l.used + c.kind + 1 + c.id + 1 // a name is cut only if it needs more
		name, id := ansi.StringWidth(render.Safe(cmp.Or(x.Name, x.Kind))), min(ansi.StringWidth(render.Safe(idOf(x.ID))), leastID)
		l.named(th, th.Kind, x, max(min(c.kind, end-l.used-1), min(name, end-l.used-id-2)))
		l.left(th.ID, idOf(x.ID), max(end-l.used-1, 0))
		l.pad(end - l.used)
	}
	l.name(th.Dim, x.Peer, c.conn)
	l.name(th.Dim, x.Wire, c.wire)
	m.lane(l, x, w, said)
	l.pad(1)
	l.right(th.Number, number(x.Parts), c.parts)
	l.right(th.Dim, size(x.In+x.Out), c.bytes)
	if m.ids.lit {
		l.right(th.Bold, m.onPath(x), c.latency)
	} else {
		l.right(render.Paint{}, m.took(x), c.latency)
	}
	l.glyph(paint, glyph)
	l.pad(1)
	name := x.OutcomeName()
	if after := " +" + count(x.After); x.After > 0 && len(name)+len(after) <= c.outcome-2 {
		name += after
	}
	l.left(paint, name, c.outcome-2)
}

// leastID is what a long name leaves of an id, in cells.
const leastID = 6

// foldMark draws in two cells whether other exchanges belong to an exchange, or whether it
// belongs to the one above and that is a guess.
func (m *Model) foldMark(l *line, x *store.Exchange) {
	th := m.theme
	switch {
	case x.Operation != 0:
		l.glyph(th.Dim, glyphBelow)
		if x.Guessed {
			l.glyph(th.Warning, glyphGuessed)
			return
		}
	case x.Joined == 0:
		l.pad(1)
	case m.ids.unfolded.Has(x.Mark):
		l.glyph(th.Key, glyphUnfolded)
	default:
		l.glyph(th.Key, glyphFolded)
	}
	l.pad(1)
}

// groupRow draws the heading of a group, with the counts of its exchanges.
func (m *Model) groupRow(l *line, g *store.Group, c idColumns) {
	th := m.theme
	if g.Folded {
		l.glyph(th.Key, glyphFolded)
	} else {
		l.glyph(th.Key, glyphUnfolded)
	}
	l.pad(1)
	name := g.Name
	if name == "" {
		name = "(no kind)"
	}
	width := c.conn + c.fold + c.id + c.kind + 2
	if m.ids.group == store.GroupRun || m.width < 100 { // then it need not line up with others
		width = min(width, render.Cells([]byte(name))+1)
	}
	l.left(th.Title, name, width)
	for _, s := range []struct {
		n     int64
		paint render.Paint
		glyph string
		what  string
	}{
		{g.Total, th.Bold, "", plural(g.Total, "call", "calls")},
		{g.Open, th.Open, glyphOpen, "in flight"},
		{g.Cancelled, th.Cancel, glyphCancel, "cancelled"},
		{g.Failed, th.Failed, glyphFailed, "failed"},
		{g.Found, th.Warning, glyphFinding, plural(g.Found, "finding", "findings")},
	} {
		if s.n == 0 {
			continue
		}
		text := count(s.n) + " " + s.what
		if l.used+len(text)+4 > l.room {
			return
		}
		if s.glyph != "" {
			l.glyph(s.paint, s.glyph)
			l.pad(1)
		}
		l.addText(s.paint, text, l.room)
		l.pad(2)
	}
	if l.used+12 < l.room {
		l.addText(th.Dim, size(g.Bytes)+" bytes", 12)
	}
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// named appends the name of an exchange, and its kind if there is room; only its kind if it
// has no name.
func (l *line) named(th *theme, paint render.Paint, x *store.Exchange, width int) {
	end := l.used + width + 1
	l.addText(paint, middle(cmp.Or(x.Name, x.Kind), width), width)
	if room := end - l.used - 2; room > 2 {
		l.pad(1)
		l.addText(th.Dim, words(moreOf(x, room), room), room)
	}
	l.pad(end - l.used)
}

// moreOf returns the text after the name of an exchange, in so many cells: the end of its
// model's answer, or the tools that the model called and why it stopped, or else the kind.
func moreOf(x *store.Exchange, cells int) string {
	switch m := &x.Model; {
	case x.Asks != "":
		return x.Asks
	case x.Outcome.Failed() && whyOf(x) != "":
		return whyOf(x)
	case x.Own != "":
		return "for itself: " + x.Own
	case m.Said != "":
		return lastCells(m.Said, cells)
	case len(m.ToolCalls) > 0:
		text := "→ " + strings.Join(m.ToolCalls, " ")
		if full := text + " " + m.StopReason; render.Cells([]byte(full)) <= cells {
			return full
		}
		return text
	case x.Arguments != "" && cells >= minArguments:
		return x.Arguments
	case m.StopReason != "":
		return m.StopReason
	case x.Name != "" && render.Cells([]byte(x.Kind)) <= cells:
		return x.Kind
	}
	return ""
}

// minArguments is how much room arguments need to say more than the kind does.
const minArguments = 16

// whyOf returns why an exchange failed; "" if that is unknown.
func whyOf(x *store.Exchange) string { return x.Explain(x.Outcome, x.Reason, x.Model.StopReason) }

// lastCells returns the end of a text on one line that takes so many cells.
func lastCells(text string, cells int) string {
	text = render.Safe(strings.Join(strings.Fields(text), " "))
	for text != "" && render.Cells([]byte(text)) > cells {
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	return text
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return count(n)
}

// idsOf returns the id of a frame and the one that it refers to.
func idsOf(f *store.Frame) string {
	switch {
	case f.Ref == "":
		return idOf(f.ID)
	case f.ID == "":
		return glyphOut + idOf(f.Ref)
	}
	return idOf(f.ID) + glyphOut + idOf(f.Ref)
}

// idOf writes an id without the quotes of JSON.
func idOf(id string) string {
	if len(id) > 1 && id[0] == '"' && id[len(id)-1] == '"' {
		id = id[1 : len(id)-1]
	}
	if place := store.PlaceOf(id); place != "" {
		return place
	}
	if id == "" {
		return "·"
	}
	return id
}

// took is how long an exchange took, or has taken so far.
func (m *Model) took(x *store.Exchange) string {
	if !m.page.overview.Timed || !x.Open() && x.In == 0 && x.Closed == x.Opened {
		return "" // or nothing had to come
	}
	return span(x.Ended(m.page.now) - x.Opened)
}

func arrow(l *line, th *theme, d frame.Dir) {
	switch d {
	case frame.C2U:
		l.glyph(th.C2U, glyphOut)
	case frame.U2C:
		l.glyph(th.U2C, glyphIn)
	default:
		l.pad(1)
	}
}

// outcome returns how the end of an exchange is drawn.
func (th *theme) outcome(x *store.Exchange) (render.Paint, string) {
	if x.Cancelled && x.Class != session.Confirmed && x.Outcome != session.TimedOut && x.Outcome != session.Died {
		switch x.Class {
		case session.Crossed, session.LateResult, session.Ignored:
			return th.After, glyphCancel
		case session.Silent:
			if !x.Outcome.Stopped() {
				return th.Silent, glyphSilent
			}
		case session.Pending:
			if x.Open() {
				return th.Cancel, glyphCancel
			}
		}
	}
	switch x.Outcome {
	case session.Done, session.Probe:
		return th.Done, glyphDone
	case session.Failed, session.ToolError, session.TimedOut, session.Died:
		return th.Failed, glyphFailed
	case session.Cancelled:
		return th.Cancelled, glyphStopped
	case session.Abandoned:
		return th.Silent, glyphLost
	}
	return th.Open, glyphOpen
}

// minPreview is the least height of a screen that has room for details.
const minPreview = 20

// previewRows is how many rows below a list show details of the selected row: the frames of
// an exchange, the whole text of a finding.
func (m *Model) previewRows() int {
	n, list := int64(m.page.ids.Total), m.body()-1
	switch {
	case m.detail != nil:
		return 0
	case m.view == viewFindings:
		return min(m.body()/2, 8)
	case m.view == viewFrames && !m.wide():
		n = m.page.frames.Total
	case m.view != viewIDs:
		return 0
	}
	least := m.body() / 3
	switch h := m.ids.head(m.page.ids); {
	case m.height >= 44:
		least = m.body() / 2
	case m.height >= minPreview:
	case m.view == viewIDs && h != nil && len(h.Stops) > 0:
		return min(len(h.Stops)+1, m.body()/2)
	default:
		return 0
	}
	if n > 0 && n < int64(list) { // the list leaves rows free
		return max(least, list-int(n))
	}
	return least
}

// exchangeTitle names an exchange: slow_tool · tools/call · 3.
func exchangeTitle(x *store.Exchange) string {
	title := x.Kind
	if x.Name != "" {
		title = x.Name + " · " + title
	}
	if x.ID != "" {
		title += " · " + idOf(x.ID)
	}
	return title
}

// facts returns the facts about an exchange that have no column: why it ended, which
// version it is judged by, its usage, and the operation it belongs to.
func (m *Model) facts(x *store.Exchange) string {
	var list []string
	if x.Assumed {
		list = append(list, x.Outcome.String()+" is a guess: an answer to another may be for this, too")
	}
	if x.Outcome.Inferred() {
		list = append(list, x.Outcome.String()+" is inferred from the reason of its cancel")
	}
	if why := whyOf(x); why != "" && why != x.Reason {
		list = append(list, "error: "+why)
	} else if why != "" {
		list = append(list, "reason: "+why)
	}
	if x.Version != "" {
		list = append(list, "version "+x.Version)
	}
	if u := usageOf(x.Usage); u != "" {
		list = append(list, "tokens: "+u)
	}
	if x.Usage.Cost > 0 {
		list = append(list, "cost: "+render.Dollars(x.Usage.Cost))
	}
	list = append(list, modelFacts(&x.Model)...)
	if x.Joined > 0 {
		list = append(list, count(x.Joined)+" "+plural(x.Joined, "exchange belongs", "exchanges belong")+" to it")
	}
	if x.Of != 0 {
		of := "belongs to the operation of #" + count(x.Of)
		if x.Guessed {
			of += ", a guess: another operation is equal"
		}
		list = append(list, of)
	}
	return strings.Join(list, " · ")
}

// modelFacts returns the facts about a model and its answer.
func modelFacts(m *store.Model) (list []string) {
	if m.Name == "" {
		return nil
	}
	list = append(list, "model "+m.Name)
	if m.StopReason != "" {
		list = append(list, "stopped: "+m.StopReason)
	}
	if len(m.ToolCalls) > 0 {
		list = append(list, "calls: "+strings.Join(m.ToolCalls, ", "))
	}
	if m.FirstPart > 0 {
		list = append(list, "first token after "+span(int64(m.FirstPart)))
	}
	if m.TokensPerSecond > 0 {
		list = append(list, strconv.FormatFloat(m.TokensPerSecond, 'f', 1, 64)+" tokens/s")
	}
	return list
}

// promptLines describes the input of the model of an exchange.
func promptLines(x *store.Exchange) []string {
	if x.Model.Context == nil {
		return nil
	}
	return x.Model.Context.Lines(3)
}

// usageOf writes counts of tokens; "" if there are none.
func usageOf(u store.Usage) string {
	var list []string
	for _, t := range []struct {
		n, perhaps int64
		what       string
	}{{u.Input, u.Perhaps.Input, "input"}, {u.Cached, u.Perhaps.Cached, "cached"}, {u.Output, u.Perhaps.Output, "output"}} {
		switch {
		case t.perhaps != 0:
			list = append(list, count(t.n)+" to "+count(t.n+t.perhaps)+" "+t.what)
		case t.n != 0:
			list = append(list, count(t.n)+" "+t.what)
		}
	}
	return strings.Join(list, ", ")
}

// preview draws the frames of the selected exchange.
func (m *Model) preview(n int) []string {
	x := m.ids.selected(m.page.ids)
	d := m.page.preview
	if h := m.ids.head(m.page.ids); h != nil && n > 0 {
		return padded(m.headPreview(h, n), n)
	}
	if x == nil || d == nil || d.Exchange == nil || n == 0 {
		return padded(nil, n)
	}
	title := exchangeTitle(x)
	if x.Note != "" {
		title += " · " + x.Note
	}
	var about []string
	if facts := m.facts(x); len(title)+len(facts)+9 > m.width {
		about = m.wrapped(m.theme.Dim, render.Safe(facts))
	} else if facts != "" {
		title += " · " + facts
	}
	for _, text := range promptLines(x) {
		about = append(about, m.wrapped(m.theme.Dim, render.Safe(text))...)
	}
	list := append([]string{m.rule(title)}, about[:min(len(about), max(0, n-4))]...)
	rows := n - len(list)
	if m.page.sample != nil {
		rows = max(rows/2, min(rows, 3))
	}
	list = append(list, m.ledger(d, rows, 0)...)
	return padded(append(list, m.previewOfBoth(n-len(list))...), n)
}

// previewOfBoth draws the beginning of a request and of its answer, side by side if there is
// room, and else of the answer alone if there are few rows.
func (m *Model) previewOfBoth(n int) []string {
	switch {
	case m.page.asked == nil || !m.besides() && n < 12:
		return m.payloadPreview(m.page.sample, n)
	case m.besides():
		return m.split((m.width-1)/2, n, func() []string { return m.payloadPreview(m.page.asked, n) }, func() []string { return m.payloadPreview(m.page.sample, n) })
	}
	asked := m.payloadPreview(m.page.asked, n/2)
	return append(padded(asked, n/2), m.payloadPreview(m.page.sample, n-n/2)...)
}

// payloadPreview draws the beginning of a payload in n rows: its lines and, if there is room, the
// rest of long ones. The last row says how much is left out.
func (m *Model) payloadPreview(p *sample, n int) []string {
	if p == nil || n < 3 {
		return nil
	}
	list := []string{m.rule(p.title)}
	rows := n - 1
	if len(p.lines) > rows || p.left > 0 {
		rows--
	}
	left, spare := p.left, max(rows-len(p.lines), 0)
	for _, text := range p.lines {
		if len(list) > rows {
			left += len(strings.TrimLeft(text, " "))
			continue
		}
		l := newLine(m.width)
		l.pad(1)
		if !p.json {
			l.hex(m.theme, text)
			list = append(list, l.String())
			continue
		}
		shown, cut := l.json(m.theme, text, 1+spare)
		for _, l := range shown {
			list = append(list, l.String())
		}
		spare -= len(shown) - 1
		left += cut
	}
	if len(list) < n && rows < n-1 {
		list = append(list, m.text(1, m.theme.Dim, "… "+size(int64(left))+" bytes more"))
	}
	return list
}
