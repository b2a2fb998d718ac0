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

// A Divergence is where the peer left the recording, for the first time.
type Divergence struct {
	What     What
	Text     string // says it in words
	Recorded *Side  // nil where the recording has nothing
	Live     *Side  // nil where nothing came
	Changes  []Change
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
		return "what is no message"
	case len(id) == 0:
		return kind
	}
	return kind + " " + string(render.AppendSafe(nil, id))
}
