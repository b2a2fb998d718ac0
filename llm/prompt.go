package llm

import (
	"iter"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A PromptPart is a kind of part of a prompt.
type PromptPart uint8

const (
	SystemPart PromptPart = iota
	ToolPart
	MessagePart
)

// Prompt yields what a request of any API gives to the model, as written and in the order of the
// request. The functions in a tool of Gemini are tools.
func Prompt(body []byte) iter.Seq2[PromptPart, []byte] {
	return func(yield func(PromptPart, []byte) bool) {
		var s jsonscan.Scanner
		s.Init(body)
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "system", "systemInstruction", "system_instruction", "instructions":
				system := s.Value()
				if k := jsonscan.KindOf(system); (k == jsonscan.String || k == jsonscan.Array || k == jsonscan.Object) && !yield(SystemPart, system) {
					return
				}
			case "tools":
				for ok := s.Array(); ok && s.Elem(); {
					if !yieldTools(s.Value(), yield) {
						return
					}
				}
			case "messages", "input", "contents", "prompt":
				if s.Peek() == jsonscan.String && !yield(MessagePart, s.Value()) {
					return
				}
				for ok := s.Array(); ok && s.Elem(); {
					part, message := MessagePart, s.Value()
					if role := text(message, "role"); role == "system" || role == "developer" {
						part = SystemPart
					}
					if !yield(part, message) {
						return
					}
				}
			}
		}
	}
}

func yieldTools(tool []byte, yield func(PromptPart, []byte) bool) bool {
	for _, key := range [...]string{"functionDeclarations", "function_declarations"} {
		if list, ok := jsonscan.Get(tool, key); ok {
			for _, function := range Elements(list) {
				if !yield(ToolPart, function) {
					return false
				}
			}
			return true
		}
	}
	return yield(ToolPart, tool)
}

// ToolName returns the name of a tool in a request of any API, or else its type, or "".
func ToolName(tool []byte) string {
	for _, path := range [...][]string{{"name"}, {"function", "name"}, {"type"}} {
		if name, ok := jsonscan.Get(tool, path...); ok && jsonscan.KindOf(name) == jsonscan.String {
			return Unquote(name)
		}
	}
	return ""
}

// A ToolResult is the result of a tool call in a request. ID may be "": Gemini names only the tool.
type ToolResult struct {
	ID, Name string
	Content  []byte
	Failed   []byte // true or false, if it says so
}

// ToolResults yields the tool results in a message of a request of any API.
func ToolResults(message []byte) iter.Seq[ToolResult] {
	return func(yield func(ToolResult) bool) {
		content, _ := jsonscan.Get(message, "content")
		if id := text(message, "tool_call_id"); id != "" && text(message, "role") == "tool" {
			yield(ToolResult{ID: id, Content: content})
			return
		}
		if output, ok := jsonscan.Get(message, "output"); ok && text(message, "call_id") != "" {
			yield(ToolResult{ID: text(message, "call_id"), Content: output})
			return
		}
		parts, _ := jsonscan.Get(message, "parts")
		for _, list := range [][]byte{content, parts} {
			for _, part := range Elements(list) {
				r := ToolResult{ID: text(part, "tool_use_id")}
				r.Content, _ = jsonscan.Get(part, "content")
				r.Failed, _ = jsonscan.Get(part, "is_error")
				if response, ok := jsonscan.Get(part, "functionResponse"); ok {
					r = ToolResult{ID: text(response, "id"), Name: text(response, "name"), Content: response}
					if _, failed := jsonscan.Get(response, "response", "error"); failed {
						r.Failed = []byte("true")
					}
				}
				if (r.ID != "" || r.Name != "") && !yield(r) {
					return
				}
			}
		}
	}
}

// EndsInWords reports whether a message of a request of any API ends in words of the user. A text that ends
// in a tag is of the agent: a reminder.
func EndsInWords(message []byte) bool {
	if text(message, "role") != "user" {
		return false
	}
	content, ok := jsonscan.Get(message, "content")
	if !ok {
		content, _ = jsonscan.Get(message, "parts")
	}
	for _, part := range Elements(content) {
		content, _ = jsonscan.Get(part, "text")
	}
	words := strings.TrimSpace(Unquote(content))
	return jsonscan.KindOf(content) == jsonscan.String && words != "" && !strings.HasSuffix(words, ">")
}
