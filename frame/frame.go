// Package frame turns a byte stream into frames and frames into bytes.
//
// A frame is one delimited payload. The package knows where frames begin and
// end on a stream, for each [Framing], and nothing about what a payload means:
// that is the business of package protocol. It opens no file and no connection.
//
// [Scanner] reads frames as bufio.Scanner reads lines; [Candidates] says which
// framings the head of a stream could have; [Recognize] names what a stream is
// when it is not frames at all.
package frame

import (
	"bytes"
	"slices"
)

// Dir is the direction in which a frame travels.
type Dir uint8

const (
	// DirUnknown is the direction of a frame from a stream that does not say.
	DirUnknown Dir = iota
	// C2U is controller to unit: from the side that asks to the side that works.
	C2U
	// U2C is unit to controller.
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

// Opposite returns the other direction; it is unknown for one that is.
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
	for d, n := range dirNames {
		if n == name {
			return Dir(d), true
		}
	}
	return DirUnknown, false
}

// A Frame is one payload as it travelled, with whatever wrapped it. Its bytes
// belong to whoever produced it; a frame from a [Scanner] is valid until the
// next Scan, and [Frame.Clone] keeps it.
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
	// Dir is the direction of travel, where the source knows it.
	Dir Dir
	// Compressed says that the payload is compressed (the flag of gRPC framing).
	Compressed bool
	// Gap says that Raw is not a frame: bytes that were skipped to reach the next
	// plausible frame, or blank lines at the end, or 64 KiB of them. It has no payload.
	Gap bool
	// Flaw is what a strict peer would refuse about the wrapper, though the
	// frame could be delimited; in a gap, the fault that made it one.
	Flaw error
	// Stream numbers the stream of the connection that the frame travelled on,
	// where the connection has several: an HTTP/2 stream, or one request and
	// its response on an HTTP/1.1 connection.
	Stream int64
	// Meta is what the carrier says of the frame; nil without one.
	Meta *Meta
}

// Payload returns the bytes that carry the message: a part of Raw, or what the
// carrier took out of it.
func (f *Frame) Payload() []byte {
	if f.Meta != nil && f.Meta.Apart {
		return f.Meta.Data
	}
	return f.Raw[f.Start:f.End]
}

// Size is the length of the payload, and of all bytes of a gap.
func (f *Frame) Size() int {
	switch {
	case f.Gap:
		return len(f.Raw)
	case f.Meta != nil && f.Meta.Apart:
		return len(f.Meta.Data)
	}
	return f.End - f.Start
}

// Clone returns the frame with bytes of its own.
func (f Frame) Clone() Frame {
	f.Raw = bytes.Clone(f.Raw)
	f.Meta = f.Meta.Clone()
	return f
}
