// Package aisdk parses the UI message stream of the AI SDK, which user interfaces speak with servers over
// HTTP: a request is a conversation, and the answer the parts of its next message, by server-sent events.
package aisdk

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Spec is version 1 of the stream. The kind of a part is its type, and that of a request is "chat".
var Spec = protocol.Spec{
	Protocol: parts{"ai-sdk"},
	About:    "the UI message stream of the AI SDK, over HTTP",
	Rules:    rules(),
	Kept:     []string{"messageId", "toolCallId", "finishReason", "trigger"},
	API:      &protocol.API{Calls: protocol.Alone(call), Texts: true, Runs: func() protocol.Runs { return judges{} }},
}

func rules() protocol.Rules {
	r := modelapi.Rules("a message ends with finish, error or abort")
	r.Sources = append(r.Sources, [2]string{"unknown-step", "a delta or an end of a text, of reasoning or of the input of a tool comes after its start"})
	return r
}

// call returns the request for a message; nil if it is none. It is recognized by its body.
func call(head *frame.Head, body []byte) *protocol.Call {
	if head.Method() != "POST" || !isChat(body) {
		return nil
	}
	return &protocol.Call{Kind: string(kindChat)}
}

// isChat reports whether a body has messages of the user interface, or what the SDK sends beside them.
func isChat(body []byte) bool {
	var b request
	var s jsonscan.Scanner
	s.Init(body)
	requestPaths.Read(&s, &b)
	return s.End() == nil && jsonscan.KindOf(b.messages) == jsonscan.Array &&
		(slices.Contains([]string{"submit-message", "regenerate-message", "resume-stream"}, string(b.trigger)) ||
			len(b.id) > 0 && jsonscan.KindOf(b.parts) == jsonscan.Array && jsonscan.KindOf(b.role) == jsonscan.String)
}

// A request holds the members of a request. Its messages have parts, those of models have content.
type request struct {
	id       []byte `at:"id,word"`
	trigger  []byte `at:"trigger,word"`
	messages []byte `at:"messages"`
	parts    []byte `at:"messages[0].parts"`
	role     []byte `at:"messages[0].role"`
}

var requestPaths = jsonwalk.PathsOf[request]()

type parts struct{ jsonwalk.Named }

var (
	kindChat = []byte("chat")
	kindBody = []byte("body")
	kindData = []byte("data")
)

// kinds are the types of parts, and whether they bring no content.
var kinds = map[string]struct{ empty bool }{
	"start": {true}, "finish": {}, "abort": {}, "error": {}, "start-step": {true}, "finish-step": {true}, "message-metadata": {true},
	"text-start": {true}, "text-delta": {}, "text-end": {true}, "reasoning-start": {true}, "reasoning-delta": {}, "reasoning-end": {true},
	"tool-input-start": {true}, "tool-input-delta": {}, "tool-input-available": {}, "tool-input-error": {},
	"tool-approval-request": {}, "tool-approval-response": {}, "tool-output-available": {}, "tool-output-error": {}, "tool-output-denied": {},
	"source-url": {}, "source-document": {}, "file": {}, "reasoning-file": {}, "custom": {},
}

// A part holds the members of a payload: words without quotes, the others as written. Usage is what
// applications add by themselves, as the AI SDK counts it: the input has the cached tokens.
type part struct {
	kind     []byte `at:"type,word"`
	messages []byte `at:"messages"`
	tool     []byte `at:"toolName,word"`
	reason   []byte `at:"finishReason|reason,word"`
	text     []byte `at:"delta|inputTextDelta|input|output|url|data,text"`
	failure  []byte `at:"errorText,text"`
	model    []byte `at:"messageMetadata.model,word"`
	input    int64  `at:"messageMetadata.usage|totalUsage.inputTokens"`
	cached   int64  `at:"messageMetadata.usage|totalUsage.cachedInputTokens"`
	_        int64  `at:"messageMetadata.usage|totalUsage.inputTokenDetails.cacheReadTokens"`
	output   int64  `at:"messageMetadata.usage|totalUsage.outputTokens"`
}

var paths = jsonwalk.PathsOf[part]()

// Parse implements [protocol.Protocol].
func (parts) Parse(payload []byte, m *protocol.Message) error {
	var p part
	return paths.ParseObject(payload, m, &p, func() { p.interpret(m) })
}

func (p *part) interpret(m *protocol.Message) {
	m.Text, m.Label = jsonwalk.First(p.failure, p.text), p.tool
	switch k, known := kinds[string(p.kind)]; {
	case p.kind == nil && p.messages != nil:
		m.Kind, m.Phase, m.From = kindChat, protocol.Open, frame.C2U
		return
	case p.kind == nil:
		m.Kind, m.Phase, m.From = kindBody, protocol.Close, frame.U2C
		return
	case bytes.HasPrefix(p.kind, []byte("data-")): // the rest names a type of the application
		m.Kind, m.Label = kindData, p.kind[len("data-"):]
	case !known:
		m.Faults |= protocol.UnknownKind
		m.Phase, m.From, m.Empty = protocol.Part, frame.U2C, true
		return
	default:
		m.Kind, m.Empty = p.kind, k.empty
	}
	m.Phase, m.From, m.Model = protocol.Part, frame.U2C, p.model
	m.Usage = protocol.Usage{Input: p.input, Cached: p.cached, Output: p.output}
	switch string(p.kind) {
	case "finish":
		if m.Phase, m.StopReason = protocol.Close, p.reason; string(p.reason) == "error" {
			m.Phase = protocol.Fail
		}
	case "abort":
		m.Phase, m.StopReason = protocol.Cancelled, p.reason
	case "error":
		m.Phase, m.Reason = protocol.Fail, p.failure
	}
}

type judges struct{}

// JudgeRequest implements [protocol.Runs].
func (judges) JudgeRequest([]byte) []protocol.Broken { return nil }

// maxOpen bounds what may be open in a message, and maxID the length of its id.
const (
	maxOpen = 1 << 10
	maxID   = 256
)

// Begin implements [protocol.Runs]. A finish may follow an error, which it does not undo.
func (judges) Begin() func([]byte, *protocol.Message) ([]protocol.Broken, bool) {
	var open []string
	ended := false
	return func(payload []byte, m *protocol.Message) (broken []protocol.Broken, apart bool) {
		if ended {
			return nil, true
		}
		ended = m.Phase.Ends()
		what, does := cutLast(m.Kind)
		member := "id"
		switch what {
		case "text", "reasoning":
		case "tool-input":
			member = "toolCallId"
		default:
			return nil, false
		}
		id, _ := jsonscan.Get(payload, member)
		if len(id) > maxID || len(open) >= maxOpen {
			return nil, false
		}
		name := what + " " + string(id)
		switch i := slices.Index(open, name); does {
		case "start":
			if i < 0 {
				open = append(open, name)
			}
		default:
			if i < 0 && (does == "delta" || does == "end") {
				broken = append(broken, protocol.Broken{Finding: "unknown-step", How: fmt.Sprintf("%s goes on with %s, which has not started", m.Kind, name)})
			}
			if i >= 0 && does != "delta" {
				open = slices.Delete(open, i, i+1)
			}
		}
		return broken, false
	}
}

// cutLast cuts a kind before its last word.
func cutLast(kind []byte) (before, last string) {
	if i := bytes.LastIndexByte(kind, '-'); i >= 0 {
		return string(kind[:i]), string(kind[i+1:])
	}
	return "", string(kind)
}
