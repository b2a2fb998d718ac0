package jsonrpc

import (
	"iter"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

var kindBatch = []byte("batch")

// parseBatch reads the messages of a batch, whose array has been entered. [Items] and
// another Parse give their meanings.
func (d *Dialect) parseBatch(s *jsonscan.Scanner, m *protocol.Message) error {
	for s.Elem() {
		m.Count++
	}
	if m.Count == 0 || d.grammar.NoBatches {
		m.Faults |= protocol.UnknownKind
	} else {
		m.Kind = kindBatch
	}
	return jsonwalk.Finish(s, s.End(), m)
}

// Items yields the messages of a batch, or any other payload as it is. They borrow from
// payload. It stops at the first one that is not JSON.
func Items(payload []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var s jsonscan.Scanner
		s.Init(payload)
		if !s.Array() {
			yield(payload)
			return
		}
		for s.Elem() {
			item := s.Value()
			if item == nil || !yield(item) {
				return
			}
		}
	}
}
