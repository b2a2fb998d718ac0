package store

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/session"
)

// runs are the runs of wirectl rlm in a session. Only the current turn, cell and calls of each
// are kept, because new exchanges belong to those.
type runs struct {
	names []string // by number, from 1
	of    map[string]*episode
}

// maxRuns is how many runs are followed at once.
const maxRuns = 1024

// An episode is a run or a child run, with its newest turn and the newest cell of that turn.
type episode struct {
	number     uint32
	turn, cell step
	calls      map[int]*call // of the cell
}

// A step is a turn or a cell: its number in the path and its mark.
type step struct {
	n    int
	mark uint32
}

// A call is a call of a cell: the marks of the worker's request and of the request to the model.
type call struct {
	asked, sent uint32
	child       episode
}

// runID is the length of the id of a run, in hexadecimal digits.
const runID = 32

// runPlace is the place of a cell or a call in its run, and the beginning of its request.
type runPlace struct{ place, asks string }

// maxAsks is how much of a request is shown, in bytes of JSON.
const maxAsks = 160

// beginning returns the first line of a text, which is a JSON string or some other value.
func beginning(value []byte) string {
	raw := value[:min(len(value), maxAsks)]
	if !bytes.HasPrefix(raw, []byte(`"`)) {
		return strings.ToValidUTF8(string(raw), "")
	}
	raw, _, _ = bytes.Cut(raw, []byte(`\n`))
	for cut := len(raw); cut > 0 && cut > len(raw)-utf8.UTFMax-len(`\u0000`); cut-- {
		var text string
		if json.Unmarshal([]byte(strings.TrimSuffix(string(raw[:cut]), `"`)+`"`), &text) == nil {
			return text
		}
	}
	return strings.ToValidUTF8(string(raw), "")
}

// cutRun separates the id of a run from the place within it.
func cutRun(path string) (run, place string, ok bool) {
	run, place, _ = strings.Cut(path, "/")
	return run, place, len(run) == runID && strings.Trim(run, "0123456789abcdef") == ""
}

// A runSpot is the end of a path in a run.
type runSpot struct {
	*episode
	last  string // the last word of the path, such as c1; "" for the run
	n     int    // its number
	call  *call  // the call, or the call of which this is the child run
	above uint32 // mark of the parent
}

// maxPath is how long a path may be, in bytes.
const maxPath = 4096

// at follows a path. It skips words of the path that are over.
func (rs *runs) at(path string) (p runSpot, ok bool) {
	run, place, ok := cutRun(path)
	if !ok || len(path) > maxPath {
		return p, false
	}
	if p.episode = rs.of[run]; p.episode == nil {
		if rs.of == nil || len(rs.of) >= maxRuns {
			rs.of = map[string]*episode{}
		}
		rs.names = append(rs.names, run)
		p.episode = &episode{number: uint32(len(rs.names))}
		rs.of[run] = p.episode
	}
	for place != "" {
		p.step()
		p.last, place, _ = strings.Cut(place, "/")
		p.n, _ = strconv.Atoi(p.last[min(1, len(p.last)):])
		if p.call = nil; strings.HasPrefix(p.last, "q") {
			p.call = p.episode.callAt(p.n)
		}
	}
	return p, true
}

// step goes below the last word of a path.
func (p *runSpot) step() {
	switch {
	case strings.HasPrefix(p.last, "t") && p.n == p.turn.n:
		p.above = p.turn.mark
	case strings.HasPrefix(p.last, "c") && p.n == p.cell.n:
		p.above = p.cell.mark
	case p.call != nil:
		p.above, p.episode = p.call.asked, &p.call.child
	}
}

// callAt returns a call of the cell.
func (e *episode) callAt(n int) *call {
	if e.calls == nil {
		e.calls = map[int]*call{}
	}
	if e.calls[n] == nil {
		e.calls[n] = &call{child: episode{number: e.number}}
	}
	return e.calls[n]
}

// belongs notes the place of a connection, or of one of its exchanges, in a run.
func (s *Store) belongs(p *Peer, at *capture.Place) {
	switch {
	case at.Next:
		p.next = at.Run
	case len(at.ID) == 0:
		p.place = at.Run
	default:
		s.asks(p.Conn, at)
	}
}

// asks notes which call a worker's request is.
func (s *Store) asks(conn int, at *capture.Place) {
	spot, ok := s.runs.at(at.Run)
	if !ok || spot.call == nil {
		return
	}
	for i := len(s.rows.open) - 1; i >= 0; i-- {
		r := s.rows.of(s.rows.open[i])
		if r == nil || r.conn != uint32(conn) || !bytes.Equal(s.rows.texts.get(r.id), at.ID) || r.under != spot.above {
			continue
		}
		spot.call.asked = r.mark
		if p, place := s.rows.places[r.mark], PlaceOf(at.Run); p.place == "" || len(place) < len(p.place) || len(place) == len(p.place) && place < p.place {
			s.rows.places[r.mark] = runPlace{place, p.asks} // of a batch, the first
			s.rows.touch(r)
		}
		return
	}
}

// placeRow finds the place of a new exchange in its run.
func (s *Store) placeRow(r *row, e *session.Exchange) {
	p := s.peer(e.Conn)
	protocol := e.Protocol.Name()
	id := strings.Trim(string(e.ID.Text), `"`)
	if _, place, ok := cutRun(id); ok && place != "" && len(id) <= maxPath && protocol == "rlm" {
		s.placeRequest(r, id)
		return
	}
	path, isCell := p.place, p.next != "" && e.Kind == "execute"
	if isCell {
		path, p.next = p.next, ""
	}
	spot, ok := s.runs.at(path)
	if !ok {
		return
	}
	switch r.run = spot.number; {
	case isCell:
		r.under = spot.above
		spot.cell, spot.calls = step{spot.n, r.mark}, nil
		s.rows.places[r.mark] = runPlace{PlaceOf(path), beginning(s.asking)}
	case protocol == "repl":
		s.rows.places[r.mark] = runPlace{asks: beginning(s.asking)}
		s.placeOther(r, &spot)
	case spot.call != nil: // of a provider
		r.under = spot.call.sent
	case spot.n == spot.turn.n:
		r.under = spot.turn.mark
	default:
		r.under = spot.above
	}
}

// placeRequest places a request to a model, which is a turn or a call.
func (s *Store) placeRequest(r *row, path string) {
	spot, _ := s.runs.at(path)
	r.run, r.under = spot.number, spot.above
	switch {
	case spot.call != nil:
		if spot.call.asked != 0 {
			r.under = spot.call.asked
		}
		spot.call.sent = r.mark
	case strings.HasPrefix(spot.last, "t"):
		spot.turn, spot.cell, spot.calls = step{spot.n, r.mark}, step{}, nil
	}
}

// placeOther places another request to or from a worker below the running cell, or else below
// the turn.
func (s *Store) placeOther(r *row, spot *runSpot) {
	spot.step() // into a child run
	if r.under = spot.above; spot.turn.mark != 0 {
		r.under = spot.turn.mark
	}
	if cell := s.rows.of(spot.cell.mark); cell != nil && session.Outcome(cell.outcome) == session.Open {
		r.under = cell.mark
	}
}

// placeOf returns the place of a row in its run.
func (s *Store) placeOf(r *row) string {
	if p := s.rows.places[r.mark]; p.place != "" {
		return p.place
	}
	return PlaceOf(strings.Trim(string(s.rows.texts.get(r.id)), `"`))
}

// PlaceOf returns the place in a run that an unquoted id names, such as t3/c1/q7, or "".
func PlaceOf(id string) string {
	if _, place, ok := cutRun(id); ok {
		return place
	}
	return ""
}
