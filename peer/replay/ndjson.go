package replay

import (
	"encoding/json"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// AppendNDJSON appends a frame as a line of NDJSON, with the time since start.
func (e *Event) AppendNDJSON(b []byte, start time.Time) []byte {
	return appendLine(b, struct {
		Replay string  `json:"replay"`
		MS     float64 `json:"ms"`
		Dir    string  `json:"dir"`
		Frame  int64   `json:"frame,omitempty"`
		Kind   string  `json:"kind"`
		ID     string  `json:"id,omitempty"`
	}{"frame", milliseconds(e.Time.Sub(start)), e.Dir.String(), e.Recorded, e.Kind, e.ID})
}

// AppendNDJSON appends a divergence as a line of NDJSON.
func (d *Divergence) AppendNDJSON(b []byte, conn int) []byte {
	return appendLine(b, struct {
		Replay     string    `json:"replay"`
		Conn       int       `json:"conn,omitempty"`
		Divergence What      `json:"divergence"`
		Message    string    `json:"message"`
		Changes    []Change  `json:"changes,omitempty"`
		Recorded   *lineSide `json:"recorded,omitempty"`
		Live       *lineSide `json:"live,omitempty"`
	}{"divergence", conn, d.What, d.Text, d.Changes, d.Recorded.line(), d.Live.line()})
}

// A lineSide is a frame in NDJSON.
type lineSide struct {
	Frame   int64           `json:"frame,omitempty"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Raw     []byte          `json:"raw,omitempty"` // if the payload is not JSON
}

func (s *Side) line() *lineSide {
	if s == nil {
		return nil
	}
	l := &lineSide{Frame: s.Seq, Kind: s.Kind, ID: s.ID}
	if _, err := json.Marshal([]json.RawMessage{s.Payload}); isJSON(s.Payload) && err == nil { // it may be nested too deeply
		l.Payload = s.Payload
	} else {
		l.Raw = s.Payload
	}
	return l
}

// AppendNDJSON appends the counts of a run as a line of NDJSON.
func (r *Result) AppendNDJSON(b []byte) []byte {
	return appendLine(b, struct {
		Replay string `json:"replay"`
		*Result
		Diverged bool `json:"diverged"`
	}{"result", r, r.Differences > 0})
}

// AppendNDJSON appends a point of a sweep as a line of NDJSON.
func (p *Point) AppendNDJSON(b []byte) []byte {
	type finding struct {
		Finding  string  `json:"finding"`
		Severity string  `json:"severity"`
		Frames   []int64 `json:"frames"` // of the run
		Rule     string  `json:"rule"`
		Message  string  `json:"message"`
	}
	findings := []finding{}
	for _, f := range p.Findings {
		findings = append(findings, finding{f.Name, f.Severity.String(), f.Frames, f.Rule, f.Message})
	}
	class := ""
	if p.Reached {
		class = p.Class.String()
	}
	return appendLine(b, struct {
		Replay    string    `json:"replay"`
		After     int       `json:"after"`
		Reached   bool      `json:"reached"`
		Why       string    `json:"why,omitempty"`
		Class     string    `json:"class,omitempty"`
		Parts     int64     `json:"parts"`
		Bytes     int64     `json:"bytes"`
		MS        float64   `json:"ms"`
		Confirmed bool      `json:"confirmed"`
		Findings  []finding `json:"findings"`
	}{"cancel", p.After, p.Reached, p.Why, class, p.Parts, p.Bytes, milliseconds(p.Took), p.Confirmed, findings})
}

func appendLine(b []byte, v any) []byte { return append(append(b, jsonscan.MustMarshal(v)...), '\n') }
