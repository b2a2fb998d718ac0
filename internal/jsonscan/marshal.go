package jsonscan

import (
	"bytes"
	"encoding/json"
	"io"
)

// Marshal is json.Marshal without HTML escaping: <, > and & are not escaped.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := NewEncoder(&b).Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// NewEncoder returns an encoder that writes each value as Marshal does, one per line.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// MustMarshal is Marshal for values that can always be encoded; it panics on an error.
func MustMarshal(v any) []byte {
	text, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
