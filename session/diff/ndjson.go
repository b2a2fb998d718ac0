package diff

import (
	"encoding/json"
	"io"
)

// record is a difference as NDJSON.
type record struct {
	Difference What        `json:"difference"`
	Kind       string      `json:"kind"`
	Message    string      `json:"message,omitempty"`
	Path       string      `json:"path,omitempty"`
	A          *recordSide `json:"a,omitempty"`
	B          *recordSide `json:"b,omitempty"`
}

// recordSide is one side of it. The value is text: the JSON value as written,
// or the beginning of it.
type recordSide struct {
	ID     string  `json:"id,omitempty"`
	Opened int64   `json:"opened"`
	Frames []int64 `json:"frames,omitempty"`
	Value  string  `json:"value,omitempty"`
}

// NDJSON writes one object a line for each difference.
func (r *Report) NDJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range r.Differences {
		d := &r.Differences[i]
		err := enc.Encode(record{d.What, d.Kind, d.Message, d.Path, (*recordSide)(d.A), (*recordSide)(d.B)})
		if err != nil {
			return err
		}
	}
	return nil
}
