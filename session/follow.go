package session

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// feed handles one message.
func (t *Tracker) feed(f *Frame, s *scope, m *protocol.Message) {
	if s.failing.op != nil {
		t.endFailing(s, m)
	}
	ev := event{f: f, m: m, scope: s}
	t.countMessage(&ev)
	if !f.cut {
		t.checkRules(&ev)
	}
	ev.used = t.usageOf(&ev)
	if t.rules.Steps && m.Step.Does != protocol.Note {
		t.step(&ev)
	}
	if !m.Begins.IsZero() {
		t.beginTurn(&ev)
	}
	if m.Queue.Does != protocol.Note {
		t.queue(&ev)
	}
	var e *Exchange
	switch {
	case m.Phase == protocol.Open:
		e = t.openExchange(&ev)
	case m.Phase == protocol.Cancel:
		t.cancelled(&ev)
	case t.rules.Streamed && m.Phase == protocol.Note && !m.ID.IsZero():
		e = t.more(&ev)
	case m.Phase != protocol.Note || t.isAck(&ev):
		e = t.trackAnswer(&ev)
	case m.Faults&protocol.UnknownKind != 0:
		s.unreadable[ev.from]++
	}
	if !m.Within.IsZero() || !m.Gone.IsZero() {
		t.followPart(&ev, e)
	}
	if !f.cut {
		t.judge(&ev, m, e)
	}
	if f.Session.Stream != 0 && m.Phase == protocol.Close {
		t.adopt(f, s)
	}
	if e != nil {
		if t.rules.Session != nil && m.Phase == protocol.Close && !f.cut {
			if id := t.rules.Session(e.Kind, m, f.Payload); id != nil { // it has used nothing yet
				t.spend(t.keyOf(s, e.Opener, protocol.Token{Space: protocol.SpaceSession, Text: id}), protocol.Usage{})
			}
		}
		if t.rules.Options != nil && !f.cut {
			t.checkOptions(f, e, m.Phase, t.rules.Options(e.Kind, m, f.Payload))
		}
		if m.Operation.Of.IsZero() || !t.isEndless(e) { // otherwise it belongs to the operation
			t.use(e.Operation(), ev.used)
		}
		t.countModel()
	}
	if e != nil && e.Operation() != e {
		t.changed(e.Operation(), f.Seq)
	}
	if m.Failing && e != nil {
		e.failing = true
	}
	if !m.Settles.IsZero() {
		t.settleQuestion(&ev)
	}
	if m.Waiting.Does.Ends() && m.Waiting.Of.IsZero() {
		t.wait(&ev, nil)
	}
	if m.Operation.Does != protocol.Note {
		t.operate(&ev, e)
	}
	if t.rules.Waits && (m.Phase == protocol.Open || !m.Waiting.Of.IsZero()) || m.Waiting.Does == protocol.Part {
		t.wait(&ev, e)
	}
	s.lanes[ev.from].pass(f, e)
	if e != nil {
		t.changed(e, f.Seq)
	}
}

// countMessage counts a message and sets its origin and kind.
func (t *Tracker) countMessage(ev *event) {
	ev.from = ev.f.Dir
	if ev.from == frame.DirUnknown || t.rules.OneSided {
		ev.from = ev.m.From
	}
	ev.kind = t.kindOf(ev.m.Kind)
	if !ev.f.Again {
		ev.kind.Frames++
		ev.kind.Bytes += int64(ev.f.Size)
	}
}

// sides returns the sides to search for an opener: both if side is unknown.
func sides(side frame.Dir) []frame.Dir {
	switch side {
	case frame.C2U:
		return []frame.Dir{frame.C2U, frame.DirUnknown}
	case frame.U2C:
		return []frame.Dir{frame.U2C, frame.DirUnknown}
	}
	return []frame.Dir{frame.DirUnknown, frame.C2U, frame.U2C}
}

func (t *Tracker) keyOf(s *scope, side frame.Dir, token protocol.Token) key {
	serial := s.serial
	if t.rules.Shared != nil && t.rules.IsShared(token.Space) {
		serial = 0
	}
	return t.table.key(serial, side, token)
}

// findExchange returns the exchange that a token names: the oldest open one, or else the
// one settled last, or nil. The zero token names the oldest exchange of its scope and
// side.
func (t *Tracker) findExchange(s *scope, side frame.Dir, token protocol.Token) *Exchange {
	if t.isTurn(token) && side != frame.U2C {
		if e := t.currentTurn(s); e != nil {
			return e
		}
	}
	for _, side := range sides(side) {
		if token.IsZero() {
			if e := s.oldest(side); e != nil {
				return e
			}
		} else if q := t.table.findQueue(t.keyOf(s, side, token), token.Text); q != nil {
			return oldestOf(q, token.Space)
		}
	}
	return nil
}

// judges reports whether a missing message can be detected.
func (t *Tracker) judges() bool { return !t.oneWay && t.forgotten == 0 }
