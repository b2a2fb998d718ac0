package diff

import (
	"io"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// record is a difference in NDJSON. Item, change and class are set for definitions.
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

// recordOf is the operation that an exchange belongs to, by its first frames.
type recordOf struct {
	A int64 `json:"a"`
	B int64 `json:"b"`
}

// recordSide is one side of a difference. The value is text: the JSON value as written, or its
// beginning.
type recordSide struct {
	ID     string  `json:"id,omitempty"`
	Opened int64   `json:"opened,omitempty"`
	Frames []int64 `json:"frames,omitempty"`
	Value  string  `json:"value,omitempty"`
}

// NDJSON writes one object per line for each difference.
func (r *Report) NDJSON(w io.Writer) error {
	list := make([]record, len(r.Differences))
	for i := range list {
		d := &r.Differences[i]
		list[i] = record{Difference: d.What, Kind: d.Kind, Message: d.Message, Path: d.Path, A: (*recordSide)(d.A), B: (*recordSide)(d.B)}
		if d.Of != nil {
			list[i].Operation = &recordOf{d.Of.A, d.Of.B}
		}
		if c := d.Change; c != nil {
			list[i].Item, list[i].Change, list[i].Class = c.Item, c.Text, string(c.Class)
		}
	}
	return jsonscan.WriteLines(w, list)
}
