package diff

import (
	"io"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// record is a difference as NDJSON. Item, change and class are those of a definition.
type record struct {
	Difference What        `json:"difference"`
	Kind       string      `json:"kind"`
	Operation  *recordOf   `json:"operation,omitempty"`
	Message    string      `json:"message,omitempty"`
	Path       string      `json:"path,omitempty"`
	Item       string      `json:"item,omitempty"`
	Change     string      `json:"change,omitempty"`
	Class      string      `json:"class,omitempty"`
	A          *recordSide `json:"a,omitempty"`
	B          *recordSide `json:"b,omitempty"`
}

// recordOf is the operation to which an exchange belongs, by its first frames.
type recordOf struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

// recordSide is one side of it. The value is text: the JSON value as written,
// or the beginning of it.
type recordSide struct {
	ID     string  `json:"id,omitempty"`
	Opened int64   `json:"opened,omitempty"`
	Frames []int64 `json:"frames,omitempty"`
	Value  string  `json:"value,omitempty"`
}

// NDJSON writes one object a line for each difference.
func (r *Report) NDJSON(w io.Writer) error {
	enc := jsonscan.NewEncoder(w)
	for i := range r.Differences {
		d := &r.Differences[i]
		r := record{Difference: d.What, Kind: d.Kind, Message: d.Message, Path: d.Path, A: (*recordSide)(d.A), B: (*recordSide)(d.B)}
		if d.Of != nil {
			r.Operation = &recordOf{d.Of.A, d.Of.B}
		}
		if c := d.Change; c != nil {
			r.Item, r.Change, r.Class = c.Item, c.Text, string(c.Class)
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
