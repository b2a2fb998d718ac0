package capture

import (
	"bytes"
	"encoding/json"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Place is a note that says where in a run of wirectl rlm a connection or exchange belongs.
// It is JSON in the text of a record of the kind [Note].
type Place struct {
	// Run is the path: RUN, RUN/t3, RUN/t3/c1 or RUN/t3/c1/q7. In child runs it is longer.
	Run string `json:"run"`
	// ID is the id of the exchange, as written on the wire. Next denotes the next exchange
	// that opens. Without either, the place applies to the whole connection.
	ID   json.RawMessage `json:"id,omitempty"`
	Next bool            `json:"next,omitempty"`
}

// Text returns the note.
func (p Place) Text() ([]byte, error) { return jsonscan.Marshal(p) }

// ParsePlace returns the place in a record, if it has one.
func ParsePlace(r *Record) (p Place, ok bool) {
	if r.Kind != Note || !bytes.HasPrefix(r.Text, []byte(`{"run":`)) {
		return Place{}, false
	}
	return p, json.Unmarshal(r.Text, &p) == nil && p.Run != ""
}
