package tui

import (
	"cmp"
	"encoding/base64"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
)

// A pane is the part of a frame that is shown.
type pane uint8

const (
	paneBoth pane = iota
	paneTree
	paneHex
	numPanes
)

// detail is the frame that is shown in detail.
type detail struct {
	seq, other int64 // other is compared with seq; 0 means none
	call       bool  // the answer to seq is shown with it
	last       int64 // the frame of the answer; 0 if there is none yet
	pane       pane
	listState  // of its lines
	folded     map[int]bool
	shown      []int // the numbers of the lines that are not folded away
	search     string
	jq         *query.JQ
	jqText     string

	content // empty until it has been read
}

// frameNumber returns the number of the frame, or 0 if d is nil.
func (d *detail) frameNumber() int64 {
	if d == nil {
		return 0
	}
	return d.seq
}

func (d *detail) wants() wanted { return wanted{d.seq, d.other, d.last, d.jq} }

func (m *Model) openFrame(seq int64) tea.Cmd { return m.openBeside(seq, 0) }

// openBeside opens a frame with another one to compare it with.
func (m *Model) openBeside(seq, other int64) tea.Cmd {
	return m.openDetail(&detail{seq: seq, other: other})
}

// openCall opens the request of an exchange with its answer.
func (m *Model) openCall(x *store.Exchange) tea.Cmd {
	return m.openDetail(&detail{seq: x.First, call: true, last: answerOf(x)})
}

// answerOf returns the last frame of an exchange; 0 if it is the request, or others may follow.
func answerOf(x *store.Exchange) int64 {
	if x.Open() || x.Last == x.First {
		return 0
	}
	return x.Last
}

// followAnswer reads the answer to a request that is shown, once there is one.
func (m *Model) followAnswer() tea.Cmd {
	d, now := m.detail, m.page.detail
	if d == nil || !d.call || d.other != 0 || now == nil || now.Seq != d.seq || now.Exchange == nil || answerOf(now.Exchange) == d.last {
		return nil
	}
	d.last = answerOf(now.Exchange)
	return m.readDetail()
}

func (m *Model) openDetail(next *detail) tea.Cmd {
	if d := m.detail; d != nil {
		next.pane, next.jq, next.jqText = d.pane, d.jq, d.jqText
	}
	m.detail = next
	return tea.Batch(m.askStore(), m.readDetail())
}

// readDetail returns the command that loads the selected frame.
func (m *Model) readDetail() tea.Cmd {
	s, w := m.store, m.detail.wants()
	return func() tea.Msg { return w.get(s) }
}

// compare asks for the number of a frame to show beside another.
func (m *Model) compare(seq int64) tea.Cmd {
	return m.askFor("compare with frame # ", "", func(text string) tea.Cmd {
		other, err := number64(text)
		if err != nil {
			return m.refuse(text + " is not a frame number")
		}
		return m.openBeside(seq, other)
	})
}

// showContent shows loaded content.
func (d *detail) showContent(c *content) {
	d.content, d.folded = *c, map[int]bool{}
	d.unfold()
}

// about returns the details of the frame, with its bytes once they were read.
func (m *Model) about() *store.Detail {
	d, now := m.detail, m.page.detail
	switch {
	case now == nil || now.Seq != d.seq:
		return nil
	case d.frame == nil:
		return now
	}
	f := *d.frame // these may change
	f.Mark, f.Bookmark, f.Finding = now.Mark, now.Bookmark, now.Finding
	f.Exchange, f.Ledger, f.Findings = now.Exchange, now.Ledger, now.Findings
	return &f
}

// unfold finds out which lines are not folded away.
func (d *detail) unfold() {
	d.shown = d.shown[:0]
	for i := 0; i < len(d.tree); i++ {
		d.shown = append(d.shown, i)
		if d.folded[i] {
			i = d.tree[i].end
		}
	}
}

// inTree reports whether the cursor moves in the lines of the tree.
func (d *detail) inTree() bool { return d.beside == nil && d.pane != paneHex && len(d.tree) > 0 }

// shownAsked returns how many of the shown lines are those of the request.
func (d *detail) shownAsked() int {
	n, _ := slices.BinarySearch(d.shown, d.asked)
	return n
}

// inAnswer reports whether the cursor is in the answer.
func (d *detail) inAnswer() bool { return d.answer != nil && d.inTree() && d.at >= d.shownAsked() }

// lines returns the number of lines that the cursor moves in, and the text of each.
func (d *detail) lines() (n int, text func(int) string) {
	switch {
	case d.beside != nil:
		return len(d.pairs), func(i int) string { return d.pairs[i][0] + "\n" + d.pairs[i][1] }
	case d.inTree():
		return len(d.shown), func(i int) string { return d.tree[d.shown[i]].text }
	}
	return len(d.hex), func(i int) string { return d.hex[i] }
}

// scrollLines moves the cursor in the lines of the frame.
func (m *Model) scrollLines(by int) {
	n, _ := m.detail.lines()
	m.detail.move(by, 0, n, m.lineRows())
}

func (m *Model) detailKey(k tea.KeyMsg) tea.Cmd {
	if by, ok := movement(&m.keys, k, m.body()/2); ok {
		m.scrollLines(by)
		return nil
	}
	if cmd, ok := m.paneKey(k); ok {
		return cmd
	}
	keys, d, f := &m.keys, m.detail, m.page.detail
	switch {
	case key.Matches(k, keys.Back):
		m.detail = nil
		return m.askStore()
	case key.Matches(k, keys.Left):
		return m.neighbour(-1)
	case key.Matches(k, keys.Right):
		return m.neighbour(1)
	case key.Matches(k, keys.Copy):
		return m.copyPayload()
	case key.Matches(k, keys.Bookmark):
		return m.bookmark(d.seq)
	case key.Matches(k, keys.Diff):
		return m.turnBeside()
	case f == nil:
		return nil
	case key.Matches(k, keys.Write):
		return m.askForFile(d.seq, f.Mark)
	}
	return m.exchangeKey(k, f.Exchange)
}

// paneKey handles a key for the lines that are shown.
func (m *Model) paneKey(k tea.KeyMsg) (tea.Cmd, bool) {
	keys, d := &m.keys, m.detail
	switch {
	case key.Matches(k, keys.Pane):
		d.pane = (d.pane + 1) % numPanes
		d.listState = listState{}
	case key.Matches(k, keys.Fold), key.Matches(k, keys.Open):
		d.fold()
	case key.Matches(k, keys.FoldAll):
		d.foldAll()
	case key.Matches(k, keys.Search):
		return m.searchWithin(), true
	case key.Matches(k, keys.SearchNext):
		m.seek(1)
	case key.Matches(k, keys.SearchBack):
		m.seek(-1)
	case key.Matches(k, keys.JQ):
		return m.askFor("jq ", d.jqText, m.setJQ), true
	default:
		return nil, false
	}
	return nil, true
}

// searchWithin asks for a text to find in the lines. An empty answer repeats the last
// search.
func (m *Model) searchWithin() tea.Cmd {
	d := m.detail
	cmd := m.askFor("search ", "", func(text string) tea.Cmd {
		d.search = cmp.Or(text, d.search)
		m.seek(1)
		return nil
	})
	m.prompt.hint = d.search
	return cmd
}

// turnBeside shows the frame beside another of its exchange, or alone again.
func (m *Model) turnBeside() tea.Cmd {
	d, f := m.detail, m.page.detail
	switch {
	case d.other != 0:
		d.other = 0
	case f != nil && f.Seq == d.seq && f.Exchange != nil:
		d.other = counterpart(f)
	default:
		return nil
	}
	d.listState = listState{}
	return m.readDetail()
}

// counterpart returns the frame to compare with: the last of the exchange for
// its first, the first for any other.
func counterpart(f *store.Detail) int64 {
	if f.Seq == f.Exchange.First {
		return f.Exchange.Last
	}
	return f.Exchange.First
}

// neighbour goes to the frame of the exchange before or after.
func (m *Model) neighbour(by int) tea.Cmd {
	f := m.page.detail
	if f == nil || f.Seq != m.detail.seq {
		return nil
	}
	for i := range f.Ledger {
		if f.Ledger[i].Seq == f.Seq && i+by >= 0 && i+by < len(f.Ledger) {
			return m.openFrame(f.Ledger[i+by].Seq)
		}
	}
	if len(f.Ledger) == 0 {
		return m.openFrame(max(f.Seq+int64(by), 1))
	}
	return nil
}

// fold folds the object or array that the selected line opens, or unfolds it.
func (d *detail) fold() {
	if d.at >= len(d.shown) {
		return
	}
	i := d.shown[d.at]
	switch {
	case d.folded[i]:
		delete(d.folded, i)
	case d.tree[i].end > i:
		d.folded[i] = true
	}
	d.unfold()
}

// foldAll folds everything below the top, or unfolds everything.
func (d *detail) foldAll() {
	any := len(d.folded) > 0
	d.folded = map[int]bool{}
	for i, l := range d.tree {
		if !any && i > 0 && i != d.asked && l.end > i {
			d.folded[i] = true
		}
	}
	d.listState = listState{}
	d.unfold()
}

// seek moves to the next line that contains the search text, folded away or not,
// around the end of the lines.
func (m *Model) seek(by int) {
	d := m.detail
	if d.search == "" {
		return
	}
	if d.inTree() && d.at < len(d.shown) {
		d.at = d.shown[d.at]
		clear(d.folded)
		d.unfold()
	}
	n, text := d.lines()
	wanted := strings.ToLower(d.search)
	for step := 1; step <= n; step++ {
		i := ((d.at+by*step)%n + n) % n
		if strings.Contains(strings.ToLower(text(i)), wanted) {
			m.scrollLines(i - d.at)
			return
		}
	}
	m.notice, m.wrong = "no line contains "+d.search, true
}

func (m *Model) setJQ(text string) tea.Cmd {
	d := m.detail
	if d == nil {
		return nil
	}
	var jq *query.JQ
	if text != "" {
		var err error
		if jq, err = query.CompileJQ(text, nil); err != nil {
			return m.refuse(err.Error())
		}
	}
	d.jqText, d.jq = text, jq
	d.listState = listState{}
	return m.readDetail()
}

// copyPayload hands the payload to the terminal's clipboard.
func (m *Model) copyPayload() tea.Cmd {
	f := m.detail.frame
	if m.detail.inAnswer() {
		f = m.detail.answer
	}
	if f == nil {
		return nil
	}
	return m.copyFrame(f)
}

// copyFrame copies the payload of a frame.
func (m *Model) copyFrame(f *store.Detail) tea.Cmd {
	text := f.JSON
	if text == nil {
		text = f.Payload
	}
	return m.copy(text, "copied "+size(int64(len(text)))+" bytes")
}

// copy hands a text to the terminal's clipboard.
func (m *Model) copy(text []byte, done string) tea.Cmd {
	out := m.config.Clipboard
	if out == nil {
		return nil
	}
	return func() tea.Msg {
		if _, err := io.WriteString(out, "\x1b]52;c;"+base64.StdEncoding.EncodeToString(text)+"\a"); err != nil {
			return saidMsg{text: err.Error(), wrong: true}
		}
		return saidMsg{text: done + ", if the terminal allows it"}
	}
}
