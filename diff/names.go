package diff

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// names are how the ids of one session are called in the other. What stands in
// the place of an id is its other name from then on, and of no other.
type names struct {
	there, back map[scoped]string
}

// A scoped id is one of those that a side uses on a connection.
type scoped struct {
	conn int
	side frame.Dir
	text string
}

func newNames() *names {
	return &names{make(map[scoped]string), make(map[scoped]string)}
}

// rename makes b another name of a, whatever they were called before: an id
// may be used again.
func (n *names) rename(conn int, side frame.Dir, a, b string) {
	delete(n.back, scoped{conn, side, n.there[scoped{conn, side, a}]})
	delete(n.there, scoped{conn, side, n.back[scoped{conn, side, b}]})
	n.there[scoped{conn, side, a}] = b
	n.back[scoped{conn, side, b}] = a
}

// same reports whether b is what a is called there. Two that have no other name
// yet are so from now on.
func (n *names) same(conn int, side frame.Dir, a, b string) bool {
	there, known := n.there[scoped{conn, side, a}]
	_, taken := n.back[scoped{conn, side, b}]
	if !known && !taken {
		n.rename(conn, side, a, b)
		return true
	}
	return known && there == b
}

// knows reports whether a JSON value is an id of the session.
func (s *Session) knows(value []byte) bool {
	if s.tokens[string(value)] {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && s.tokens[string(unquoted)]
}
