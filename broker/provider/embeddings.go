package provider

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Embeddings is a parsed OpenAI request for embeddings, for backends of other APIs.
type Embeddings struct {
	Texts      []string
	Dimensions int // 0 if the request does not say

	base64 bool
}

// maxTexts is OpenAI's limit of texts.
const maxTexts = 2048

// ReadEmbeddings reads a request. Tokens instead of texts are rejected.
func ReadEmbeddings(body []byte) (*Embeddings, error) {
	var asked struct {
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
		Format     string          `json:"encoding_format"`
	}
	if err := decode("", body, &asked); err != nil {
		return nil, err
	}
	e := &Embeddings{Dimensions: asked.Dimensions, base64: asked.Format == "base64"}
	switch {
	case asked.Dimensions < 0:
		return nil, Unanswerable("dimensions", "invalid_value", "Invalid 'dimensions': expected a whole number from 1.")
	case asked.Format != "" && asked.Format != "float" && asked.Format != "base64":
		return nil, Unanswerable("encoding_format", "invalid_value", "Invalid 'encoding_format': expected float or base64.")
	}
	if jsonscan.KindOf(asked.Input) == jsonscan.String {
		e.Texts = []string{Unquote(asked.Input)}
		return e, nil
	}
	for text := range Elements(asked.Input) {
		if jsonscan.KindOf(text) != jsonscan.String {
			return nil, Unanswerable("input", unsupported, "Unsupported parameter: 'input' of tokens cannot be translated for this model's provider. Write it as text, or ask a model of a provider of the kind openai.")
		}
		if e.Texts = append(e.Texts, Unquote(text)); len(e.Texts) > maxTexts {
			return nil, Unanswerable("input", "invalid_value", fmt.Sprintf("Invalid 'input': expected at most %d texts.", maxTexts))
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
