package frame

import "errors"

// ErrUnknown is the error if no framing fits the stream.
var ErrUnknown = errors.New("cannot tell how this stream is framed")

// Unknown is the framing of a stream that no framing fits. A [Scanner] fails at its first
// byte; with Resync it first emits all of it as gaps. [Framings] does not list it.
var Unknown Framing = unknown{len32{}}

type unknown struct{ len32 }

func (unknown) Name() string                           { return "" }
func (unknown) About() string                          { return "no framing fits" }
func (unknown) Next([]byte, int, bool, *Extent) *Error { return &Error{Err: ErrUnknown} }
func (unknown) Sync([]byte, int) int                   { return -1 }
func (unknown) admits([]byte) error                    { return ErrUnknown }
