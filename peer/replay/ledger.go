package replay

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A ledger knows exchanges by the names that their openers gave them, and those that go
// on after their answer by the name that it gave. As an operation goes on, so does the
// exchange that began it.
type ledger struct {
	exchanges map[name][]int // the oldest first
	base      *protocol.Rules
	rules     *protocol.Rules // of the version that was stated
	states    map[int]state
}

// A state is how far an exchange is, of which an answer may only accept the request.
type state uint8

const (
	asked    state = iota + 1
	accepted       // it goes on
	decided        // it has ended, and the answer is still to come
	over
)

// A name is one of those of an exchange. No text names all that a side opened.
type name struct {
	opener frame.Dir
	space  protocol.Space
	text   string
}

func newLedger(p protocol.Protocol) *ledger {
	rules := all.Rules(p)
	return &ledger{make(map[name][]int), rules, rules, make(map[int]state)}
}

// openExchange records the names of the exchange that m opens.
func (l *ledger) openExchange(from frame.Dir, m *protocol.Message, exchange int) {
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			l.bind(name{from, t.Space, string(t.Text)}, exchange)
		}
	}
	l.bind(name{opener: from}, exchange)
	if slices.Contains(l.rules.Accepted, string(m.Kind)) {
		l.states[exchange] = asked
	}
}

// ends takes in a message of an exchange, which the side from sent, and reports whether it
// ends that.
func (l *ledger) ends(from frame.Dir, m *protocol.Message, exchange int) bool {
	if len(m.Version) > 0 && (l.rules == l.base || m.Phase.Ends()) {
		l.rules = l.base.At(string(m.Version))
	}
	ends := m.Phase.Ends()
	switch at := l.states[exchange]; {
	case at == asked && m.Phase == protocol.Close:
		if n := (name{from.Opposite(), m.Bind.Space, string(m.Bind.Text)}); !m.Bind.IsZero() {
			if slices.ContainsFunc(l.exchanges[n], func(e int) bool { return l.states[e] == accepted }) {
				break // it was accepted as more of that
			}
			l.bind(n, exchange)
		}
		l.states[exchange] = accepted
		return false
	case at == asked && m.Operation.Does.Ends():
		l.states[exchange] = decided
	case at == accepted && m.Operation.Does.Ends():
		ends = true
	}
	if ends && l.states[exchange] != 0 {
		l.states[exchange] = over
	}
	return ends
}

func (l *ledger) bind(n name, exchange int) { l.exchanges[n] = append(l.exchanges[n], exchange) }

// exchangeOf returns the exchange that m, sent by the side from, belongs to, or 0. If
// several have the name, it returns the oldest that is wanted, or else the last.
func (l *ledger) exchangeOf(from frame.Dir, m *protocol.Message, wanted func(int) bool) int {
	token, opener := m.Ref, from.Opposite()
	switch {
	case m.Phase == protocol.Open:
		return 0
	case m.Phase == protocol.Cancel:
		if opener = from; token.IsZero() {
			return 0
		}
	case m.Phase == protocol.Note && m.Operation.Does.Ends():
		token = m.Operation.Of
	case m.Phase == protocol.Note && m.ID.IsZero():
		return 0
	case token.IsZero():
		token = m.ID
	}
	n := name{opener, token.Space, string(token.Text)}
	known := l.exchanges[n]
	if i := slices.IndexFunc(known, wanted); i >= 0 {
		// What came before has ended and is asked for no more, except as the last.
		l.exchanges[n] = known[i:]
		return known[i]
	}
	if len(known) == 0 {
		return 0
	}
	l.exchanges[n] = known[len(known)-1:]
	return known[len(known)-1]
}
