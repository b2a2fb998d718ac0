package session

import (
	"hash/maphash"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A table maps names to exchanges. It compares tokens as written, within a scope, a side and a
// token space; side is that of the opener. Memory for names is reused, so the table stops
// allocating once it has held the largest number of simultaneous names.
//
// A name leads to the open exchanges of that name, oldest first, or if none is open, to the one
// settled last.
//
// A slot also has the hash of the name, so that most entries of other names can be skipped
// without reading them: there are many names, and few of them are in the CPU cache.
type table struct {
	seed   maphash.Seed
	slots  []slot // open addressing with linear probing; a power of two
	queues int    // slots in use, three quarters of them at most
	free   []*queue
}

type slot struct {
	hash  uint64
	queue *queue
}

// A queue holds the exchanges of one name. The queue of a scope has no key.
type queue struct {
	key       key
	exchanges list[Exchange]
	text      []byte   // of the token, clipped
	short     [32]byte // has the text if it fits, so that it is cached with the key
}

// A key identifies a name, together with the beginning of its token's text. The hash has a
// secret seed and covers all of the text. A fifth field would make the compiler copy keys
// through memory, which costs a tenth of the time of a message.
type key struct {
	hash  uint64
	scope uint64 // serial number of the scope; 0 is all scopes
	side  frame.Dir
	space protocol.Space
}

// maxText bounds the length of a stored token.
const maxText = 256

func newTable() table {
	return table{seed: maphash.MakeSeed(), slots: make([]slot, 64)}
}

func (t *table) key(scope uint64, side frame.Dir, token protocol.Token) key {
	h := maphash.Bytes(t.seed, token.Text)
	h ^= (scope<<16 | uint64(side)<<8 | uint64(token.Space)) * 0x9e3779b97f4a7c15
	return key{h ^ h>>32, scope, side, token.Space}
}

// findQueue returns the queue of a name, or nil.
func (t *table) findQueue(k key, text []byte) *queue {
	for i := t.home(k.hash); t.slots[i].queue != nil; i = t.after(i) {
		if s := &t.slots[i]; s.hash == k.hash && s.queue.key == k && string(s.queue.text) == string(clip(text, maxText)) {
			return s.queue
		}
	}
	return nil
}

// home returns the first slot where a name may be, and after the next slot.
func (t *table) home(hash uint64) int { return int(hash & uint64(len(t.slots)-1)) }
func (t *table) after(i int) int      { return (i + 1) & (len(t.slots) - 1) }

// The names of an exchange: as the one that has waited longest, by its id, by its second name,
// and by the name of its operation.
const (
	byAge = iota
	byID
	bySecond
	byOperation
	numBindings
)

// A binding is one of the names of an exchange.
type binding struct {
	node  node[Exchange]
	queue *queue
}

// bind gives e another name, taking it from a settled exchange that has it. It returns the
// exchanges with that name.
func (t *table) bind(b *binding, e *Exchange, k key, text []byte) *queue {
	q := t.findQueue(k, text)
	if q == nil {
		q = t.insert(k, text)
	}
	q.bind(b, e)
	return q
}

// bind appends e, replacing a settled exchange.
func (q *queue) bind(b *binding, e *Exchange) {
	if settled := q.exchanges.oldest(); settled != nil && settled.settled {
		taken := settled.bindingIn(q)
		q.exchanges.remove(&taken.node)
		taken.queue = nil
	}
	b.queue = q
	q.exchanges.push(&b.node, e)
}

// unbind takes a name from its exchange, if it still has it.
func (t *table) unbind(b *binding) {
	q := b.queue
	if q == nil {
		return
	}
	q.exchanges.remove(&b.node)
	b.queue = nil
	if q.exchanges.len == 0 && q.key != (key{}) {
		t.remove(q)
	}
}

func (t *table) insert(k key, text []byte) *queue {
	if 4*t.queues >= 3*len(t.slots) {
		t.grow()
	}
	var q *queue
	if n := len(t.free); n > 0 {
		t.free, q = t.free[:n-1], t.free[n-1]
	} else {
		q = new(queue)
		q.text = q.short[:0]
	}
	q.key, q.text = k, append(q.text[:0], clip(text, maxText)...)
	t.put(slot{k.hash, q})
	t.queues++
	return q
}

func (t *table) put(s slot) {
	i := t.home(s.hash)
	for t.slots[i].queue != nil {
		i = t.after(i)
	}
	t.slots[i] = s
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.queue != nil {
			t.put(s)
		}
	}
}

func (t *table) remove(q *queue) {
	i := t.home(q.key.hash)
	for t.slots[i].queue != q {
		i = t.after(i)
	}
	t.removeSlot(i)
	t.free = append(t.free, q)
	t.queues--
}

// removeSlot empties a slot. Later entries move towards their home slots, so that they are
// still found.
func (t *table) removeSlot(i int) {
	for j := t.after(i); t.slots[j].queue != nil; j = t.after(j) {
		if away := j - t.home(t.slots[j].hash); away&(len(t.slots)-1) >= (j-i)&(len(t.slots)-1) {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
}

// clip returns at most the first n bytes of text.
func clip(text []byte, n int) []byte { return text[:min(len(text), n)] }
