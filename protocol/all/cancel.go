package all

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/pi"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/protocol/theory"
)

// A Target is a request to cancel.
type Target struct {
	Opened *protocol.Message
	// Payload is that of the request, and Name the name that its answer gives to an
	// operation that goes on: a turn, a task. Either may be unknown.
	Payload []byte
	Name    protocol.Token
}

// AppendCancel appends the payload by which, in p, the sender of a request cancels it. If a
// cancel has an id of its own, it is the number n, which must be new. The error says why
// there is no such cancel.
func AppendCancel(dst []byte, p protocol.Protocol, t *Target, n int64) ([]byte, error) {
	if t.Name.Space == protocol.SpaceTask {
		return t.appendTask(dst, "tasks/cancel", n), nil
	}
	if p == protocol.Protocol(jsonrpc.A2A) {
		return dst, fmt.Errorf("the answer to %s names no task, and only tasks are cancelled", t.Opened.Kind)
	}
	c, ok := cancels[p.Name()]
	token := t.Opened.ID
	if c.bind {
		token = t.Opened.Bind
	}
	if c.ref && token.Space != protocol.SpaceTurn { // until it is answered, it names only its thread
		token = protocol.Token{}
	}
	if c.ref && !t.Name.IsZero() {
		token = t.Name
	}
	switch {
	case !ok:
		return dst, fmt.Errorf("%s has no message that cancels a request", p.Name())
	case token.IsZero(), c.ref && t.Opened.Ref.IsZero(), c.kinds != nil && !slices.Contains(c.kinds, string(t.Opened.Kind)):
		return dst, fmt.Errorf("%s has no id that a cancel could name", t.Opened.Kind)
	}
	text := token.Text
	if p == protocol.Protocol(latis.Protocol) {
		text = jsonscan.AppendQuote(nil, text)
	}
	form := c.json
	if t.Opened.ID.Space == protocol.SpaceTurn {
		form = cmp.Or(c.turn, form)
	}
	json := fmt.Appendf(nil, form, text, n, t.Opened.Ref.Text)
	if t, ok := p.(protocol.Transcoder); ok {
		return t.AppendPayload(dst, json)
	}
	return append(dst, json...), nil
}

// AppendPoll appends the payload that asks for the state of a request's operation. It
// reports whether there is one: only for tasks, and not if a stream reports their state.
func AppendPoll(dst []byte, t *Target, n int64) (_ []byte, ok bool) {
	if t.Name.Space != protocol.SpaceTask || slices.Contains(a2a.Rules.Streams, string(t.Opened.Kind)) {
		return dst, false
	}
	return t.appendTask(dst, "tasks/get", n), true
}

// appendTask appends a request about a task; method is its name in MCP and A2A 0.3. It
// describes its sender as the request did that became the task.
func (t *Target) appendTask(dst []byte, method string, n int64) []byte {
	if m, version := a2a.ByName(t.Opened.Kind); m != nil {
		if string(version) != a2a.V03 {
			m, _ = a2a.ByName([]byte(method))
			method = m.Newer
		}
		dst = fmt.Appendf(dst, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"id":%s`, n, method, t.Name.Text)
		if tenant, ok := jsonscan.Get(t.Payload, "params", "tenant"); ok {
			dst = fmt.Appendf(dst, `,"tenant":%s`, tenant)
		}
		return append(dst, "}}"...)
	}
	dst = fmt.Appendf(dst, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%s`, n, method, t.Name.Text)
	open := `,"_meta":{`
	for _, key := range []string{"protocolVersion", "clientInfo", "clientCapabilities"} {
		key = "io.modelcontextprotocol/" + key
		if value, ok := jsonscan.Get(t.Payload, "params", "_meta", key); ok {
			dst = fmt.Appendf(dst, `%s%q:%s`, open, key, value)
			open = ","
		}
	}
	if open == "," {
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

// A cancelForm is the form of a cancel in JSON: the first argument is the token that names
// the request, the second the cancel's own id, the third the Ref of the request.
type cancelForm struct {
	json string
	turn string // for a turn without an id, if that has another form
	bind bool   // it names the request by its second name
	ref  bool   // it has the Ref of the request

	kinds []string // of requests that it ends; nil for all
}

var cancels = map[string]cancelForm{
	repl.Protocol.Name():   {json: `{"kind":"cancel","target":%[1]s}`},
	latis.Protocol.Name():  {json: `{"id":"%[2]d","promptCancel":{"targetId":%[1]s}}`},
	theory.Protocol.Name(): {json: `{"kind":"control","content":{"run_id":%[1]s,"op":"preempt"}}`},
	nexus.Protocol.Name():  {json: `{"jsonrpc":"2.0","id":%[2]d,"method":"cancel","params":{"request_id":%[1]s}}`, bind: true},
	jsonrpc.MCP.Name():     {json: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%[1]s}}`},
	jsonrpc.ACP.Name():     {json: `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%[1]s}}`, bind: true},
	jsonrpc.Codex.Name():   {json: `{"method":"turn/interrupt","id":%[2]d,"params":{"threadId":%[3]s,"turnId":%[1]s}}`, bind: true, ref: true},
	jsonrpc.Copilot.Name(): {json: `{"jsonrpc":"2.0","id":%[2]d,"method":"session.abort","params":{"sessionId":%[1]s}}`, bind: true},
	claude.Protocol.Name(): {
		json: `{"type":"control_cancel_request","request_id":%[1]s}`,
		turn: `{"type":"control_request","request_id":"%[2]d","request":{"subtype":"interrupt"}}`,
	},
	pi.Protocol.Name(): {
		json:  `{"id":"%[2]d","type":"abort"}`,
		bind:  true,
		kinds: []string{"prompt"},
	},
	jsonrpc.LSP.Name(): {json: `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%[1]s}}`},
	jsonrpc.DAP.Name(): {json: `{"seq":%[2]d,"type":"request","command":"cancel","arguments":{"requestId":%[1]s}}`},
}
