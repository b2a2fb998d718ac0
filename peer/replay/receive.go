package replay

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// arrived handles a frame from the peer.
func (r *run) arrived(a arrival) error {
	if a.last {
		return r.peerEnded(a.err)
	}
	gapped := r.gapped
	if r.gapped = a.frame.Gap; gapped && r.gapped {
		return nil // further pieces of bytes that are not a frame
	}
	h := r.hear(&a.frame)
	if h.well {
		from := r.options.Side.Opposite()
		h.exchange = r.live.exchangeOf(from, &h.message, r.expects)
		h.ends = r.live.ends(from, &h.message, h.exchange)
	}
	r.heard = h
	if string(h.message.Kind) == kindHalfClose && r.isWeb() {
		r.halfClosed(h)
		return nil
	}
	st, instead := r.counterpartOf(h)
	var seq int64
	if st != nil {
		seq = st.seq
	}
	r.trace(r.options.Side.Opposite(), seq, h.payload, &h.message, h.gap)
	if st == nil {
		return r.unforeseen(h, instead)
	}
	changes, err := r.compare(st, h)
	if err != nil {
		return err
	}
	if len(changes) > 0 && r.sweep == nil {
		r.differs(st, h, changes)
		return nil
	}
	r.result.Matched++
	r.match(st, h)
	return nil
}

// differs reports that a frame is not as recorded.
func (r *run) differs(st *step, h *heard, changes []Change) {
	r.diverge(Divergence{What: Differs, Changes: changes, Text: fmt.Sprintf("%s is not as recorded", st)}, st, h, true)
	if !r.stopped {
		r.match(st, h)
	}
}

// hear reads a frame of the peer.
func (r *run) hear(f *frame.Frame) *heard {
	h := &heard{raw: f.Raw, gap: f.Gap}
	h.read(f, r.script)
	return h
}

// match pairs a live frame with a recorded one.
func (r *run) match(st *step, h *heard) {
	if h.ends {
		r.passParts(st)
	}
	if st.opens != 0 {
		r.names.meet(&st.message, &h.message)
		r.live.openExchange(st.dir, &h.message, st.opens)
	}
	r.consume(st)
	for n := st.index + 1; st.frame.Gap && n < len(r.came) && r.script.steps[n].frame.Gap; n++ {
		if r.script.steps[n].dir == st.dir {
			r.consume(r.script.steps[n])
		}
	}
}

// passParts stops waiting for parts of an answer that has ended.
func (r *run) passParts(end *step) {
	if end.exchange == 0 {
		return
	}
	for _, st := range r.expected(end.exchange) {
		switch {
		case r.came[st.index] || st.index >= end.index:
		case st.message.Phase == protocol.Part:
			r.result.Missing++
			r.consume(st)
		case r.isWeb():
			r.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the answer ended, but %s was expected", st)}, st, nil, true)
			r.consume(st)
		}
	}
}

// halfClosed handles the end of a client's messages in a call: no more are expected.
func (r *run) halfClosed(h *heard) {
	r.trace(frame.C2U, 0, h.payload, &h.message, false)
	for _, st := range r.expected(h.exchange) {
		if r.came[st.index] || st.message.Phase != protocol.Part {
			continue
		}
		if r.options.Match.elastic() {
			r.result.Missing++
		} else {
			r.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the client sends no more, but %s was expected", st)}, st, nil, true)
		}
		r.consume(st)
	}
}

// unforeseen handles a frame that has no counterpart.
func (r *run) unforeseen(h *heard, instead *step) error {
	m := &h.message
	wentOn := r.isWeb() && m.Phase.Ends() && instead == nil // a stream that was still open when the recording ended
	isHead := r.isWeb() && string(m.Kind) == kindHead
	allowed := wentOn || isHead || r.leavesGet(h) || r.skips(m.Kind) || m.Phase == protocol.Part && r.options.Match.elastic() && instead == nil
	if allowed || r.sweep != nil || !r.script.Has(r.options.Side.Opposite()) {
		r.result.Extra++
		return nil
	}
	if v := r.visit(); v != nil && m.Phase == protocol.Open {
		v.refuse(m, h.String()+" has no counterpart in the recording")
	}
	if instead == nil {
		r.diverge(Divergence{What: Unforeseen, Text: fmt.Sprintf("%s has no counterpart in the recording", h)}, nil, h, true)
		return nil
	}
	r.diverge(Divergence{What: Differs, Text: fmt.Sprintf("%s arrived where %s was expected", h, instead)}, instead, h, true)
	if r.stopped || !h.ends {
		if r.isWeb() && m.Phase == protocol.Note && instead.message.Phase == protocol.Note {
			r.consume(instead)
		}
		return nil
	}
	return r.endEarly(h, instead)
}

// leavesGet reports whether a client leaves a stream that answers none of its calls. It may
// do so at any time.
func (r *run) leavesGet(h *heard) bool {
	if !r.isWeb() || h.message.Phase != protocol.Cancel || h.exchange == 0 {
		return false
	}
	opener := r.script.steps[r.script.opened[h.exchange].step]
	return string(opener.message.Kind) == http.MethodGet
}

// endEarly handles the end of an exchange that had more frames, or another end.
func (r *run) endEarly(h *heard, instead *step) error {
	for _, st := range r.expected(instead.exchange) {
		switch {
		case r.came[st.index]:
		case st.message.Phase == h.message.Phase && bytes.Equal(st.message.Kind, h.message.Kind):
			changes, err := r.compare(st, h)
			if len(changes) > 0 {
				r.differs(st, h, changes)
			} else if err == nil {
				r.match(st, h)
			}
			return err
		case st.ends:
			r.match(st, h)
			return nil
		case st != instead:
			r.result.Missing++
			r.consume(st)
		default:
			r.consume(st)
		}
	}
	return nil
}

// peerEnded records that the peer has ended its side.
func (r *run) peerEnded(err error) error {
	r.ended = true
	if err != nil && r.over() {
		return nil
	}
	if r.sweep != nil || r.options.Side == frame.U2C {
		return nil
	}
	text := "the peer ended"
	if err != nil {
		text = fmt.Sprintf("reading from the peer failed: %v;", err)
	}
	for st := range r.missing {
		r.diverge(Divergence{What: Gone, Text: fmt.Sprintf("%s, but %s was expected", text, st)}, st, nil, false)
		if !r.options.KeepGoing {
			break
		}
	}
	return nil
}

// timeout reports the frame that is late. To keep going, it skips the frames that block
// the next one of ours.
func (r *run) timeout() {
	st := r.first(anyStep)
	if st == nil {
		r.diverge(Divergence{What: Late, Text: fmt.Sprintf("the peer does not read: %s could not be sent within %v", r.writing, r.options.Timeout)}, r.writing, nil, false)
		return
	}
	text, next := r.lateness(st), len(r.script.steps)
	for i, waiting := range r.script.steps {
		if waiting.dir == r.options.Side && r.lacks[i] > 0 {
			text += fmt.Sprintf("; %s waits for it", waiting)
			next = i
			break
		}
	}
	if st.exchange != 0 && st.exchange != st.opens {
		if o := r.script.steps[r.script.opened[st.exchange].step]; o.dir == r.options.Side {
			text += fmt.Sprintf("; it answers %s", o)
		}
	}
	r.diverge(Divergence{What: Late, Text: text}, st, nil, true)
	if r.stopped {
		return
	}
	r.consume(st)
	for _, late := range slices.Collect(r.missing) {
		if late.index < next {
			r.diverge(Divergence{What: Late, Text: r.lateness(late)}, late, nil, true)
			r.consume(late)
		}
	}
}

func (r *run) lateness(st *step) string {
	return fmt.Sprintf("%s did not arrive within %v", st, r.options.Timeout)
}

func anyStep(*step) bool { return true }
