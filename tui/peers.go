package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// peersRows is how many connections fit.
func (m *Model) peersRows() int { return max(m.body()/2, 3) }

// peersView draws the connections and, below them, the lines that came beside the frames.
func (m *Model) peersView(n int) []string {
	p := &m.page.peers
	top := min(m.peers.from(m.peersRows()), len(p.Peers))
	shown := p.Peers[top:min(top+m.peersRows(), len(p.Peers))]
	width := m.peerWidth(shown)
	list := []string{m.peersHead(width)}
	for i := range shown {
		list = append(list, m.row(top+i == m.peers.at, func(l *line) { m.peerRow(l, &shown[i], width) }))
	}
	list = append(list, m.rule("standard error and events · "+count(int64(p.Total))))
	room := max(n-len(list), 0)
	for i := max(len(p.Lines)-room, 0); i < len(p.Lines); i++ {
		list = append(list, m.besideLine(&p.Lines[i]))
	}
	return padded(list, n)
}

// peersHead names the columns. The column of names has that width.
func (m *Model) peersHead(width int) string {
	th := m.theme
	head := newLine(m.width)
	head.pad(1)
	head.left(th.Dim, "CONN", 5)
	head.left(th.Dim, "WHAT", width)
	for _, arrow := range []string{glyphOut, glyphIn} {
		head.right(th.Dim, arrow+" FRAMES", 9)
		if m.width >= 76 {
			head.right(th.Dim, "BYTES", 6)
		}
	}
	head.left(th.Dim, "STATE", 20)
	if stallsFit(head) {
		head.addText(th.Dim, "STALLS", 20)
	}
	return head.String()
}

// besideLine draws a line that came beside the frames.
func (m *Model) besideLine(said *store.Line) string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	if !said.Time.IsZero() {
		l.left(th.Dim, said.Time.UTC().Format("15:04:05.000"), 12)
	}
	if len(m.page.peers.Peers) > 1 {
		l.right(th.ID, count(int64(said.Conn)), 4)
	}
	paint := th.Note
	if said.Kind == capture.Stderr {
		paint = render.Paint{}
	}
	l.addText(paint, strings.TrimRight(said.Text, "\r\n"), m.width)
	return l.String()
}

// stallsFit reports whether a line has room for stalls.
func stallsFit(l *line) bool { return l.room-l.used > len("STALLS") }

// peerWidth returns the width for the names of some peers: as wide as they are, if there is
// room.
func (m *Model) peerWidth(shown []store.Peer) int {
	need := 10
	for i := range shown {
		need = max(need, ansi.StringWidth(m.peerName(&shown[i])))
	}
	return max(10, min(m.width-62, need))
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
	for _, of := range [][2]int64{
		{p.Frames[frame.C2U] + p.Frames[0], p.Bytes[frame.C2U] + p.Bytes[0]},
		{p.Frames[frame.U2C], p.Bytes[frame.U2C]},
	} {
		l.right(th.Number, count(of[0]), 9)
		if m.width >= 76 {
			l.right(th.Dim, size(of[1]), 6)
		}
	}
	state, paint := p.State(), th.Done
	switch ended := p.Half[frame.C2U] && p.Half[frame.U2C]; {
	case p.Failed || p.Exit == "" && !ended && state != "open":
		paint = th.Warning
	case state != "open":
		paint = th.Dim
	}
	if p.Note != "" {
		state, paint = state+" "+glyphWarning, th.Warning
	}
	l.left(paint, state, 20)
	if !stallsFit(l) {
		return // the state shows that there is a stall
	}
	for d, arrow := range []string{"", glyphOut, glyphIn} {
		if p.Stall[d] > 0 {
			l.addText(th.Warning, arrow+" "+span(int64(p.StallTotal[d]))+" ", 20)
		}
	}
	l.addText(th.Warning, p.Note, m.width)
}
