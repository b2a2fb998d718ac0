// Package gemini parses the bodies and events of the Gemini API: generateContent and
// streamGenerateContent, counts of tokens, embeddings and lists of models. Vertex AI has
// the same below other paths.
package gemini

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Spec is the API. The kind of a request is in its path, which also names the model. The
// answers and the events of a stream are GenerateContentResponse. No event says that it is the
// last.
var Spec = protocol.Spec{
	Protocol: api{"gemini"},
	About:    "the Gemini API for models, over HTTP",
	Joins:    []protocol.Join{{As: protocol.OfTrace, Header: "Traceparent"}},
	// The last event has a finishReason.
	Rules: modelapi.Rules("the last event of a stream has a finishReason, or says why the prompt was blocked"),
	API:   &protocol.API{Calls: protocol.Alone(call), Endless: true},
	Kept:  []string{"candidates.content.parts.functionCall.id", "contents.parts.functionCall.id", "contents.parts.functionResponse.id"},
}

type api struct{ jsonwalk.Named }

// methods are the methods of models.
var methods = []string{
	"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent",
}

// Kinds returns the kinds of requests about models.
func (api) Kinds() []string { return methods }

// call returns the call of a request; nil if it is not of this API.
func call(head *frame.Head, _ []byte) *protocol.Call {
	path := modelapi.Path(head)
	for _, resource := range []string{"models", "tunedModels", "endpoints"} {
		base, rest, ok := modelapi.Cut(path, resource)
		model, method, _ := strings.Cut(rest, ":")
		switch {
		case !ok:
		case head.Method() == "POST" && slices.Contains(methods, method):
			return &protocol.Call{Kind: method, Model: model, Free: method == "countTokens"}
		case head.Method() == "GET" && strings.HasPrefix(base, "/v1beta"):
			return &protocol.Call{Kind: resource, Model: model, Free: true}
		}
	}
	return nil
}

var (
	kindResult  = []byte("result")
	kindAnswer  = []byte("GenerateContentResponse")
	kindRequest = []byte("generateContent")
)

// Parse implements [protocol.Protocol]. A stream without events is an
// array.
func (api) Parse(payload []byte, m *protocol.Message) error {
	e := llm.Event{API: llm.Contents}
	ok, err := modelapi.Read(&e, payload, m)
	if ok {
		interpret(&e, m)
	}
	return err
}

// interpret fills m.
func interpret(e *llm.Event, m *protocol.Message) {
	switch answers := e.Some || e.Usage != nil; {
	case e.Failed:
		modelapi.Fail(e, m)
	case e.Asks != nil && !answers:
		m.Kind, m.Phase, m.From = kindRequest, protocol.Open, frame.C2U
	case !answers:
		m.Kind, m.Phase, m.From = kindResult, protocol.Close, frame.U2C
	default:
		m.Kind, m.Phase, m.From, m.Empty = kindAnswer, protocol.Part, frame.U2C, !e.Brings
		modelapi.FailIfBroken(e, m)
	}
}

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken { return modelapi.Uses(body) }

// API implements [modelapi.Judge].
func (api) API(string) (llm.API, bool) { return llm.Contents, true }

// Answer judges the usage, which the last event must have, and gathers tool calls.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	t.Read(llm.Contents, payload, true)
	usage := modelapi.Object(payload, "usageMetadata")
	if usage != nil { // it may come after the last event with an answer
		t.Unused = nil
	}
	if len(m.StopReason) == 0 || m.Phase == protocol.Fail || jsonscan.KindOf(payload) != jsonscan.Object {
		return nil
	}
	if usage == nil {
		t.Unused = modelapi.WrongUsage("the last event reports no usage")
		return nil
	}
	return modelapi.Sum(usage, "totalTokenCount", "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
}
