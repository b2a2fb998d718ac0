package replay

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A ledger knows exchanges by the names that their openers gave them.
type ledger struct {
	exchanges map[name][]int // the oldest first
}

// A name is one of those of an exchange. No text names all that a side opened.
type name struct {
	opener frame.Dir
	space  protocol.Space
	text   string
}

func newLedger() *ledger { return &ledger{make(map[name][]int)} }

// openExchange records the names of the exchange that m opens.
func (l *ledger) openExchange(from frame.Dir, m *protocol.Message, exchange int) {
	for _, t := range []protocol.Token{m.ID, m.Bind} {
		if !t.IsZero() {
			l.bind(name{from, t.Space, string(t.Text)}, exchange)
		}
	}
	l.bind(name{opener: from}, exchange)
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
