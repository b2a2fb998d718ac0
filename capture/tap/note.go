package tap

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// View returns a cursor that reads the history of a journal, then new records. Its first record
// is a note with the totals and the number of frames missing from the history. If it is too
// slow, a note reports the lost frames. The cursor must be closed.
func View(j *journal.Journal) *journal.Cursor {
	return j.View(func(t journal.Totals) capture.Record {
		return Note{Tap: Hello, Frames: t.Frames, Bytes: t.Bytes, Lost: t.Lost, Altered: t.Altered}.Record()
	}, func(frames int64) capture.Record {
		return Note{Tap: Lost, Lost: frames}.Record()
	})
}

// The types of a [Note].
const (
	// Hello is the first note for a viewer. Frames and Bytes are the totals so far. The
	// history lacks the first Lost frames.
	Hello = "hello"
	// Lost tells a viewer that it was too slow and missed Lost frames.
	Lost = "lost"
	// Unended, as the last note, says that connections go on after what was recorded.
	Unended = "unended"
	// Answer is the result of a viewer's command: Do, Tag, Error.
	Answer = "answer"
	// Held describes the held frame with the number Held: Conn, Dir, and Payload or Data. The
	// frame is not yet in the history.
	Held = "held"
	// Released says what happened to the held frame with the number Held: How.
	Released = "released"
	// Drift says that a list of tools differs from its Pin: Changes, each after its severity. If How is
	// Refused, the client got an error instead of Payload, the server's answer.
	Drift = "drift"
)

// Refused is the How of a [Drift] whose list was replaced by an error.
const Refused = "refused"

// A Note is information for viewers other than frames. It is JSON in the text of a record of
// the kind [capture.Note].
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
	// Payload is the payload of a held frame if it is JSON; otherwise Data is set.
	Payload json.RawMessage `json:"payload,omitempty"`
	Data    []byte          `json:"data,omitempty"`

	Pin     string   `json:"pin,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// Text describes a [Drift].
func (n Note) Text() string {
	text := "the tools differ from pin " + n.Pin
	if n.How == Refused {
		text += ", and the client got an error instead"
	}
	return text + ": " + strings.Join(n.Changes, ", ")
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

// ParseNote returns the note in a record, if it is the note of a tap.
func ParseNote(r *capture.Record) (Note, bool) {
	if r.Kind != capture.Note || !bytes.HasPrefix(r.Text, []byte(`{"tap":`)) {
		return Note{}, false
	}
	var n Note // escapes to the heap, so declared after the check
	err := json.Unmarshal(r.Text, &n)
	return n, err == nil
}
