package llm

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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
