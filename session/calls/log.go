package calls

import (
	"cmp"
	"slices"
	"time"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// A Log is a [session.Watcher] that passes calls on when they are over. Its memory is bounded
// by the exchanges that trackers keep open, and by Window.
type Log struct {
	// Show is called once for each call, and may keep it.
	Show func(*Call)
	// Live passes calls on immediately. Otherwise calls are passed on in the order in which
	// they began, and a cancelled one only once it is known whether it was answered anyway.
	Live bool
	// Unfold also passes on the exchanges of an operation, after it. Exchanges that join it
	// after it was passed on come later.
	Unfold bool
	// Window is how many calls may wait for an earlier one; 0 means 16,384. If there are
	// more, finished calls no longer wait.
	Window int
	// Also, if not nil, is called first for each change.
	Also func(e *session.Exchange, seq int64)
	// First is when the first frame of the session was read; zero if unknown.
	First time.Time

	calls  map[uint32]*entry // by the mark of the exchange
	mark   uint32
	order  []*entry         // the same, in the order of their operations and first frames
	joined map[int64]*entry // the exchanges of operations, by first frame
	limit  int              // length of order from which on finished calls are passed on
}

// An entry is a call that has not been passed on yet.
type entry struct {
	Call
	mark    uint32
	again   bool // it failed, and may be repeated
	pending bool // it has a cancel whose class is not known yet
	waits   bool // until its operation is passed on
}

// A place is the position of an entry in the order: after its operation.
type place struct{ operation, frame int64 }

func (e *entry) place() place { return place{cmp.Or(e.Operation, e.Frame), e.Frame} }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.operation, q.operation), cmp.Compare(p.frame, q.frame))
}

// settled reports whether nothing more is expected.
func (e *entry) settled() bool { return e.Outcome != session.Open && !e.pending && !e.again }

const defaultWindow = 1 << 14

// Changed implements [session.Watcher].
func (l *Log) Changed(e *session.Exchange, seq int64) {
	if l.Also != nil {
		l.Also(e, seq)
	}
	c := l.calls[e.Mark]
	switch {
	case c == nil && e.Mark != 0:
		return // already passed on
	case c == nil && e.Of != 0 && !l.unfolds(e) && (!l.isLate(e) || e.Outcome != session.Open):
		return
	case c == nil:
		c = l.enter(e)
	}
	switch {
	case l.isLate(e) && !l.unfolds(e):
	case e.Of != 0 && c.Operation == 0 && !l.join(c, e):
		return
	case e.Of == 0 && c.Operation != 0:
		l.leave(c)
	}
	c.update(e)
	c.again = e.Repeatable
	l.release(c)
}

// unfolds reports whether an exchange of an operation is passed on. A program that tells about itself
// tells of turns and the calls in them.
func (l *Log) unfolds(e *session.Exchange) bool { return l.Unfold || all.Rules(e.Protocol).NoWire }

// isLate reports whether an exchange repeats one that was passed on as failed.
func (l *Log) isLate(e *session.Exchange) bool {
	return e.Repeats && l.calls[e.Operation().Mark] == nil
}

// join moves an exchange to after the operation that it belongs to, and reports whether it is
// passed on.
func (l *Log) join(c *entry, e *session.Exchange) bool {
	l.drop(c)
	if !l.unfolds(e) {
		delete(l.calls, c.mark)
		e.Mark = 0 // it may turn out to belong to none
		return false
	}
	c.Operation = e.Of
	c.waits = l.Live && l.calls[e.Operation().Mark] != nil
	l.insert(c)
	l.joined[c.Frame] = c
	return true
}

// leave moves back an exchange that turned out to belong to no operation.
func (l *Log) leave(c *entry) {
	l.drop(c)
	delete(l.joined, c.Frame)
	c.Operation, c.waits = 0, false
	l.insert(c)
}

// Asked implements [session.Watcher].
func (l *Log) Asked(c *session.Cancel) {
	e := l.target(c)
	switch {
	case e == nil:
	case c.Class == session.Pending:
		e.Asked, e.Stopped, e.pending = c.Asked, true, true
	case e.pending:
		if e.Class, e.pending = c.Class, false; c.Class == session.LateResult || c.Class == session.Crossed {
			e.Closed = c.Asked.Add(c.Last)
		}
		l.release(e)
	case c.Class == session.Confirmed: // it says that the call has ended
		e.Asked, e.Class, e.withdrawn = c.Asked, c.Class, true
	}
}

// Found implements [session.Watcher].
func (l *Log) Found(session.Finding) {}

// enter adds an exchange that was just opened.
func (l *Log) enter(e *session.Exchange) *entry {
	if l.calls == nil {
		l.calls, l.joined = make(map[uint32]*entry), make(map[int64]*entry)
		l.Window = cmp.Or(l.Window, defaultWindow)
		l.limit = l.Window
	}
	l.mark++
	l.mark = max(l.mark, 1)
	e.Mark = l.mark
	c := &entry{Call: *newCall(e), mark: l.mark}
	c.Offset = since(c.Start, l.First)
	l.calls[c.mark] = c
	l.insert(c)
	if len(l.order) > l.limit {
		l.overflow()
	}
	return c
}

// insert puts a call into the order, after those of the same frame.
func (l *Log) insert(c *entry) {
	behind := c.place()
	behind.frame++
	l.order = slices.Insert(l.order, l.find(behind), c)
}

// find returns the index in order of the first call at or after p.
func (l *Log) find(p place) int {
	at, _ := slices.BinarySearchFunc(l.order, p, func(e *entry, p place) int { return e.place().compare(p) })
	return at
}

// drop removes a call from the order.
func (l *Log) drop(c *entry) {
	at := l.find(c.place())
	for l.order[at] != c {
		at++
	}
	l.order = slices.Delete(l.order, at, at+1)
}

// target returns the call that a cancel names; nil if it was passed on. All requests of a batch
// share one frame.
func (l *Log) target(c *session.Cancel) *entry {
	found := l.joined[c.TargetSeq] // a frame may begin several: MCP inside another protocol
	for _, e := range l.order[l.find(place{c.TargetSeq, c.TargetSeq}):] {
		if e.Frame != c.TargetSeq {
			break
		}
		if found == nil || e.ID == string(c.Target.Text) {
			found = e
		}
	}
	return found
}

// release passes on the calls that no longer wait after the change of a call.
func (l *Log) release(c *entry) {
	switch {
	case c.Outcome == session.Open, c.waits:
	case l.Live:
		l.drop(c)
		l.pass(c)
		if c.Exchanges > 0 {
			l.releaseJoined(c.Frame)
		}
	default:
		n := 0
		for n < len(l.order) && l.order[n].settled() {
			l.pass(l.order[n])
			n++
		}
		clear(l.order[:n])
		l.order = l.order[n:]
	}
}

// releaseJoined passes on the exchanges that waited for an operation.
func (l *Log) releaseJoined(operation int64) {
	from := l.find(place{operation: operation})
	to := l.find(place{operation: operation + 1})
	for _, c := range slices.Clone(l.order[from:to]) {
		c.waits = false
		l.release(c)
	}
}

// overflow passes on all finished calls, even if others began before them.
func (l *Log) overflow() {
	l.order = slices.DeleteFunc(l.order, func(e *entry) bool {
		if e.Outcome == session.Open {
			return false
		}
		l.pass(e)
		return true
	})
	l.limit = max(l.Window, 2*len(l.order)) // so that open calls are not scanned again for each new one
}

func (l *Log) pass(c *entry) {
	delete(l.calls, c.mark)
	if l.joined[c.Frame] == c {
		delete(l.joined, c.Frame)
	}
	l.Show(&c.Call)
}

// Finish passes on the remaining calls at the end of a session, whose last frame was read at
// last.
func (l *Log) Finish(last time.Time) {
	for _, c := range l.order {
		if c.Outcome == session.Open {
			c.Duration = since(last, c.Start)
		}
		l.pass(c)
	}
	l.order, l.First = nil, time.Time{}
}
