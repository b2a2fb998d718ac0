package tui

import (
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// peersRows is how many connections fit.
func (m *Model) peersRows() int { return max(m.body()/2, 3) }

// peersView draws the connections, the whole command of the selected one, and the lines that
// came beside the frames.
func (m *Model) peersView(n int) []string {
	p := &m.page.peers
	top := min(m.peers.from(m.peersRows()), len(p.Peers))
	shown := p.Peers[top:min(top+m.peersRows(), len(p.Peers))]
	c := m.peerColumns(shown)
	list := []string{m.peersHead(c)}
	for i := range shown {
		list = append(list, m.row(top+i == m.peers.at, func(l *line) { m.peerRow(l, &shown[i], c) }))
	}
	if i := m.peers.at - top; i >= 0 && i < len(shown) {
		about := m.wrapped(m.theme.Dim, aboutPeer(&shown[i]))
		list = append(list, about[:min(len(about), max(n-len(list)-4, 1))]...)
	}
	list = append(list, m.rule("standard error and events · "+count(int64(p.Total))))
	room := max(n-len(list), 0)
	for i := max(len(p.Lines)-room, 0); i < len(p.Lines); i++ {
		list = append(list, m.besideLine(&p.Lines[i], c.name))
	}
	return padded(list, n)
}

// aboutPeer describes a connection in a sentence.
func aboutPeer(p *store.Peer) string {
	text := "connection " + count(int64(max(p.Conn, 1)))
	if p.Name != "" {
		text += ": " + p.Name
	}
	if p.Note != "" {
		text += " · " + p.Note
	}
	return render.Safe(text)
}

// peerColumns are the widths of the columns; 0 leaves one out.
type peerColumns struct {
	name, frames, bytes, state int
	stalls                     bool
}

// peerColumns returns the columns for some connections: their names get their room first.
func (m *Model) peerColumns(shown []store.Peer) peerColumns {
	c := peerColumns{name: 10, frames: 8, state: 5}
	for i := range shown {
		c.name = max(c.name, ansi.StringWidth(shown[i].Label))
		c.state = max(c.state, ansi.StringWidth(stateOf(&shown[i])))
		c.stalls = c.stalls || shown[i].Stall != [3]time.Duration{}
	}
	room := m.width - 1 - 2*(c.frames+1) - c.state - 1
	if c.name+1+2*7 <= room {
		c.bytes = 6
	}
	c.name = min(c.name, room-1)
	return c
}

// peersHead names the columns.
func (m *Model) peersHead(c peerColumns) string {
	th := m.theme
	head := newLine(m.width)
	head.pad(1)
	head.left(th.Dim, "NAME", c.name)
	for _, arrow := range []string{glyphOut, glyphIn} {
		head.right(th.Dim, arrow+" FRAMES", c.frames)
		head.right(th.Dim, "BYTES", c.bytes)
	}
	head.left(th.Dim, "STATE", c.state)
	if c.stalls {
		head.addText(th.Dim, "STALLS", 20)
	}
	return head.String()
}

// besideLine draws a line that came beside the frames, and whose it is if there are several
// connections.
func (m *Model) besideLine(said *store.Line, name int) string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	if !said.Time.IsZero() {
		l.left(th.Dim, said.Time.UTC().Format("15:04:05.000"), 12)
	}
	if len(m.page.peers.Peers) > 1 {
		l.name(th.ID, said.Peer, min(name, m.width*2/5))
	}
	paint := th.Note
	if said.IsStderr() {
		paint = render.Paint{}
	}
	l.addText(paint, strings.TrimRight(said.Text, "\r\n"), m.width)
	return l.String()
}

// stateOf returns the state of a connection, with a mark if there is a note on it.
func stateOf(p *store.Peer) string {
	if p.Note != "" {
		return p.State() + " " + glyphWarning
	}
	return p.State()
}

func (m *Model) peerRow(l *line, p *store.Peer, c peerColumns) {
	th := m.theme
	l.pad(1)
	l.name(render.Paint{}, p.Label, c.name)
	for _, of := range [][2]int64{
		{p.FramesUp(), p.BytesUp()},
		{p.FramesDown(), p.BytesDown()},
	} {
		l.right(th.Number, count(of[0]), c.frames)
		l.right(th.Dim, size(of[1]), c.bytes)
	}
	paint := th.Done
	switch ended := p.Half[frame.C2U] && p.Half[frame.U2C]; {
	case p.Note != "", p.Failed, p.Exit == "" && !ended && p.State() != "open":
		paint = th.Warning
	case p.State() != "open":
		paint = th.Dim
	}
	l.left(paint, stateOf(p), c.state)
	for d, arrow := range []string{"", glyphOut, glyphIn} {
		if p.Stall[d] > 0 {
			l.whole(th.Warning, arrow+" "+span(int64(p.StallTotal[d])), 8)
		}
	}
}
