package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// soonest returns the ready frame that is due first.
func (r *run) soonest() int {
	best := r.ready[0]
	for _, i := range r.ready[1:] {
		if d := r.due(i).Compare(r.due(best)); d < 0 || d == 0 && i < best {
			best = i
		}
	}
	return best
}

// due returns the time to send a frame.
func (r *run) due(i int) time.Time {
	if r.options.Speed <= 0 {
		return r.moved[i]
	}
	return r.moved[i].Add(time.Duration(float64(r.order.pause[i]) / r.options.Speed))
}

// sendFrame starts writing one of our frames.
func (r *run) sendFrame(st *step) {
	r.ready = slices.DeleteFunc(r.ready, func(i int) bool { return i == st.index })
	raw, payload := r.bytesOf(st)
	m := st.message
	if st.well && !bytes.Equal(payload, st.payload) {
		_ = r.script.Protocol.Parse(payload, &m) // only the ids differ
	}
	if st.opens != 0 {
		r.live.openExchange(st.dir, &m, st.opens)
	}
	r.live.ends(st.dir, &m, st.exchange)
	r.writing = st
	r.trace(st.dir, st.seq, payload, &m, st.frame.Gap)
	r.outgoing <- raw
}

// bytesOf returns a frame of ours with the live ids.
func (r *run) bytesOf(st *step) (raw, payload []byte) {
	payload = st.payload
	if !st.frame.Gap && !st.frame.Compressed {
		payload = r.names.rename(st, r.script.Protocol)
	}
	if bytes.Equal(payload, st.payload) {
		return st.frame.Raw, payload
	}
	raw, err := frame.Append(nil, r.script.Framing, payload)
	if err != nil {
		return st.frame.Raw, st.payload
	}
	return raw, payload
}

// sent handles the end of a write.
func (r *run) sent(err error) error {
	st := r.writing
	r.writing = nil
	if err != nil {
		return r.broken(st, err)
	}
	r.result.Sent++
	if st.index != made {
		r.pass(st)
	}
	return nil
}

// broken handles a failed write: the peer is gone.
func (r *run) broken(st *step, err error) error {
	if r.options.Side == frame.U2C || r.sweep != nil {
		r.ended, r.ready = true, nil
		return nil
	}
	r.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the peer left before %s could be sent: %v", st, err)}, st, nil, false)
	return nil
}

// closeWrite closes our side.
func (r *run) closeWrite() error {
	r.closed = true
	err := r.conn.CloseWrite()
	if errors.Is(err, errors.ErrUnsupported) {
		// There is no half-close.
		if r.over() {
			r.ended = true
		}
		return nil
	}
	return err
}
