package context

import (
	"slices"
)

// before returns the earlier call that c goes on from; nil if there is none.
func (l *Log) before(c *Call) (best *Call) {
	var most, shared, missing int64
	mine := l.hashes[c.Front:]
	for _, o := range slices.Backward(l.recent) {
		if o.to != c.to || o.Agent != c.Agent || o.Own != c.Own || o.Told {
			continue
		}
		if id := l.given.Previous; id != "" && o.ID == id {
			return o
		}
		size, all := l.common(o.sent(), mine, c.Front)
		if size == 0 || size < most {
			continue
		}
		if all && !o.isLeft() && o.Held == 0 {
			return o
		}
		both, lost := size, int64(0)
		if !all {
			if !o.done { // both are asked at the same time
				continue
			}
			both, lost = l.overlap(o, mine, c.Front)
		}
		switch {
		case size > most, both > shared, both == shared && best.isLeft() && !o.isLeft():
		case both == shared && best.isLeft() == o.isLeft() && lost < missing:
		default:
			continue
		}
		best, most, shared, missing = o, size, both, lost
	}
	if best != nil || l.given.Held {
		return best
	}
	// The beginning may have been replaced: by a summary, or because the oldest messages were dropped.
	for _, o := range slices.Backward(l.recent) {
		if o.to != c.to || o.Agent != c.Agent || o.Own != c.Own || o.Told || o.isLeft() || !o.done {
			continue
		}
		both, _ := l.overlap(o, mine, c.Front)
		tools, known := o.Sums[Tool], c.Agent != "" || c.session != "" && c.session == o.session
		switch {
		case both >= leastShared,
			known && tools.Count > 0 && tools == c.Sums[Tool] && o.Turn > 1 && o.messageBytes > 2*c.messageBytes:
			return o
		}
	}
	return nil
}

// leastShared is how many bytes of messages two requests of one conversation share, whose beginnings
// differ.
const leastShared = 256

// sent returns the hashes of the messages of a request.
func (c *Call) sent() []uint64 { return c.hashes[c.Front+c.Held:] }

// common returns the bytes of the messages at the beginning that are equal, apart from those of the system,
// and whether those are all messages of the other.
func (l *Log) common(theirs, mine []uint64, front int) (size int64, all bool) {
	n, m := 0, 0
	for {
		for n < len(theirs) && theirs[n]&ofSystem != 0 {
			n++
		}
		for m < len(mine) && mine[m]&ofSystem != 0 {
			m++
		}
		if n == len(theirs) || m == len(mine) || theirs[n] != mine[m] {
			return size, n == len(theirs)
		}
		block := &l.given.Blocks[front+m]
		size += int64(block.End - block.Start)
		n, m = n+1, m+1
	}
}

// overlap returns the bytes of messages that both have, not of the system, in any order, and the number of
// those that only the other has.
func (l *Log) overlap(o *Call, mine []uint64, front int) (both, lost int64) {
	theirs := map[uint64]bool{}
	for _, h := range o.sent() {
		theirs[h] = h&ofSystem == 0
	}
	for i, h := range mine {
		if theirs[h] {
			block := &l.given.Blocks[front+i]
			both += int64(block.End - block.Start)
		}
		delete(theirs, h)
	}
	return both, int64(len(theirs))
}

// isLeft reports whether another call has gone on from here, and was not refused.
func (c *Call) isLeft() bool {
	return c.heir != nil && !(c.heir.done && c.heir.Input == 0 && c.heir.ID == "")
}

// place puts a call into a conversation.
func (l *Log) place(c, before *Call) {
	l.numbers++
	c.Number = l.numbers
	switch {
	case before == nil:
		l.conversations++
		c.Conversation, c.Turn = l.conversations, 1
		return
	case before.isLeft():
		l.conversations++
		c.Conversation, c.Branch = l.conversations, true
	default:
		c.Conversation = before.Conversation
	}
	before.heir = c
	before.heirs++
	c.Turn, c.Previous, c.Since = before.Turn+1, before.Number, before.Frame
}
