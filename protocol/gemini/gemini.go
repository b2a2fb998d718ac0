// Package gemini parses the bodies and events of the Gemini API: generateContent and
// streamGenerateContent, counts of tokens, embeddings and lists of models. Vertex AI has
// the same below other paths.
package gemini

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Protocol is the API. A request has the kind of its path, which also names the model;
// the answers and the events of a stream are GenerateContentResponse. That one is the
// last shows only when the stream ends.
var Protocol protocol.Protocol = api{}

// Rules: no event is the final one, but the last has a finishReason.
var Rules = modelapi.Rules("the last event of a stream has a finishReason, or says why the prompt was blocked")

type api struct{}

func (api) Name() string                { return "gemini" }
func (api) Encoding() protocol.Encoding { return protocol.JSON }

// methods are what can be asked of a model.
var methods = []string{
	"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent",
}

// Call returns what a request asks for; nil if it is none of this API.
func Call(head *frame.Head) *modelapi.Call {
	path := modelapi.Path(head)
	for _, resource := range []string{"models", "tunedModels", "endpoints"} {
		base, rest, ok := modelapi.Cut(path, resource)
		model, method, _ := strings.Cut(rest, ":")
		switch {
		case !ok:
		case head.Method() == "POST" && slices.Contains(methods, method):
			return &modelapi.Call{Protocol: Protocol, Kind: method, Model: model}
		case head.Method() == "GET" && strings.HasPrefix(base, "/v1beta"):
			return &modelapi.Call{Protocol: Protocol, Kind: resource, Model: model}
		}
	}
	return nil
}

// A wire is what was read of a payload.
type wire struct {
	asks, answers bool
	model, finish []byte
	failure       modelapi.Error
	failed        bool
	usage         protocol.Usage
	text, tool    []byte
	brings        bool
}

var (
	kindResult  = []byte("result")
	kindAnswer  = []byte("GenerateContentResponse")
	kindRequest = []byte("generateContent")
)

// Parse reads one body or event, as [protocol.Protocol] wants it. A stream that is not of
// events is an array.
func (api) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var w wire
	kind := s.Peek()
	if kind == jsonscan.Array {
		for ok := s.Array(); ok && s.Elem(); {
			w.read(&s)
		}
	} else {
		w.read(&s)
	}
	err := s.End()
	if err != nil || kind != jsonscan.Object && kind != jsonscan.Array {
		m.Faults |= protocol.UnknownKind
		return jsonwalk.Finish(&s, err, m)
	}
	w.interpret(m)
	return jsonwalk.Finish(&s, err, m)
}

// read walks the next value, which is a body or an event.
func (w *wire) read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "contents", "content":
			w.asks, w.text = true, modelapi.LastText(s)
		case "requests":
			w.asks = true
		case "candidates":
			w.answers = true
			for ok := s.Array(); ok && s.Elem(); {
				w.readCandidate(s)
			}
		case "promptFeedback":
			w.answers = true
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "blockReason" {
					w.finish = jsonwalk.Word(s.Value())
				}
			}
		case "usageMetadata":
			w.answers, w.usage = true, readUsage(s)
		case "modelVersion":
			w.model = jsonwalk.Word(s.Value())
		case "error":
			w.failed = w.failure.Read(s) || w.failed
		}
	}
}

// readCandidate walks the next value, which is one of the answers of the model.
func (w *wire) readCandidate(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "finishReason":
			if reason := jsonwalk.Word(s.Value()); len(reason) > 0 {
				w.finish = reason
			}
		case "content":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) != "parts" {
					continue
				}
				for ok := s.Array(); ok && s.Elem(); {
					w.readPart(s)
				}
			}
		}
	}
}

// readPart walks the next value, which is a part of an answer.
func (w *wire) readPart(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "text":
			if text := jsonwalk.Word(s.Value()); len(text) > 0 {
				w.text, w.brings = text, true
			}
		case "functionCall":
			w.brings = true
			w.readCall(s)
		case "inlineData", "executableCode", "codeExecutionResult":
			w.brings = true
		}
	}
}

// readCall walks the next value, which is a tool call.
func (w *wire) readCall(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == "name" {
			w.tool = jsonwalk.Word(s.Value())
		}
	}
}

// readUsage walks the next value. What the model thought is not counted as its answer
// there, and what was cached is counted as prompt.
func readUsage(s *jsonscan.Scanner) (u protocol.Usage) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "promptTokenCount", "toolUsePromptTokenCount":
			u.Input += jsonwalk.Count(s.Value())
		case "cachedContentTokenCount":
			u.Cached = jsonwalk.Count(s.Value())
		case "candidatesTokenCount", "responseTokenCount", "thoughtsTokenCount":
			u.Output += jsonwalk.Count(s.Value())
		}
	}
	return u
}

// interpret says in m what was read.
func (w *wire) interpret(m *protocol.Message) {
	m.Model, m.Text, m.Usage = w.model, w.text, w.usage
	switch {
	case w.failed:
		w.failure.Code = nil // which is the status of HTTP
		w.failure.Tell(m)
		return
	case w.asks && !w.answers:
		m.Kind, m.Phase, m.From = kindRequest, protocol.Open, frame.C2U
		return
	case !w.answers:
		m.Kind, m.Phase, m.From = kindResult, protocol.Close, frame.U2C
		return
	}
	m.Kind, m.Phase, m.From, m.Empty = kindAnswer, protocol.Part, frame.U2C, !w.brings
	m.StopReason = w.finish
	if m.Label = w.tool; m.Label == nil && len(w.finish) > 0 {
		m.Label = w.finish
	}
}
