package provider

import (
	"bytes"
	"iter"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// ReadMembers reads the values of keys of an object into places. It reports whether the text is an
// object, and returns a syntax error.
func ReadMembers(text []byte, places map[string]*[]byte) (object bool, err error) {
	var s jsonscan.Scanner
	s.Init(text)
	object = s.Object()
	for object && s.Next() {
		if place := places[string(s.Key())]; place != nil {
			*place = s.Value()
		}
	}
	return object, s.End()
}

// ValidPrompt reports whether a valid JSON value is a prompt: a string, an
// object, or an array of objects.
func ValidPrompt(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Object:
		return true
	case jsonscan.Array:
		var s jsonscan.Scanner
		s.Init(raw)
		ok := s.Array()
		for ok && s.Elem() {
			ok = s.Peek() == jsonscan.Object && s.Skip()
		}
		return ok && s.End() == nil
	}
	return false
}

// Messages returns the prompt as a JSON array of OpenAI's messages. A string is a message of the
// user. An object is a message if it has a role; otherwise the first non-empty member of messages,
// prompt, content and text is used, or else the object's JSON is a message of the user.
func Messages(prompt []byte) []byte {
	switch jsonscan.KindOf(prompt) {
	case jsonscan.Array:
		return prompt
	case jsonscan.String:
		return userMessage(prompt)
	}
	var blank []byte
	for _, key := range []string{"messages", "prompt", "content", "text"} {
		raw, ok := jsonscan.Get(prompt, key)
		switch {
		case !ok:
		case string(raw) == `""`:
			blank = raw
		case jsonscan.KindOf(raw) == jsonscan.Array && (key == "messages" || key == "prompt"):
			if ValidPrompt(raw) && !isEmptyArray(raw) {
				return raw
			}
		case key == "content" && isMessage(prompt):
			return oneMessage(prompt)
		case jsonscan.KindOf(raw) == jsonscan.String, jsonscan.KindOf(raw) == jsonscan.Array && key == "content" && !isEmptyArray(raw):
			return userMessage(raw)
		}
	}
	switch {
	case isMessage(prompt):
		return oneMessage(prompt)
	case blank != nil:
		return userMessage(blank)
	}
	return userMessage(jsonscan.AppendQuote(nil, prompt))
}

func isMessage(object []byte) bool {
	_, ok := jsonscan.Get(object, "role")
	return ok
}

func oneMessage(object []byte) []byte { return append(append([]byte{'['}, object...), ']') }

func isEmptyArray(raw []byte) bool { return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 }

func userMessage(text []byte) []byte {
	m := append([]byte(`[{"role":"user","content":`), text...)
	return append(m, "}]"...)
}

// LastText returns the last text as a string token: the prompt if it is a string, else the content
// of its last message with text.
func (r *Request) LastText() []byte {
	if r.Body == nil && jsonscan.KindOf(r.Prompt) == jsonscan.String {
		return r.Prompt
	}
	last := []byte(`""`)
	for m := range EachMessage(r.Messages()) {
		if m.Text != nil {
			last = m.Text
		}
	}
	return last
}

// Messages returns the messages of the request as a JSON array.
func (r *Request) Messages() []byte {
	if r.Body == nil {
		return Messages(r.Prompt)
	}
	if raw, ok := jsonscan.Get(r.Chat(), "messages"); ok && jsonscan.KindOf(raw) == jsonscan.Array {
		return raw
	}
	return []byte("[]")
}

// A Message is one of the messages of a prompt.
type Message struct {
	Role string
	// Content is the JSON of the content, nil if there is none.
	Content []byte
	// Text is the text of the content as a string token, nil if it has none.
	Text []byte
	// Raw is the whole message.
	Raw []byte
}

// EachMessage yields the messages of a JSON array. It skips elements that are not objects.
func EachMessage(messages []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, raw := range llm.Elements(messages) {
			if jsonscan.KindOf(raw) == jsonscan.Object && !yield(message(raw)) {
				return
			}
		}
	}
}

func message(raw []byte) Message {
	m := Message{Role: "user", Raw: raw}
	if role, ok := jsonscan.Get(raw, "role"); ok {
		m.Role = Unquote(role)
	}
	content, ok := jsonscan.Get(raw, "content")
	if !ok || jsonscan.KindOf(content) == jsonscan.Null {
		return m
	}
	m.Content = content
	m.Text = contentText(content)
	return m
}

// contentText returns the text of a content: the content if it is a string, the
// texts of its parts joined if it is an array.
func contentText(content []byte) []byte {
	switch jsonscan.KindOf(content) {
	case jsonscan.String:
		return content
	case jsonscan.Array:
	default:
		return jsonscan.AppendQuote(nil, content)
	}
	text := []byte{'"'}
	for _, part := range llm.Elements(content) {
		if raw, ok := jsonscan.Get(part, "text"); ok && jsonscan.KindOf(raw) == jsonscan.String {
			text = append(text, raw[1:len(raw)-1]...)
		}
	}
	return append(text, '"')
}
