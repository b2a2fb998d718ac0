package session

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
)

// maxLine bounds the error and the arguments of an exchange, in bytes. Both are on one line.
const maxLine = 240

// A Failure is what the answer to a request says of its failure: Error is its text, on one line and without
// secrets, Code the code of the error, and Status that of the response over HTTP. Each is "" if there is none.
type Failure struct{ Error, Code, Status string }

// Explain returns what is known of why an exchange failed, or was cancelled: the failure, or else the reason; ""
// if nothing is. The stop reason, which may be the code, is not repeated.
func (f *Failure) Explain(o Outcome, reason, stop string) string {
	text := f.Error
	if text == "" || strings.Contains(reason, text) {
		text = reason
	} else if reason != "" && !strings.Contains(text, reason) {
		text = reason + ": " + text
	}
	if f.Code != "" && f.Code != stop && !strings.Contains(text, f.Code) {
		text = strings.TrimSpace(f.Code + " " + text)
	}
	if o.Failed() && f.Status >= "300" && !strings.Contains(text, f.Status) {
		text = strings.TrimSpace("HTTP " + f.Status + " " + text)
	}
	return text
}

// Arguments returns the beginning of the arguments of a request: of those for its tool, or else of its
// parameters as written. It borrows from the message.
func Arguments(m *protocol.Message) []byte {
	switch {
	case m.Phase != protocol.Open || m.Model != nil:
		return nil
	case m.Arguments != nil:
		return clip(m.Arguments, maxLine+1)
	}
	text, bare := m.Text, true // without members that a reader wants to see
	var s jsonscan.Scanner
	s.Init(clip(text, maxLook))
	for ok := s.Peek() == jsonscan.Object && s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "arguments":
			return clip(s.Value(), maxLine+1)
		case "name", "_meta": // the name is in a place of its own
		default:
			bare = false
		}
	}
	text = clip(text, maxLine+1)
	isControl := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }
	if bare && s.End() == nil && jsonscan.KindOf(text) == jsonscan.Object || bytes.ContainsFunc(text, isControl) {
		return nil
	}
	return text
}

// maxLook bounds how far into parameters those of a tool are looked for.
const maxLook = 4 << 10

// OneLine returns a text from the wire on one line, within the bound, as valid UTF-8. It returns "" for
// an empty object and for what only masks the text.
func OneLine(text []byte) string {
	if plain, ok := jsonscan.Unquote(text); ok {
		text = plain
	}
	if len(bytes.Trim(text, "*")) == 0 || string(text) == "{}" {
		return ""
	}
	line := make([]byte, 0, maxLine+utf8.UTFMax)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		if space := r == ' ' || r == '\n' || r == '\t' || r == '\r'; !space {
			line = utf8.AppendRune(line, r)
		} else if n := len(line); n > 0 && line[n-1] != ' ' {
			line = append(line, ' ')
		}
		if len(line) > maxLine {
			return string(render.Clip(line, maxLine-len("…"))) + "…"
		}
	}
	return string(bytes.TrimSuffix(line, []byte(" ")))
}

// noteFailure records what the message that ends e says of its failure.
func (t *Tracker) noteFailure(ev *event, e *Exchange) {
	m := ev.m
	if !e.Outcome.Failed() || e.Outcome == TimedOut || m == nil {
		return
	}
	text := says(t.plainText(m.Text), 0)
	switch said := t.unescaped(m.Reason); {
	case t.base.NoWire && len(said) > 0:
		text = said
	case len(text) == 0 && len(ev.f.Payload) > 0:
		text = says(ev.f.Payload, 0)
	}
	if e.Error = OneLine(text); e.Mask != nil && e.Error != "" {
		e.Error = e.Mask(e.Error)
	}
	if m.Phase == protocol.Fail && !t.base.NoWire && !bytes.HasPrefix(m.Label, []byte("grpc-status ")) && string(m.Label) != ev.f.Status {
		e.Code = OneLine(clip(t.unescaped(m.Label), maxText))
	}
	if code, isGRPC := bytes.CutPrefix(m.Label, []byte("grpc-status ")); isGRPC {
		e.Code = OneLine(code)
	}
}

// plainText returns the text of a message without its quotes and escapes, unless it is JSON.
func (t *Tracker) plainText(text []byte) []byte {
	if plain, ok := jsonscan.Unquote(text); ok {
		return plain
	}
	if k := jsonscan.KindOf(text); k == jsonscan.Object || k == jsonscan.Array {
		return text
	}
	return t.unescaped(text)
}

// says returns the text for people in what a peer says of a failure: in JSON of any common shape, or in
// plain text; nil for anything else, such as a page of HTML.
func says(value []byte, depth int) (text []byte) {
	value = bytes.TrimSpace(clip(value, maxFailure))
	switch {
	case len(value) == 0 || value[0] == '<' || depth > 4 || !utf8.Valid(value[:min(len(value), 16)]):
		return nil
	case value[0] == '"':
		text, _ = jsonscan.Unquote(value)
		return text
	case value[0] != '{' && value[0] != '[':
		return value
	}
	var s jsonscan.Scanner
	s.Init(value)
	if s.Peek() == jsonscan.Array {
		for ok := s.Array(); ok && s.Elem() && len(text) < maxLine; {
			if part := says(s.Value(), depth+1); len(part) > 0 {
				text = append(append(bytes.Clone(text), part...), ' ')
			}
		}
		return text
	}
	best := len(tellers)
	for ok := s.Object(); ok && s.Next(); {
		for i, name := range tellers[:best] {
			if string(s.Key()) != name {
				continue
			}
			switch k := s.Peek(); {
			case k == jsonscan.Object, k == jsonscan.Array, k == jsonscan.String && i < len(tellers)-holders:
			default:
				continue
			}
			if said := says(s.Value(), depth+1); len(said) > 0 {
				text, best = said, i
			}
			break
		}
	}
	return text
}

// maxFailure bounds how much of an answer is searched for the text of its failure.
const maxFailure = 64 << 10

// tellers are the members with the text of a failure, the best first. The last ones, so many, only hold others: their
// text is something else.
var tellers = [...]string{
	"message", "error_description", "errorMessage", "error", "text", "content", "detail", "reason", "title", "description", "errors", "output", "format",
	"data", "parts", "status", "result", "task", "params", "event", "turn", "info",
}

const holders = 9
