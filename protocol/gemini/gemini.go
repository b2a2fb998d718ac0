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

// Protocol is the API. The kind of a request is in its path, which also names the model. The
// answers and the events of a stream are GenerateContentResponse. No event says that it is the
// last.
var Protocol protocol.Protocol = api{"gemini"}

// Rules: the last event has a finishReason.
var Rules = modelapi.Rules("the last event of a stream has a finishReason, or says why the prompt was blocked")

type api struct{ jsonwalk.Named }

// methods are the methods of models.
var methods = []string{
	"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "batchGenerateContent",
}

// Call returns the call of a request; nil if it is not of this API.
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

// A wire holds the members of a payload.
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

// Parse reads one body or event, as [protocol.Protocol] wants it. A stream without events is an
// array.
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
	if s.End() != nil || kind != jsonscan.Object && kind != jsonscan.Array {
		m.Faults |= protocol.UnknownKind
	} else {
		w.interpret(m)
	}
	return jsonwalk.End(&s, m)
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
			if reason := jsonwalk.WordIn(s, "blockReason"); reason != nil {
				w.finish = reason
			}
		case "usageMetadata":
			w.answers, w.usage = true, modelapi.ReadUsage(llm.Contents, s.Value())
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
			w.brings, w.tool = true, jsonwalk.WordIn(s, "name")
		case "inlineData", "executableCode", "codeExecutionResult":
			w.brings = true
		}
	}
}

// interpret fills m.
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
