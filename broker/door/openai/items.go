package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// messages are the instructions, the earlier messages and the input.
func (q *responseRequest) messages(before []json.RawMessage) []json.RawMessage {
	list := []json.RawMessage{}
	if text := q.get("instructions"); text != nil && string(text) != `""` {
		list = append(list, jsonscan.MustMarshal(chatMessage{Role: "system", Content: text}))
	}
	list = append(list, before...)
	q.readInput()
	for _, m := range q.said {
		list = append(list, marshaled(m))
	}
	return list
}

// marshaled is a message as JSON.
func marshaled(m chatMessage) json.RawMessage {
	body, err := jsonscan.Marshal(m)
	if err != nil { // it is nested too deeply, and so is the whole request, which fails
		return json.RawMessage("{}")
	}
	return body
}

func (q *responseRequest) readInput() {
	input := q.get("input")
	if jsonscan.KindOf(input) == jsonscan.String {
		q.said = []chatMessage{{Role: "user", Content: input}}
		return
	}
	var rest []chatPart // of the answers of tools: what is not text becomes a message of the user
	for i, item := range elements(input) {
		at := fmt.Sprintf("input[%d]", i)
		kind := text(item, "type")
		if strings.HasSuffix(kind, "_call_output") {
			rest = append(rest, q.addResult(at, kind, item)...)
			continue
		}
		q.addParts("user", rest)
		rest = nil
		q.addItem(at, kind, item)
	}
	q.addParts("user", rest)
}

func (q *responseRequest) addItem(at, kind string, item json.RawMessage) {
	switch kind {
	case "message", "":
		q.addMessage(at, item)
	case "function_call":
		q.addCall(functionCall(text(item, "call_id"), spaced{text(item, "namespace"), text(item, "name")}.flat(), cmp.Or(text(item, "arguments"), "{}")))
	case "custom_tool_call":
		q.addCall(customCall(text(item, "call_id"), text(item, "name"), or(member(item, "input"), `""`)))
	case "reasoning": // only for the model that wrote it
	default:
		q.refuse(at, "Use messages, and the calls of functions and custom tools with their outputs")
	}
}

func (q *responseRequest) addMessage(at string, item json.RawMessage) {
	role := text(item, "role")
	switch role {
	case "developer":
		role = "system"
	case "user", "assistant", "system":
	default:
		q.refuse(at+".role", "Use user, assistant, system or developer")
		return
	}
	content := member(item, "content")
	if jsonscan.KindOf(content) == jsonscan.String {
		q.say(role, content)
		return
	}
	if jsonscan.KindOf(content) != jsonscan.Array {
		q.refuse(at+".content", "Write it as a string or a list of parts")
		return
	}
	var parts []chatPart
	for i, of := range elements(content) {
		if p, ok := q.part(fmt.Sprintf("%s.content[%d]", at, i), of); ok {
			parts = append(parts, p)
		}
	}
	if role == "user" {
		q.addParts(role, parts)
		return
	}
	said := ""
	for _, p := range parts {
		if p.Type != "text" {
			q.refuse(at+".content", "Put images and files into user messages")
		}
		said += p.Text
	}
	q.say(role, provider.Quote(said))
}

// say adds a message of text. The text that an assistant adds to its calls joins their
// message.
func (q *responseRequest) say(role string, content json.RawMessage) {
	if last := q.last(); role == "assistant" && last != nil && last.Content == nil && last.Calls != nil {
		last.Content = content
		return
	}
	q.said = append(q.said, chatMessage{Role: role, Content: content})
}

func (q *responseRequest) addParts(role string, parts []chatPart) {
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		q.say(role, provider.Quote(parts[0].Text))
	case len(parts) > 0:
		q.said = append(q.said, chatMessage{Role: role, Content: parts})
	}
}

// addCall adds the call of a tool to the assistant's last message.
func (q *responseRequest) addCall(call chatCall) {
	last := q.last()
	if last == nil {
		q.said = append(q.said, chatMessage{Role: "assistant"})
		last = &q.said[len(q.said)-1]
	}
	last.Calls = append(last.Calls, call)
}

// last returns the last message if it is the assistant's, else nil.
func (q *responseRequest) last() *chatMessage {
	if n := len(q.said); n > 0 && q.said[n-1].Role == "assistant" {
		return &q.said[n-1]
	}
	return nil
}

// addResult adds the answer of a tool, and returns the parts that are not text.
func (q *responseRequest) addResult(at, kind string, item json.RawMessage) (rest []chatPart) {
	if kind != "function_call_output" && kind != "custom_tool_call_output" {
		q.refuse(at, "Use messages, and the calls of functions and custom tools with their outputs")
		return nil
	}
	output, said := member(item, "output"), ""
	if jsonscan.KindOf(output) == jsonscan.Array {
		for i, of := range elements(output) {
			p, ok := q.part(fmt.Sprintf("%s.output[%d]", at, i), of)
			switch {
			case ok && p.Type == "text":
				said += p.Text
			case ok:
				rest = append(rest, p)
			}
		}
		output = provider.Quote(said)
	}
	if jsonscan.KindOf(output) != jsonscan.String {
		q.refuse(at+".output", "Write it as a string or a list of parts")
	}
	q.said = append(q.said, chatMessage{Role: "tool", Content: output, Answers: text(item, "call_id")})
	return rest
}

func (q *responseRequest) part(at string, of json.RawMessage) (made chatPart, ok bool) {
	switch text(of, "type") {
	case "input_text", "output_text", "text", "summary_text":
		return chatPart{Type: "text", Text: text(of, "text")}, true
	case "refusal":
		return chatPart{Type: "text", Text: text(of, "refusal")}, true
	case "input_image":
		if url := text(of, "image_url"); url != "" {
			return chatPart{Type: "image_url", Image: &chatImage{url, text(of, "detail")}}, true
		}
	case "input_file":
		if data := text(of, "file_data"); data != "" {
			return chatPart{Type: "file", File: &chatFile{cmp.Or(text(of, "filename"), "file"), data}}, true
		}
	case "input_audio":
		audio := member(of, "input_audio")
		if data, format := text(audio, "data"), text(audio, "format"); data != "" && format != "" {
			return chatPart{Type: "input_audio", Audio: &chatAudio{data, format}}, true
		}
	}
	q.refuse(at, "Use text, and images, sounds and files whose data is included")
	return made, false
}

// conversation is all messages with the answer, for a request that continues them.
func (q *responseRequest) conversation(before []json.RawMessage, c *provider.Completion) []json.RawMessage {
	list := append([]json.RawMessage{}, before...)
	for _, m := range q.said {
		list = append(list, marshaled(m))
	}
	answer := chatMessage{Role: "assistant", Calls: toolCalls(c.ToolCalls, false)}
	if string(c.Text) != `""` || len(c.ToolCalls) == 0 {
		answer.Content = json.RawMessage(c.Text)
	}
	return append(list, marshaled(answer))
}
