package track

import (
	"hash/maphash"

	"github.com/wirectl/wirectl/protocol"
)

// A paid request is one that costs money.
type paid struct {
	seq     int64          // the number of its frame
	repeat  int64          // the frame of the first equal request sent while this one was open
	outcome protocol.Phase // how it ended; Open while unknown
}

// payments are the requests of a session by the hash of their content.
type payments struct {
	seed       maphash.Seed
	young, old map[uint64]*paid
}

// maxPaid limits the remembered requests; the oldest are dropped.
const maxPaid = 1 << 12

// pay remembers a request, and reports an equal earlier one that succeeded.
func (f *Follower) pay(c *modelCall, seq int64, body []byte) []protocol.Broken {
	if c.Free {
		return nil
	}
	p := &f.payments
	if p.young == nil {
		p.seed, p.young = maphash.MakeSeed(), map[uint64]*paid{}
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	_, _ = h.WriteString(c.to)
	_, _ = h.Write(body)
	at := h.Sum64()
	before := p.young[at]
	if before == nil {
		before = p.old[at]
	}
	if len(p.young) >= maxPaid {
		p.young, p.old = map[uint64]*paid{}, p.young
	}
	c.paid = &paid{seq: seq, outcome: protocol.Open}
	p.young[at] = c.paid
	switch {
	case before == nil:
	case before.outcome == protocol.Open: // or its connection broke: only an answer would disprove that
		before.repeat = seq
	case before.outcome == protocol.Close:
		return []protocol.Broken{{Finding: "repeated-request", How: c.Kind + " has the body of an earlier request, which has succeeded", Frames: []int64{before.seq}}}
	}
	return nil
}

// repeated reports an answer to a request that was repeated while it was still open: the
// client had not given it up.
func (c *modelCall) repeated(phase protocol.Phase) []protocol.Broken {
	if c.paid == nil || c.paid.repeat == 0 || phase != protocol.Part && phase != protocol.Close {
		return nil
	}
	again := c.paid.repeat
	c.paid.repeat = 0
	return []protocol.Broken{{Finding: "repeated-request", How: c.Kind + " was sent again with the same body before this answer", Frames: []int64{again}}}
}

// settle notes how a request ended.
func (c *modelCall) settle(phase protocol.Phase) {
	if c.paid != nil {
		c.paid.outcome = phase
	}
}
