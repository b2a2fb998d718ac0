package tui

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/diff"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

// framesState is the position in the list of frames.
type framesState struct {
	at     int64 // index of the selected one
	top    int64
	follow bool // the last one is selected, whatever comes
}

// from returns the index of the first row, for a screen of n.
func (st *framesState) from(n int) int64 {
	if st.follow {
		return 1 << 60
	}
	st.top = max(min(st.top, st.at), st.at-int64(n)+1, 0)
	return st.top
}

func (st *framesState) settle(p store.Frames) {
	if p.Total == 0 {
		return
	}
	if st.follow {
		st.at = p.Total - 1
	}
	st.at = max(p.First, min(st.at, p.Total-1))
	st.top = p.From
}

// move moves the selection. It follows the newest frame after the key for the last one, or
// after a key that would go beyond it.
func (st *framesState) move(by int, p store.Frames) {
	last := p.Total - 1
	st.follow = by == farAway || by > 0 && st.at == last
	st.at = max(p.First, min(st.at+int64(by), last))
}

func (st *framesState) selected(p store.Frames) *store.Frame {
	if i := st.at - p.From; i >= 0 && i < int64(len(p.List)) {
		return &p.List[i]
	}
	return nil
}

func (m *Model) framesKey(k tea.KeyMsg) tea.Cmd {
	keys, st := &m.keys, &m.frames
	if by, ok := movement(&m.keys, k, m.rows()); ok {
		return m.move(by)
	}
	f := st.selected(m.page.frames)
	switch {
	case key.Matches(k, keys.Follow):
		st.follow = !st.follow
	case f == nil:
	case key.Matches(k, keys.Open):
		return m.openFrame(f.Seq)
	case key.Matches(k, keys.Copy):
		s := m.store
		return func() tea.Msg { return frameMsg{s.Detail(f.Seq)} }
	case key.Matches(k, keys.Bookmark):
		return m.bookmark(f.Seq)
	case key.Matches(k, keys.Write):
		return m.askForFile(f.Seq, f.Mark)
	case key.Matches(k, keys.Diff):
		return m.compare(f.Seq)
	case key.Matches(k, keys.Note, keys.Cancel, keys.Resend):
		m.notice = "this key is for an exchange: open the frame first (enter)"
		return nil
	}
	return m.askStore()
}

// searchKey handles a key that searches, and reports whether it was one. Results are shown
// among the frames, whichever view the search began in.
func (m *Model) searchKey(k tea.KeyMsg) (tea.Cmd, bool) {
	keys := &m.keys
	switch {
	case key.Matches(k, keys.Search):
		return m.askForSearch(), true
	case key.Matches(k, keys.SearchNext):
		return m.findText(false), true
	case key.Matches(k, keys.SearchBack):
		return m.findText(true), true
	}
	return nil, false
}

func (m *Model) askForSearch() tea.Cmd {
	cmd := m.askFor("search ", "", func(text string) tea.Cmd {
		if text != "" {
			m.search = text
		}
		if m.search == "" {
			return nil
		}
		return m.findText(false)
	})
	m.prompt.hint = m.search
	return cmd
}

// findTime is how long a search goes on before it is given up.
const findTime = 5 * time.Second

// findText searches for the search text, starting at the selected frame.
func (m *Model) findText(back bool) tea.Cmd {
	if m.search == "" {
		return m.askForSearch()
	}
	m.finds++
	m.seeking, m.notice = true, "searching (esc stops)"
	s, text, at, search := m.store, []byte(m.search), m.frames.at, m.finds
	return func() tea.Msg {
		deadline := time.Now().Add(findTime)
		index := findFrom(s, text, at, back, deadline)
		if index >= 0 {
			return foundMsg{search, index, false}
		}
		end := int64(-1) // and then from the other end
		if back {
			end = 1 << 60
		}
		return foundMsg{search, findFrom(s, text, end, back, deadline), true}
	}
}

// findFrom looks for a text a piece at a time, so that the store can be asked in
// between.
func findFrom(s *store.Store, text []byte, at int64, back bool, deadline time.Time) int64 {
	for {
		index, done := s.Find(text, at, back, searchTime)
		if done || time.Now().After(deadline) {
			return index
		}
		at = index
	}
}

func (m *Model) found(msg foundMsg) tea.Cmd {
	if !m.seeking || msg.search != m.finds {
		return nil // it was stopped
	}
	m.seeking, m.notice = false, ""
	if msg.index < 0 {
		m.notice, m.wrong = "no frame contains "+m.search, true
		return m.takeInput()
	}
	m.view, m.frames.at, m.frames.follow = viewFrames, msg.index, false
	if msg.around {
		m.notice = "found after starting again from the other end"
	}
	cmd := m.askStore()
	m.needPage(false)
	return tea.Batch(cmd, m.takeInput())
}

// framesView draws the list of frames.
func (m *Model) framesView(n int) []string {
	th := m.theme
	seq := max(5, len(count(m.page.overview.Frames))+1)
	c := m.frameColumns(2+seq+1, m.page.overview.Timed, m.page.overview.Kinds)
	head := newLine(m.width)
	head.pad(2)
	head.right(th.Dim, "#", seq)
	head.right(th.Dim, "TIME", c.time)
	head.pad(2)
	head.left(th.Dim, "KIND", c.kind)
	head.left(th.Dim, "ID", c.id)
	head.right(th.Dim, "SIZE", c.size)
	says := "WHAT IT SAYS"
	if head.used+len(says) > m.width {
		says = "SAYS"
	}
	head.addText(th.Dim, says, m.width)
	list := []string{head.String()}
	selected := m.frames.selected(m.page.frames)
	for i := range m.page.frames.List {
		f := &m.page.frames.List[i]
		same := selected != nil && selected.Mark != 0 && f.Mark == selected.Mark
		list = append(list, m.row(f == selected, func(l *line) { m.frameRow(l, f, seq, c, same) }))
	}
	if len(m.page.frames.List) == 0 {
		list = append(list, m.nothing("no frame yet", "no frame matches the filter"))
	}
	return padded(list, n+1)
}

// frameColumns are the widths of the columns; 0 leaves one out.
type frameColumns struct{ kind, id, time, size int }

// minSays is the least room for what a frame says.
const minSays = 12

// frameColumns returns the columns of rows that begin with so many cells. The kinds, of which
// these are all, get their room first. One that takes more than half of the row moves the
// columns after it.
func (m *Model) frameColumns(before int, timed bool, kinds []string) frameColumns {
	c := frameColumns{kind: 12}
	for _, kind := range kinds {
		c.kind = max(c.kind, min(len(kind), m.width/2))
	}
	room := m.width - before - c.kind - minSays - 3
	give := func(column *int, width int) {
		if width < room {
			*column, room = width, room-width-1
		}
	}
	give(&c.id, max(7, min(m.width/9, 18)))
	switch {
	case timed && m.width < 90:
		give(&c.time, 8)
	case timed:
		give(&c.time, 11)
	}
	give(&c.size, 5)
	return c
}

// frameRow draws a frame. Frames of the same exchange as the selected one are marked.
func (m *Model) frameRow(l *line, f *store.Frame, seq int, c frameColumns, same bool) {
	th := m.theme
	switch {
	case f.Bookmark:
		l.glyph(th.Marked, glyphMark)
	case f.Finding:
		l.glyph(th.Error, glyphFinding)
	default:
		l.pad(1)
	}
	if same {
		l.glyph(th.Marked, glyphSame)
	} else {
		l.pad(1)
	}
	l.right(th.Dim, count(f.Seq), seq)
	l.right(th.Dim, m.clock(f.Time), c.time)
	m.frameText(l, f, c)
}

// frameText draws the kind, the ids and the summary of a frame.
func (m *Model) frameText(l *line, f *store.Frame, c frameColumns) {
	th := m.theme
	arrow(l, th, f.Dir)
	l.pad(1)
	kind := th.Kind
	if f.Bad {
		kind = th.Error
	}
	l.name(kind, f.Kind, max(c.kind, ansi.StringWidth(f.Kind)))
	l.left(th.ID, idsOf(f), c.id)
	l.right(th.Dim, size(f.Size), c.size)
	if f.Fault != "" {
		l.addText(th.Error, f.Fault, m.width)
		return
	}
	l.addText(render.Paint{}, f.Summary, m.width)
}

// clock writes when something was, since the session began.
func (m *Model) clock(at int64) string {
	since := time.Duration(at - m.page.overview.First)
	if since >= time.Hour {
		return since.Round(time.Millisecond).String()
	}
	width := 6
	if m.width < 90 {
		width = 3
	}
	return formatSeconds(since, width)
}

// A content is the content of a frame, and of the one beside it. A command reads it,
// because reading and laying out a large one takes longer than a key may wait.
type content struct {
	of     wanted
	frame  *store.Detail
	beside *store.Detail
	answer *store.Detail // nil if there is none
	tree   []treeLine    // the lines of the frame, and then those of the answer
	asked  int           // how many of these are those of the frame
	hex    []string
	pairs  [][2]string
	failed string
}

// wanted says which content it is.
type wanted struct {
	seq, other, last int64
	jq               *query.JQ
}

// A treeLine is a line of a payload.
type treeLine struct {
	text string
	end  int // index of the closing line; its own if it opens nothing
}

const (
	// maxHex bounds the bytes that are shown in hexadecimal.
	maxHex = 1 << 20
	// jqTime is how long a filter may take.
	jqTime = time.Second
)

// get reads a content, and makes the lines of the payload, or of the output of jq for it.
func (w wanted) get(s *store.Store) *content {
	c := &content{of: w, frame: s.Detail(w.seq)}
	f := c.frame
	if f == nil {
		return c
	}
	c.failed = f.Err
	if w.other != 0 {
		if c.beside = s.Detail(w.other); c.beside != nil && c.beside.Exchange != nil && answerOf(c.beside.Exchange) == w.other {
			c.beside = s.AnswerUpTo(w.other)
		}
		if c.beside != nil {
			c.pairs = diff.Beside(linesOf(f), linesOf(c.beside))
			return c
		}
	}
	if w.last != 0 {
		c.answer = s.AnswerUpTo(w.last)
	}
	c.lay(f, w.jq)
	if c.asked = len(c.tree); c.answer != nil {
		c.failed = cmp.Or(c.failed, c.answer.Err)
		c.lay(c.answer, w.jq)
	}
	h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End}
	c.hex = splitLines(h.Append(nil, f.Raw[:min(len(f.Raw), maxHex)], nil))
	return c
}

// lay makes the lines of a frame, or of the output of jq for it. Other bytes than JSON have lines
// only beside an answer.
func (c *content) lay(f *store.Detail, jq *query.JQ) {
	switch {
	case f.JSON != nil && jq != nil:
		c.query(jq, f.JSON)
	case f.JSON != nil:
		c.tree = append(c.tree, treeOf(f.JSON, len(c.tree))...)
	case c.answer != nil:
		for _, text := range linesOf(f) {
			c.tree = append(c.tree, treeLine{text, len(c.tree)})
		}
	}
}

// query makes the lines of the output of jq for a payload.
func (c *content) query(jq *query.JQ, form []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), jqTime)
	defer cancel()
	out, err := jq.Append(ctx, nil, form)
	out = bytes.TrimSpace(out)
	for _, one := range bytes.Split(out, []byte("\n")) {
		if len(one) > 0 {
			c.tree = append(c.tree, treeOf(one, len(c.tree))...)
		}
	}
	switch { // a filter may be for the answer alone
	case err != nil:
		c.tree = append(c.tree, treeLine{"(" + err.Error() + ")", len(c.tree)})
	case len(out) == 0:
		c.tree = append(c.tree, treeLine{"(no result)", len(c.tree)})
	}
}

// A sample is the beginning of a payload, which is shown beside a list.
type sample struct {
	seq   int64
	over  bool // it is the answer that this frame ends
	title string
	lines []string // of JSON, or of bytes
	json  bool
	left  int // bytes after them
}

// maxSample bounds a sample, in bytes, and maxPreviewed the parts of an answer that is joined for one: a key
// waits for it.
const maxSample, maxPreviewed = 64 << 10, 20_000

// get returns the sample of a frame, or of the answer that it ends: have, if it is that.
func (have *sample) get(s *store.Store, seq int64, over bool) *sample {
	if have != nil && have.seq == seq && have.over == over {
		return have
	}
	f := (*store.Detail)(nil)
	if over {
		f = s.AnswerUpTo(seq)
	} else {
		f = s.Detail(seq)
	}
	if f == nil || len(f.Payload) == 0 {
		return nil
	}
	p := &sample{seq: seq, over: over, title: "#" + count(f.Seq) + " " + f.Kind, json: f.JSON != nil}
	if f.Joined > 0 {
		p.title = answerTitle(f)
	}
	text, layout := f.JSON, func(b []byte) []byte { return render.AppendJSON(nil, b, "  ", "", nil) }
	if !p.json {
		text, layout = f.Payload, func(b []byte) []byte { return render.Hex{End: len(b)}.Append(nil, b, nil) }
	}
	first := text[:min(len(text), maxSample)]
	p.lines, p.left = splitLines(layout(first)), len(text)-len(first)
	return p
}

func splitLines(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// treeOf returns the lines of a JSON text, the first of which has that number. An object or
// array ends at the next line of the same depth.
func treeOf(form []byte, first int) []treeLine {
	var list []treeLine
	var open []int
	for i, text := range splitLines(render.AppendJSON(nil, form, "  ", "", nil)) {
		list = append(list, treeLine{text, first + i})
		trimmed := strings.TrimLeft(text, " ")
		if strings.HasPrefix(trimmed, "}") || strings.HasPrefix(trimmed, "]") {
			if n := len(open); n > 0 {
				list[open[n-1]].end = first + i
				open = open[:n-1]
			}
		}
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
			open = append(open, i)
		}
	}
	return list
}
