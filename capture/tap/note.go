package tap

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// What a [Note] tells of.
const (
	// Hello is the first note of a viewer: Frames and Bytes have passed, and
	// history lacks the first Lost frames of them.
	Hello = "hello"
	// Lost tells a viewer that it was too slow for Lost frames.
	Lost = "lost"
	// Answer is what became of a command of the viewer's: Do, Tag, Error.
	Answer = "answer"
	// Held tells of the frame number Held that waits, which is not yet among
	// the frames: Conn, Dir and its Payload or Data.
	Held = "held"
	// Released tells what became of the frame number Held: How.
	Released = "released"
)

// A Note is what a tap tells its viewers beside the frames: JSON in the text of
// a record of the kind [capture.Note].
type Note struct {
	Tap     string `json:"tap"`
	Frames  int64  `json:"frames,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Lost    int64  `json:"lost,omitempty"`
	Altered bool   `json:"altered,omitempty"`

	Do    string `json:"do,omitempty"`
	Tag   string `json:"tag,omitempty"`
	Error string `json:"error,omitempty"`

	Held int64  `json:"held,omitempty"`
	How  string `json:"how,omitempty"` // released, edited or dropped, or gone with its connection
	Conn int    `json:"conn,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Payload is that of a held frame if it is JSON, else Data is.
	Payload json.RawMessage `json:"payload,omitempty"`
	Data    []byte          `json:"data,omitempty"`
}

// Record returns the note as a record.
func (n Note) Record() capture.Record {
	text, err := jsonscan.Marshal(n)
	if err != nil { // a payload that is not JSON
		n.Data, n.Payload = n.Payload, nil
		text, _ = jsonscan.Marshal(n)
	}
	return capture.Record{Kind: capture.Note, Time: time.Now(), Text: text}
}

// ParseNote returns the note that a record is, if it is one of a tap's.
func ParseNote(r *capture.Record) (Note, bool) {
	if r.Kind != capture.Note || !bytes.HasPrefix(r.Text, []byte(`{"tap":`)) {
		return Note{}, false
	}
	var n Note // on the heap, and so not for each frame
	err := json.Unmarshal(r.Text, &n)
	return n, err == nil
}
