package spans

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
)

// The protocols that have conventions.
const (
	mcp       = "mcp"
	a2a       = "a2a"
	openai    = "openai"
	realtime  = "openai-realtime"
	anthropic = "anthropic"
	gemini    = "gemini"
	live      = "gemini-live"
)

// facts are the facts about a call that frames tell and trackers do not keep.
type facts struct {
	asks       bool              // a request tells them
	parent     trace.SpanContext // as a request has it
	attributes []attribute.KeyValue
	code       string // of an error; "" if there was none
	host       string // of the server
	agent      bool   // it is A2A over REST, whose payloads do not say so
}

// learn adds the facts of a frame, which began the call or did not. A request tells nothing
// about a call that another one began.
func (f *facts) learn(said *facts, begins bool) {
	if said.asks && !begins {
		return
	}
	if said.asks {
		f.parent, f.host = said.parent, said.host
	}
	if said.code != "" {
		f.code = said.code
	}
	for _, a := range said.attributes {
		f.set(a)
	}
}

func (f *facts) set(a attribute.KeyValue) {
	for i := range f.attributes {
		if f.attributes[i].Key == a.Key {
			f.attributes[i] = a
			return
		}
	}
	f.attributes = append(f.attributes, a)
}

// read keeps the facts of an item until the tracker has seen it.
func (f *Follower) read(it *decode.Item) {
	said := &facts{asks: it.Frame.Dir == frame.C2U && it.Message.Phase == protocol.Open}
	if it.Frame.Gap {
		return
	}
	if it.Frame.Meta != nil {
		f.readHead(said, it)
	} else if it.Protocol.Name() == mcp && it.Framing == frame.Line {
		said.set(otlp.Transport.String("pipe"))
	}
	if it.Err == nil || it.Err == it.Frame.Flaw {
		said.readPayload(it)
	}
	if said.code != "" || said.parent.IsValid() || len(said.attributes) > 0 {
		f.frames.put(it.Seq, said)
	}
}

// readHead reads the heads of HTTP. The head of a request may be a frame of its own.
func (f *Follower) readHead(said *facts, it *decode.Item) {
	of := it.Frame
	key, head := wireKey{of.Conn, of.Stream}, of.Meta.Head
	if head.Method() != "" {
		wire := &facts{asks: true}
		wire.readRequest(head)
		call := f.routes.Call(head)
		wire.agent = call != nil && !call.GRPC
		f.wires.put(key, wire)
		said.asks = true
	}
	wire := f.wires.of[key]
	said.agent = wire != nil && wire.agent
	switch {
	case wire == nil:
	case said.asks:
		said.learn(wire, true)
	case it.Message.Phase == protocol.Open: // it comes with an answer
		said.attributes = slices.Clone(wire.attributes)
	}
	if status := head.Status(); status >= "400" {
		said.code = status
	}
	if status := head.Get("Grpc-Status"); status != "" && status != "0" {
		said.code = status
	}
	if id := head.Get("Mcp-Session-Id"); id != "" {
		said.set(otlp.MCPSession.String(id))
	}
}

// readRequest reads the head of a request.
func (f *facts) readRequest(head *frame.Head) {
	if f.parent = otlp.SpanContext(head.Get("Traceparent")); f.parent.IsValid() {
		f.parent = withState(f.parent, head.Get("Tracestate"))
	}
	f.set(otlp.Transport.String("tcp"))
	f.set(otlp.ProtocolName.String("http"))
	if _, version, ok := strings.Cut(head.Start, " HTTP/"); ok {
		f.set(otlp.ProtocolVersion.String(version))
	}
	f.host = head.Get("Host") + head.Get(":authority")
	host, port, err := net.SplitHostPort(f.host)
	if err != nil {
		host = f.host
	}
	if host != "" {
		f.set(otlp.ServerAddress.String(host))
	}
	if n, err := strconv.Atoi(port); err == nil {
		f.set(otlp.ServerPort.Int(n))
	}
}

func withState(parent trace.SpanContext, state string) trace.SpanContext {
	if s, err := trace.ParseTraceState(state); err == nil {
		return parent.WithTraceState(s)
	}
	return parent
}

// readPayload reads the values that have names in the conventions.
func (f *facts) readPayload(it *decode.Item) {
	name, isRequest := it.Protocol.Name(), it.Message.Phase == protocol.Open
	api, isModel := modelAPIs[name]
	switch {
	case f.agent && it.Frame.Meta.Signal != frame.NoSignal:
	case f.agent && it.Frame.Dir == frame.C2U:
		f.readA2ARequest(it.Payload)
	case f.agent:
		f.readA2A(it.Payload)
	case it.Message.Phase == protocol.Note || it.Message.Phase == protocol.Cancel:
	case name == mcp && isRequest:
		f.asks = true
		f.readMCP(it.Payload)
	case name == mcp:
		f.readCode(it.Payload)
	case name == a2a && isRequest:
		f.readA2ARequest(it.Payload)
	case name == a2a:
		f.readA2A(it.Payload)
	case isRequest && isModel:
		f.readModelRequest(it.Payload)
	case isModel:
		f.readModel(api, it.Payload)
	}
}

// modelAPIs are the APIs of models, by their protocols.
var modelAPIs = map[string]llm.API{openai: llm.Chat, realtime: llm.Responses, anthropic: llm.Messages, gemini: llm.Contents, live: llm.Contents}

// readMCP reads a request of MCP. Its own trace context says more than that of HTTP.
func (f *facts) readMCP(payload []byte) {
	if parent := otlp.SpanContext(textAt(payload, "params", "_meta", "traceparent")); parent.IsValid() {
		f.parent = withState(parent, textAt(payload, "params", "_meta", "tracestate"))
	}
	f.setText(otlp.MCPResource, textAt(payload, "params", "uri"))
}

// readCode reads the code of an error of JSON-RPC.
func (f *facts) readCode(payload []byte) {
	if code, ok := jsonscan.Get(payload, "error", "code"); ok {
		f.code = string(code)
	}
}

func (f *facts) readA2ARequest(payload []byte) {
	params := within(payload, "params")
	f.setText(otlp.A2ATenant, textAt(params, "tenant"))
	if message, ok := jsonscan.Get(params, "message"); ok {
		f.setText(otlp.A2AMessage, textAt(message, "messageId"))
		f.setText(otlp.A2ATask, textAt(message, "taskId"))
		f.setText(otlp.ConversationID, textAt(message, "contextId"))
		if list := textsAt(message, "referenceTaskIds"); len(list) > 0 {
			f.set(otlp.A2AReferences.StringSlice(list))
		}
		return
	}
	f.setText(otlp.A2ATask, textAt(params, "id"))
}

// readA2A reads an answer, or an event of a stream: a task, an update of one, or a message.
func (f *facts) readA2A(payload []byte) {
	f.readCode(payload)
	result := within(payload, "result")
	for _, of := range []string{"task", "statusUpdate", "artifactUpdate", "message"} {
		result = within(result, of)
	}
	f.setText(otlp.ConversationID, textAt(result, "contextId"))
	f.setText(otlp.A2ATask, textAt(result, "taskId"))
	state := textAt(result, "status", "state")
	if state == "" {
		return
	}
	f.setText(otlp.A2ATask, textAt(result, "id"))
	if !strings.HasPrefix(state, "TASK_STATE_") { // as of 0.3
		state = "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(state, "-", "_"))
	}
	f.set(otlp.A2AState.String(state))
}

// within returns a member of an object, or the object itself if it has no such member.
func within(object []byte, name string) []byte {
	if member, ok := jsonscan.Get(object, name); ok {
		return member
	}
	return object
}

// settings are the numeric settings of requests to models.
var settings = map[string]attribute.Key{
	"max_tokens": otlp.RequestTokens, "temperature": otlp.Temperature, "top_p": otlp.TopP, "top_k": otlp.TopK,
	"frequency_penalty": otlp.FrequencyMalus, "presence_penalty": otlp.PresenceMalus, "seed": otlp.RequestSeed, "n": otlp.RequestChoices,
}

// isWhole tells which of the settings are integers.
var isWhole = map[attribute.Key]bool{otlp.RequestTokens: true, otlp.RequestSeed: true, otlp.RequestChoices: true}

// readModelRequest reads the settings of a request to a model, and nothing of its content.
func (f *facts) readModelRequest(payload []byte) {
	for name, value := range llm.ReadOptions(payload) {
		switch name {
		case "stream":
			if bytes.Equal(value, []byte("true")) {
				f.set(otlp.RequestStream.Bool(true))
			}
		case "conversation":
			f.setText(otlp.ConversationID, llm.Unquote(value))
		case "stop":
			if list := texts(value); len(list) > 0 {
				f.set(otlp.StopSequences.StringSlice(list))
			}
		}
		key := settings[name]
		n, err := strconv.ParseFloat(string(value), 64)
		switch {
		case key == "", err != nil, key == otlp.RequestChoices && n == 1:
		case isWhole[key]:
			f.set(key.Int64(int64(n)))
		default:
			f.set(key.Float64(n))
		}
	}
}

// readModel reads the id and the error of an answer, or of an event of one.
func (f *facts) readModel(api llm.API, payload []byte) {
	e := llm.Event{API: api}
	var s jsonscan.Scanner
	s.Init(payload)
	e.Read(&s)
	f.setText(otlp.ResponseID, llm.Unquote(e.ID))
	u := llm.ReadUsage(api, e.Usage)
	f.setCount(otlp.CacheWriteTokens, u.Written)
	f.setCount(otlp.ReasoningTokens, u.Thinking)
	if e.Failed {
		f.code = llm.ReadError(0, payload).Code
	}
}

func (f *facts) setText(key attribute.Key, text string) {
	if text != "" {
		f.set(key.String(text))
	}
}

func (f *facts) setCount(key attribute.Key, n int64) {
	if n > 0 {
		f.set(key.Int64(n))
	}
}

// textAt returns the string at a path; "" if there is none.
func textAt(payload []byte, path ...string) string {
	raw, ok := jsonscan.Get(payload, path...)
	if !ok {
		return ""
	}
	text, _ := jsonscan.Unquote(raw)
	return string(text)
}

func textsAt(payload []byte, path ...string) []string {
	raw, _ := jsonscan.Get(payload, path...)
	return texts(raw)
}

// texts returns a string, or the strings in an array.
func texts(raw []byte) (list []string) {
	if text, ok := jsonscan.Unquote(raw); ok {
		return []string{string(text)}
	}
	var s jsonscan.Scanner
	s.Init(raw)
	for ok := s.Array(); ok && s.Elem(); {
		if text, ok := jsonscan.Unquote(s.Value()); ok && len(list) < maxTexts {
			list = append(list, string(text))
		}
	}
	return list
}

const maxTexts = 16
