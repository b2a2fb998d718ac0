package all

import (
	"bytes"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// Beside returns the protocol of a payload of HTTP on a wire whose protocol is p: a server
// of calls also answers plain requests, such as those of a login, and its client may ask
// other servers. JSON that does not claim to be JSON-RPC is JSON; a payload that claims to
// be JSON-RPC is of no other JSON protocol.
func Beside(p protocol.Protocol, payload []byte) protocol.Protocol {
	says := bytes.Contains(payload, []byte(`"jsonrpc"`))
	switch _, calls := p.(*jsonrpc.Dialect); {
	case calls && !says && isNoCall(payload):
		return opaque.JSON
	case p == opaque.JSON && says && parses(jsonrpc.Plain, payload):
		return jsonrpc.Plain
	}
	return p
}

// isNoCall reports whether a payload is JSON, and no message of JSON-RPC even if
// that had left out its version.
func isNoCall(payload []byte) bool {
	var m protocol.Message
	if jsonrpc.Plain.Parse(payload, &m) != nil {
		return false
	}
	const others = protocol.UnknownKind | protocol.MissingField | protocol.NoAnswer
	return m.Faults&others != 0 || bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("["))
}
