package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The reasons why there is no frame, other than a clean end.
var (
	ErrTruncated = errors.New("the stream ended inside a frame")
	ErrTooLarge  = errors.New("the payload is over the limit")
	ErrMalformed = errors.New("not a frame")
)

// An Error is a fault of the framing: where it is and what was found.
type Error struct {
	// Err is [ErrTruncated], [ErrTooLarge] or [ErrMalformed], or the error of
	// the reader.
	Err error
	// Frame is the number of the frame that could not be read, from 1.
	Frame int64
	// Offset is the position at which that frame begins in its stream.
	Offset int64
	// Detail says what was found.
	Detail string
	// Head is a copy of the first bytes of what was found.
	Head []byte
	// Accident names what the bytes are instead, where they are well known.
	Accident Accident

	length uint64 // what is over the limit
}

// IsFault reports whether err is about the framing of a stream, not about reading it.
func IsFault(err error) bool {
	return errors.Is(err, ErrTruncated) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed)
}

// headSize is how much of a fault an Error keeps.
const headSize = 256

// Error says where the fault is, what was found and what it looks like.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "frame %d at byte %d: ", e.Frame, e.Offset)
	if e.Detail != "" {
		b.WriteString(e.Detail)
	} else {
		b.WriteString(e.Err.Error())
	}
	if text := e.TextLength(); text != "" {
		fmt.Fprintf(&b, "; that is the text %q", text)
	}
	if e.Accident != NoAccident {
		fmt.Fprintf(&b, "; this looks like %s", e.Accident)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// TextLength returns the text that was read as a length over the limit; "" if it is not
// printable, or if the framing has no length in its first four bytes.
func (e *Error) TextLength() string {
	if !errors.Is(e.Err, ErrTooLarge) || len(e.Head) < len32Header || uint64(binary.BigEndian.Uint32(e.Head)) != e.length {
		return ""
	}
	for _, c := range e.Head[:len32Header] {
		if (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' {
			return ""
		}
	}
	return string(e.Head[:len32Header])
}

func malformed(detail string) *Error { return &Error{Err: ErrMalformed, Detail: detail} }

func tooLarge(n uint64, limit int) *Error {
	return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("length %d is over the limit of %d", n, limit), length: n}
}

// Recall restores a fault from its text, which is all that captures keep. The text
// determines its reason.
func Recall(words string) error {
	switch {
	case strings.Contains(words, "over the limit of "):
		return &recalled{words, ErrTooLarge}
	case strings.Contains(words, "the stream ended inside "):
		return &recalled{words, ErrTruncated}
	}
	return errors.New(words)
}

type recalled struct {
	words  string
	reason error
}

func (r *recalled) Error() string { return r.words }
func (r *recalled) Unwrap() error { return r.reason }

// clip keeps the beginning of text that came from outside.
func clip(text []byte) []byte { return text[:min(len(text), 40)] }

// truncated says where the bytes at hand, which are all there are, end.
func truncated(e *Extent, data []byte) *Error {
	err := &Error{Err: ErrTruncated}
	switch e.Inside {
	case "the payload":
		err.Detail = fmt.Sprintf("the stream ended inside the payload, after %d of its %d bytes", len(data)-e.Start, e.End-e.Start)
	case "the length prefix":
		err.Detail = fmt.Sprintf("the stream ended inside the length prefix, after %d of its bytes", len(data))
	case "a line":
		err.Detail = "the stream ended inside a line, which has no LF"
	default:
		err.Detail = "the stream ended inside " + e.Inside
	}
	return err
}
