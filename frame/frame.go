// Package frame turns a byte stream into frames and frames into bytes.
//
// A frame is one delimited payload. The package finds the bounds of frames on a
// stream, for each [Framing]. The meaning of payloads is left to package protocol.
//
// [Scanner] reads frames as bufio.Scanner reads lines; [Candidates] returns the
// framings that a stream could have, by its beginning; [Recognize] names a stream
// that does not consist of frames.
package frame

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
)

// Dir is the direction in which a frame travels.
type Dir uint8

const (
	DirUnknown Dir = iota
	// C2U is controller to unit: from client to server.
	C2U
	// U2C is unit to controller: from server to client.
	U2C
)

var dirNames = [...]string{DirUnknown: "", C2U: "c2u", U2C: "u2c"}

// DirNames returns the names of both directions.
func DirNames() []string { return slices.Clone(dirNames[C2U:]) }

// String returns "c2u", "u2c", or "" when the direction is unknown.
func (d Dir) String() string {
	if int(d) < len(dirNames) {
		return dirNames[d]
	}
	return "dir(?)"
}

// Opposite returns the other direction; DirUnknown stays unknown.
func (d Dir) Opposite() Dir {
	switch d {
	case C2U:
		return U2C
	case U2C:
		return C2U
	}
	return DirUnknown
}

// ParseDir returns the direction that String writes as name.
func ParseDir(name string) (Dir, bool) {
	d := slices.Index(dirNames[:], name)
	return Dir(max(d, 0)), d >= 0
}

// A Frame is one payload and its wrapper, as they were on the wire. Its bytes belong
// to the producer; a frame from a [Scanner] is valid until the next Scan, and
// [Frame.Clone] keeps it.
type Frame struct {
	// Raw is the frame exactly as it was on the wire, wrapper included. The
	// Raws of a stream, joined, are the stream.
	Raw []byte
	// Start and End bound the payload: Raw[Start:End].
	Start, End int
	// Offset is the position of Raw[0] in its stream.
	Offset int64
	// Conn numbers the connection, from 1; 0 where there is only one.
	Conn int
	// Dir is the direction of travel, if known.
	Dir Dir
	// Compressed says that the payload is compressed (the flag of gRPC framing).
	Compressed bool
	// Gap means that Raw is not a frame but skipped bytes: those before the next
	// plausible frame, or blank lines at the end, or 64 KiB of them. It has no payload.
	Gap bool
	// Flaw is an error in the wrapper that a strict peer would reject, although
	// the frame could be delimited; in a gap, the fault that made it one.
	Flaw error
	// Stream numbers the stream within the connection, if it has several: an
	// HTTP/2 stream, or a request and its response on an HTTP/1.1 connection.
	Stream int64
	// Meta is the carrier's information about the frame; nil without a carrier.
	Meta *Meta
}

// Payload returns the bytes of the message: a part of Raw, or bytes that the carrier
// decoded from it.
func (f *Frame) Payload() []byte {
	if f.Meta != nil && f.Meta.Apart {
		return f.Meta.Data
	}
	return f.Raw[f.Start:f.End]
}

// Size is the length of the payload, and of all bytes of a gap; 0 if the message was not recorded.
func (f *Frame) Size() int {
	switch {
	case f.Gap:
		return len(f.Raw)
	case f.Meta != nil && f.Meta.Apart:
		return len(f.Meta.Data)
	case f.Meta != nil && f.Meta.Head.IsAbsent():
		return 0
	}
	return f.End - f.Start
}

// Clone returns the frame with bytes of its own.
func (f Frame) Clone() Frame {
	f.Raw = bytes.Clone(f.Raw)
	f.Meta = f.Meta.Clone()
	return f
}

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

// DetectSize is how much of a stream detection uses, in bytes, if no frame ends sooner.
const DetectSize = 64 << 10

// A Candidate is a framing that the head of a stream could have.
type Candidate struct {
	Framing Framing
	// Frame is the first frame; the head may end inside its payload.
	Frame Frame
	// Whole means that the head contains all of the frame.
	Whole bool
	// Need is the size of the frame, as far as known.
	Need int
	// Why is the reason for the framing.
	Why string
}

// Candidates returns the framings that the head of a stream could have, ordered by
// the size of the first frame. Judging the payloads is left to the caller, who knows
// the protocols.
func Candidates(head []byte, atEOF bool, limit int) []Candidate {
	var all []Candidate
	for _, f := range []Framing{Header, Line, Nul, Len32, GRPC, Varint} {
		if c, ok := candidate(f, head, atEOF, limit); ok {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Need, b.Need) })
	return all
}

func candidate(f Framing, head []byte, atEOF bool, limit int) (Candidate, bool) {
	var e Extent
	if len(head) == 0 || f.Next(head, limit, atEOF, &e) != nil || e.Gap {
		return Candidate{}, false
	}
	c := Candidate{Framing: f, Whole: e.Raw != 0, Need: max(e.Raw, e.Need)}
	c.Frame = Frame{Raw: head[:min(c.Need, len(head))], Start: e.Start, Compressed: e.Compressed, Flaw: e.Flaw}
	c.Frame.End = min(e.End, len(c.Frame.Raw))
	c.Frame.Start = min(e.Start, c.Frame.End)
	text := c.Frame.Payload()
	if (f == Line || f == Nul) && !isTextLine(text, c.Whole && !e.Open) || f == Nul && (!c.Whole || Recognize(text) != JSONText) {
		return Candidate{}, false
	}
	c.Why = why(f, e.End-e.Start)
	return c, true
}

func why(f Framing, n int) string {
	switch f {
	case Header:
		return "it begins with Content-Length"
	case Line:
		return "the first line is text"
	case Nul:
		return "JSON ends in a NUL byte"
	default:
		return fmt.Sprintf("it begins with the length %d", n)
	}
}

// isTextLine reports whether a line, which may be cut anywhere unless it is ended, is text:
// without control characters except white space and escape sequences, and mostly ASCII if
// it is not UTF-8.
func isTextLine(text []byte, ended bool) bool {
	high := 0
	for _, c := range text[:min(len(text), 1024)] {
		switch {
		case c >= utf8.RuneSelf:
			high++
		case c < ' ' && c != '\t' && c != '\r' && c != escape:
			return false
		}
	}
	if !ended {
		text = text[:len(text)-render.CutRune(text)]
	}
	return len(text) > 0 && (4*high <= len(text) || utf8.Valid(text) || len(text) > 1024)
}

const escape = 0x1b
