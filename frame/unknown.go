package frame

import "errors"

// ErrUnknown: no framing fits the stream.
var ErrUnknown = errors.New("cannot tell how this stream is framed")

// Unknown is how a stream is framed that no framing fits: nothing in it is a
// frame. A [Scanner] fails at its first byte; one that is to resync gives out all
// of it as gaps first. [Framings] does not list it.
var Unknown Framing = unknown{len32{}}

type unknown struct{ len32 }

func (unknown) Name() string                           { return "" }
func (unknown) About() string                          { return "no framing fits" }
func (unknown) Next([]byte, int, bool, *Extent) *Error { return &Error{Err: ErrUnknown} }
func (unknown) Sync(data []byte, _ int) int            { return len(data) }
func (unknown) admits([]byte) error                    { return ErrUnknown }
