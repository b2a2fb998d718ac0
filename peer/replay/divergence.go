package replay

import (
	"fmt"

	"github.com/wirectl/wirectl/internal/render"
)

// What says how the peer left the recording.
type What string

const (
	Differs    What = "differs"    // a frame is not as recorded
	Unforeseen What = "unforeseen" // a frame has no counterpart
	Late       What = "late"       // a frame did not come in time
	Gone       What = "gone"       // the connection ended before all was said
)

// A Divergence is a place where the peer left the recording.
type Divergence struct {
	What     What
	Text     string // says it in words
	Recorded *Side  // nil where the recording has nothing
	Live     *Side  // nil where nothing came
	Changes  []Change

	step *step // the one that it is about, or nil
}

// maxDivergences bounds those that are kept with their frames. Of others that are about
// a frame of the recording the words are kept.
const maxDivergences = 1000

// diverge notes that the peer left the recording, which ends the run unless it is to keep
// going, and can. Either of st and h may be nil.
func (r *run) diverge(d Divergence, st *step, h *heard, goesOn bool) {
	r.result.Differences++
	r.stopped = r.stopped || !goesOn || !r.options.KeepGoing
	if d.step = st; len(r.result.Divergences) < maxDivergences {
		if st != nil {
			d.Recorded = st.side()
		}
		if h != nil {
			d.Live = h.side()
		}
	} else if d.Changes = nil; st == nil {
		return
	}
	r.result.Divergences = append(r.result.Divergences, &d)
}

// cases returns what came of each frame of the peer.
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

// nameOf names a frame with what it answers: "frame 4, result 2 to tools/call 2".
func (s *Script) nameOf(st *step) string {
	name := st.String()
	if st.exchange != 0 && st.opens == 0 {
		opener := s.steps[s.opened[st.exchange].step]
		name += " to " + called(opener.well, string(opener.message.Kind), opener.message.ID.Text)
	}
	return name
}

// A Side is a frame, recorded or live.
type Side struct {
	Seq     int64 // 0 if it is live
	Kind    string
	ID      string
	Payload []byte // in its JSON form where it has one
}

func (st *step) side() *Side {
	return sideOf(st.seq, string(st.message.Kind), string(st.message.ID.Text), st.form, st.bytes())
}

func (st *step) bytes() []byte {
	if st.frame.Gap {
		return st.frame.Raw
	}
	return st.payload
}

func (h *heard) side() *Side {
	return sideOf(0, string(h.message.Kind), string(h.message.ID.Text), h.form, h.payload)
}

func sideOf(seq int64, kind, id string, form, payload []byte) *Side {
	if form != nil {
		payload = form
	}
	return &Side{Seq: seq, Kind: kind, ID: id, Payload: payload}
}

// String names a frame of the recording: "frame 5, result 1".
func (st *step) String() string {
	if st.seq == 0 {
		return called(st.well, string(st.message.Kind), st.message.ID.Text) + " of the recording"
	}
	return fmt.Sprintf("frame %d, %s", st.seq, called(st.well, string(st.message.Kind), st.message.ID.Text))
}

// String names a live frame: "result 1".
func (h *heard) String() string { return called(h.well, string(h.message.Kind), h.message.ID.Text) }

func called(well bool, kind string, id []byte) string {
	switch {
	case !well:
		return "what is not a message"
	case len(id) == 0:
		return kind
	}
	return kind + " " + string(render.AppendSafe(nil, id))
}
