package llm

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"

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

// attached are the types of blocks that are attachments.
var attached = []string{"image", "document", "file", "image_url", "input_image", "input_file", "input_audio", "container_upload"}

// maxBlocks is how deep blocks are nested: a message, its content, a tool result, its content.
const maxBlocks = 6

// Attachments yields the attachments in a message: pictures, documents, sound.
func Attachments(message []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yieldAttachments(message, 0, yield) }
}

func yieldAttachments(value []byte, depth int, yield func([]byte) bool) bool {
	if depth > maxBlocks {
		return true
	}
	for _, one := range Elements(value) {
		if !yieldAttachments(one, depth+1, yield) {
			return false
		}
	}
	var inner [][]byte
	var s jsonscan.Scanner
	s.Init(value)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			if slices.Contains(attached, string(bare(s.Value()))) {
				return yield(value)
			}
		case "inlineData", "inline_data", "fileData", "file_data":
			return yield(value)
		case "content", "parts", "output":
			inner = append(inner, s.Value())
		}
	}
	for _, one := range inner {
		if !yieldAttachments(one, depth+1, yield) {
			return false
		}
	}
	return true
}

// Embeddings is OpenAI's request for embeddings, for other APIs.
type Embeddings struct {
	Texts      []string
	Dimensions int // 0 if the request does not say

	base64 bool
}

// maxTexts is OpenAI's limit of texts.
const maxTexts = 2048

// InvalidValue is the code of a Gap for an invalid value.
const InvalidValue = "invalid_value"

// ReadEmbeddings reads a request. Tokens instead of texts are rejected. An error is a [*Gap].
func ReadEmbeddings(body []byte) (*Embeddings, error) {
	var asked struct {
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
		Format     string          `json:"encoding_format"`
	}
	if g := decode("", body, &asked); g != nil {
		return nil, g
	}
	e := &Embeddings{Dimensions: asked.Dimensions, base64: asked.Format == "base64"}
	switch {
	case asked.Dimensions < 0:
		return nil, &Gap{At: "dimensions", Code: InvalidValue, Instead: "Invalid 'dimensions': expected a whole number from 1."}
	case asked.Format != "" && asked.Format != "float" && asked.Format != "base64":
		return nil, &Gap{At: "encoding_format", Code: InvalidValue, Instead: "Invalid 'encoding_format': expected float or base64."}
	}
	if jsonscan.KindOf(asked.Input) == jsonscan.String {
		e.Texts = []string{Unquote(asked.Input)}
		return e, nil
	}
	for _, one := range Elements(asked.Input) {
		if jsonscan.KindOf(one) != jsonscan.String {
			return nil, &Gap{At: "input", Code: Unsupported, Instead: "Write it as text instead of tokens"}
		}
		if e.Texts = append(e.Texts, Unquote(one)); len(e.Texts) > maxTexts {
			return nil, &Gap{At: "input", Code: InvalidValue, Instead: fmt.Sprintf("Invalid 'input': expected at most %d texts.", maxTexts)}
		}
	}
	if len(e.Texts) == 0 {
		return nil, badType("input", "something else", "a text, or an array of texts")
	}
	return e, nil
}

// Answer writes OpenAI's answer, with a vector for each text.
func (e *Embeddings) Answer(model string, vectors [][]float32, tokens int64) []byte {
	type one struct {
		Object string `json:"object"`
		Index  int    `json:"index"`
		Vector any    `json:"embedding"`
	}
	list := []one{}
	for i, v := range vectors {
		made := one{"embedding", i, v}
		if e.base64 {
			made.Vector = packed(v)
		}
		list = append(list, made)
	}
	return jsonscan.MustMarshal(map[string]any{
		"object": "list", "model": model, "data": list,
		"usage": map[string]int64{"prompt_tokens": tokens, "total_tokens": tokens},
	})
}

// packed is a vector in base64, with little-endian numbers of four bytes.
func packed(v []float32) string {
	var b []byte
	for _, n := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(n))
	}
	return base64.StdEncoding.EncodeToString(b)
}
