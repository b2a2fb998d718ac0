package session

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// An operation is a piece of work that one side requested. It is represented by the [Exchange]
// that began it. If the answer to that exchange only accepts the request, asks the client for
// more or names a task, the exchange stays open until a message ends the operation. Other
// exchanges belong to the operation: retries, questions of the unit, requests for the status of
// the task.

// Operation returns the exchange that began the operation of e.
func (e *Exchange) Operation() *Exchange {
	if r := e.root; r != nil && r.serial == e.rootID {
		return r
	}
	return e
}

// oldestOf returns the oldest exchange of a queue. In the space of kinds it skips accepted
// exchanges, because a kind only names exchanges that wait for their answer.
func oldestOf(q *queue, s protocol.Space) *Exchange {
	if s == protocol.SpaceKind {
		for n := q.exchanges.first; n != nil; n = n.next {
			if n.of.Accepted.IsZero() {
				return n.of
			}
		}
	}
	return q.exchanges.oldest()
}

// findOperation returns the operation that a token names, whichever side began it; nil if there
// is none.
func (t *Tracker) findOperation(s *scope, token protocol.Token) *Exchange {
	for _, side := range []frame.Dir{frame.C2U, frame.U2C} {
		if e := t.findExchange(s, side, token); e != nil {
			return e.Operation()
		}
	}
	return nil
}

// join makes e belong to an operation.
func (e *Exchange) join(op *Exchange) {
	if e == op || e.Of != 0 || op.Of != 0 {
		return
	}
	e.Of, e.root, e.rootID = op.First, op, op.serial
	op.Joined++
	e.countJoined(1)
}

// countJoined adds n to the counts of joined exchanges with the kind, name and outcome of e.
func (e *Exchange) countJoined(n int64) {
	e.kind.Joined[e.Outcome] += n
	if e.named != nil && !e.rules.NoWire { // the calls of tools are counted by their names
		e.named.Joined[e.Outcome] += n
	}
}

// leave makes e an operation by itself.
func (e *Exchange) leave() {
	e.Operation().Joined--
	e.countJoined(-1)
	e.Of, e.root, e.Guessed, e.Repeats = 0, nil, false, false
}

// goesOn reports whether the operation of e goes on after the answer ev, and if so keeps it
// open.
func (t *Tracker) goesOn(ev *event, e *Exchange) bool {
	m := ev.m
	if e.Repeats && m.GoesOn { // the exchange that it repeats is settled
		e.leave()
	}
	op := e.Operation()
	if e == op && e.about {
		return false // it belongs to an unknown operation
	}
	if m.Phase != protocol.Close || e == op && !e.Accepted.IsZero() || !m.GoesOn && !contains(t.rules.Accepted, []byte(e.Kind)) || op.settled || op.decided != protocol.Note {
		return false
	}
	if other := t.named(ev, m.Bind); other != nil && other != op && (!other.settled || m.Bind.Space == protocol.SpaceTurn) {
		// It was accepted as a part of other, which may have ended meanwhile.
		e.join(other)
		return false
	}
	t.bindOperation(ev, op)
	if op.Accepted = ev.f.Time; op.Accepted.IsZero() {
		op.Accepted = unknownTime
	}
	if e == op {
		return true
	}
	e.retries = false // it ends, but its operation does not
	return false
}

// unknownTime is the time of events whose time is unknown.
var unknownTime = time.Unix(0, 0)

func (t *Tracker) named(ev *event, token protocol.Token) *Exchange {
	if token.IsZero() {
		return nil
	}
	return t.findOperation(ev.scope, token)
}

// bindOperation binds the name under which an operation goes on: the name that the answer gives
// it, or the data that its retry will share with it.
func (t *Tracker) bindOperation(ev *event, op *Exchange) {
	b := &op.bindings[byOperation]
	switch m := ev.m; {
	case !m.Bind.IsZero():
		t.table.unbind(b)
		t.table.bind(b, op, t.keyOf(ev.scope, op.Opener, m.Bind), m.Bind.Text)
	case m.GoesOn:
		t.table.unbind(b)
		op.inputs = t.keysOf(op.inputs[:0], m.Inputs)
		token := t.retryToken(op, m.State)
		t.table.bind(b, op, t.keyOf(ev.scope, op.Opener, token), token.Text)
	}
}

// retryToken returns a token of the data that a request and its retry share: kind, name,
// arguments, and the state that the answer gave.
func (t *Tracker) retryToken(e *Exchange, state []byte) protocol.Token {
	var h maphash.Hash
	h.SetSeed(t.table.seed)
	_, _ = h.WriteString(e.Kind)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.Name)
	_ = h.WriteByte(0)
	_, _ = h.Write(state)
	return protocol.Token{Space: protocol.SpaceRetry, Text: binary.BigEndian.AppendUint64(nil, h.Sum64()^e.retry)}
}

// goesOnAs reports whether an operation goes on under a name in that space.
func (e *Exchange) goesOnAs(space protocol.Space) bool {
	q := e.bindings[byOperation].queue
	return !e.Accepted.IsZero() && q != nil && q.key.space == space
}

// retrying records the data that a new request will share with its retry, and if the request is
// itself a retry, the operation that it continues.
func (t *Tracker) retrying(ev *event, e *Exchange) {
	m := ev.m
	if m.Arguments != nil {
		e.retry = maphash.Bytes(t.table.seed, m.Arguments)
	}
	switch {
	case m.Continues && !m.Ref.IsZero():
		if op := t.findOperation(ev.scope, m.Ref); op != nil && op != e && !op.settled {
			e.join(op)
			e.retries = true
		}
	case m.Continues:
		t.retry(ev, e)
	default:
		t.repeat(ev, e)
	}
}

// retry finds the operation that e continues.
func (t *Tracker) retry(ev *event, e *Exchange) {
	token := t.retryToken(e, ev.m.State)
	q := t.table.findQueue(t.keyOf(ev.scope, ev.from, token), token.Text)
	if q == nil || q.exchanges.oldest().settled {
		t.reportChangedState(ev, e)
		return
	}
	e.inputs = t.keysOf(e.inputs[:0], ev.m.Inputs)
	var op *Exchange
	for n := q.exchanges.first; n != nil; n = n.next {
		switch other := n.of; {
		case !isSubset(e.inputs, other.inputs):
		case op == nil:
			op = other
		default:
			e.Guessed = true
		}
	}
	if op == nil {
		op, e.Guessed = q.exchanges.oldest(), true
		t.report(wrongRetry, ev.f, []int64{op.First}, "%s answers what %s was not asked for", e.Title(), op.Title())
	}
	if string(e.ID.Text) == string(op.ID.Text) && e.Conn == op.Conn && !e.Guessed {
		t.report(wrongRetry, ev.f, []int64{op.First}, "%s has the id of the request that it continues", e.Title())
		t.table.unbind(&op.bindings[byID]) // the next answer belongs to e
	}
	t.table.unbind(op.bindingIn(q))
	e.join(op)
	e.retries = true
	op.saw(ev.f)
}

// maxLookBack bounds how many open exchanges are checked for one that a retry might have meant
// to continue.
const maxLookBack = 256

// reportChangedState reports a retry that would continue an operation if its state were
// unchanged.
func (t *Tracker) reportChangedState(ev *event, e *Exchange) {
	n := t.live.last
	for range maxLookBack {
		if n == nil {
			return
		}
		if op := n.of; op != e && op.goesOnAs(protocol.SpaceRetry) && op.Kind == e.Kind && op.Name == e.Name && op.retry == e.retry {
			t.report(wrongRetry, ev.f, []int64{op.First}, "the state of %s is not that of %s", e.Title(), op.Title())
			return
		}
		n = n.prev
	}
}

// repeat makes e a part of the operation that it repeats, because that failed for a reason
// outside the operation: its carrier refused it, and e has its id, or it failed with a code after
// which it may be repeated.
func (t *Tracker) repeat(ev *event, e *Exchange) {
	var refused string
	if t.refused {
		refused = refusedState(e)
	}
	for _, state := range [...]string{refused, t.rules.Repeated} {
		if state == "" {
			continue
		}
		token := t.retryToken(e, []byte(state))
		q := t.table.findQueue(t.keyOf(ev.scope, ev.from, token), token.Text)
		if q == nil || !q.exchanges.oldest().settled { // that goes on, with a state that only looks like the code
			continue
		}
		op := q.exchanges.oldest()
		t.table.unbind(op.bindingIn(q))
		e.join(op)
		e.Guessed, e.Repeats = state == t.rules.Repeated, true
		op.saw(ev.f)
		return
	}
}

// refusedState is the state that a refused request and its repetition share.
func refusedState(e *Exchange) string {
	if e.ID.IsZero() {
		return ""
	}
	return "refused " + string(e.ID.Text)
}

// failed records that e failed so that it may be repeated.
func (t *Tracker) failed(ev *event, e *Exchange) {
	state := ""
	switch {
	case e.Outcome != Failed:
	case ev.refused:
		t.refused, e, state = true, e.Operation(), refusedState(e)
	case e.Operation() == e && string(ev.m.Label) == t.rules.Repeated:
		state = t.rules.Repeated
	}
	if state == "" {
		return
	}
	token := t.retryToken(e, []byte(state))
	e.Repeatable = true
	b := &e.bindings[byOperation]
	t.table.unbind(b)
	t.table.bind(b, e, t.keyOf(ev.scope, e.Opener, token), token.Text)
}

// keysOf appends hashes of the keys of an object.
func (t *Tracker) keysOf(dst []uint64, object []byte) []uint64 {
	var s jsonscan.Scanner
	s.Init(object)
	for ok := s.Object(); ok && len(dst) < maxInputs && s.Next(); {
		dst = append(dst, maphash.Bytes(t.table.seed, s.Key()))
	}
	return dst
}

// maxInputs bounds how many keys of an object are remembered.
const maxInputs = 64

// isSubset reports whether all of a are in b.
func isSubset(a, b []uint64) bool {
	return !slices.ContainsFunc(a, func(v uint64) bool { return !slices.Contains(b, v) }) || len(b) == maxInputs
}

// endRetried ends the operation that the ended exchange e continued.
func (t *Tracker) endRetried(ev *event, e *Exchange) {
	op := e.Operation()
	switch {
	case op == e:
	case e.Repeats:
		op.Closed, op.Repeatable = ev.f.Time, false
		op.become(e.Outcome)
		op.Failure = e.Failure
		t.changed(op, ev.f.Seq)
	case e.retries && !op.settled:
		e.retries = false
		t.endOperation(ev, op, e.Outcome)
	}
}

// endOperation ends an accepted operation.
func (t *Tracker) endOperation(ev *event, op *Exchange, o Outcome) {
	op.saw(ev.f)
	op.Closed = ev.f.Time
	phase := protocol.Close
	if o.Stopped() {
		phase, o = protocol.Cancelled, op.cancelled()
	}
	t.endCancel(op, phase, ev.f)
	op.become(o)
	t.noteFailure(ev, op)
	op.ended()
	t.settle(op)
	t.changed(op, ev.f.Seq)
}

// operate applies the effect of a message to its operation, beyond the effect on its exchange,
// which is e or nil.
func (t *Tracker) operate(ev *event, e *Exchange) {
	does, of := ev.m.Operation.Does, ev.m.Operation.Of
	var op *Exchange
	switch {
	case !of.IsZero():
		op = t.findOperation(ev.scope, of)
	case e != nil:
		op = e.Operation()
	}
	if does == protocol.Cancel {
		t.cancel(ev, of, op, e, t.rules.Cancel(ev.kind.Name))
		return
	}
	if op == nil {
		return
	}
	if op == e { // e begins the operation that it was to add to
		e.about = false
	}
	if of.Space == protocol.SpaceTask {
		t.checkInputs(ev, op)
	}
	brings := does == protocol.Part && ev.m.Phase == protocol.Open
	if brings && e != op && op.settled { // unless refused, it begins another operation
		e.about, e.tooLate = false, true
		return
	}
	if e != nil && (ev.m.Phase == protocol.Open || !slices.Contains(t.rules.Endless, e.Kind)) && (!op.settled || of.Space != protocol.SpaceSession) { // a session goes on after its turn ends
		e.join(op)
	}
	if op.settled {
		t.checkState(ev, e, op)
		return
	}
	switch does {
	case protocol.Part:
		if e != op && !brings && op.counts(e) {
			op.saw(ev.f)
			if !ev.m.Empty {
				op.part(ev.f)
			}
			t.afterCancel(op, ev.f, !ev.m.Empty)
		}
	case protocol.Close, protocol.Fail, protocol.Cancelled:
		if op.Accepted.IsZero() { // it ends with the answer
			op.decided = does
			break
		}
		if does == protocol.Fail && t.rules.MayRetry {
			ev.scope.failing = failing{op, op.serial, *ev.f}
			ev.scope.failing.frame.Payload = nil
			break
		}
		outcome := map[protocol.Phase]Outcome{protocol.Close: Done, protocol.Fail: Failed, protocol.Cancelled: Cancelled}[does]
		switch {
		case does != protocol.Close:
		case ev.m.ToolError:
			outcome = ToolError
		case op.failing:
			outcome = Failed
		}
		t.endOperation(ev, op, outcome)
		if of.Space == protocol.SpaceTask {
			op.state, op.stateAt = does, ev.f.Seq
		}
	}
	if e == nil || e.Operation() != op { // otherwise counted with its exchange
		t.use(op, ev.used)
	}
	t.changed(op, ev.f.Seq)
}

// settleQuestion ends the question that ev settles. The side that asked may settle it itself.
// If nobody has answered, the question is cancelled, because its operation is.
func (t *Tracker) settleQuestion(ev *event) {
	var q *Exchange
	for _, side := range []frame.Dir{frame.C2U, frame.U2C, frame.DirUnknown} {
		if e := t.findExchange(ev.scope, side, ev.m.Settles); e != nil && !e.settled {
			q = e
		}
	}
	if q == nil {
		return
	}
	q.answered(ev.f)
	q.Closed = ev.f.Time
	outcome := Done
	if ev.m.Phase != protocol.Open && q.Operation().cancel != nil {
		outcome = Cancelled
	}
	q.become(outcome)
	q.ended()
	t.settle(q)
	t.changed(q, ev.f.Seq)
}

// failing is an operation that has failed unless the next message continues it.
type failing struct {
	op     *Exchange
	serial uint64
	frame  Frame // the frame with the failure
}

// endFailing ends the failing operation of a scope unless m continues it. m is nil if no
// message follows.
func (t *Tracker) endFailing(s *scope, m *protocol.Message) {
	failed := s.failing
	if m != nil && m.Operation.Does == protocol.Part {
		return
	}
	s.failing = failing{}
	if failed.op.serial != failed.serial || failed.op.settled || m != nil && m.Operation.Does == protocol.Open && m.Phase == protocol.Part {
		return
	}
	t.endOperation(&event{f: &failed.frame, scope: s}, failed.op, Failed)
}

// checkInputs records the inputs that the status of a task requests, and reports an answer to
// an input that was never requested. With several connections the answer may be seen before the
// request.
func (t *Tracker) checkInputs(ev *event, op *Exchange) {
	if ev.m.Inputs == nil || ev.f.Framing == nil {
		return
	}
	keys := t.keysOf(nil, ev.m.Inputs)
	if ev.m.Phase == protocol.Open {
		if !isSubset(keys, op.inputs) && t.judges() {
			t.report(wrongRetry, ev.f, []int64{op.First}, "%s answers what the task of %s has not asked for", ev.kind.Name, op.Title())
		}
		return
	}
	for _, k := range keys {
		if len(op.inputs) < maxInputs && !slices.Contains(op.inputs, k) {
			op.inputs = append(op.inputs, k)
		}
	}
}

// checkState reports an ended task that is later in another state. A request made before the
// end was known, or a message on another connection, may still carry an earlier state.
func (t *Tracker) checkState(ev *event, e, op *Exchange) {
	does := ev.m.Operation.Does
	if op.state == protocol.Note || does == op.state || does != protocol.Part && !does.Ends() {
		return
	}
	if e != nil && e.First > op.stateAt || e == nil && ev.f.Framing != nil {
		t.report(afterEnd, ev.f, []int64{op.First, op.stateAt}, "the task of %s, which is %v, is in another state", op.Title(), op.Outcome)
	}
}

// outlives reports whether an operation goes on after the connection that began it ends. If so,
// it keeps only the name under which the operation goes on.
func (t *Tracker) outlives(e *Exchange) bool {
	b := &e.bindings[byOperation]
	if e.Accepted.IsZero() || !e.carried || b.queue == nil || b.queue.key.scope != 0 {
		return false
	}
	for i := range byOperation {
		t.table.unbind(&e.bindings[i])
	}
	return true
}

// Abandon records that nobody will continue the operations that have outlived the connections
// that began them.
func (t *Tracker) Abandon(at time.Time) {
	for n := t.live.first; n != nil; {
		e := n.of
		n = n.next
		if e.bindings[byAge].queue != nil || e.Accepted.IsZero() {
			continue
		}
		e.Closed = at
		t.silence(e)
		e.become(Abandoned)
		e.over()
		t.settle(e)
		t.changed(e, 0)
	}
}

// chooseRules chooses the rules for a frame: those of the version stated in its message, or
// else of its session.
func (t *Tracker) chooseRules(f *Frame, s *scope, m *protocol.Message) {
	t.rules = s.rules
	if s.version != t.version {
		t.setVersion(s.version)
	}
	if len(t.base.Versions) == 0 || m == nil {
		return
	}
	stated := m.Version
	if len(stated) == 0 && f.Version != "" {
		stated = []byte(f.Version)
	}
	if t.base.OneVersion { // a newer version has messages of older forms
		for _, v := range []string{f.Version, s.version} {
			if t.base.IsNewer(v) && protocol.CompareVersions(v, string(stated)) > 0 {
				stated = []byte(v)
			}
		}
	}
	if len(stated) == 0 {
		if h := t.base.Handshake.Request; h != "" && string(m.Kind) == h { // begins a session
			s.version, s.rules = "", t.base
			t.rules = t.base
			t.setVersion("")
		}
		return
	}
	if s.version == "" || m.Phase.Ends() {
		begins := s.version == "" && m.Phase.Ends()
		s.version = t.intern(stated)
		s.rules = t.base.At(s.version)
		if begins {
			t.versionEarly(s)
		}
	}
	t.setVersion(t.intern(stated))
	t.rules = t.base.At(t.version)
}

// versionEarly sets the version of a session on the requests sent before it was known, including
// the one whose answer states it.
func (t *Tracker) versionEarly(s *scope) {
	for _, side := range []frame.Dir{frame.C2U, frame.U2C} {
		for e := range t.inFlightOf(s, side) {
			if e.Version == "" {
				e.Version, e.rules = s.version, s.rules
			}
		}
	}
}

// setVersion sets the version by whose rules frames are judged.
func (t *Tracker) setVersion(version string) {
	t.version, t.isNewer = version, t.base.IsNewer(version)
}

// maxVersions bounds how many versions are distinguished.
const maxVersions = 64

// intern returns a version as text.
func (t *Tracker) intern(version []byte) string {
	version = clip(version, maxVersion)
	if v, ok := t.versions[string(version)]; ok {
		return v
	}
	if t.versions == nil {
		t.versions = make(map[string]string)
	}
	if len(t.versions) >= maxVersions {
		return ""
	}
	v := string(version)
	t.versions[v] = v
	return v
}

// maxVersion bounds the length of a version.
const maxVersion = 64

// Versions returns the stated versions of the protocol, sorted.
func (t *Tracker) Versions() []string {
	return slices.SortedFunc(maps.Keys(t.versions), func(a, b string) int {
		return cmp.Or(protocol.CompareVersions(a, b), strings.Compare(a, b))
	})
}
