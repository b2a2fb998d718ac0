package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
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

// Write writes the frames of one side byte for byte, with the recorded pauses divided by
// speed, or at once if speed is 0.
func (s *Script) Write(ctx context.Context, w io.Writer, side frame.Dir, speed float64) error {
	start := time.Now()
	var first time.Time
	for _, st := range s.steps {
		if st.dir != side {
			continue
		}
		if first.IsZero() {
			first = st.time
		}
		if speed > 0 && st.time.After(first) {
			due := start.Add(time.Duration(float64(st.time.Sub(first)) / speed))
			if wait.For(ctx, time.Until(due)) != nil {
				return ctx.Err()
			}
		}
		if _, err := w.Write(s.wireBytes(st)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wireBytes returns the bytes of a frame. For HTTP, it returns the body as a line.
func (s *Script) wireBytes(st *step) []byte {
	var l webLine
	if _, isWeb := s.Protocol.(web); !isWeb || json.Unmarshal(st.frame.Raw, &l) != nil {
		return st.frame.Raw
	}
	if body := l.content(); len(body) > 0 {
		return append(body, '\n')
	}
	return nil
}

// A Player plays one side on a connection: a [Script] or a [Repeater].
type Player interface {
	Run(ctx context.Context, conn transport.Conn, o Options) (Result, error)
}

// Serve plays the recorded unit for each client of a listener, concurrently, until ctx
// ends or, if clients is positive, for that many clients. The clients get the players in
// turn. Serve calls done with each result, one at a time, and returns when all have ended.
func Serve(ctx context.Context, l transport.Listener, players []Player, o Options, clients int, done func(client int, r Result, err error)) error {
	var running sync.WaitGroup
	defer running.Wait()
	var one sync.Mutex
	for n := 1; clients <= 0 || n <= clients; n++ {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		running.Go(func() {
			r, err := players[(n-1)%len(players)].Run(ctx, conn, o)
			one.Lock()
			defer one.Unlock()
			done(n, r, err)
		})
	}
	return nil
}

// A ledger finds exchanges by the names that their openers gave them. If an answer only
// accepts a request, the exchange continues, with its operation, under the name in the
// answer.
type ledger struct {
	exchanges map[name][]int // oldest first
	base      *protocol.Rules
	rules     *protocol.Rules // of the stated version
	states    map[int]state
}

// A state is the state of an exchange whose answer may only accept the request.
type state uint8

const (
	asked    state = iota + 1
	accepted       // the operation continues
	decided        // the operation has ended before the answer
	over
)

// A name is a name of an exchange. Without a text it stands for all exchanges of its opener.
type name struct {
	opener frame.Dir
	space  protocol.Space
	text   string
}

func newLedger(p protocol.Protocol) *ledger {
	rules := all.Rules(p)
	return &ledger{make(map[name][]int), rules, rules, make(map[int]state)}
}

// openExchange records the names of the exchange that m opens.
func (l *ledger) openExchange(from frame.Dir, m *protocol.Message, exchange int) {
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			l.bind(name{from, t.Space, string(t.Text)}, exchange)
		}
	}
	l.bind(name{opener: from}, exchange)
	if slices.Contains(l.rules.Accepted, string(m.Kind)) {
		l.states[exchange] = asked
	}
}

// ends updates the state of an exchange with a message from one side, and reports whether
// the message ends it.
func (l *ledger) ends(from frame.Dir, m *protocol.Message, exchange int) bool {
	if len(m.Version) > 0 && (l.rules == l.base || m.Phase.Ends()) {
		l.rules = l.base.At(string(m.Version))
	}
	ends := m.Phase.Ends()
	switch at := l.states[exchange]; {
	case at == asked && m.Phase == protocol.Close:
		if n := (name{from.Opposite(), m.Bind.Space, string(m.Bind.Text)}); !m.Bind.IsZero() {
			if slices.ContainsFunc(l.exchanges[n], func(e int) bool { return l.states[e] == accepted }) {
				break // it was accepted as part of that operation
			}
			l.bind(n, exchange)
		}
		l.states[exchange] = accepted
		return false
	case at == asked && m.Operation.Does.Ends():
		l.states[exchange] = decided
	case at == accepted && m.Operation.Does.Ends():
		ends = true
	}
	if ends && l.states[exchange] != 0 {
		l.states[exchange] = over
	}
	return ends
}

func (l *ledger) bind(n name, exchange int) { l.exchanges[n] = append(l.exchanges[n], exchange) }

// exchangeOf returns the exchange of m, sent by the side from, or 0. If several have the
// name, it returns the oldest that is wanted, or else the last.
func (l *ledger) exchangeOf(from frame.Dir, m *protocol.Message, wanted func(int) bool) int {
	token, opener := m.Ref, from.Opposite()
	switch {
	case m.Phase == protocol.Open:
		return 0
	case m.Phase == protocol.Cancel:
		if opener = from; token.IsZero() {
			return 0
		}
	case m.Phase == protocol.Note && m.Operation.Does.Ends():
		token = m.Operation.Of
	case m.Phase == protocol.Note && m.ID.IsZero():
		return 0
	case token.IsZero():
		token = m.ID
	}
	n := name{opener, token.Space, string(token.Text)}
	known := l.exchanges[n]
	if len(known) == 0 && (m.Phase == protocol.Part || m.Phase == protocol.Note) && !token.IsZero() {
		n.opener = from // a further message of a request
		known = l.exchanges[n]
	}
	if i := slices.IndexFunc(known, wanted); i >= 0 {
		// The exchanges before it have ended and are not needed again.
		l.exchanges[n] = known[i:]
		return known[i]
	}
	if len(known) == 0 {
		return 0
	}
	l.exchanges[n] = known[len(known)-1:]
	return known[len(known)-1]
}
