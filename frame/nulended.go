package frame

import (
	"bytes"
	"errors"
	"fmt"
)

// Nul frames are payloads that each end in a NUL byte, as on Chromium's debugging pipe.
var Nul Framing = &nul{delimited{"\x00", errors.New("nul: the payload holds a NUL byte, which would end the frame")}}

type nul struct{ delimited }

func (*nul) Name() string  { return "nul" }
func (*nul) About() string { return "one payload after the other, each ended by a NUL byte" }

// Next keeps in e.seen how far the payload has been searched for its end.
func (*nul) Next(data []byte, limit int, _ bool, e *Extent) *Error {
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

func (*nul) exact(*Frame) bool { return true }
