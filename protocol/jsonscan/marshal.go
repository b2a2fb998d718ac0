package jsonscan

import (
	"bytes"
	"encoding/json"
	"io"
)

// Marshal returns v as JSON, as encoding/json has it, but with all text as it is:
// <, > and & are no escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := NewEncoder(&b).Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// NewEncoder returns what writes values as Marshal has them, a line each.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// WriteLines writes each value of a list as a line.
func WriteLines[T any](w io.Writer, list []T) error {
	e := NewEncoder(w)
	for _, v := range list {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// MustMarshal is Marshal of a value that always can be JSON; it panics if it
// cannot.
func MustMarshal(v any) []byte {
	text, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
