package session

import (
	"hash/maphash"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A table resolves names to exchanges. It compares tokens as they are written,
// within a scope, a side and a token space; side is that of the opener. What
// it keeps of names is recycled, so that it stops to allocate when it has seen
// as many names at once as it will.
//
// A name leads to the exchanges that are open under it, the oldest first, or
// else to the one that was settled last.
type table struct {
	seed    maphash.Seed
	buckets []*queue
	queues  int
	free    *queue
}

// A queue holds the exchanges of one name.
type queue struct {
	key       key
	text      []byte // of the token, clipped
	exchanges list[Exchange]
	next      *queue // of the bucket or the free list
}

// A key identifies a name together with the beginning of its token's text. The
// hash, of a secret seed, is over all of the text.
type key struct {
	hash  uint64
	scope uint64 // serial number of the scope; 0 is all scopes
	size  int    // of the text
	side  frame.Dir
	space protocol.Space
}

// anonymous is the space in which every exchange of a scope and side has the
// same name: the empty text. It serves answers that have no id.
const anonymous protocol.Space = 0xff

// maxText bounds what is kept of a token.
const maxText = 256

func newTable() table {
	return table{seed: maphash.MakeSeed(), buckets: make([]*queue, 64)}
}

func (t *table) key(scope uint64, side frame.Dir, token protocol.Token) key {
	h := maphash.Bytes(t.seed, token.Text)
	h ^= (scope<<16 | uint64(side)<<8 | uint64(token.Space)) * 0x9e3779b97f4a7c15
	return key{h ^ h>>32, scope, len(token.Text), side, token.Space}
}

// find returns the queue of a name, or nil if nothing has it.
func (t *table) find(k key, text []byte) *queue {
	for q := t.buckets[k.hash&uint64(len(t.buckets)-1)]; q != nil; q = q.next {
		if q.key == k && string(q.text) == string(clip(text, maxText)) {
			return q
		}
	}
	return nil
}

// A binding is one of the names of an exchange.
type binding struct {
	node  node[Exchange]
	queue *queue
}

// bind gives e one more name, taking it from an exchange that is settled. It
// returns the exchanges of that name.
func (t *table) bind(b *binding, e *Exchange, k key, text []byte) *queue {
	q := t.find(k, text)
	if q == nil {
		q = t.insert(k, text)
	} else if settled := q.exchanges.oldest(); settled.settled {
		taken := settled.bindingIn(q)
		taken.node.remove()
		taken.queue = nil
	}
	b.queue = q
	q.exchanges.push(&b.node, e)
	return q
}

// unbind takes a name from its exchange, if it still has it.
func (t *table) unbind(b *binding) {
	q := b.queue
	if q == nil {
		return
	}
	b.node.remove()
	b.queue = nil
	if q.exchanges.len == 0 {
		t.remove(q)
	}
}

func (t *table) insert(k key, text []byte) *queue {
	if t.queues >= len(t.buckets) {
		t.grow()
	}
	q := t.free
	if q != nil {
		t.free = q.next
	} else {
		q = new(queue)
	}
	q.key, q.text = k, append(q.text[:0], clip(text, maxText)...)
	t.link(q)
	t.queues++
	return q
}

func (t *table) link(q *queue) {
	b := &t.buckets[q.key.hash&uint64(len(t.buckets)-1)]
	q.next, *b = *b, q
}

func (t *table) grow() {
	old := t.buckets
	t.buckets = make([]*queue, 2*len(old))
	for _, q := range old {
		for q != nil {
			next := q.next
			t.link(q)
			q = next
		}
	}
}

func (t *table) remove(q *queue) {
	p := &t.buckets[q.key.hash&uint64(len(t.buckets)-1)]
	for *p != q {
		p = &(*p).next
	}
	*p = q.next
	q.next, t.free = t.free, q
	t.queues--
}

// clip returns the first n bytes of text at most.
func clip(text []byte, n int) []byte { return text[:min(len(text), n)] }
