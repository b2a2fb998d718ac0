package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// quiet is how long a finished run waits for excess frames if the peer does not close.
const quiet = time.Second

// Run plays the script over a connection, which it closes. The error is about the
// connection or the run; divergences are in the result.
func (s *Script) Run(ctx context.Context, conn transport.Conn, o Options) (Result, error) {
	if s.refused != nil {
		return Result{}, errors.Join(s.refused, conn.Close())
	}
	p := newPass(newRun(ctx, s, conn, &o), s.scenes(o.Side))
	result, err := p.play()
	result.Missing += int64(p.left)
	if o.Cases {
		result.Cases = p.cases()
	}
	return result, err
}

// A pass plays a script one time, and compares each frame of the peer with its counterpart.
type pass struct {
	*run
	came   map[*step]bool
	theirs []*step   // the peer's, from the first missing one
	queues [][]*step // the same, by exchange
	left   int       // missing frames of the peer

	live    *ledger
	latest  *liveFrame // frame of the peer
	lenient bool       // differences do not matter
}

func newPass(r *run, scenes []*scene) *pass {
	s := r.script
	p := &pass{run: r, came: map[*step]bool{}, queues: make([][]*step, len(s.opened)), live: newLedger(s.Protocol)}
	for _, st := range s.steps {
		if st.dir != p.options.Side {
			p.theirs = append(p.theirs, st)
			p.queues[st.exchange] = append(p.queues[st.exchange], st)
			p.left++
		}
	}
	p.guide, p.waiting = p, map[*step][]*turn{}
	for _, sc := range scenes {
		p.begin(&turn{scene: sc, came: p.came, names: p.names})
	}
	for _, st := range p.theirs {
		if p.skips(st.message.Kind) {
			p.consume(st)
		}
	}
	return p
}

func (p *pass) act()          {}
func (p *pass) noteEnd(*turn) {}

func (p *pass) noteSend(_ *turn, st *step, m *protocol.Message) {
	if st.opens != 0 {
		p.live.openExchange(st.dir, m, st.opens)
	}
	p.live.ends(st.dir, m, st.exchange)
}

// pause closes our side once nothing more will be sent.
func (p *pass) pause() (pause, error) {
	if p.isSilent() && !p.closed {
		if err := p.closeWrite(); err != nil || p.done() {
			return pause{}, err
		}
	}
	switch isUnit := p.options.Side == frame.U2C; {
	case isUnit && p.over() && p.visit() != nil:
		p.ended = true
		return pause{}, nil
	case !isUnit && p.over():
		return pause{time: p.linger(), over: func() { p.ended = true }}, nil
	case isUnit, p.options.Timeout == 0:
		return pause{forever: true}, nil
	}
	return pause{time: p.options.Timeout, over: p.timeout}, nil
}

// isSilent reports whether nothing more will be sent. A unit's client may always send
// another request.
func (p *pass) isSilent() bool {
	switch {
	case len(p.turns) > 0 || p.writing != nil:
		return false
	case p.options.Side == frame.U2C:
		return p.ended
	}
	return p.left == 0 || p.endsInside()
}

// endsInside reports whether the last bytes sent are not a whole frame, so that the peer
// only notices when the stream ends.
func (p *pass) endsInside() bool {
	for _, st := range slices.Backward(p.script.steps) {
		if st.dir == p.options.Side {
			return st.frame.Gap
		}
	}
	return true
}

// over reports whether both sides have sent everything.
func (p *pass) over() bool { return len(p.turns) == 0 && p.writing == nil && p.left == 0 }

// linger is how long to wait for the peer's end. A peer without frames in the recording
// may have much to send.
func (p *pass) linger() time.Duration {
	if len(p.script.steps) == int(p.result.Sent) && p.options.Timeout > 0 {
		return p.options.Timeout
	}
	return quiet
}

// closeWrite closes our side.
func (p *pass) closeWrite() error {
	p.closed = true
	err := p.conn.CloseWrite()
	if errors.Is(err, errors.ErrUnsupported) {
		// There is no half-close.
		if p.over() {
			p.ended = true
		}
		return nil
	}
	return err
}

// handle compares a frame of the peer with its counterpart.
func (p *pass) handle(h *liveFrame) error {
	from := p.options.Side.Opposite()
	if h.well {
		h.exchange = p.live.exchangeOf(from, &h.message, p.expects)
		h.ends = p.live.ends(from, &h.message, h.exchange)
	}
	p.latest = h
	if string(h.message.Kind) == kindHalfClose && p.isWeb() {
		p.halfClosed(h)
		return nil
	}
	st, instead := p.counterpartOf(h)
	var seq int64
	if st != nil {
		seq = st.seq
	}
	p.trace(from, seq, h.payload, &h.message, h.gap)
	if st == nil {
		return p.unforeseen(h, instead)
	}
	changes, err := p.compare(st, h)
	switch {
	case err != nil:
		return err
	case len(changes) > 0:
		p.differs(st, h, changes)
	default:
		p.result.Matched++
		p.match(st, h)
	}
	return nil
}

// differs reports that a frame is not as recorded.
func (p *pass) differs(st *step, h *liveFrame, changes []Change) {
	p.diverge(Divergence{What: Differs, Changes: changes, Text: fmt.Sprintf("%s is not as recorded", st)}, st, h, true)
	if !p.stopped {
		p.match(st, h)
	}
}

// match pairs a live frame with a recorded one.
func (p *pass) match(st *step, h *liveFrame) {
	if h.ends {
		p.passParts(st)
	}
	if st.opens != 0 {
		p.names.meet(&st.message, &h.message)
		p.live.openExchange(st.dir, &h.message, st.opens)
	}
	p.consume(st)
	for n := st.index + 1; st.frame.Gap && n < len(p.script.steps) && p.script.steps[n].frame.Gap; n++ {
		if p.script.steps[n].dir == st.dir {
			p.consume(p.script.steps[n])
		}
	}
}

// passParts stops waiting for parts of an answer that has ended.
func (p *pass) passParts(end *step) {
	if end.exchange == 0 {
		return
	}
	for _, st := range p.expected(end.exchange) {
		switch {
		case p.came[st] || st.index >= end.index:
		case st.message.Phase == protocol.Part:
			p.result.Missing++
			p.consume(st)
		case p.isWeb():
			p.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the answer ended, but %s was expected", st)}, st, nil, true)
			p.consume(st)
		}
	}
}

// halfClosed handles the end of a client's messages in a call: no more are expected.
func (p *pass) halfClosed(h *liveFrame) {
	p.trace(frame.C2U, 0, h.payload, &h.message, false)
	for _, st := range p.expected(h.exchange) {
		if p.came[st] || st.message.Phase != protocol.Part {
			continue
		}
		if p.options.Match.elastic() {
			p.result.Missing++
		} else {
			p.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the client sends no more, but %s was expected", st)}, st, nil, true)
		}
		p.consume(st)
	}
}

// unforeseen handles a frame that has no counterpart.
func (p *pass) unforeseen(h *liveFrame, instead *step) error {
	m := &h.message
	wentOn := p.isWeb() && m.Phase.Ends() && instead == nil // a stream that was still open when the recording ended
	isHead := p.isWeb() && string(m.Kind) == kindHead
	allowed := wentOn || isHead || p.leavesGet(h) || p.skips(m.Kind) || m.Phase == protocol.Part && p.options.Match.elastic() && instead == nil
	if allowed || p.lenient || !p.script.Has(p.options.Side.Opposite()) {
		p.result.Extra++
		return nil
	}
	if v := p.visit(); v != nil && m.Phase == protocol.Open {
		v.refuse(m, h.String()+" has no counterpart in the recording")
	}
	if instead == nil {
		p.diverge(Divergence{What: Unforeseen, Text: fmt.Sprintf("%s has no counterpart in the recording", h)}, nil, h, true)
		return nil
	}
	p.diverge(Divergence{What: Differs, Text: fmt.Sprintf("%s arrived where %s was expected", h, instead)}, instead, h, true)
	if p.stopped || !h.ends {
		if p.isWeb() && m.Phase == protocol.Note && instead.message.Phase == protocol.Note {
			p.consume(instead)
		}
		return nil
	}
	return p.endEarly(h, instead)
}

// leavesGet reports whether a client leaves a stream that answers none of its calls. It may
// do so at any time.
func (p *pass) leavesGet(h *liveFrame) bool {
	if !p.isWeb() || h.message.Phase != protocol.Cancel || h.exchange == 0 {
		return false
	}
	opener := p.script.steps[p.script.opened[h.exchange].step]
	return string(opener.message.Kind) == http.MethodGet
}

// endEarly handles the end of an exchange that had more frames, or another end.
func (p *pass) endEarly(h *liveFrame, instead *step) error {
	for _, st := range p.expected(instead.exchange) {
		switch {
		case p.came[st]:
		case st.message.Phase == h.message.Phase && bytes.Equal(st.message.Kind, h.message.Kind):
			changes, err := p.compare(st, h)
			if len(changes) > 0 {
				p.differs(st, h, changes)
			} else if err == nil {
				p.match(st, h)
			}
			return err
		case st.ends:
			p.match(st, h)
			return nil
		case st != instead:
			p.result.Missing++
			p.consume(st)
		default:
			p.consume(st)
		}
	}
	return nil
}

// peerEnded reports the frames that are missing.
func (p *pass) peerEnded(err error) {
	if p.lenient || p.options.Side == frame.U2C || err != nil && p.over() {
		return
	}
	text := "the peer ended"
	if err != nil {
		text = fmt.Sprintf("reading from the peer failed: %v;", err)
	}
	for st := range p.missing {
		p.diverge(Divergence{What: Gone, Text: fmt.Sprintf("%s, but %s was expected", text, st)}, st, nil, false)
		if !p.options.KeepGoing {
			break
		}
	}
}

// writeFailed handles a failed write: the peer is gone.
func (p *pass) writeFailed(st *step, err error) {
	if p.lenient || p.options.Side == frame.U2C {
		p.ended, p.turns, p.ready = true, nil, nil
		return
	}
	p.diverge(Divergence{What: Gone, Text: fmt.Sprintf("the peer left before %s could be sent: %v", st, err)}, st, nil, false)
}

// timeout reports the frame that is late. To keep going, it skips the frames that block
// the next one of ours.
func (p *pass) timeout() {
	st := p.first(func(*step) bool { return true })
	if st == nil {
		p.diverge(Divergence{What: Late, Text: fmt.Sprintf("the peer does not read: %s could not be sent within %v", p.writing, p.options.Timeout)}, p.writing, nil, false)
		return
	}
	text, next := p.lateness(st), len(p.script.steps)
	for _, t := range p.turns { // the only one
		for _, waiting := range t.steps[t.next:] {
			if waiting.dir == p.options.Side && waiting != p.writing {
				text += fmt.Sprintf("; %s waits for it", waiting)
				next = waiting.index
				break
			}
		}
	}
	if st.exchange != 0 && st.exchange != st.opens {
		if o := p.script.steps[p.script.opened[st.exchange].step]; o.dir == p.options.Side {
			text += fmt.Sprintf("; it answers %s", o)
		}
	}
	p.diverge(Divergence{What: Late, Text: text}, st, nil, true)
	if p.stopped {
		return
	}
	p.consume(st)
	for _, late := range slices.Collect(p.missing) {
		if late.index < next {
			p.diverge(Divergence{What: Late, Text: p.lateness(late)}, late, nil, true)
			p.consume(late)
		}
	}
}

func (p *pass) lateness(st *step) string {
	return fmt.Sprintf("%s did not arrive within %v", st, p.options.Timeout)
}

// consume marks a frame of the peer as arrived, or as no longer expected.
func (p *pass) consume(st *step) {
	if p.came[st] {
		return
	}
	p.came[st] = true
	p.left--
	for len(p.theirs) > 0 && p.came[p.theirs[0]] {
		p.theirs = p.theirs[1:]
	}
	turns, now := p.waiting[st], time.Now()
	delete(p.waiting, st)
	for _, t := range turns {
		p.advance(t, now)
	}
}

// missing yields the frames of the peer that have not arrived, in order.
func (p *pass) missing(yield func(*step) bool) {
	for _, st := range p.theirs {
		if !p.came[st] && !yield(st) {
			return
		}
	}
}

// first returns the first missing frame for which may is true.
func (p *pass) first(may func(*step) bool) *step {
	for st := range p.missing {
		if may(st) {
			return st
		}
	}
	return nil
}

// expected returns the missing frames of an exchange; some after the first may have
// arrived.
func (p *pass) expected(exchange int) []*step {
	q := p.queues[exchange]
	for len(q) > 0 && p.came[q[0]] {
		q = q[1:]
	}
	p.queues[exchange] = q
	return q
}

// expects reports whether frames of an exchange are missing.
func (p *pass) expects(exchange int) bool { return len(p.expected(exchange)) > 0 }

// counterpartOf returns the recorded frame that corresponds to a live one, or nil. If it
// is nil, instead is the frame that was expected, if any.
func (p *pass) counterpartOf(h *liveFrame) (found, instead *step) {
	switch {
	case h.gap || !h.well:
		return p.first(func(st *step) bool { return !st.well && st.frame.Gap == h.gap }), nil
	case h.message.Phase == protocol.Open:
		return p.alike(h, func(st *step) bool { return st.message.Phase == protocol.Open }), nil
	}
	if h.exchange != 0 {
		if found, instead = p.inExchange(h, h.exchange); found != nil || instead != nil {
			return found, instead
		}
	}
	// The frame belongs to no exchange, or is alone in it.
	loose := h.message.Phase == protocol.Part && all.Rules(p.script.Protocol).LooseRefs
	return p.alike(h, func(st *step) bool {
		return (st.exchange == st.opens || loose) && st.message.Phase == h.message.Phase
	}), nil
}

// alike returns the most similar missing frame for which may is true: with the same content
// and reference, the same content, the same label, or at least the same kind.
func (p *pass) alike(h *liveFrame, may func(*step) bool) *step {
	var same, about, kind *step
	for st := range p.missing {
		switch {
		case !may(st) || !bytes.Equal(st.message.Kind, h.message.Kind):
		case st.digest == h.digest && p.refersAlike(st, h):
			return st
		case same == nil && st.digest == h.digest:
			same = st
		case about == nil && bytes.Equal(st.message.Label, h.message.Label):
			about = st
		case kind == nil:
			kind = st
		}
	}
	return cmp.Or(same, about, kind)
}

// refersAlike reports whether two messages refer to the same thing, whatever its live id.
func (p *pass) refersAlike(st *step, h *liveFrame) bool {
	recorded, live := st.message.Ref, h.message.Ref
	if recorded.IsZero() || recorded.Space == protocol.SpaceID || bytes.Equal(recorded.Text, live.Text) {
		return true
	}
	called, ok := p.names.others[idValueOf("", recorded.Text)]
	return ok && called == string(live.Text)
}

// inExchange looks for the counterpart among the missing frames of an exchange.
func (p *pass) inExchange(h *liveFrame, exchange int) (found, instead *step) {
	list := p.expected(exchange)
	part := h.message.Phase == protocol.Part
	for _, st := range list {
		if p.came[st] {
			continue
		}
		if st.message.Phase == h.message.Phase && bytes.Equal(st.message.Kind, h.message.Kind) {
			return st, nil
		}
		if instead == nil && (part || st.message.Phase != protocol.Part || !p.options.Match.elastic()) {
			instead = st
		}
		if !part && !p.options.Match.elastic() {
			return nil, instead
		}
	}
	if part && p.options.Match.elastic() {
		return nil, nil
	}
	if instead == nil && len(list) > 0 {
		instead = list[0] // it is missing
	}
	return nil, instead
}
