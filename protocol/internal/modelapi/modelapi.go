// Package modelapi has the common parts of the parsers of model APIs.
package modelapi

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// ReadUsage reads a usage of an API. Input includes cached tokens, and output reasoning.
func ReadUsage(api llm.API, usage []byte) protocol.Usage {
	u := llm.ReadUsage(api, usage)
	return protocol.Usage{Input: u.Input, Cached: u.Cached, Output: u.Output, Written: u.Written, Kept: u.Kept, Apart: u.Apart}
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
	return jsonwalk.HasMember(body, "model") && jsonwalk.HasMember(body, members...)
}

var kindError = []byte("error")

// Fail makes m the message that the request has failed, as the event says.
func Fail(e *llm.Event, m *protocol.Message) {
	m.Kind, m.Phase, m.From, m.Empty = kindError, protocol.Fail, frame.U2C, false
	ReadError(e, m)
	m.Label = m.StopReason
}

// ReadError reads the error of an event: its code as the stop reason, a word if there is one, and its
// text.
func ReadError(e *llm.Event, m *protocol.Message) {
	code, text := e.Code, e.Message
	var kind []byte
	var s jsonscan.Scanner
	if s.Init(e.Error); s.Peek() == jsonscan.String {
		text = s.Value()
	}
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "code":
			code = s.Value()
		case "type", "status":
			kind = s.Value()
		case "message":
			text = s.Value()
		}
	}
	if m.StopReason = jsonwalk.Word(code); len(m.StopReason) == 0 {
		m.StopReason = jsonwalk.Word(kind)
	}
	if m.StopReason == nil && jsonscan.KindOf(code) == jsonscan.Number {
		m.StopReason = code
	}
	m.Text = jsonwalk.Word(text)
}

// Read walks a body or an event of e.API, and sets the members of m that it has in any API. It
// reports whether it is one.
func Read(e *llm.Event, payload []byte, m *protocol.Message) (ok bool, err error) {
	var s jsonscan.Scanner
	m.Reset()
	s.Init(payload)
	kind := s.Peek()
	e.Read(&s)
	if ok = s.End() == nil && (kind == jsonscan.Object || kind == jsonscan.Array && e.API == llm.Contents); ok {
		Tell(e, m)
	} else {
		m.Faults |= protocol.UnknownKind
	}
	return ok, jsonwalk.End(&s, m)
}

// FailIfBroken makes m a failure if its stop reason is that of an answer that failed.
func FailIfBroken(e *llm.Event, m *protocol.Message) {
	if llm.BrokeOff(string(m.StopReason)) {
		m.Phase, m.Empty, m.Text = protocol.Fail, false, jsonwalk.Word(e.Message)
	}
}

// Tell sets the members of m that an event has in any API.
func Tell(e *llm.Event, m *protocol.Message) {
	m.Model, m.Text, m.Label, m.StopReason = jsonwalk.Word(e.Model), jsonwalk.Word(e.Text), jsonwalk.Word(e.Tool), jsonwalk.Word(e.Stop)
	if m.Usage = ReadUsage(e.API, e.Usage); m.Usage != (protocol.Usage{}) && !llm.IsUsual(e.Tier) {
		m.Usage.Apart = true
	}
	if len(m.StopReason) > 0 && m.Label == nil {
		m.Label = m.StopReason
	}
}
