package diff

import (
	"hash/maphash"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// names maps the ids of one session to those of the other. An id corresponds to the first one
// found in its place, and to no other. Only hashes are kept.
type names struct {
	there, back map[uint64]uint64
}

// A scoped id is an id that a side uses in a lane.
type scoped struct {
	lane int
	side frame.Dir
	text string
}

func newNames() *names { return &names{make(map[uint64]uint64), make(map[uint64]uint64)} }

// rename makes b correspond to a, whatever they corresponded to before: ids may be reused.
func (n *names) rename(lane int, side frame.Dir, a, b string) {
	n.set(hash(scoped{lane, side, a}), hash(scoped{lane, side, b}))
}

func (n *names) set(a, b uint64) {
	delete(n.back, n.there[a])
	delete(n.there, n.back[b])
	n.there[a], n.back[b] = b, a
}

// same reports whether b corresponds to a. If neither has a counterpart yet, they correspond
// from now on.
func (n *names) same(lane int, side frame.Dir, a, b string) bool {
	in, out := hash(scoped{lane, side, a}), hash(scoped{lane, side, b})
	there, known := n.there[in]
	_, taken := n.back[out]
	if !known && !taken {
		n.set(in, out)
		return true
	}
	return known && there == out
}

var seed = maphash.MakeSeed()

// hash represents a value where many are kept. Two values collide with a probability of 2⁻⁶⁴.
// The seed is secret, so nobody can search for collisions.
func hash[T comparable](v T) uint64 { return maphash.Comparable(seed, v) }

// knows reports whether a JSON value is an id of the session.
func (s *Session) knows(value []byte) bool {
	if s.tokens[hash(string(value))] {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && s.tokens[hash(string(unquoted))]
}
