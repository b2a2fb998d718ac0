package frame

import (
	"bytes"
	"errors"
	"fmt"
)

// Nul frames are payloads that each end in a NUL byte, as on Chromium's debugging pipe.
var Nul Framing = nul{}

type nul struct{}

var errNulInPayload = errors.New("nul: the payload holds a NUL byte, which would end the frame")

func (nul) Name() string  { return "nul" }
func (nul) About() string { return "one payload after the other, each ended by a NUL byte" }

// Next keeps in e.seen how far the payload has been searched for its end.
func (nul) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	n := bytes.IndexByte(data[e.seen:], 0)
	if n >= 0 {
		n += e.seen
	} else {
		e.seen, e.End = len(data), len(data)
	}
	switch {
	case max(n, e.seen) > limit:
		return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("a payload is over the limit of %d", limit)}
	case n < 0:
		return e.need(len(data)+1, "a payload, which has no NUL")
	}
	e.Raw, e.End, e.Need = n+1, n, 0
	return nil
}

func (nul) Sync(data []byte, _ int) int {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1
	}
	return len(data)
}

func (nul) header(dst []byte, _ int) []byte { return dst }

func (nul) trailer() string { return "\x00" }

func (nul) admits(payload []byte) error {
	if bytes.IndexByte(payload, 0) >= 0 {
		return errNulInPayload
	}
	return nil
}

func (nul) exact(*Frame) bool { return true }
