// Package anthropic parses the bodies and events of the Anthropic API: Messages, the
// count of their tokens, and lists of models.
package anthropic

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Protocol is the API. The kind of an event or an answer is its type, and that of a request is
// in its path.
var Protocol protocol.Protocol = api{"anthropic"}

// Rules: the final event is message_stop.
var Rules = modelapi.Rules("a stream ends with message_stop")

type api struct{ jsonwalk.Named }

// Call returns the call of a request; nil if it is not of this API. Requests state the version of
// the API. Without it the body decides, which may be nil if it is not available.
func Call(head *frame.Head, body []byte) *modelapi.Call {
	path, stated := modelapi.Path(head), head.Get("Anthropic-Version") != ""
	base, rest, ok := modelapi.Cut(path, "messages")
	switch {
	case ok && head.Method() == "POST" && (rest == "" || rest == "count_tokens"):
		if !stated && !(strings.HasSuffix(base, "/v1") && modelapi.HasModelAnd(body, "messages")) {
			return nil
		}
		return &modelapi.Call{Protocol: Protocol, Kind: strings.TrimSuffix("messages/"+rest, "/")}
	case stated && head.Method() == "GET":
		if base, _, ok := modelapi.Cut(path, "models"); ok && strings.HasSuffix(base, "/v1") {
			return &modelapi.Call{Protocol: Protocol, Kind: "models"}
		}
	}
	return nil
}

// A wire holds the members of a payload.
type wire struct {
	kind, model, stop []byte
	asks              bool
	failure           modelapi.Error
	usage             protocol.Usage
	text, tool        []byte
	brings            bool
}

var (
	kindResult  = []byte("result")
	kindRequest = []byte("messages")
)

// Parse reads one body or event, as [protocol.Protocol] wants it.
func (api) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.ParseObject(&s, payload, m, func() { w.read(&s) }, func() { w.interpret(m) })
}

// read walks the next value, which is a body or an event.
func (w *wire) read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.kind = jsonwalk.Word(s.Value())
		case "messages":
			w.asks, w.text = true, modelapi.LastText(s)
		case "message", "delta":
			if s.Peek() == jsonscan.Object {
				w.readMessage(s)
			}
		case "error":
			w.failure.Read(s)
		case "content_block":
			w.readBlock(s)
		default:
			w.readMember(s)
		}
	}
}

// readMessage walks the next value, which is the message or the delta in an event.
func (w *wire) readMessage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "text", "thinking", "partial_json":
			w.readText(s)
		default:
			w.readMember(s)
		}
	}
}

// readMember walks the next value, if its key is that of a member of a message.
func (w *wire) readMember(s *jsonscan.Scanner) {
	switch string(s.Key()) {
	case "model":
		w.model = jsonwalk.Word(s.Value())
	case "stop_reason":
		w.stop = jsonwalk.Word(s.Value())
	case "usage":
		w.usage = modelapi.ReadUsage(llm.Messages, s.Value())
	case "content":
		for ok := s.Array(); ok && s.Elem(); {
			w.readBlock(s)
		}
	}
}

// readText walks the next value, which is text if it is a string.
func (w *wire) readText(s *jsonscan.Scanner) {
	if text := jsonwalk.Word(s.Value()); len(text) > 0 {
		w.text, w.brings = text, true
	}
}

// readBlock walks the next value, which is a block of the content of a message.
func (w *wire) readBlock(s *jsonscan.Scanner) {
	var kind, name []byte
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = jsonwalk.Word(s.Value())
		case "name":
			name = jsonwalk.Word(s.Value())
		case "text":
			w.readText(s)
		}
	}
	if strings.HasSuffix(string(kind), "tool_use") {
		w.tool, w.brings = name, true
	}
}

// interpret fills m.
func (w *wire) interpret(m *protocol.Message) {
	m.Model, m.Text = w.model, w.text
	if w.kind == nil && w.asks {
		m.Kind, m.Phase, m.From, m.Label = kindRequest, protocol.Open, frame.C2U, w.model
		return
	}
	m.Usage, m.From, m.Phase, m.Kind, m.StopReason = w.usage, frame.U2C, protocol.Close, w.kind, w.stop
	if m.Label = w.tool; m.Label == nil && len(w.stop) > 0 {
		m.Label = w.stop
	}
	switch string(w.kind) {
	case "":
		m.Kind = kindResult
	case "message", "model", "message_stop":
	case "error":
		w.failure.Tell(m)
	default:
		m.Phase, m.Empty = protocol.Part, !w.brings
	}
}
