package session

import (
	"hash/maphash"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A connection can have parts, such as the sessions that a browser attaches. Each part has its
// own ids and can end before the connection does.

// anywhere is the space of ids without their part. An error may omit the part because no such
// part exists.
const anywhere protocol.Space = 0xfe

// keyWithin returns the key of a message's id within its part of the connection.
func (t *Tracker) keyWithin(ev *event, side frame.Dir) key {
	k := t.keyOf(ev.scope, side, ev.m.ID)
	if !ev.m.Within.IsZero() {
		k.hash ^= maphash.Bytes(t.table.seed, ev.m.Within.Text)
	}
	return k
}

// nameWithin binds the other names of an exchange within a part of the connection.
func (t *Tracker) nameWithin(ev *event, e *Exchange) {
	e.within = true
	t.table.bind(&e.bindings[byOperation], e, t.keyOf(ev.scope, ev.from, ev.m.Within), ev.m.Within.Text)
	if ev.m.Bind.IsZero() && !ev.m.ID.IsZero() {
		id := protocol.Token{Space: anywhere, Text: ev.m.ID.Text}
		t.table.bind(&e.bindings[bySecond], e, t.keyOf(ev.scope, ev.from, id), id.Text)
	}
}

// findAnswered returns the exchange that ev answers, which ev names by token.
func (t *Tracker) findAnswered(ev *event, token protocol.Token) *Exchange {
	side := ev.from.Opposite()
	if t.isTurn(token) {
		if ev.m.Phase.Ends() {
			return t.findTurn(ev)
		}
		return t.currentTurn(ev.scope)
	}
	if ev.m.Within.IsZero() || !protocol.SameToken(token, ev.m.ID) {
		e := t.findExchange(ev.scope, side, token)
		if e == nil && token.Space == protocol.SpaceID && ev.m.Phase == protocol.Fail {
			e = t.findExchange(ev.scope, side, protocol.Token{Space: anywhere, Text: token.Text})
		}
		return e
	}
	for _, side := range sides(side) {
		if q := t.table.findQueue(t.keyWithin(ev, side), token.Text); q != nil {
			return q.exchanges.oldest()
		}
	}
	return nil
}

// A gonePart records when a part of a connection ended, and the number of the frame that
// reported it.
type gonePart struct {
	seq int64
	at  time.Time
}

// maxGone bounds how many ended parts are remembered.
const maxGone = 1 << 12

// followPart ends the open exchanges of a part of the connection that has ended. It reports
// requests to a part that had already ended, unless the sender could not have known.
func (t *Tracker) followPart(ev *event, e *Exchange) {
	if within := ev.m.Within; ev.m.Phase == protocol.Open {
		g, ended := t.gone[t.keyOf(ev.scope, ev.from, within)]
		if ended && since(ev.f.Time, g.at) > crossing {
			t.addFinding(afterEnd, Warning, ev.f.Conn, []int64{g.seq, ev.f.Seq}, e.Title()+" is sent to the session "+quote(within)+", which has ended")
		}
	}
	if ev.m.Gone.IsZero() {
		return
	}
	for _, side := range sides(ev.from.Opposite()) {
		k := t.keyOf(ev.scope, side, ev.m.Gone)
		if t.gone == nil {
			t.gone = make(map[key]gonePart)
		}
		if len(t.gone) < maxGone {
			t.gone[k] = gonePart{ev.f.Seq, ev.f.Time}
		}
		for q := t.table.findQueue(k, ev.m.Gone.Text); q != nil; q = t.table.findQueue(k, ev.m.Gone.Text) {
			open := q.exchanges.oldest()
			if open.settled || !open.within {
				break
			}
			open.saw(ev.f)
			open.Closed, open.optional = ev.f.Time, true
			t.silence(open)
			open.become(Abandoned)
			open.over()
			t.settle(open)
			t.changed(open, ev.f.Seq)
		}
	}
}
