// Package openai parses the bodies and events of the OpenAI API and of the many servers
// that have the same: Responses, Chat Completions, the older Completions, embeddings and
// lists of models.
package openai

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Protocol is the API. The kind of an event is its type, and that of another answer is its
// member object. The kind of a request is in its path; a payload alone allows only a guess.
var Protocol protocol.Protocol = api{"openai"}

// Rules: the final event is response.completed, response.incomplete or response.failed,
// or in Chat Completions [DONE] after a finish_reason.
var Rules = modelapi.Rules("a stream of Responses ends with response.completed, response.incomplete or response.failed, and one of Chat Completions with [DONE]")

type api struct{ jsonwalk.Named }

// Call returns the call of a request; nil if it is not of this API. Ambiguous paths are decided
// by the body, which may be nil if it is not available.
func Call(head *frame.Head, body []byte) *modelapi.Call {
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
		return &modelapi.Call{Protocol: Protocol, Kind: r, Model: deployment}
	}
	return nil
}

// A wire holds the members of a payload.
type wire struct {
	object, event, model []byte
	asks                 []byte // the kind of the request, guessed by its shape
	status, why          []byte // of a response, and why it is incomplete
	finish               []byte // why the last choice ended
	failure              modelapi.Error
	failed               bool
	usage                protocol.Usage
	text, tool           []byte
	brings               bool
	chunk                bool // a choice has a delta
}

var (
	kindResult      = []byte("result")
	kindChunk       = []byte("chat.completion.chunk")
	kindChat        = []byte("chat/completions")
	kindCompletions = []byte("completions")
	kindResponses   = []byte("responses")
)

// Parse reads one body or event, as [protocol.Protocol] wants it.
func (api) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.ParseObject(&s, payload, m, func() { w.read(&s) }, func() { w.interpret(m) })
}

// read walks the next value, which is a body, an event, or the response in one.
func (w *wire) read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "object":
			w.object = jsonwalk.Word(s.Value())
		case "type":
			w.event = jsonwalk.Word(s.Value())
		case "model":
			w.model = jsonwalk.Word(s.Value())
		case "messages":
			w.asks, w.text = kindChat, modelapi.LastText(s)
		case "prompt":
			if k := s.Peek(); k == jsonscan.String || k == jsonscan.Array {
				w.asks, w.text = kindCompletions, modelapi.LastText(s)
			}
		case "input":
			w.asks, w.text = kindResponses, modelapi.LastText(s)
		case "status":
			w.status = jsonwalk.Word(s.Value())
		case "error":
			w.failed = w.failure.Read(s) || w.failed
		case "code":
			w.failure.Code = jsonwalk.Word(s.Value())
		case "message":
			w.failure.Text = jsonwalk.Word(s.Value())
		case "incomplete_details":
			w.why = jsonwalk.WordIn(s, "reason")
		case "usage":
			w.usage = modelapi.ReadUsage(llm.Chat, s.Value())
		case "x_groq":
			if usage, ok := jsonscan.Get(s.Value(), "usage"); ok {
				w.usage = modelapi.ReadUsage(llm.Chat, usage)
			}
		case "response":
			w.readResponse(s)
		default:
			w.readContent(s)
		}
	}
}

// readResponse walks the next value, which is the response that an event is about.
func (w *wire) readResponse(s *jsonscan.Scanner) {
	event, failed := w.event, w.failed
	w.read(s)
	w.event, w.failed = event, failed // the error of a response shows in its status
}

// readContent walks the next value if it is output of the model.
func (w *wire) readContent(s *jsonscan.Scanner) {
	switch string(s.Key()) {
	case "choices":
		for ok := s.Array(); ok && s.Elem(); {
			w.readChoice(s)
		}
	case "output":
		for ok := s.Array(); ok && s.Elem(); {
			w.readItem(s)
		}
	case "item":
		w.readItem(s)
	case "delta", "text", "refusal", "arguments":
		w.readText(s)
	}
}

// readText walks the next value, which is text if it is a string.
func (w *wire) readText(s *jsonscan.Scanner) {
	if text := jsonwalk.Word(s.Value()); len(text) > 0 {
		w.text, w.brings = text, true
	}
}

// readItem walks the next value, which is an item of the output of a response.
func (w *wire) readItem(s *jsonscan.Scanner) {
	var kind, name, text []byte
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = jsonwalk.Word(s.Value())
		case "name":
			name = jsonwalk.Word(s.Value())
		case "content":
			text = modelapi.LastText(s)
		}
	}
	switch {
	case string(kind) == "function_call", string(kind) == "custom_tool_call", string(kind) == "mcp_call":
		w.tool, w.brings = name, true
	case len(text) > 0:
		w.text = text
	}
}

// readChoice walks the next value, which is a choice: whole, or a piece of one.
func (w *wire) readChoice(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "finish_reason":
			if reason := jsonwalk.Word(s.Value()); len(reason) > 0 {
				w.finish = reason
			}
		case "text":
			w.readText(s)
		case "delta", "message":
			w.chunk = w.chunk || string(s.Key()) == "delta"
			w.readMessage(s)
		}
	}
}

// readMessage walks the next value, which is the message of a choice.
func (w *wire) readMessage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "content", "refusal", "reasoning", "reasoning_content":
			w.readText(s)
		case "tool_calls":
			for ok := s.Array(); ok && s.Elem(); {
				for ok := s.Object(); ok && s.Next(); {
					if string(s.Key()) == "function" {
						w.readFunction(s)
					}
				}
			}
		}
	}
}

func (w *wire) readFunction(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "name":
			if name := jsonwalk.Word(s.Value()); len(name) > 0 {
				w.tool, w.brings = name, true
			}
		case "arguments":
			if w.tool == nil {
				w.readText(s)
			}
		}
	}
}

// interpret fills m.
func (w *wire) interpret(m *protocol.Message) {
	m.Model, m.Usage, m.Text = w.model, w.usage, w.text
	switch {
	case len(w.object) == 0 && w.chunk && !w.failed:
		m.Kind, m.Phase, m.From, m.Label, m.StopReason, m.Empty = kindChunk, protocol.Part, frame.U2C, w.tool, w.finish, !w.brings
		return
	case w.object == nil && w.event == nil && w.asks != nil && !w.failed:
		m.Kind, m.Phase, m.From, m.Label = w.asks, protocol.Open, frame.C2U, w.model
		return
	case w.failed && string(w.object) != "response", string(w.event) == "error":
		w.failure.Tell(m)
		return
	}
	m.From, m.Phase, m.Label = frame.U2C, protocol.Close, w.tool
	switch object := string(w.object); {
	case w.event != nil:
		w.interpretEvent(m)
	case object == "response":
		m.Kind = w.object
		w.setEnd(m)
	case w.object == nil:
		m.Kind = kindResult
	default:
		m.Kind, m.StopReason = w.object, w.finish
		if object == "chat.completion.chunk" {
			m.Phase, m.Empty = protocol.Part, !w.brings
		}
	}
	if len(m.StopReason) > 0 && m.Label == nil {
		m.Label = m.StopReason
	}
}

// interpretEvent fills m from an event.
func (w *wire) interpretEvent(m *protocol.Message) {
	m.Kind, m.Phase = w.event, protocol.Part
	switch event := string(w.event); event {
	case "response.completed", "response.incomplete", "response.failed":
		w.setEnd(m)
	default:
		added := strings.HasSuffix(event, ".added")
		m.Empty = !w.brings || !strings.HasSuffix(event, ".delta") && !added
	}
}

// setEnd sets how a response ended, if it has.
func (w *wire) setEnd(m *protocol.Message) {
	m.Phase = protocol.Close
	switch m.StopReason = w.status; string(w.status) {
	case "incomplete":
		if w.why != nil {
			m.StopReason = w.why
		}
	case "failed":
		m.Phase = protocol.Fail
		if w.failure.Code != nil {
			m.StopReason = w.failure.Code
		}
		m.Label, m.Text = m.StopReason, w.failure.Text
	case "cancelled":
		m.Phase = protocol.Cancelled
	case "queued", "in_progress": // in the background
		m.StopReason, m.GoesOn = nil, true
	}
}
