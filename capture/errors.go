package capture

import (
	"errors"
	"fmt"
)

// Errors in the content of a capture.
var (
	ErrCut       = errors.New("the capture is cut") // inside a record
	ErrMalformed = errors.New("the capture is damaged")
	ErrTooLarge  = errors.New("a record is over the limit")
	ErrForeign   = errors.New("not a capture of wirectl")
	// ErrPackets is an ErrForeign for pcapng.
	ErrPackets = fmt.Errorf("%w: this pcapng was written by another program", ErrForeign)
)

// IsFault reports whether an error is in the content of a capture, rather than a failure to
// read it.
func IsFault(err error) bool {
	return errors.Is(err, ErrCut) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrForeign)
}

// An Error is an error at a position in a capture.
type Error struct {
	// Err is one of the errors of this package, or an error of the underlying reader.
	Err error
	// Offset is the beginning of the record that could not be read. For a compressed
	// capture it counts decompressed bytes.
	Offset int64
	// Detail may be empty.
	Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %v: %s", e.Offset, e.Err, e.Detail)
}

func (e *Error) Unwrap() error { return e.Err }
