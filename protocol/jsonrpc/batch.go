package jsonrpc

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

var kindBatch = []byte("batch")

// parseBatch reads the messages of a batch, whose array has been entered. [protocol.Items] and
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
