package all

import (
	"bytes"
	"fmt"

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

// marks are members that tell a protocol even if the message breaks its rules.
var marks = []mark{
	{`"jsonrpc"`, jsonrpc.Plain},
	{`"correlation_id"`, rlm.Protocol},
}

type mark struct {
	member   string
	protocol protocol.Protocol
}

func (m mark) in(payload []byte) bool { return bytes.Contains(payload, []byte(m.member)) }

// marked returns the protocol whose mark is in a payload that begins as JSON, and is cut or
// goes on otherwise: the json protocol if there is none.
func marked(payload []byte) protocol.Protocol {
	for _, m := range marks {
		if m.in(payload) {
			return m.protocol
		}
	}
	return opaque.JSON
}

// broken are the faults that speak against a protocol.
const broken = ^(protocol.DuplicateKey | protocol.UnsafeInteger)

// Recognize returns the protocol that a payload belongs to, and why it is
// thought so: the bytes protocol if it belongs to none. Nothing is bytes too.
func Recognize(payload []byte) (p protocol.Protocol, why string) {
	var m protocol.Message
	sample := firstOf(payload)
	for _, p := range recognizers {
		if p.Parse(sample, &m) == nil && m.Faults&broken == 0 && !isAlsoRPC(p, sample) && isOwn(p, sample, &m) {
			return p, fmt.Sprintf("the first message is %.60q", m.Kind) + dialect(p, sample)
		}
	}
	if opaque.JSON.Parse(payload, &m) == nil {
		for _, mark := range marks {
			if mark.in(sample) && parses(mark.protocol, sample) {
				return mark.protocol, "the first message has a member " + mark.member
			}
		}
		return opaque.JSON, fmt.Sprintf("the first payload is JSON, of the kind %s", m.Kind)
	}
	if s := (protobuf.Schemaless{}); isNoText(payload) && s.Parse(payload, &m) == nil {
		return s, "the first payload has the fields of a message"
	}
	return opaque.Bytes, "the first payload does not tell"
}

// isOwn reports whether a message is one that only p has. Much JSON could be an answer of
// Codex or of Chrome, or a method that Codex does not have, or an error.
func isOwn(p protocol.Protocol, payload []byte, m *protocol.Message) bool {
	if live, ok := p.(interface {
		Knows([]byte, *protocol.Message) bool
	}); ok {
		return live.Knows(payload, m)
	}
	switch p {
	case protocol.Protocol(jsonrpc.Codex):
		return jsonrpc.Codex.Knows(m.Kind)
	case cdp.Protocol:
		return !m.Phase.Ends()
	case codexexec.Protocol:
		return string(m.Kind) != "error"
	case pi.Protocol:
		return pi.IsOwn(m)
	}
	return true
}

// brokenOf returns the protocols whose broken message a payload may be.
func brokenOf(payload []byte) (all []protocol.Protocol) {
	for _, p := range recognizers {
		if p.Encoding() == protocol.JSON && parses(p, payload) {
			all = append(all, p)
		}
	}
	return all
}

// recognizeSurely is Recognize. sure is false for a message without an id that only asks,
// as any JSON could.
func recognizeSurely(payload []byte) (p protocol.Protocol, why string, sure bool) {
	p, why = Recognize(payload)
	var m protocol.Message
	sure = p.Parse(firstOf(payload), &m) == nil && (m.Phase.Ends() || !m.ID.IsZero())
	return p, why, sure
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

// isAlsoRPC reports whether p is another protocol and the payload says that it
// is JSON-RPC.
func isAlsoRPC(p protocol.Protocol, payload []byte) bool {
	return p.Encoding() == protocol.JSON && p != protocol.Protocol(jsonrpc.Plain) &&
		bytes.Contains(payload, []byte(`"jsonrpc"`)) && parses(jsonrpc.Plain, payload)
}

// parses reports whether a payload is one of p's messages.
func parses(p protocol.Protocol, payload []byte) bool {
	var m protocol.Message
	return p.Parse(payload, &m) == nil && m.Faults&protocol.UnknownKind == 0
}
