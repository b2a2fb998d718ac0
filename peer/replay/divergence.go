package replay

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/wirectl/wirectl/internal/render"
)

// What is a kind of divergence.
type What string

const (
	Differs    What = "differs"    // a frame is not as recorded
	Unforeseen What = "unforeseen" // a frame has no counterpart
	Late       What = "late"       // a frame did not arrive in time
	Gone       What = "gone"       // the connection ended too early
)

// A Divergence is a difference between the peer and the recording.
type Divergence struct {
	What     What
	Text     string
	Recorded *Side // nil if nothing was recorded
	Live     *Side // nil if nothing arrived
	Changes  []Change

	step *step // the recorded frame, or nil
}

// maxDivergences bounds the divergences that are kept with their frames. After that, only
// the texts of those about a recorded frame are kept.
const maxDivergences = 1000

// diverge adds a divergence, which ends the run unless goesOn and KeepGoing are set. st and h
// may each be nil.
func (r *run) diverge(d Divergence, st *step, h *heard, goesOn bool) {
	r.result.Differences++
	r.stopped = r.stopped || !goesOn || !r.options.KeepGoing
	if d.step = st; len(r.result.Divergences) < maxDivergences {
		if st != nil {
			d.Recorded = st.side(st.seq)
		}
		if h != nil {
			d.Live = h.side(0)
		}
		if r.isWeb() {
			d.Recorded.tidy()
			d.Live.tidy()
		}
	} else if d.Changes = nil; st == nil {
		return
	}
	r.result.Divergences = append(r.result.Divergences, &d)
}

// cases returns the outcome of each frame of the peer.
func (r *run) cases() (list []Case) {
	of := make(map[*step]*Divergence)
	for _, d := range r.result.Divergences {
		if d.step != nil && of[d.step] == nil {
			of[d.step] = d
		}
	}
	for i, st := range r.script.steps {
		if st.dir == r.options.Side {
			continue
		}
		d := of[st]
		list = append(list, Case{r.script.nameOf(st), d, d == nil && (!r.came[i] || r.skips(st.message.Kind))})
	}
	for _, d := range r.result.Divergences {
		if d.step == nil || d.step.dir == r.options.Side {
			list = append(list, Case{Name: d.Text, Divergence: d})
		}
	}
	return list
}

// nameOf names a frame and its request: "frame 4, result 2 to tools/call 2".
func (s *Script) nameOf(st *step) string {
	name := st.String()
	if st.exchange != 0 && st.opens == 0 {
		name += " to " + s.steps[s.opened[st.exchange].step].reading.String()
	}
	return name
}

// A Side is a frame, recorded or live.
type Side struct {
	Seq     int64 // 0 if it is live
	Kind    string
	ID      string
	Payload []byte // in its JSON form if it has one
}

// tidy removes the parts of an HTTP line that are not compared.
func (s *Side) tidy() {
	l := new(webLine)
	if s == nil || json.Unmarshal(s.Payload, l) != nil {
		return
	}
	l.Head, l.Home = nil, ""
	if l.Body != nil {
		l.Body = l.content()
	}
	s.Payload = bytes.TrimSpace(l.bytes())
}

func (m *reading) side(seq int64) *Side {
	return &Side{Seq: seq, Kind: string(m.message.Kind), ID: string(m.id()), Payload: m.value()}
}

// String names a frame of the recording: "frame 5, result 1".
func (st *step) String() string {
	if st.seq == 0 {
		return st.reading.String() + " of the recording"
	}
	return fmt.Sprintf("frame %d, %v", st.seq, &st.reading)
}

// id returns the id of the message, which may be in a line of HTTP.
func (m *reading) id() []byte {
	if len(m.inner.Kind) > 0 {
		return m.inner.ID.Text
	}
	return m.message.ID.Text
}

// String names a message: "result 1".
func (m *reading) String() string {
	kind, id := string(m.message.Kind), m.id()
	switch {
	case !m.well:
		return "an invalid message"
	case len(id) == 0:
		return kind
	}
	return kind + " " + string(render.AppendSafe(nil, id))
}
