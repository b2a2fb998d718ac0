package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Chat is a parsed request for an OpenAI chat completion, for backends of other APIs.
type Chat struct {
	// System is the text of the system and developer messages, joined.
	System string
	// Turns are the other messages.
	Turns []Turn
	Tools []Tool
	// ToolChoice is auto, none, required, or "" if the request has none. Tool is the tool
	// that must be called, or "".
	ToolChoice, Tool string
	// OneCall disables parallel tool calls.
	OneCall bool
	// MaxTokens is 0 if the request has no limit.
	MaxTokens                         int
	Temperature, TopP                 *float64
	FrequencyPenalty, PresencePenalty *float64
	Seed                              *int64
	Stop                              []string
	// JSON says that the answer must be a JSON object, or match Schema, which may be nil.
	JSON   bool
	Schema json.RawMessage
	// Rest are the members that OpenAI's API does not have, for the backend.
	Rest map[string]json.RawMessage
}

// A Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	// Strict says that arguments must match Parameters.
	Strict bool `json:"strict,omitempty"`
}

// Read reads the request for a backend of a kind. It rejects members that change the answer and
// have no counterpart, and invalid ones.
func (r *Request) Read(k Kind) (*Chat, error) {
	if err := r.Untranslated(k.Drop); err != nil {
		return nil, err
	}
	chat := &Chat{}
	if err := chat.readMessages(k, r.Messages()); err != nil || r.Chat == nil {
		return chat, err
	}
	var members map[string]json.RawMessage
	if err := decode("", r.Chat, &members); err != nil {
		return nil, err
	}
	if err := k.check(members); err != nil {
		return nil, err
	}
	if err := chat.readMembers(k, r.Chat); err != nil {
		return nil, err
	}
	chat.Rest = own(members)
	return chat, nil
}

// parameters are the members of a request in a Chat, besides the messages.
type parameters struct {
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	Top                 *float64        `json:"top_p"`
	Frequency           *float64        `json:"frequency_penalty"`
	Presence            *float64        `json:"presence_penalty"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	Parallel            *bool           `json:"parallel_tool_calls"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	Tools               []struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	} `json:"tools"`
	Format struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (c *Chat) readMembers(k Kind, body []byte) error {
	var p parameters
	if err := decode("", body, &p); err != nil {
		return err
	}
	c.MaxTokens, c.Temperature, c.TopP = max(p.MaxTokens, p.MaxCompletionTokens), p.Temperature, p.Top
	c.FrequencyPenalty, c.PresencePenalty, c.Seed = p.Frequency, p.Presence, p.Seed
	if err := c.readTools(k, &p); err != nil {
		return err
	}
	switch p.Format.Type {
	case "", "text":
	case "json_object", "json_schema":
		c.JSON, c.Schema = true, given(p.Format.Schema.Schema)
	default:
		return k.Refusal("response_format", "Use text, json_object or json_schema")
	}
	return c.readStop(p.Stop)
}

func (c *Chat) readTools(k Kind, p *parameters) error {
	c.OneCall = p.Parallel != nil && !*p.Parallel
	for i, t := range p.Tools {
		if t.Function.Name == "" || t.Type != "" && t.Type != "function" {
			return k.Refusal(fmt.Sprintf("tools[%d]", i), "Give it as a function with a name")
		}
		t.Function.Parameters = given(t.Function.Parameters)
		c.Tools = append(c.Tools, t.Function)
	}
	if !c.choose(p.ToolChoice) {
		return k.Refusal("tool_choice", "Use auto, none, required, or a function")
	}
	return nil
}

// readStop reads a text, or a list of them.
func (c *Chat) readStop(stop json.RawMessage) error {
	switch jsonscan.KindOf(stop) {
	case jsonscan.Invalid:
		return nil
	case jsonscan.String:
		c.Stop = []string{Unquote(stop)}
		return nil
	}
	return decode("stop", stop, &c.Stop)
}

// given returns a value, nil if it is missing or null.
func given(value json.RawMessage) json.RawMessage {
	if jsonscan.KindOf(value) == jsonscan.Null {
		return nil
	}
	return value
}

// choose reads tool_choice, and reports whether it is valid.
func (c *Chat) choose(choice json.RawMessage) bool {
	if name, ok := jsonscan.Get(choice, "function", "name"); ok {
		c.ToolChoice, c.Tool = "required", Unquote(name)
		return c.Tool != ""
	}
	switch jsonscan.KindOf(choice) {
	case jsonscan.Invalid, jsonscan.Null:
		return true
	}
	c.ToolChoice = Unquote(choice)
	return c.ToolChoice == "auto" || c.ToolChoice == "none" || c.ToolChoice == "required"
}

func (c *Chat) readMessages(k Kind, messages []byte) error {
	if !ValidPrompt(messages) {
		return badType("messages", "something else in it", "an array of objects")
	}
	i := 0
	for m := range EachMessage(messages) {
		if err := c.addMessage(reading{k, "messages[" + strconv.Itoa(i) + "]"}, m); err != nil {
			return err
		}
		i++
	}
	return nil
}

// WithModel returns the body of a request, a JSON object, with another model.
func WithModel(body []byte, model string) []byte {
	var room [64]byte
	name := jsonscan.AppendQuote(room[:0], []byte(model))
	var s jsonscan.Scanner
	s.Init(body)
	start, end := -1, 0
	for ok := s.Object(); ok && start < 0 && s.Next(); {
		if string(s.Key()) == "model" {
			start = s.Offset()
			end = start + len(s.Value())
		}
	}
	switch {
	case start < 0:
		start = bytes.IndexByte(body, '{') + 1
		end = start
		name = append(append([]byte(`"model":`), name...), ',')
	case bytes.Equal(body[start:end], name):
		return body
	}
	b := make([]byte, 0, len(body)+len(name))
	b = append(append(b, body[:start]...), name...)
	return append(b, body[end:]...)
}
