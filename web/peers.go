package web

import (
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
)

// peers are the connections, and the last lines besides frames, such as standard error.
type peers struct {
	Peers []peer `json:"peers"`
	Lines []said `json:"lines"`
	Total int    `json:"total"` // of lines
}

type peer struct {
	Conn   int     `json:"conn"`
	Name   string  `json:"name"`
	Up     int64   `json:"up"` // frames from the client, and bytes
	UpSize int64   `json:"upSize"`
	Down   int64   `json:"down"`
	Size   int64   `json:"size"`
	State  string  `json:"state"`
	Bad    bool    `json:"bad,omitempty"`
	Note   string  `json:"note,omitempty"`
	Stall  float64 `json:"stall,omitempty"` // microseconds that frames waited to be forwarded
}

// said is a line that is not a frame.
type said struct {
	Conn int     `json:"conn"`
	Time float64 `json:"time"`
	Kind string  `json:"kind"`
	Text string  `json:"text"`
}

// maxLines bounds the lines in a page.
const maxLines = 500

func peersOf(s *store.Store, c clock) *peers {
	p := s.Peers(maxLines)
	out := &peers{Peers: []peer{}, Lines: []said{}, Total: p.Total}
	for i := range p.Peers {
		of := &p.Peers[i]
		row := peer{
			Conn: max(of.Conn, 1), Name: text(of.Name),
			Up: of.Frames[frame.C2U] + of.Frames[0], UpSize: of.Bytes[frame.C2U] + of.Bytes[0], Down: of.Frames[frame.U2C], Size: of.Bytes[frame.U2C],
			State: of.State(), Bad: of.Failed || of.Note != "", Note: text(of.Note),
			Stall: float64((of.StallTotal[0] + of.StallTotal[1] + of.StallTotal[2]) / time.Microsecond),
		}
		if row.Name == "" {
			row.Name = text(p.Session.Unit)
		}
		out.Peers = append(out.Peers, row)
	}
	for _, line := range p.Lines {
		row := said{Conn: line.Conn, Kind: line.Kind.String(), Text: text(line.Text)}
		if !line.Time.IsZero() && c.timed {
			row.Time = c.since(line.Time.UnixNano())
		}
		out.Lines = append(out.Lines, row)
	}
	return out
}
