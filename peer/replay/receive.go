package replay

import (
	"fmt"

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
		return nil // where bytes that are no frame are cut means nothing
	}
	h := r.hear(&a.frame)
	st, instead := r.counterpartOf(h)
	var seq int64
	if st != nil {
		seq = st.seq
	}
	r.trace(r.options.Side.Opposite(), seq, h.payload, &h.message, h.gap)
	if st == nil {
		r.unforeseen(h, instead)
		return nil
	}
	changes, err := r.compare(st, h)
	if err != nil {
		return err
	}
	if len(changes) > 0 && r.sweep == nil {
		r.result.Divergence = &Divergence{
			What: Differs, Recorded: st.side(), Live: h.side(), Changes: changes,
			Text: fmt.Sprintf("%s is not as recorded", st),
		}
		return nil
	}
	r.match(st, h)
	return nil
}

// hear reads a frame of the peer.
func (r *run) hear(f *frame.Frame) *heard {
	h := &heard{raw: f.Raw, payload: f.Payload(), gap: f.Gap}
	h.message.Reset()
	if h.gap {
		h.payload = f.Raw
		return h
	}
	p := r.script.Protocol
	h.well = p.Parse(h.payload, &h.message) == nil
	h.form = formOf(p, h.payload)
	h.digest = digestOf(h.form, h.payload, &h.message)
	return h
}

// match takes a live frame for a recorded one.
func (r *run) match(st *step, h *heard) {
	r.result.Matched++
	if h.message.Phase.Ends() {
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
		if !r.came[st.index] && st.index < end.index && st.message.Phase == protocol.Part {
			r.result.Missing++
			r.consume(st)
		}
	}
}

// unforeseen handles a frame that has no counterpart.
func (r *run) unforeseen(h *heard, instead *step) {
	m := &h.message
	allowed := r.skips(m.Kind) || m.Phase == protocol.Part && r.options.Match.elastic() && instead == nil
	if allowed || r.sweep != nil || !r.script.Has(r.options.Side.Opposite()) {
		r.result.Extra++
		return
	}
	d := &Divergence{What: Unforeseen, Live: h.side(), Text: fmt.Sprintf("%s has no counterpart in the recording", h)}
	if instead != nil {
		d.What, d.Recorded = Differs, instead.side()
		d.Text = fmt.Sprintf("%s comes where %s was to come", h, instead)
	}
	r.result.Divergence = d
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
	if st := r.first(anyStep); st != nil {
		text := "the peer ended"
		if err != nil {
			text = fmt.Sprintf("reading from the peer failed: %v;", err)
		}
		r.result.Divergence = &Divergence{What: Gone, Recorded: st.side(), Text: fmt.Sprintf("%s, and %s was still to come", text, st)}
	}
	return nil
}

// timeout says what did not come in time.
func (r *run) timeout() {
	st := r.first(anyStep)
	if st == nil {
		r.result.Divergence = &Divergence{What: Late, Recorded: r.writing.side(), Text: fmt.Sprintf("the peer does not read: %s could not be sent within %v", r.writing, r.options.Timeout)}
		return
	}
	text := fmt.Sprintf("%s did not come within %v", st, r.options.Timeout)
	for i, next := range r.script.steps {
		if next.dir == r.options.Side && r.lacks[i] > 0 {
			text += fmt.Sprintf("; %s waits for it", next)
			break
		}
	}
	if st.exchange != 0 && st.exchange != st.opens {
		if o := r.script.steps[r.script.opened[st.exchange].step]; o.dir == r.options.Side {
			text += fmt.Sprintf("; it answers %s", o)
		}
	}
	r.result.Divergence = &Divergence{What: Late, Recorded: st.side(), Text: text}
}

func anyStep(*step) bool { return true }
