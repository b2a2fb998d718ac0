package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Marshal returns v as JSON, as encoding/json has it, but with all text as it is:
// <, > and & are no escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
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
