// Package openai parses the bodies and events of the OpenAI API and of the many servers
// that have the same: Responses, Chat Completions, the older Completions, embeddings and
// lists of models.
package openai

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

// Spec is the API. The kind of an event is its type, and that of another answer is its
// member object. The kind of a request is in its path; a payload alone allows only a guess.
var Spec = protocol.Spec{
	Protocol: api{"openai"},
	About:    "the API of OpenAI for models, over HTTP",
	// The final event is response.completed, response.incomplete or response.failed,
	// or in Chat Completions [DONE] after a finish_reason.
	Rules: modelapi.Rules("a stream of Responses ends with response.completed, response.incomplete or response.failed, and one of Chat Completions with [DONE]"),
	API:   &protocol.API{Calls: protocol.Alone(call), Event: readEvent},
	Joins: joins, SpawnedBy: spawnedBy,
	Kept: callIDs,
}

// spawnedBy is how Codex 0.169 begins the result of spawn_agent, which is JSON in a string.
const spawnedBy = `"{\"agent_id\":\"`

// joins are the words of Codex 0.171, over HTTP and WebSocket.
var joins = []protocol.Join{
	{As: protocol.OfAgent, Header: "Thread-Id"},
	{As: protocol.OfParent, Header: "X-Codex-Parent-Thread-Id"},
	{As: protocol.OfTurn, Header: "X-Codex-Turn-Metadata//turn_id"},
	{As: protocol.OfTrace, Header: "Traceparent"},
	{As: protocol.OfAgent, Path: "client_metadata//thread_id"},
	{As: protocol.OfParent, Path: "client_metadata//x-codex-parent-thread-id"},
	{As: protocol.OfParent, Path: "client_metadata//x-codex-turn-metadata//parent_thread_id"},
	{As: protocol.OfTurn, Path: "client_metadata//turn_id"},
	{As: protocol.ForItself, Path: "client_metadata//x-codex-turn-metadata//request_kind", Word: "prewarm"},
	{As: protocol.ForItself, Path: "client_metadata//x-codex-turn-metadata//thread_source", Word: "thread_title", Means: "title"},
}

// callIDs are the paths to the ids of tool calls, and to the role of their results.
var callIDs = strings.Fields(`messages.role call_id item.call_id input.call_id output.call_id response.input.call_id response.output.call_id
	choices.delta.tool_calls.id choices.message.tool_calls.id messages.tool_calls.id messages.tool_call_id`)

type api struct{ jsonwalk.Named }

// Kinds returns the usual kinds of requests.
func (api) Kinds() []string { return []string{string(kindChat), string(kindResponses)} }

// call returns the call of a request; nil if it is not of this API. Ambiguous paths are decided
// by the body, which may be nil if it is not available.
func call(head *frame.Head, body []byte) *protocol.Call {
	path, post := modelapi.Path(head), head.Method() == "POST"
	for _, r := range []string{"chat/completions", "completions", "responses", "embeddings", "models"} {
		base, rest, ok := modelapi.Cut(path, r)
		if !ok {
			continue
		}
		own := strings.HasSuffix(base, "/v1")
		_, deployment, azure := modelapi.Cut(base, "openai/deployments")
		switch {
		case post && rest == "" && r != "models":
			own = azure || body == nil && (own || r == "chat/completions") || modelapi.HasModelAnd(body, "messages", "input", "prompt")
		case head.Get("Authorization") == "" && head.Get("Api-Key") == "":
			return nil
		case r == "responses" && rest != "":
			id, what, _ := strings.Cut(rest, "/")
			switch {
			case what != "":
			case post:
				what = id
			default:
				what = strings.ToLower(head.Method())
			}
			r += "/" + what
		case r != "models" || post:
			return nil
		}
		if !own {
			return nil
		}
		return &protocol.Call{Kind: r, Model: deployment, Vague: true, Free: slices.Contains(free, r)}
	}
	return nil
}

var (
	kindResult      = []byte("result")
	kindChunk       = []byte("chat.completion.chunk")
	kindChat        = []byte("chat/completions")
	kindCompletions = []byte("completions")
	kindResponses   = []byte("responses")
)

// free are the kinds of requests that cost nothing.
var free = []string{"models", "responses/get", "responses/delete", "responses/cancel", "responses/input_items", "responses/input_tokens"}

// readEvent is the Event of the API. Some servers leave out what a chunk is, and others name it like
// a whole answer.
func readEvent(c *protocol.Call, m *protocol.Message) {
	if m.Phase == protocol.Close && strings.HasSuffix(c.Kind, "completions") {
		m.Phase, m.Empty = protocol.Part, len(m.Text) == 0 && (len(m.Label) == 0 || string(m.Label) == string(m.StopReason))
		if len(m.Kind) == 0 || string(m.Kind) == "result" {
			m.Kind = kindChunk
		}
	}
}

// Parse implements [protocol.Protocol].
func (api) Parse(payload []byte, m *protocol.Message) error {
	e := llm.Event{API: llm.Chat}
	ok, err := modelapi.Read(&e, payload, m)
	if ok {
		interpret(&e, m)
	}
	return err
}

// interpret fills m.
func interpret(e *llm.Event, m *protocol.Message) {
	object, event := jsonwalk.Word(e.Object), jsonwalk.Word(e.Kind)
	m.From, m.Phase, m.Kind = frame.U2C, protocol.Close, object
	switch {
	case len(object) == 0 && e.Chunk && !e.Failed:
		m.Kind, m.Phase, m.Label, m.Empty = kindChunk, protocol.Part, jsonwalk.Word(e.Tool), !e.Brings
		modelapi.FailIfBroken(e, m)
	case object == nil && event == nil && e.Asks != nil && !e.Failed:
		m.Phase, m.From, m.Label = protocol.Open, frame.C2U, m.Model
		switch string(e.Asks) {
		case "messages":
			m.Kind = kindChat
		case "prompt":
			m.Kind = kindCompletions
		default:
			m.Kind = kindResponses
		}
	case e.Failed && string(object) != "response", string(event) == "error":
		modelapi.Fail(e, m)
	case event != nil:
		if m.Kind = event; !setEnd(e, m) {
			m.Phase = protocol.Part
			m.Empty = !e.Brings || !strings.HasSuffix(string(event), ".delta") && !strings.HasSuffix(string(event), ".added")
		}
	case string(object) == "response":
		setEnd(e, m)
	case object == nil:
		m.Kind, m.StopReason = kindResult, nil
	default:
		if string(object) == "chat.completion.chunk" {
			m.Phase, m.Empty = protocol.Part, !e.Brings
		}
		modelapi.FailIfBroken(e, m)
	}
}

// setEnd sets how a response ended, and reports whether m is about its end.
func setEnd(e *llm.Event, m *protocol.Message) bool {
	status := jsonwalk.Word(e.Status)
	switch string(m.Kind) {
	case "response.done", "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if status == nil {
			status = m.Kind[len("response."):]
		}
	case "response":
	default:
		return false
	}
	m.Phase, m.StopReason = protocol.Close, status
	if why := jsonwalk.Word(e.Why); why != nil {
		m.StopReason = why
	}
	switch string(status) {
	case "failed":
		m.Phase = protocol.Fail
		if modelapi.ReadError(e, m); m.StopReason == nil {
			m.StopReason = status
		}
		m.Label = nil
	case "cancelled":
		m.Phase = protocol.Cancelled
	case "queued", "in_progress": // in the background
		m.StopReason, m.GoesOn = nil, true
	}
	if len(m.StopReason) > 0 && m.Label == nil {
		m.Label = m.StopReason
	}
	return true
}

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken { return modelapi.Uses(body) }

// API implements [modelapi.Judge].
func (api) API(kind string) (llm.API, bool) {
	if strings.HasPrefix(kind, "response") {
		return llm.Responses, true
	}
	return llm.Chat, true
}

// Answer judges the usage, and gathers tool calls.
func (a api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	kind, response := string(m.Kind), payload
	of, _ := a.API(kind)
	if t.Read(of, payload, kind != "response" && (of == llm.Responses || m.Phase == protocol.Part)); strings.HasPrefix(kind, "response.") {
		if response = modelapi.Object(payload, "response"); response == nil || m.Phase == protocol.Part {
			return nil
		}
	}
	if m.Phase == protocol.Fail {
		return nil
	}
	switch usage := modelapi.Object(response, "usage"); {
	case usage != nil:
		return judgeUsage(usage)
	case m.Phase == protocol.Close && len(m.StopReason) > 0:
		return modelapi.WrongUsage("%s reports no usage", kind)
	}
	return nil
}

func judgeUsage(usage []byte) []protocol.Broken {
	in, out, details := "input_tokens", "output_tokens", "input_tokens_details"
	if _, ok := jsonscan.Get(usage, in); !ok {
		in, out, details = "prompt_tokens", "completion_tokens", "prompt_tokens_details"
	}
	if _, ok := jsonscan.Get(usage, "input_token_details"); ok { // of Realtime
		details = "input_token_details"
	}
	if cached, input := modelapi.Count(usage, details, "cached_tokens"), modelapi.Count(usage, in); cached > input {
		return modelapi.WrongUsage("%d tokens are cached, of %d", cached, input)
	}
	return modelapi.Sum(usage, "total_tokens", in, out)
}
