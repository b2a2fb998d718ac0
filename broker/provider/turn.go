package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Turn is a message of a [Chat].
type Turn struct {
	// Role is user, assistant or tool.
	Role  string
	Parts []TurnPart
	Calls []ToolCall
	// Answers is the id of the call that a tool answers, and Name the tool's name, if the
	// message has it.
	Answers, Name string
}

// A TurnPart is a text, an image, or a file.
type TurnPart struct {
	Text string
	// ImageURL is an address, or a data: URL.
	ImageURL string
	// File is the data: URL of a document or a sound.
	File string
	// At is the place of an image or a file in the request, for errors.
	At string
}

// Data returns the media type and the base64 text of a data: URL.
func (p TurnPart) Data() (mediaType, base64 string, ok bool) {
	rest, ok := strings.CutPrefix(cmp.Or(p.ImageURL, p.File), "data:")
	if !ok {
		return "", "", false
	}
	mediaType, base64, ok = strings.Cut(rest, ";base64,")
	return mediaType, base64, ok
}

// A reading reads one message for a kind of backend.
type reading struct {
	kind Kind
	at   string
}

func (c *Chat) addMessage(r reading, m Message) error {
	t := Turn{Role: m.Role}
	parts, err := r.parts(m)
	if err != nil {
		return err
	}
	switch m.Role {
	case "system", "developer":
		return c.addSystem(r, parts)
	case "":
		t.Role = "user"
	case "user", "assistant", "tool":
	default:
		return r.kind.Refusal(r.at+".role", "Use system, user, assistant or tool")
	}
	for _, old := range [...]struct{ member, instead string }{{"function_call", "Use 'tool_calls'"}, {"audio", "Write what was said"}} {
		if raw, ok := jsonscan.Get(m.Raw, old.member); ok && jsonscan.KindOf(raw) != jsonscan.Null {
			return r.kind.Refusal(r.at+"."+old.member, old.instead)
		}
	}
	if raw, ok := jsonscan.Get(m.Raw, "tool_call_id"); ok {
		t.Answers = Unquote(raw)
	}
	if raw, ok := jsonscan.Get(m.Raw, "name"); ok {
		t.Name = Unquote(raw)
	}
	if t.Parts = parts; len(parts) == 0 {
		if raw, ok := jsonscan.Get(m.Raw, "refusal"); ok && Unquote(raw) != "" {
			t.Parts = []TurnPart{{Text: Unquote(raw)}}
		}
	}
	if t.Calls, err = r.calls(m); err != nil {
		return err
	}
	c.Turns = append(c.Turns, t)
	return nil
}

func (c *Chat) addSystem(r reading, parts []TurnPart) error {
	text := ""
	for _, p := range parts {
		if p.At != "" {
			return r.kind.Refusal(p.At, "Put it into a user message")
		}
		text += p.Text
	}
	if c.System != "" {
		c.System += "\n\n"
	}
	c.System += text
	return nil
}

// calls reads the tool calls of a message.
func (r reading) calls(m Message) ([]ToolCall, error) {
	raw, ok := jsonscan.Get(m.Raw, "tool_calls")
	if !ok {
		return nil, nil
	}
	var calls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	if err := decode(r.at+".tool_calls", raw, &calls); err != nil {
		return nil, err
	}
	var list []ToolCall
	for i, call := range calls {
		if call.Type != "" && call.Type != "function" {
			return nil, r.kind.Refusal(fmt.Sprintf("%s.tool_calls[%d]", r.at, i), "Leave the call and its answer out")
		}
		list = append(list, ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: Arguments(call.Function.Arguments)})
	}
	return list, nil
}

// parts reads the content of a message.
func (r reading) parts(m Message) ([]TurnPart, error) {
	if jsonscan.KindOf(m.Content) != jsonscan.Array {
		if text := Unquote(m.Text); text != "" {
			return []TurnPart{{Text: text}}, nil
		}
		return nil, nil
	}
	var raw []json.RawMessage
	_ = json.Unmarshal(m.Content, &raw) // it is an array
	var parts []TurnPart
	for i, of := range raw {
		p, err := r.part(fmt.Sprintf("%s.content[%d]", r.at, i), of)
		if err != nil {
			return nil, err
		}
		if p != (TurnPart{}) {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func (r reading) part(at string, raw []byte) (TurnPart, error) {
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return TurnPart{}, badType(at, "something else", "an object")
	}
	get := func(path ...string) string {
		value, _ := jsonscan.Get(raw, path...)
		return Unquote(value)
	}
	switch kind := get("type"); kind {
	case "text", "":
		if value, ok := jsonscan.Get(raw, "text"); ok && jsonscan.KindOf(value) == jsonscan.String {
			return TurnPart{Text: Unquote(value)}, nil
		}
	case "refusal":
		return TurnPart{Text: get("refusal")}, nil
	case "image_url":
		if url := cmp.Or(get("image_url", "url"), get("image_url")); url != "" {
			return TurnPart{ImageURL: url, At: at}, nil
		}
	case "input_audio":
		if format, data := get("input_audio", "format"), get("input_audio", "data"); format != "" && data != "" {
			return TurnPart{File: "data:audio/" + format + ";base64," + data, At: at}, nil
		}
	case "file":
		if file := get("file", "file_data"); strings.HasPrefix(file, "data:") {
			return TurnPart{File: file, At: at}, nil
		}
		return TurnPart{}, r.kind.Refusal(at, "Give the file itself in file_data, as a data: URL")
	}
	return TurnPart{}, r.kind.Refusal(at, "Use parts of the types text, image_url, input_audio and file, with their members")
}
