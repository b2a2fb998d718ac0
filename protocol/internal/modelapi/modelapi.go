// Package modelapi has the common parts of the parsers of model APIs.
package modelapi

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A Call is a request, as far as its head tells.
type Call struct {
	Protocol protocol.Protocol
	// Kind is the path without ids: "chat/completions".
	Kind string
	// Model is the model in the path; "" if there is none.
	Model string
}

// Event makes m the message of an event of the answer. Some servers leave out what a chunk is, and
// others name it like a whole answer.
func (c *Call) Event(m *protocol.Message) {
	if m.Phase == protocol.Close && strings.HasSuffix(c.Kind, "completions") {
		m.Phase, m.Empty = protocol.Part, len(m.Text) == 0 && (len(m.Label) == 0 || string(m.Label) == string(m.StopReason))
		if len(m.Kind) == 0 || string(m.Kind) == "result" {
			m.Kind = kindChunk
		}
	}
}

var kindChunk = []byte("chat.completion.chunk")

// ReadUsage reads a usage of an API. Input includes cached tokens, and output reasoning.
func ReadUsage(api llm.API, usage []byte) protocol.Usage {
	u := llm.ReadUsage(api, usage)
	return protocol.Usage{Input: u.Input, Cached: u.Cached, Output: u.Output}
}

// Open makes m the message of the request. m may hold the parsed body.
func (c *Call) Open(m *protocol.Message) {
	m.Kind, m.Phase, m.From, m.Empty = []byte(c.Kind), protocol.Open, frame.C2U, false
	if c.Model != "" && len(m.Model) == 0 {
		m.Model = []byte(c.Model)
		m.Label = m.Model
	}
}

// Rules returns the rules of an API over HTTP; final says how a stream ends. An exchange is a
// stream of HTTP, and a client cancels it by leaving.
func Rules(final string) protocol.Rules {
	return protocol.Rules{
		UniqueIDs: true, Streamed: true, Final: true, MayHangUp: true, LeavingCancels: true,
		Reset:   "RST_STREAM",
		Cancels: []protocol.CancelRule{{Target: protocol.MustNotAnswer}},
		Sources: [][2]string{{"no-final", "an answer is all there when its connection ends: " + final}},
	}
}

// Path returns the path of a request, without the query and the host.
func Path(head *frame.Head) string {
	path, _, _ := strings.Cut(head.Target(), "?")
	if _, rest, full := strings.Cut(path, "://"); full {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path
}

// Cut cuts a path around the last occurrence of a resource, and drops the slashes around it.
func Cut(path, resource string) (base, rest string, ok bool) {
	base, rest, ok = cutLast(path+"/", "/"+resource+"/")
	return base, strings.TrimSuffix(rest, "/"), ok
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// HasModelAnd reports whether a body names a model and has one of the members.
func HasModelAnd(body []byte, members ...string) bool {
	model, asks := false, false
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		key := string(s.Key())
		model = model || key == "model"
		asks = asks || slices.Contains(members, key)
		if model && asks {
			return true
		}
	}
	return false
}

// LastText walks the next value, and returns the last text in it, such as that of the last
// message of a conversation, with its escapes; nil if there is none.
func LastText(s *jsonscan.Scanner) (text []byte) {
	switch s.Peek() {
	case jsonscan.String:
		text = jsonwalk.Word(s.Value())
	case jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			if t := LastText(s); t != nil {
				text = t
			}
		}
	case jsonscan.Object:
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "content", "parts", "text", "output":
				if t := LastText(s); t != nil {
					text = t
				}
			}
		}
	}
	return text
}

// An Error is the error of an answer. Event is the id of the event that caused it, as written.
type Error struct{ Code, Type, Text, Event []byte }

// Read walks the next value, and reports whether it is an object with members.
func (e *Error) Read(s *jsonscan.Scanner) (found bool) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "code":
			e.Code = jsonwalk.Word(s.Value())
		case "type", "status":
			e.Type = jsonwalk.Word(s.Value())
		case "message":
			e.Text = jsonwalk.Word(s.Value())
		case "event_id":
			e.Event = s.Value()
		}
		found = true
	}
	return found
}

var kindError = []byte("error")

// Tell makes m the message that the request has failed.
func (e *Error) Tell(m *protocol.Message) {
	m.Kind, m.Phase, m.From, m.Empty = kindError, protocol.Fail, frame.U2C, false
	if m.Label, m.Text = e.Code, e.Text; m.Label == nil {
		m.Label = e.Type
	}
	m.StopReason = m.Label
}
