package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// A Trial says how [Script.Try] plays a client against a server that need not behave as recorded.
type Trial struct {
	// Speed divides the recorded pauses, before which everything recorded must have arrived. If it is
	// 0, the client sends at once, and only waits for what its messages depend on: answers to its
	// requests, and requests of the server that it answers.
	Speed float64
	// Patience is how long the server may be silent while it owes a message, and Startup how long
	// before its first one.
	Patience, Startup time.Duration
	// Parting is how long the server may take to end after the client has closed its side.
	Parting time.Duration
	// Answers has the client's answers to requests of the server that the script does not have; or nil.
	Answers *Script
	// Heard is called with each frame when it is sent or has arrived. The number is that of the frame
	// in the script; 0 if it is not from there. Enough, called whenever the run pauses, ends it by
	// returning true.
	Heard  func(f *frame.Frame, seq int64)
	Enough func() bool
	// Limit is the largest payload to read, as in [Options].
	Limit int
}

// An Attempt is what a trial learned about the server.
type Attempt struct {
	// Slowest is the longest that an answer took, or that the server was silent before a message, after
	// its first one.
	Slowest time.Duration
	// Died means that the server ended first. Waited means that patience ran out, and Lingers that the
	// server did not end.
	Died, Waited, Lingers bool
}

// ErrNoTrial means that a script cannot be played by [Script.Try].
var ErrNoTrial = errors.New("sessions over HTTP and gRPC are only played by replay")

// Try plays the client over a connection, which it closes, and tolerates every difference.
func (s *Script) Try(ctx context.Context, conn transport.Conn, o Trial) (Attempt, error) {
	if _, isWeb := s.Protocol.(web); isWeb || s.refused != nil {
		return Attempt{}, errors.Join(ErrNoTrial, conn.Close())
	}
	options := Options{Side: frame.C2U, Speed: o.Speed, Timeout: o.Patience, KeepGoing: true, Limit: o.Limit}
	t := &trial{Trial: o, tracker: session.New(s.Protocol, session.Options{}), skipped: map[int]bool{}, asked: map[string]time.Time{}}
	r := newRun(ctx, s, conn, &options)
	r.tap = func(f *frame.Frame, seq int64) { o.Heard(f, seq) }
	var scenes []*scene
	for _, sc := range s.scenes(frame.C2U) {
		scenes = append(scenes, t.waitingScene(sc))
	}
	t.pass = newPass(r, scenes)
	t.lenient, t.guide, t.follow = true, t, t.feed
	_, err := t.play()
	return t.attempt, err
}

// A trial plays a script one time.
type trial struct {
	*pass
	Trial
	attempt Attempt
	tracker *session.Tracker
	skipped map[int]bool // exchanges of the server that it did not open this time
	asked   map[string]time.Time
	answers [][]byte // to requests that the script does not have, to be sent
	seq     int64
	started bool      // the server has sent something
	moved   time.Time // when a frame was last sent or arrived
	judged  bool      // nothing has happened since Enough was called
	closing bool
}

// waitingScene returns a scene without frames that the client does not wait for.
func (t *trial) waitingScene(sc *scene) *scene {
	waits := &scene{script: sc.script, cue: sc.cue}
	for i, st := range sc.steps {
		if st.dir == frame.C2U || t.isAwaited(sc.script, st) {
			waits.steps, waits.pause = append(waits.steps, st), append(waits.pause, sc.pause[i])
		}
	}
	return waits
}

// isAwaited reports whether later frames of the client may depend on a frame of the server.
func (t *trial) isAwaited(s *Script, st *step) bool {
	switch {
	case t.Speed > 0:
		return true
	case st.exchange == 0:
		return false
	}
	isOurs := func(may func(*step) bool) bool {
		return slices.ContainsFunc(s.opened[st.exchange].steps, func(i int) bool { return s.steps[i].dir == frame.C2U && may(s.steps[i]) })
	}
	switch {
	case st.opens != 0:
		return isOurs(func(our *step) bool { return our.message.Phase.Ends() })
	case s.opened[st.exchange].from != frame.C2U:
		return false
	}
	return st.ends || isOurs(func(our *step) bool { return our.message.Phase == protocol.Cancel })
}

// feed follows the session.
func (t *trial) feed(d frame.Dir, payload []byte, m *protocol.Message, gap bool) {
	t.seq++
	if d == frame.U2C && t.started {
		t.attempt.Slowest = max(t.attempt.Slowest, time.Since(t.moved))
	}
	t.moved, t.judged = time.Now(), false
	f := session.Frame{Seq: t.seq, Time: t.moved, Conn: 1, Dir: d, Size: len(payload), Framing: t.script.Framing, Payload: payload, Gap: gap}
	if gap || t.script.Protocol.Parse(payload, new(protocol.Message)) != nil {
		f.Fault, m = frame.ErrMalformed, nil
	}
	t.tracker.Feed(f, m)
	if d == frame.U2C && !t.started {
		t.started = true
		for id := range t.asked {
			t.asked[id] = t.moved
		}
	}
	switch {
	case m == nil:
	case d == frame.C2U && m.Phase == protocol.Open:
		t.asked[string(m.ID.Text)] = t.moved
	case d == frame.U2C && m.Phase.Ends():
		token := m.Ref
		if token.IsZero() {
			token = m.ID
		}
		if at, ok := t.asked[string(token.Text)]; ok {
			t.attempt.Slowest = max(t.attempt.Slowest, t.moved.Sub(at))
			delete(t.asked, string(token.Text))
		}
	}
}

// handle also answers requests that the script does not have.
func (t *trial) handle(h *liveFrame) error {
	isNew := h.well && h.message.Phase == protocol.Open
	if isNew {
		recorded := t.alike(h, func(st *step) bool { return st.message.Phase == protocol.Open })
		isNew = recorded == nil || !t.isAwaited(t.script, recorded) // it has no answer in the script
	}
	matched := t.result.Matched
	if err := t.pass.handle(h); err != nil {
		return err
	}
	if h.well && h.ends && t.result.Matched == matched { // in another way than recorded
		for _, st := range slices.Clone(t.expected(h.exchange)) {
			if t.consume(st); st.ends {
				break
			}
		}
	}
	if !isNew || t.Answers == nil {
		return nil
	}
	if answer := t.Answers.answerTo(h); answer != nil {
		t.answers = append(t.answers, answer)
	}
	return nil
}

// answerTo returns the recorded answer of the client to the request most like a live one, with its
// id; nil if there is none.
func (s *Script) answerTo(h *liveFrame) []byte {
	var best *step
	for _, st := range s.steps {
		if st.dir != frame.U2C || st.opens == 0 || string(st.message.Kind) != string(h.message.Kind) {
			continue
		}
		for _, i := range s.opened[st.opens].steps {
			if a := s.steps[i]; a.dir == frame.C2U && a.message.Phase.Ends() && (best == nil || st.digest == h.digest) {
				best = a
			}
		}
	}
	if best == nil || best.form == nil {
		return nil
	}
	var answer []byte
	jsondiff.Leaves(best.payload, func(key string, at int, value []byte) {
		if answer == nil && jsondiff.HoldsID(key) && jsondiff.IsToken(value, string(best.message.ID.Text)) {
			answer = protocol.AppendPlaced(nil, best.payload, []protocol.Place{{Start: at, End: at + len(value), Text: h.message.ID.Text}})
		}
	})
	if !isJSON(answer) {
		return nil
	}
	return jsonscan.AppendCompact(nil, answer)
}

// act ends the run early, and sends answers. Answers of the script to requests that did not come are
// not sent.
func (t *trial) act() {
	if !t.judged && !t.closing {
		if t.judged = true; t.Enough() {
			t.stopped = true
			return
		}
	}
	for _, tn := range slices.Clone(t.ready) {
		for tn.next < len(tn.steps) && t.skipped[tn.steps[tn.next].exchange] && tn.steps[tn.next].dir == frame.C2U {
			t.ready = slices.DeleteFunc(t.ready, func(other *turn) bool { return other == tn })
			tn.next++
			t.advance(tn, time.Now())
		}
	}
	if len(t.answers) == 0 || t.closing {
		return
	}
	payload := t.answers[0]
	t.answers = t.answers[1:]
	st := &step{index: unrecorded, dir: frame.C2U, reading: reading{payload: payload, well: true}}
	raw, err := frame.Append(nil, t.script.Framing, payload)
	if err == nil && t.script.Protocol.Parse(payload, &st.message) == nil {
		t.write(st, nil, raw, payload, &st.message)
	}
}

// pause returns how long to wait for the server: while it owes something, as long as its patience
// lasts. Then the client closes its side.
func (t *trial) pause() (pause, error) {
	if t.moved.IsZero() {
		t.moved = time.Now()
	}
	if !t.closing && len(t.turns) == 0 && t.writing == nil && len(t.answers) == 0 && !t.owes() {
		t.disconnect()
	}
	if t.closing {
		return pause{time: t.Parting, over: func() { t.attempt.Lingers, t.ended = true, true }}, nil
	}
	patience := t.Patience
	if !t.started {
		patience = max(patience, t.Startup)
	}
	return pause{time: patience - time.Since(t.moved), over: t.giveUp}, nil
}

// owes reports whether the server has not sent all that was recorded and is awaited, or has not
// answered.
func (t *trial) owes() bool {
	return t.tracker.InFlight() > 0 || t.first(func(st *step) bool { return t.isAwaited(t.script, st) && !t.skipped[st.exchange] }) != nil
}

// giveUp stops waiting for the frames before the client's next one, or for the last ones.
func (t *trial) giveUp() {
	t.attempt.Waited, t.moved = true, time.Now()
	switch {
	case t.writing != nil: // the server does not read
		t.stopped = true
	case len(t.turns) == 0:
		t.disconnect()
	}
	for _, tn := range slices.Clone(t.turns) {
		for tn.next < len(tn.steps) && tn.steps[tn.next].dir != frame.C2U {
			st := tn.steps[tn.next]
			if st.opens != 0 {
				t.skipped[st.exchange] = true
			}
			t.consume(st)
			if tn.next < len(tn.steps) && tn.steps[tn.next] == st {
				tn.next++
				t.advance(tn, t.moved)
			}
		}
	}
}

// disconnect closes the client's side.
func (t *trial) disconnect() {
	t.closing, t.closed = true, true
	if t.conn.CloseWrite() != nil {
		t.ended = true
	}
}

func (t *trial) peerEnded(error) {
	t.turns, t.ready, t.answers, t.judged = nil, nil, nil, true
	t.attempt.Died = !t.closing
}

// writeFailed sends no more. What the server has sent before it left can still be read.
func (t *trial) writeFailed(*step, error) {
	t.turns, t.ready, t.answers, t.moved = nil, nil, nil, time.Now()
}
