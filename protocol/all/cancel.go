package all

import (
	"fmt"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/theory"
)

// AppendCancel appends the payload by which, in p, the sender of the request
// that opened asks for its end. Where a cancel has an id of its own, it is the
// number n, which has to be new. The error says why there is no such cancel.
func AppendCancel(dst []byte, p protocol.Protocol, opened *protocol.Message, n int64) ([]byte, error) {
	c, ok := cancels[p.Name()]
	token := opened.ID
	if c.bind {
		token = opened.Bind
	}
	switch {
	case !ok:
		return dst, fmt.Errorf("%s has no message that cancels a request", p.Name())
	case token.IsZero():
		return dst, fmt.Errorf("%s names nothing that a cancel could name", opened.Kind)
	}
	text := token.Text
	if p == protocol.Protocol(latis.Protocol) {
		text = jsonscan.AppendQuote(nil, text)
	}
	json := fmt.Appendf(nil, c.json, text, n)
	if t, ok := p.(protocol.Transcoder); ok {
		return t.AppendPayload(dst, json)
	}
	return append(dst, json...), nil
}

// A cancelForm is how a protocol writes a cancel, in JSON: the first argument is
// the token that names the request, the second an id of its own.
type cancelForm struct {
	json string
	bind bool // it names the request by its second name
}

var cancels = map[string]cancelForm{
	latis.Protocol.Name():  {json: `{"id":"%[2]d","promptCancel":{"targetId":%[1]s}}`},
	theory.Protocol.Name(): {json: `{"kind":"control","content":{"run_id":%[1]s,"op":"preempt"}}`},
	nexus.Protocol.Name():  {json: `{"jsonrpc":"2.0","id":%[2]d,"method":"cancel","params":{"request_id":%[1]s}}`, bind: true},
	jsonrpc.MCP.Name():     {json: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%[1]s}}`},
	jsonrpc.ACP.Name():     {json: `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%[1]s}}`, bind: true},
	jsonrpc.LSP.Name():     {json: `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%[1]s}}`},
	jsonrpc.DAP.Name():     {json: `{"seq":%[2]d,"type":"request","command":"cancel","arguments":{"requestId":%[1]s}}`},
}
