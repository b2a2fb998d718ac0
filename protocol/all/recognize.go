package all

import (
	"bytes"
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/codexexec"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/pi"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// recognizers are asked in this order. A protocol of the JSON-RPC family is
// plain JSON-RPC until a [Refiner] knows more.
var recognizers = []protocol.Protocol{
	rlm.Protocol, repl.Protocol, theory.Protocol, jsonrpc.DAP, claude.Protocol, codexexec.Protocol,
	pi.Protocol, openai.Realtime, gemini.Live,
	jsonrpc.Codex, cdp.Protocol, jsonrpc.Plain, latis.Protocol,
}

// claims reports whether a payload that begins as JSON says that it is JSON-RPC, even if it
// breaks the rules, is cut or goes on otherwise.
func claims(payload []byte) bool { return jsonrpc.Plain.IsOwn(payload, nil) }

// protocolOfObject returns the protocol of a payload that begins as an object and cannot be
// read whole.
func protocolOfObject(payload []byte, f frame.Framing) protocol.Protocol {
	switch {
	case claims(payload):
		return jsonrpc.Plain
	case f != frame.Line && bytes.Contains(payload, correlation):
		return rlm.Protocol
	}
	return opaque.JSON
}

// isOfRLM reports whether a payload is a message of rlm although it breaks its rules, or could
// be one of another protocol. A line may as well be the record of a log.
func isOfRLM(payload []byte, f frame.Framing) bool {
	var m protocol.Message
	return f != frame.Line && rlm.Protocol.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0 &&
		(m.Faults&broken == 0 || bytes.Contains(payload, correlation))
}

var correlation = []byte(`"correlation_id"`)

// broken are the faults that speak against a protocol.
const broken = ^(protocol.DuplicateKey | protocol.UnsafeInteger | protocol.LoneSurrogate)

// Recognize returns the protocol that a payload belongs to, and why it is
// thought so: the bytes protocol if it belongs to none. Nothing is bytes too.
func Recognize(payload []byte) (p protocol.Protocol, why string) {
	var m protocol.Message
	payload = bytes.TrimPrefix(payload, []byte("\xef\xbb\xbf"))
	sample := firstOf(payload)
	for _, p := range recognizers {
		if p.Parse(sample, &m) == nil && m.Faults&broken == 0 && isOwn(p, sample, &m) {
			return p, fmt.Sprintf("the first message is %.60q", m.Kind) + dialect(p, sample)
		}
	}
	if opaque.JSON.Parse(payload, &m) == nil {
		if claims(sample) && parses(jsonrpc.Plain, sample) {
			return jsonrpc.Plain, `the first message has a member "jsonrpc"`
		}
		return opaque.JSON, fmt.Sprintf("the first payload is JSON, of the kind %s", m.Kind)
	}
	if s := (protobuf.Schemaless{}); isNoText(payload) && s.Parse(payload, &m) == nil {
		return s, "the first payload has the fields of a message"
	}
	return opaque.Bytes, "the first payload does not tell"
}

// isOwn reports whether only p has a message: much JSON could be one of several protocols. A
// payload that claims to be JSON-RPC is of no protocol that is none.
func isOwn(p protocol.Protocol, payload []byte, m *protocol.Message) bool {
	own, ok := p.(interface {
		IsOwn([]byte, *protocol.Message) bool
	})
	_, calls := p.(*jsonrpc.Dialect)
	return !ok || own.IsOwn(payload, m) && (calls || !claims(payload))
}

// dialect tells which of the dialects of a protocol a message is in, if the
// protocol has several.
func dialect(p protocol.Protocol, message []byte) string {
	if p != theory.Protocol {
		return ""
	}
	return " in " + theory.Seen(message).String()
}

// firstOf returns the first message of a batch, and any other payload as it is. A batch is
// known by its messages, because any array may be one.
func firstOf(payload []byte) []byte {
	for item := range jsonrpc.Items(payload) {
		return item
	}
	return nil
}

// parses reports whether a payload is one of p's messages.
func parses(p protocol.Protocol, payload []byte) bool {
	var m protocol.Message
	return p.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0
}
