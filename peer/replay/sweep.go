package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/transport"
)

// A Sweep says which request to cancel, and when.
type Sweep struct {
	// Request is the number of the frame that opens it; 0 chooses the controller's first
	// request that the recording answers in parts, or with a task.
	Request int64
	// At is the number of parts after which to cancel; -1 tries every point.
	At int
	// Settle is how long to wait for further frames.
	Settle time.Duration
	// Dial connects to the peer, once for each point.
	Dial func(context.Context) (transport.Conn, error)
}

// A Point is the outcome of a cancel after that many parts.
type Point struct {
	After int
	// Reached is false if the request ended, or the peer fell silent, before
	// that; Why says which.
	Reached bool
	Why     string
	Class   session.Class
	// Parts and Bytes arrived after the cancel, the last after Took.
	Parts, Bytes int64
	Took         time.Duration
	Confirmed    bool
	// Findings are the rules that the peer broke.
	Findings []session.Finding
}

// Breaks reports whether the peer broke a rule.
func (p *Point) Breaks() bool {
	return slices.ContainsFunc(p.Findings, func(f session.Finding) bool { return f.Severity >= session.Warning })
}

// ErrNoRequest means that there is nothing to cancel.
var ErrNoRequest = errors.New("the controller sends no request that is answered in parts")

// maxPoints bounds a sweep of a peer whose answer does not end.
const maxPoints = 10_000

// Sweep plays the script once for each point, on a connection of its own: up to the
// request, and after that only answers to the peer. It passes each point to yield.
func (s *Script) Sweep(ctx context.Context, o Options, w Sweep, yield func(*Point) error) error {
	if s.refused != nil {
		return s.refused
	}
	target, err := s.target(w.Request)
	if err != nil {
		return err
	}
	o.Side, o.Match = frame.C2U, Matcher{}
	for after := max(w.At, 0); after < max(w.At+1, maxPoints); after++ {
		p, err := s.cancelAt(ctx, o, &w, target, after)
		if err != nil {
			return err
		}
		if !p.Reached && w.At < 0 && after > 0 && (p.Why == whyEnded || p.Why == whyInput) {
			return nil
		}
		if err := yield(p); err != nil {
			return err
		}
		if w.At >= 0 || !p.Reached {
			return nil
		}
	}
	return nil
}

// Why a point is not reached, if it is not a fault of the peer.
const (
	whyEnded = "it had ended"
	whyInput = "it asked for input, and the recording has none"
)

// target returns the exchange to cancel.
func (s *Script) target(request int64) (int, error) {
	for n, o := range s.opened {
		if n == 0 {
			continue
		}
		m := s.steps[o.step].meaning()
		if o.from != frame.C2U || m.Phase != protocol.Open {
			continue
		}
		if request != 0 {
			if s.steps[o.step].seq == request {
				return n, s.cancellable(n)
			}
			continue
		}
		if m.Operation.Does == protocol.Open && !m.Operation.Of.IsZero() {
			continue // it asks for the result of another request
		}
		for _, i := range o.steps {
			if s.steps[i].meaning().Phase == protocol.Part || s.calledOf(n).Space == protocol.SpaceTask {
				return n, s.cancellable(n)
			}
		}
	}
	if request != 0 {
		return 0, fmt.Errorf("frame %d is not a request of the controller", request)
	}
	return 0, ErrNoRequest
}

func (s *Script) cancellable(exchange int) error {
	st := s.steps[s.opened[exchange].step]
	if s.leaves(st) {
		return nil
	}
	_, err := all.Of(s.messageProtocol()).AppendCancel(nil, &protocol.Target{Opened: st.meaning(), Payload: st.meaningPayload(), Name: s.calledOf(exchange)}, 1)
	return err
}

// calledOf returns the name of an exchange that continues after its answer. It returns no name
// if the exchange ends, as with a task that has already ended.
func (s *Script) calledOf(exchange int) protocol.Token {
	o := s.opened[exchange]
	for _, i := range o.steps {
		if m := s.steps[i].meaning(); s.steps[i].dir != o.from && m.Phase == protocol.Close {
			if m.Bind.Space == protocol.SpaceTask && !m.GoesOn {
				break
			}
			return m.Bind
		}
	}
	return protocol.Token{}
}

// retriesOf returns the requests that repeat an exchange whose answer asked for input. It
// maps the step of each to that of the answer.
func (s *Script) retriesOf(exchange int) map[int]int {
	retries := map[int]int{}
	at := s.opened[exchange].step
	for {
		first, answer := s.steps[at], -1
		for _, i := range s.opened[first.opens].steps {
			if m := s.steps[i].meaning(); m.Phase == protocol.Close && m.GoesOn && m.Bind.IsZero() {
				answer = i
			}
		}
		if answer < 0 {
			return retries
		}
		next := slices.IndexFunc(s.steps[answer:], func(st *step) bool {
			_, taken := retries[st.index]
			return !taken && st.dir == first.dir && st.opens != 0 && continues(st.meaning(), first.meaning(), s.steps[answer].meaning().State)
		})
		if next < 0 {
			return retries
		}
		at = answer + next
		retries[at] = answer
	}
}

// continues reports whether a request continues another with the state from its answer.
func continues(m, other *protocol.Message, state []byte) bool {
	return m.Continues && m.Ref.IsZero() && bytes.Equal(m.Kind, other.Kind) && bytes.Equal(m.Label, other.Label) &&
		bytes.Equal(m.Arguments, other.Arguments) && bytes.Equal(m.State, state)
}

func (s *Script) cancelAt(ctx context.Context, o Options, c *Sweep, target, after int) (*Point, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w := &sweep{
		target: target, after: after, settle: c.Settle, named: !s.calledOf(target).IsZero(), retries: s.retriesOf(target),
		leaves: s.leaves(s.steps[s.opened[target].step]), ours: map[int64]bool{}, parts: map[int64]int64{}, scopes: map[int]bool{1: true},
	}
	w.tracker = session.New(s.messageProtocol(), session.Options{Watcher: w})
	w.pass = newPass(newRun(ctx, s, conn, &o), w.scenes(s))
	w.lenient, w.guide, w.follow = true, w, w.feed
	if _, err := w.play(); err != nil {
		return nil, err
	}
	return w.point(), nil
}

// A sweep tries one point.
type sweep struct {
	*pass
	target  int
	named   bool // a cancel needs the name in the answer to the request
	retries map[int]int
	after   int
	settle  time.Duration
	tracker *session.Tracker

	seq       int64
	ours      map[int64]bool
	opening   int64
	request   protocol.Target // or the last retry
	asking    int             // the exchange of request
	wanting   bool            // its answer asks for input
	retried   int             // the number of retries
	parts     map[int64]int64 // of the request and its retries, by their numbers
	answering bool            // the peer has sent something
	finished  bool            // the request has ended
	added     int64           // the number of frames that are not in the recording
	cancelled int64           // the number of the cancel; 0 if it was not sent
	since     time.Time
	polls     bool // the operation must be polled
	poll      poll
	closing   bool
	why       string

	posted *part // over HTTP: the request, or the last retry of it
	next   *part // the one being written
	leaves bool  // to cancel, the client leaves
	scopes map[int]bool
}

// A poll asks for the state of a task.
type poll struct {
	id      string // of the open request; "" if there is none
	last    time.Time
	current bool // it was sent after the cancel
}

// pollEvery is the time between polls.
const pollEvery = 100 * time.Millisecond

// Changed implements [session.Watcher]: it follows the operation of the request.
func (w *sweep) Changed(e *session.Exchange, _ int64) {
	if _, ok := w.parts[e.First]; ok {
		w.parts[e.First] = e.Parts
	}
	if w.opening != 0 && e.First == w.opening && e.Of == 0 {
		w.finished = e.Outcome != session.Open
	}
}

// Asked implements [session.Watcher].
func (w *sweep) Asked(*session.Cancel) {}

// Found implements [session.Watcher].
func (w *sweep) Found(session.Finding) {}

// scenes returns what is played: all up to the request, and then each answer and retry once the
// peer has asked for it.
func (w *sweep) scenes(s *Script) []*scene {
	all, opener := s.scenes(frame.C2U)[0], s.opened[w.target].step
	list := []*scene{{script: s, steps: all.steps[:opener+1], pause: all.pause}}
	for i := opener + 1; i < len(s.steps); i++ {
		st := s.steps[i]
		if st.dir != frame.C2U || !w.isRetry(st) && !(st.well && st.meaning().Phase.Ends()) {
			continue
		}
		cause, isRetry := w.retries[i]
		if !isRetry {
			cause = s.requestOf(st)
		}
		sc := &scene{script: s, steps: []*step{st}, pause: all.pause[i : i+1]}
		if cause >= 0 {
			sc.steps, sc.pause = []*step{s.steps[cause], st}, []time.Duration{0, all.pause[i]}
		}
		list = append(list, sc)
	}
	return list
}

func (w *sweep) isRetry(st *step) bool {
	_, ok := w.retries[st.index]
	return ok
}

// feed follows the session and counts the parts of the request.
func (w *sweep) feed(d frame.Dir, payload []byte, m *protocol.Message, gap bool) {
	if w.isWeb() {
		w.feedPart(d, payload)
		return
	}
	f := session.Frame{Conn: 1, Dir: d, Size: len(payload), Framing: w.script.Framing, Payload: payload, Gap: gap}
	if gap {
		f.Fault, m = frame.ErrMalformed, nil
	} else if err := w.script.Protocol.Parse(payload, new(protocol.Message)); err != nil {
		f.Fault, m = err, nil
	}
	w.take(f, m)
}

// take handles a frame with its message; m is nil if there is none.
func (w *sweep) take(f session.Frame, m *protocol.Message) {
	w.seq++
	d, payload := f.Dir, f.Payload
	f.Seq, f.Time = w.seq, time.Now()
	w.ours[w.seq] = d == w.options.Side
	w.answering = w.answering || d != w.options.Side
	if d == w.options.Side && m != nil && w.writing != nil {
		w.noteRequest(w.writing, protocol.Target{Opened: m, Payload: payload})
	}
	w.tracker.Feed(f, m)
	if d == w.options.Side || m == nil || m.Phase == protocol.Part || m.Phase == protocol.Note {
		return
	}
	if m.Phase == protocol.Close && w.opening != 0 && w.latest.exchange == w.asking {
		w.wanting = m.GoesOn && m.Bind.IsZero()
		if w.request.Name.IsZero() {
			w.request.Name = m.Bind
			_, w.polls = all.Of(w.script.messageProtocol()).AppendPoll(nil, &w.request, 0)
		}
	}
	if w.poll.id != "" && string(m.ID.Text) == w.poll.id {
		w.poll.id = ""
	}
}

// noteRequest handles the write of the request, or of a retry.
func (w *sweep) noteRequest(st *step, request protocol.Target) {
	switch {
	case st.index == unrecorded:
		return
	case st.opens == w.target:
		w.opening, w.request, w.asking = w.seq, request, st.opens
	case w.isRetry(st):
		w.request, w.asking, w.wanting = request, st.opens, false
		w.retried++
	default:
		return
	}
	w.parts[w.seq] = 0
	w.posted = w.next
}

// act sends the cancel when it is due, and polls.
func (w *sweep) act() {
	parts := 0
	for _, n := range w.parts {
		parts += int(n)
	}
	switch {
	case w.opening == 0 || w.closing || w.ended:
	case w.cancelled != 0:
		w.drop(func(t *turn) bool { return w.isRetry(t.steps[t.last]) })
		if !w.finished {
			w.pollTask()
		}
	case w.finished:
		w.stop(whyEnded)
	case w.wanting:
		if w.retried == len(w.retries) {
			w.stop(whyInput)
		}
	case w.named && w.request.Name.IsZero():
	case parts < w.after:
		w.pollTask()
	default:
		err := w.cancel()
		if err != nil {
			w.stop(err.Error())
			return
		}
		w.cancelled, w.since = w.seq, time.Now()
	}
}

// cancel sends the cancel.
func (w *sweep) cancel() error {
	if w.leaves {
		return w.sendPart(&part{Leaves: w.posted.ID})
	}
	payload, err := all.Of(w.script.messageProtocol()).AppendCancel(nil, &w.request, w.script.freshID()+w.added)
	if err != nil {
		return err
	}
	return w.send(payload)
}

// pollTask sends a poll when it is due.
func (w *sweep) pollTask() {
	if !w.polls || w.poll.id != "" || time.Since(w.poll.last) < pollEvery {
		return
	}
	n := w.script.freshID() + w.added
	payload, _ := all.Of(w.script.messageProtocol()).AppendPoll(nil, &w.request, n)
	w.poll.id, w.poll.last, w.poll.current = strconv.FormatInt(n, 10), time.Now(), w.cancelled != 0
	if err := w.send(payload); err != nil {
		w.stop(err.Error())
	}
}

// send starts writing a message that is not in the recording.
func (w *sweep) send(payload []byte) error {
	if w.isWeb() {
		return w.sendPart(w.post(payload, w.script.freshID()+w.added))
	}
	return w.inject(payload)
}

func (w *sweep) inject(payload []byte) error {
	raw, err := frame.Append(nil, w.script.Framing, payload)
	if err != nil {
		return err
	}
	st := &step{index: unrecorded, dir: w.options.Side, reading: reading{payload: payload, well: true}}
	if err := w.script.Protocol.Parse(payload, &st.message); err != nil {
		return err
	}
	w.added++
	w.write(st, nil, raw, payload, &st.message)
	return nil
}

// unrecorded is the index of a frame that is not in the recording.
const unrecorded = -1

// freshID returns an unused number for a request.
func (s *Script) freshID() int64 { return 1_000_000 + int64(len(s.steps)) }

func (w *sweep) stop(why string) { w.why, w.ended, w.ready = why, true, nil }

func (w *sweep) peerEnded(error) { w.ready = nil }

// starting is how long a peer that has sent nothing may take to start up.
const starting = 5 * time.Second

// pause returns how long to wait for further frames.
func (w *sweep) pause() (pause, error) {
	if w.polls && w.poll.id == "" && !w.finished && !w.closing && w.writing == nil {
		if left := w.settle - time.Since(w.since); w.cancelled == 0 || !w.poll.current || left > 0 {
			return pause{time: pollEvery - time.Since(w.poll.last)}, nil
		}
		w.endOurSide()
	}
	if !w.closing && w.cancelled != 0 && w.finished && w.tracker.Stats().InFlight == 0 && w.writing == nil {
		w.endOurSide()
	}
	switch {
	case w.closing:
		return pause{time: w.settle, over: func() { w.ended = true }}, nil
	case w.cancelled == 0 && w.options.Timeout == 0:
		return pause{forever: true}, nil
	case w.cancelled == 0:
		return pause{time: w.options.Timeout, over: func() {
			w.stop(fmt.Sprintf("the peer was silent for %v", w.options.Timeout))
		}}, nil
	case !w.answering:
		return pause{time: max(w.settle, starting), over: w.endOurSide}, nil
	}
	return pause{time: w.settle, over: w.endOurSide}, nil
}

// endOurSide closes our side of the connection, so that the peer can close.
func (w *sweep) endOurSide() {
	w.closing, w.ready = true, nil
	if w.conn.CloseWrite() != nil && !w.isWeb() {
		w.ended = true
	}
}

// point returns the outcome.
func (w *sweep) point() *Point {
	p := &Point{After: w.after, Reached: w.cancelled != 0, Why: w.why}
	if !p.Reached && p.Why == "" {
		p.Why = "the peer ended the connection"
	}
	for conn := range w.scopes {
		w.tracker.End(conn, time.Now())
	}
	if w.leaves && p.Reached {
		p.Class = session.Silent // nothing more can arrive
	}
	for c := range w.tracker.Cancels() {
		if c.Seq == w.cancelled {
			p.Class, p.Parts, p.Bytes, p.Took, p.Confirmed = c.Class, c.Parts, c.Bytes, c.Last, !c.Confirmed.IsZero()
		}
	}
	for f := range w.tracker.Findings() {
		if w.blames(&f) {
			p.Findings = append(p.Findings, f)
		}
	}
	return p
}

// blames reports whether a finding is about the peer: not about our own frames, nor about
// other requests that we left open.
func (w *sweep) blames(f *session.Finding) bool {
	switch {
	case len(f.Frames) != 1 || !w.ours[f.Frames[0]]:
		return true
	case f.Name == "unanswered" || f.Name == "no-final":
		return f.Frames[0] == w.opening && w.cancelled != 0
	}
	return false
}

// ParseCancelAt parses the number of parts after which to cancel; -1 means all.
func ParseCancelAt(text string) (int, error) {
	if text == "all" {
		return -1, nil
	}
	at, err := strconv.Atoi(text)
	if err != nil || at < 0 {
		return 0, fmt.Errorf("%q: want a number of parts or all", text)
	}
	return at, nil
}

// leaves reports whether a request is cancelled by closing the stream of its answer, as in
// MCP over HTTP since version 2026-07-28.
func (s *Script) leaves(st *step) bool {
	return s.messageProtocol() != s.Protocol && all.Rules(s.messageProtocol()).At(string(st.meaning().Version)).LeavingCancels
}

// feedPart follows the session by a part.
func (w *sweep) feedPart(d frame.Dir, payload []byte) {
	p := new(part)
	_ = json.Unmarshal(payload, p) // what is no part is empty
	f := session.Frame{Conn: w.connOf(p), Dir: d, Version: p.Head["Mcp-Protocol-Version"]}
	var m protocol.Message
	body, ok := w.script.Protocol.(web).message(p, &m)
	switch {
	case p.Leaves != 0:
		w.seq++
		w.ours[w.seq] = true
		w.tracker.EndBy(f.Conn, session.Ending{First: frame.C2U}, time.Now())
	case ok || body != nil:
		if d == frame.C2U && w.writing != nil && w.writing.index != unrecorded {
			w.next = p
		}
		f.Payload, f.Size = body, len(body)
		if !ok {
			w.take(f, nil)
			return
		}
		w.take(f, &m)
	case p.End == endCut:
		w.tracker.EndBy(f.Conn, session.Ending{First: frame.U2C}, time.Now())
	case p.End != "" && w.leaves:
		w.tracker.EndResponse(session.Response{Conn: f.Conn, At: time.Now(), How: "its response"})
	}
}

// connOf returns the scope of the ids in a part: its exchange, or the session.
func (w *sweep) connOf(p *part) int {
	if !w.leaves {
		return 1
	}
	conn := 1 + int(max(p.ID, p.Leaves))
	w.scopes[conn] = true
	return conn
}

// post returns a part that posts a message in the same way as the request.
func (w *sweep) post(payload []byte, id int64) *part {
	if w.posted.Call != "" {
		return w.script.Protocol.(web).about(w.posted, payload, id)
	}
	p := *w.posted
	p.ID, p.Body, p.Text, p.Bytes, p.Head = id, nil, "", nil, maps.Clone(p.Head)
	for name, path := range map[string][]string{"Mcp-Method": {"method"}, nameHeader: {"params", "taskId"}} {
		value, ok := jsonscan.Get(payload, path...)
		if text, _ := jsonscan.Unquote(value); ok && p.Head[name] != "" {
			p.Head[name] = string(text)
		} else {
			delete(p.Head, name)
		}
	}
	p.setContent(payload, frame.C2U, true)
	return &p
}

func (w *sweep) sendPart(p *part) error { return w.inject(p.form()) }
