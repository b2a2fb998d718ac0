package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/store"
)

// A page is the store's answer for everything on the screen.
type page struct {
	asked    int
	now      int64 // stamp of the present
	overview store.Overview
	ids      store.IDs
	preview  *store.Detail
	sample   *sample // of the selected frame, or of the last one of the selected exchange
	frames   store.Frames
	findings store.Findings
	stats    store.Stats
	widths   statWidths
	peers    store.Peers
	detail   *store.Detail // all but its bytes

	changeable bool // the wire takes commands
}

// askStore returns the command that asks the store for the screen, with all changes that were
// requested before.
func (m *Model) askStore() tea.Cmd {
	m.asked++
	w := want{
		asked: m.asked, view: m.view, rows: m.rows(), preview: m.previewRows() > 0 || m.wide(),
		limit: m.limit, ids: m.ids.query(m.rows(), m.page.ids), from: m.frames.from(m.rows()), frames: m.frames,
		finding: m.findings.from(m.findingRows()), detail: m.detail.frameNumber(), sample: m.page.sample,
	}
	s, wire := m.store, m.config.Wire
	return func() tea.Msg {
		m.changes.settle()
		p := w.get(s)
		p.changeable = wire != nil && wire.Refuses() == ""
		return p
	}
}

// A want is the part of the store that the screen shows. It shares nothing with the model,
// which goes on while the store is asked.
type want struct {
	asked   int
	view    view
	rows    int
	preview bool
	limit   int64 // of the list of frames; 0 means none
	ids     store.IDsQuery
	from    int64
	frames  framesState
	finding int   // the first in the list
	detail  int64 // the frame shown in detail; 0 means none
	sample  *sample
}

// searchTime is how long the filter looks at frames at once.
const searchTime = 8 * time.Millisecond

func (w want) get(s *store.Store) page {
	s.Search(searchTime)
	p := page{asked: w.asked}
	p.overview = s.Overview()
	p.now = p.overview.Last
	if p.overview.Timed && !p.overview.Ended {
		// The clock of a live session goes on while nothing comes; a replayed session has a
		// clock of its own.
		if now := time.Now().UnixNano(); now-p.now < int64(time.Minute) {
			p.now = max(p.now, now)
		}
	}
	switch w.view {
	case viewIDs:
		p.ids = s.IDs(w.ids)
		if w.preview && p.ids.Total > 0 {
			x := &p.ids.List[p.ids.Index-p.ids.Top]
			p.preview = s.Outline(x.First)
			p.sample = w.sample.get(s, x.Last)
		}
	case viewFrames:
		p.frames = w.listFrames(s)
		w.frames.settle(p.frames)
		if f := w.frames.selected(p.frames); w.preview && f != nil {
			p.sample = w.sample.get(s, f.Seq)
		}
	case viewFindings:
		p.findings = s.Findings(w.finding, (w.rows+findingLines-1)/findingLines) // a part of the last
	case viewStats:
		p.stats = s.Stats()
		p.widths = widthsOf(&p.stats)
	case viewPeers:
		p.peers = s.Peers(w.rows)
	}
	if w.detail != 0 {
		p.detail = s.Outline(w.detail)
	}
	return p
}

// listFrames asks for the list of frames, up to where it was frozen.
func (w want) listFrames(s *store.Store) store.Frames {
	if w.limit == 0 {
		return s.Frames(w.from, w.rows)
	}
	f := s.Frames(max(min(w.from, w.limit-int64(w.rows)), 0), w.rows)
	f.Total = min(f.Total, w.limit)
	f.List = f.List[:max(min(int64(len(f.List)), f.Total-f.From), 0)]
	return f
}
