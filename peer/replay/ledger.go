package replay

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A ledger finds exchanges by the names that their openers gave them. If an answer only
// accepts a request, the exchange continues, with its operation, under the name in the
// answer.
type ledger struct {
	exchanges map[name][]int // oldest first
	base      *protocol.Rules
	rules     *protocol.Rules // of the stated version
	states    map[int]state
}

// A state is the state of an exchange whose answer may only accept the request.
type state uint8

const (
	asked    state = iota + 1
	accepted       // the operation continues
	decided        // the operation has ended before the answer
	over
)

// A name is a name of an exchange. Without a text it stands for all exchanges of its opener.
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

// ends updates the state of an exchange with a message from one side, and reports whether
// the message ends it.
func (l *ledger) ends(from frame.Dir, m *protocol.Message, exchange int) bool {
	if len(m.Version) > 0 && (l.rules == l.base || m.Phase.Ends()) {
		l.rules = l.base.At(string(m.Version))
	}
	ends := m.Phase.Ends()
	switch at := l.states[exchange]; {
	case at == asked && m.Phase == protocol.Close:
		if n := (name{from.Opposite(), m.Bind.Space, string(m.Bind.Text)}); !m.Bind.IsZero() {
			if slices.ContainsFunc(l.exchanges[n], func(e int) bool { return l.states[e] == accepted }) {
				break // it was accepted as part of that operation
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

// exchangeOf returns the exchange of m, sent by the side from, or 0. If several have the
// name, it returns the oldest that is wanted, or else the last.
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
	if len(known) == 0 && (m.Phase == protocol.Part || m.Phase == protocol.Note) && !token.IsZero() {
		n.opener = from // a further message of a request
		known = l.exchanges[n]
	}
	if i := slices.IndexFunc(known, wanted); i >= 0 {
		// The exchanges before it have ended and are not needed again.
		l.exchanges[n] = known[i:]
		return known[i]
	}
	if len(known) == 0 {
		return 0
	}
	l.exchanges[n] = known[len(known)-1:]
	return known[len(known)-1]
}
