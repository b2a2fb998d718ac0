package hub

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nats-io/nats.go"
)

// An Assembler makes the segments of one session of their messages.
type Assembler struct {
	Number int64 // of the last complete segment
	Frames int64 // of the session up to its end

	pieces []byte // of the next segment
	piece  int    // how many they are
	of     int64  // the number of the segment
}

// A Whole is a complete segment, or several that were sent in one message.
type Whole struct {
	// Number is that of the last segment.
	Number int64
	// Missing is how many segments before it are missing.
	Missing int64
	End     bool // it is the last of its session

	data []byte
}

// Section returns a reader of the segment as a section of pcapng.
func (w *Whole) Section() (io.Reader, error) {
	r, err := decompress(w.data)
	if err != nil {
		return nil, fmt.Errorf("segment %d is skipped: %w", w.Number, err)
	}
	return r, nil
}

// Waiting returns how many bytes the Assembler holds for a segment that is not complete.
func (a *Assembler) Waiting() int { return len(a.pieces) }

// Forget gives that segment up, and returns the error that says so.
func (a *Assembler) Forget() error {
	number := a.of
	a.pieces, a.of = nil, 0
	return fmt.Errorf("segment %d is skipped: its pieces are over the limit of %d MiB", number, maxSection>>20)
}

// IsPiece reports whether a message has only a piece of a segment.
func IsPiece(m *nats.Msg) bool { return m.Header.Get(headerPiece) != "" }

// Take adds a message, and returns the segment that it completes; nil if there is none.
func (a *Assembler) Take(m *nats.Msg) (*Whole, error) {
	number, err := strconv.ParseInt(m.Header.Get(headerNumber), 10, 64)
	frames, err2 := strconv.ParseInt(m.Header.Get(headerFrames), 10, 64)
	first := number
	if text := m.Header.Get(headerFirst); text != "" && err == nil {
		first, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || err2 != nil || first <= 0 || first > number || frames < 0 {
		return nil, errors.New("a message that is not a segment is skipped")
	}
	if number <= a.Number {
		return nil, nil // it was stored twice
	}
	data, whole, err := a.assemble(number, m)
	if err != nil || !whole {
		return nil, err
	}
	w := &Whole{Number: number, Missing: max(0, first-a.Number-1), End: m.Header.Get(headerEnd) != "", data: data}
	a.Number, a.Frames = number, frames
	return w, nil
}

// assemble returns the data of a segment once it has all pieces.
func (a *Assembler) assemble(number int64, m *nats.Msg) (data []byte, whole bool, err error) {
	text := m.Header.Get(headerPiece)
	if text == "" {
		return m.Data, true, nil
	}
	var piece, pieces int
	if _, err := fmt.Sscanf(text, "%d/%d", &piece, &pieces); err != nil || piece < 1 || piece > pieces {
		return nil, false, fmt.Errorf("segment %d is skipped: its part is %q, not such as 1/2", number, text)
	}
	if piece == 1 {
		a.pieces, a.piece, a.of = nil, 0, number
	}
	if a.of != number || piece != a.piece+1 {
		return nil, false, nil // it was stored twice, or the first pieces are gone
	}
	if len(a.pieces)+len(m.Data) > maxSection {
		return nil, false, a.Forget()
	}
	a.pieces, a.piece = append(a.pieces, m.Data...), piece
	if piece < pieces {
		return nil, false, nil
	}
	data, a.pieces = a.pieces, nil
	return data, true, nil
}
