package all

import (
	"bytes"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A Refiner learns from later payloads what the first one did not tell: among
// the protocols of the JSON-RPC family, the first method decides that only one
// of them has.
type Refiner struct {
	protocol protocol.Protocol
	open     bool // no payload has told any protocol yet
}

// NewRefiner returns a Refiner for payloads of which nothing is known: they are
// bytes until one tells.
func NewRefiner() *Refiner { return &Refiner{opaque.Bytes, true} }

// Refiner returns what may learn more than the guess; nil if nothing is open.
func (g *Guess) Refiner() *Refiner {
	if g.open || g.Protocol == protocol.Protocol(jsonrpc.Plain) {
		return &Refiner{g.Protocol, g.open}
	}
	return nil
}

// family are the dialects with methods of their own.
var family = []*jsonrpc.Dialect{jsonrpc.MCP, jsonrpc.ACP, jsonrpc.LSP, nexus.Protocol}

// Refine reads the next payload of the stream. It returns the protocol from
// this payload on and, if that is another than before, why; done says that
// nothing more can be learnt.
func (r *Refiner) Refine(payload []byte) (p protocol.Protocol, why string, done bool) {
	if r.open {
		p, reason := Recognize(payload)
		if p == opaque.Bytes {
			return r.protocol, "", false
		}
		r.open, r.protocol, why = false, p, reason
	}
	if r.protocol != protocol.Protocol(jsonrpc.Plain) {
		return r.protocol, why, true
	}
	if d, method := only(payload); d != nil {
		return d, "the method " + method, true
	}
	return r.protocol, why, false
}

// only returns the first method in a payload that only one dialect has, and
// that dialect; nil if there is none.
func only(payload []byte) (*jsonrpc.Dialect, string) {
	if !bytes.Contains(payload, []byte(`"method"`)) {
		return nil, ""
	}
	var m protocol.Message
	for item := range jsonrpc.Items(payload) {
		if jsonrpc.Plain.Parse(item, &m) != nil {
			return nil, ""
		}
		if d := knownTo(m.Kind); d != nil {
			return d, string(m.Kind)
		}
	}
	return nil, ""
}

// knownTo returns the dialect that alone has a method; nil if several do, or
// none.
func knownTo(method []byte) *jsonrpc.Dialect {
	var found *jsonrpc.Dialect
	for _, d := range family {
		if d.Knows(method) {
			if found != nil {
				return nil
			}
			found = d
		}
	}
	return found
}
