package session

import (
	"bytes"
	"slices"
	"time"

	"github.com/wirectl/wirectl/protocol"
)

// A Cancel is an entry of the ledger of cancellations: the request to cancel, and its result.
// Repeated cancels of an exchange are counted in the entry of the pending one. An entry that
// the tracker yields is valid until the next Feed or End.
type Cancel struct {
	Conn, Stream int
	// Seq is the number of the frame with the cancel, Kind its kind, Asked when it was
	// read, and Repeats how often it was repeated.
	Seq     int64
	Kind    string
	Asked   time.Time
	Repeats int
	// Reason is the reason that the sender gives; "" if none.
	Reason string
	// Target is the named token. TargetKind and TargetSeq are the kind and frame of the
	// request with that token; "" and 0 if there is none.
	Target     protocol.Token
	TargetKind string
	TargetSeq  int64
	// Parts and Bytes count what arrived after the cancel, up to the time Last. Bytes
	// includes a late answer.
	Parts, Bytes int64
	Last         time.Duration
	// Confirmed is when the exchange ended as cancelled; zero if it did not.
	Confirmed time.Time
	Class     Class

	duty protocol.Duty
	kind *Kind     // of the exchange; nil if none
	of   *Exchange // set while the class is pending
	node node[Cancel]
}

// Class is the result of a cancel.
type Class uint8

const (
	Pending       Class = iota // not yet known
	UnknownTarget              // its target was never opened
	Confirmed                  // the exchange ended as cancelled
	Crossed                    // the exchange had ended, or its end came next, within 250 ms
	LateResult                 // an answer came although none is allowed
	Ignored                    // the exchange ended normally
	Silent                     // the exchange never ended
	numClasses
)

var classNames = [numClasses]string{
	Pending: "pending", UnknownTarget: "unknown-target", Confirmed: "confirmed", Crossed: "crossed",
	LateResult: "late-result", Ignored: "ignored", Silent: "silent",
}

// Classes returns the names of all classes.
func Classes() []string { return slices.Clone(classNames[:]) }

// String returns the class's name as records and filters spell it.
func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return "class(?)"
}

// crossing is how long an answer may have been in flight when its cancel was sent.
const crossing = 250 * time.Millisecond

// after records a frame of the exchange that arrived after the cancel.
func (c *Cancel) after(f *Frame, part bool) {
	if part {
		c.Parts++
	}
	c.Bytes += int64(f.Size)
	c.Last = since(f.Time, c.Asked)
}

// classOf returns the class of a cancel whose exchange is ended by f.
func (c *Cancel) classOf(phase protocol.Phase, f *Frame) Class {
	switch {
	case phase == protocol.Cancelled:
		return Confirmed
	case c.Parts == 0 && since(f.Time, c.Asked) <= crossing:
		return Crossed
	case c.duty == protocol.MustNotAnswer:
		return LateResult
	}
	return Ignored
}

// cancelled handles a cancel, which is m.
func (t *Tracker) cancelled(ev *event) {
	m, f := ev.m, ev.f
	rule := t.rules.Cancel(ev.kind.Name)
	own := t.openOwn(ev, rule.Own)
	if own != nil {
		t.changed(own, f.Seq)
	}
	if m.Ref.IsZero() && m.Faults&protocol.MissingField != 0 {
		return // it should have named its target
	}
	target := t.findExchange(ev.scope, ev.from, m.Ref) // only now: opening an exchange can drop another
	if target == own {
		target = nil
	}
	if target == nil && t.endsSubscription(ev) {
		return
	}
	if target == nil {
		target, ev.several = t.findStateless(ev, m.Ref)
	}
	t.cancel(ev, m.Ref, target, own, rule)
}

// findStateless returns the exchange that a cancel names over HTTP without a session, where each request
// is a scope of its own: the one with its id that is open, on whatever connection, or else the last one.
// If several clients have an open one, it is not known which is meant.
func (t *Tracker) findStateless(ev *event, ref protocol.Token) (target *Exchange, several bool) {
	isIt := func(e *Exchange) bool {
		return e.Stream > 0 && e.Opener == ev.from && e.ID.Space == ref.Space && bytes.Equal(e.ID.Text, ref.Text)
	}
	if !t.rules.Elsewhere || ev.f.Stream <= 0 || ref.IsZero() {
		return nil, false
	}
	for n := t.live.last; n != nil; n = n.prev {
		if isIt(n.of) {
			if target != nil {
				return nil, true
			}
			target = n.of
		}
	}
	for n := t.settled.last; target == nil && n != nil; n = n.prev {
		if isIt(n.of) {
			target = n.of
		}
	}
	return target, false
}

// endsSubscription ends the other side's subscription that a cancel names, and reports whether
// there was one.
func (t *Tracker) endsSubscription(ev *event) bool {
	e := t.findExchange(ev.scope, ev.from.Opposite(), ev.m.Ref)
	if e == nil || !slices.Contains(t.rules.Endless, e.Kind) {
		return false
	}
	if !e.settled {
		e.saw(ev.f)
		e.Closed, e.optional = ev.f.Time, true
		e.become(Done)
		e.ended()
		t.settle(e)
		t.changed(e, ev.f.Seq)
	}
	return true
}

// cancel adds to the ledger that ev asks to end target, the exchange that ref names, or nil.
// own is the exchange of the cancel itself, or nil.
func (t *Tracker) cancel(ev *event, ref protocol.Token, target, own *Exchange, rule protocol.CancelRule) {
	f := ev.f
	if own != nil && target != nil && (ref.Space == protocol.SpaceTurn || ref.Space == protocol.SpaceTask || ref.Space == protocol.SpaceSession && !target.settled) {
		own.join(target.Operation())
	}
	if rule.Settles && target != nil && target.settled {
		return
	}
	if target == nil && (t.rules.Streamed || t.rules.LooseRefs && ref.Space != protocol.SpaceID) {
		return
	}
	if target != nil && target.cancel != nil {
		target.cancel.Repeats++
		target.saw(f)
		t.changed(target, f.Seq)
		return
	}
	c := t.enter(ev, ref, target)
	c.duty = rule.Target
	switch {
	case target == nil:
		t.classify(c, UnknownTarget)
		switch {
		case !t.judges() || ref.IsZero() || ev.several || t.rules.LeavingCancels && ev.f.Framing == nil: // or its stream has been closed
		case t.rules.Shared != nil && t.partial:
		case t.rules.Shared != nil && own != nil: // the answer shows whether the target exists
			own.unknown = true
		default:
			if e := t.otherSpelling(ev.scope, ev.from, ref); e != nil {
				t.report(cancelUnknown, f, nil, "%s names %s for %s, the id of %s: name the id as it was sent", ev.kind.Name, quote(ref), quote(e.ID), e.Title())
				break
			}
			t.report(cancelUnknown, f, nil, "%s names %s, which was never opened", ev.kind.Name, quote(ref))
		}
	case target.settled, ref.Space == protocol.SpaceID && !target.Accepted.IsZero():
		if !target.settled && target.goesOnAs(protocol.SpaceTask) && since(f.Time, target.Accepted) > crossing {
			t.report(cancelForbidden, f, []int64{target.First}, "%s names %s, which goes on as a task", ev.kind.Name, target.Title())
		}
		t.classify(c, Crossed)
	default:
		if contains(t.rules.Uncancellable, []byte(target.Kind)) {
			t.report(cancelForbidden, f, []int64{target.First}, "%s names %s", ev.kind.Name, target.Title())
		}
		target.saw(f)
		target.cancel, c.of = c, target
		t.giveUp(ev, target, c.Reason)
		if c.duty == protocol.MustNotAnswer {
			target.become(target.cancelled())
			t.settle(target)
			if op := target.Operation(); op.goesOnAs(protocol.SpaceTask) {
				target.retries = false // a client that stops waiting for a task does not end it
			}
			t.endRetried(ev, target)
		}
		if rule.Settles {
			target.decided, target.optional = protocol.Cancelled, true
			target.become(target.cancelled())
			t.settle(target)
			c.Confirmed = f.Time
			t.classify(c, Confirmed)
			break
		}
		t.watchCancel(c)
	}
	if target != nil {
		t.changed(target, f.Seq)
	}
}

// openOwn begins and returns the exchange of a cancel that has an id of its own; nil if it has
// none.
func (t *Tracker) openOwn(ev *event, duty protocol.Duty) *Exchange {
	if ev.m.ID.IsZero() && ev.m.Bind.IsZero() {
		return nil
	}
	own := t.openExchange(ev)
	own.cancels = true
	if duty != protocol.MustAnswer {
		own.optional = true
		own.become(Done)
		t.settle(own)
	}
	return own
}

// enter adds an entry to the ledger, replacing the oldest if it is full.
func (t *Tracker) enter(ev *event, ref protocol.Token, target *Exchange) *Cancel {
	var c *Cancel
	if t.cancels.len < t.history {
		c = new(Cancel)
	} else {
		c = t.cancels.oldest()
		t.cancels.remove(&c.node)
		if c.of != nil {
			t.classify(c, Silent)
		}
	}
	text := append(c.Target.Text[:0], clip(ref.Text, maxText)...)
	*c = Cancel{
		Conn: ev.f.Conn, Stream: ev.f.Stream, Seq: ev.f.Seq, Kind: ev.kind.Name, Asked: ev.f.Time,
		Target: protocol.Token{Space: ref.Space, Text: text},
		Reason: string(clip(t.unescaped(ev.m.Reason), maxText)),
	}
	if target != nil {
		c.TargetKind, c.TargetSeq, c.kind = target.Kind, target.First, target.kind
	}
	t.cancels.push(&c.node, c)
	return c
}

// classify sets the final class of a cancel.
func (t *Tracker) classify(c *Cancel, class Class) {
	c.Class = class
	t.classes[class]++
	if c.kind != nil {
		c.kind.Cancels[class]++
	}
	if e := c.of; e != nil {
		if e.settled {
			t.waiting--
		}
		e.cancel, c.of = nil, nil
	}
	t.watchCancel(c)
}

// endCancel settles the pending cancel of e, if there is one, when f ends e.
func (t *Tracker) endCancel(e *Exchange, phase protocol.Phase, f *Frame) {
	c := e.cancel
	if c == nil {
		return
	}
	class := c.classOf(phase, f)
	c.Last = since(f.Time, c.Asked)
	t.classify(c, class)
	if class == Confirmed {
		c.Confirmed = f.Time
		return
	}
	c.Bytes += int64(f.Size)
	switch {
	case class == LateResult:
		t.report(lateResult, f, []int64{e.First, c.Seq}, "the cancelled %s %s was answered %v after the cancel", e.Kind, quote(e.ID), c.Last.Round(time.Millisecond))
	case class == Ignored && c.duty == protocol.MustConfirm:
		t.report(cancelIgnored, f, []int64{e.First, c.Seq}, "the cancelled %s %s ended as if it had not been cancelled, %v after the cancel", e.Kind, quote(e.ID), c.Last.Round(time.Millisecond))
	}
}

// silence settles the pending cancel of e, if there is one, when nothing more can arrive. It
// reports whether there was one.
func (t *Tracker) silence(e *Exchange) bool {
	c := e.cancel
	if c == nil {
		return false
	}
	t.classify(c, Silent)
	if t.oneWay || c.duty != protocol.MustAnswer && c.duty != protocol.MustConfirm {
		return true
	}
	t.addFinding(cancelSilent, Findings[cancelSilent].Severity, e.Conn, []int64{e.First, c.Seq},
		"the cancelled "+e.Kind+" "+quote(e.ID)+" was never answered")
	return true
}

// giveUp records that the opener of e cancels it for a reason, and reports it if the reason is
// a timeout.
func (t *Tracker) giveUp(ev *event, e *Exchange, reason string) {
	if reason == "" {
		return
	}
	e.Reason = reason
	if protocol.Impatience([]byte(reason)) == nil {
		return
	}
	e.gaveUp = true
	after := ""
	if took := since(ev.f.Time, e.Opened); took > 0 {
		after = " after " + took.Round(time.Millisecond).String()
	}
	t.report(requestTimeout, ev.f, []int64{e.First}, "%s was given up%s: %q", e.Title(), after, reason)
}
