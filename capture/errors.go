package capture

import (
	"errors"
	"fmt"
)

// Why a capture cannot be read, or not to its end.
var (
	// ErrCut: the capture breaks off inside a record.
	ErrCut = errors.New("the capture is cut")
	// ErrMalformed: the bytes contradict the format.
	ErrMalformed = errors.New("the capture is damaged")
	// ErrTooLarge: a record is over the limit.
	ErrTooLarge = errors.New("a record is over the limit")
	// ErrForeign: it is not a capture of wirectl.
	ErrForeign = errors.New("not a capture of wirectl")
	// ErrPackets: it is a pcapng, and what is in it is not ours. It is an ErrForeign, too.
	ErrPackets = fmt.Errorf("%w: this pcapng was written by another program", ErrForeign)
)

// IsFault reports whether an error is about what was read, and not about the reading.
func IsFault(err error) bool {
	return errors.Is(err, ErrCut) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrForeign)
}

// An Error says where a capture could not be read on.
type Error struct {
	// Err is one of the errors of this package, or that of the reader below.
	Err error
	// Offset is where the record begins that could not be read; everything
	// before it has been. For a compressed capture it counts the bytes inside.
	Offset int64
	// Detail says what was found; it may be empty.
	Detail string
}

// Error says where it happened and what was found.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %v: %s", e.Offset, e.Err, e.Detail)
}

func (e *Error) Unwrap() error { return e.Err }
