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
	"slices"
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
