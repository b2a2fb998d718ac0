package tui

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/query"
	"github.com/wirectl/wirectl/render"
	"github.com/wirectl/wirectl/store"
)

// A pane is what of a frame is shown.
type pane uint8

const (
	paneBoth pane = iota
	paneTree
	paneHex
	numPanes
)

// detail is a frame that is looked at.
type detail struct {
	seq, other int64
	pane       pane
	top        int
	at         int // the selected line of the tree
	folded     map[int]bool
	search     string
	jq         *query.JQ
	jqText     string

	of     int64 // the frame that the lines are of
	tree   []treeLine
	hex    []string
	failed string
}

// A treeLine is a line of a payload, and where what it opens ends.
type treeLine struct {
	text string
	end  int // index of the closing line; its own if it opens nothing
}

// wantDetail is what a detail needs of the store.
type wantDetail struct{ seq, other int64 }

func (d *detail) want() wantDetail {
	if d == nil {
		return wantDetail{}
	}
	return wantDetail{d.seq, d.other}
}

func (m *Model) openFrame(seq int64) tea.Cmd {
	next := &detail{seq: seq, folded: map[int]bool{}}
	if d := m.detail; d != nil {
		next.pane, next.jq, next.jqText = d.pane, d.jq, d.jqText
	}
	m.detail = next
	return m.ask()
}

// compare shows a frame beside the one that is selected: the request beside
// its answer if none was chosen.
func (m *Model) compare(seq int64) tea.Cmd {
	return m.askFor("compare with frame # ", "", func(text string) tea.Cmd {
		other, err := number64(text)
		if err != nil {
			m.said, m.wrong = text+" is no number of a frame", true
			return nil
		}
		cmd := m.openFrame(seq)
		m.detail.other = other
		return tea.Batch(cmd, m.ask())
	})
}

// settle makes the lines of what the store has returned.
func (d *detail) settle(p page) {
	if p.detail == nil || p.detail.Seq != d.seq || d.of == d.seq {
		return
	}
	d.of, d.failed = d.seq, p.detail.Err
	d.layOut(p.detail)
}

// layOut makes the lines of the payload, or of what jq makes of it.
func (d *detail) layOut(f *store.Detail) {
	d.tree, d.hex, d.folded = nil, nil, map[int]bool{}
	form := f.JSON
	if d.jq != nil && form != nil {
		ctx, cancel := context.WithTimeout(context.Background(), jqTime)
		out, err := d.jq.Append(ctx, nil, form)
		cancel()
		if err != nil {
			d.failed = err.Error()
		}
		for _, one := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
			d.tree = append(d.tree, treeOf(one, len(d.tree))...)
		}
	} else if form != nil {
		d.tree = treeOf(form, 0)
	}
	h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End}
	d.hex = splitLines(h.Append(nil, f.Raw[:min(len(f.Raw), maxHex)], nil))
}

const (
	// maxHex bounds the bytes that are shown in hexadecimal.
	maxHex = 1 << 20
	// jqTime is how long a filter may take.
	jqTime = 20 * time.Millisecond
)

func splitLines(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// treeOf makes the lines of a JSON text, of which the first has that number.
// What a line opens ends where one begins as deep.
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

// shown returns the numbers of the lines that are not folded away.
func (d *detail) shown() (list []int) {
	for i := 0; i < len(d.tree); i++ {
		list = append(list, i)
		if d.folded[i] {
			i = d.tree[i].end
		}
	}
	return list
}

func (d *detail) scroll(by int) {
	n := len(d.hex)
	if d.pane != paneHex && len(d.tree) > 0 {
		n = len(d.shown())
	}
	d.at = max(0, min(d.at+by, n-1))
}

func (m *Model) detailKey(k tea.KeyMsg) tea.Cmd {
	keys, d := &m.keys, m.detail
	if by, ok := m.movement(k, m.body()/2); ok {
		d.scroll(by)
		return nil
	}
	switch {
	case key.Matches(k, keys.Back):
		m.detail = nil
		return m.ask()
	case key.Matches(k, keys.Left):
		return m.neighbour(-1)
	case key.Matches(k, keys.Right):
		return m.neighbour(1)
	case key.Matches(k, keys.Pane):
		d.pane = (d.pane + 1) % numPanes
		d.at, d.top = 0, 0
	case key.Matches(k, keys.Fold), key.Matches(k, keys.Open):
		d.fold()
	case key.Matches(k, keys.FoldAll):
		d.foldAll()
	case key.Matches(k, keys.Search):
		return m.askFor("search ", d.search, func(text string) tea.Cmd {
			d.search = text
			m.seek(1)
			return nil
		})
	case key.Matches(k, keys.SearchNext):
		m.seek(1)
	case key.Matches(k, keys.SearchBack):
		m.seek(-1)
	case key.Matches(k, keys.JQ):
		return m.askFor("jq ", d.jqText, m.setJQ)
	case key.Matches(k, keys.Copy):
		return m.copyPayload()
	case key.Matches(k, keys.Bookmark):
		m.store.Bookmark(d.seq)
		return m.ask()
	case key.Matches(k, keys.Write):
		if f := m.page.detail; f != nil {
			return m.askForFile(d.seq, f.Mark)
		}
	case key.Matches(k, keys.Diff):
		if f := m.page.detail; f != nil && f.Exchange != nil && d.other == 0 {
			d.other = counterpart(f)
			return m.ask()
		}
		d.other = 0
	default:
		if f := m.page.detail; f != nil {
			return m.exchangeKey(k, f.Exchange)
		}
	}
	return nil
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

// fold folds what the selected line opens, or unfolds it.
func (d *detail) fold() {
	list := d.shown()
	if d.at >= len(list) {
		return
	}
	i := list[d.at]
	switch {
	case d.folded[i]:
		delete(d.folded, i)
	case d.tree[i].end > i:
		d.folded[i] = true
	}
}

// foldAll folds everything below the top, or unfolds everything.
func (d *detail) foldAll() {
	any := len(d.folded) > 0
	d.folded = map[int]bool{}
	for i, l := range d.tree {
		if !any && i > 0 && l.end > i {
			d.folded[i] = true
		}
	}
	d.at, d.top = 0, 0
}

// seek moves to the next line that contains the search text.
func (m *Model) seek(by int) {
	d := m.detail
	if d.search == "" {
		return
	}
	d.folded = map[int]bool{}
	lines := d.hex
	if d.pane != paneHex && len(d.tree) > 0 {
		lines = nil
		for _, l := range d.tree {
			lines = append(lines, l.text)
		}
	}
	for i := d.at + by; i >= 0 && i < len(lines); i += by {
		if strings.Contains(strings.ToLower(lines[i]), strings.ToLower(d.search)) {
			d.at = i
			return
		}
	}
	m.said, m.wrong = "no more lines contain "+d.search, true
}

func (m *Model) setJQ(text string) tea.Cmd {
	d := m.detail
	if d == nil {
		return nil
	}
	var jq *query.JQ
	if text != "" {
		var err error
		if jq, err = query.CompileJQ(text); err != nil {
			m.said, m.wrong = err.Error(), true
			return nil
		}
	}
	d.jqText, d.jq, d.failed = text, jq, ""
	d.of, d.at, d.top = 0, 0, 0
	return m.ask()
}

// copyPayload hands the payload to the terminal's clipboard.
func (m *Model) copyPayload() tea.Cmd {
	f := m.page.detail
	if f == nil {
		return nil
	}
	text := f.JSON
	if text == nil {
		text = f.Payload
	}
	out := m.config.Clipboard
	if out == nil {
		return nil
	}
	return func() tea.Msg {
		if _, err := io.WriteString(out, "\x1b]52;c;"+base64.StdEncoding.EncodeToString(text)+"\a"); err != nil {
			return saidMsg{err.Error(), true}
		}
		return saidMsg{"copied " + size(int64(len(text))) + " bytes, if the terminal allows it", false}
	}
}
