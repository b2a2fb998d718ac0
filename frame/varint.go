package frame

import (
	"encoding/binary"
	"errors"
)

// Varint frames are protobuf's delimited form: the payload length as a
// base-128 varint, then the payload.
var Varint Framing = varint{}

type varint struct{}

var errPaddedVarint = errors.New("the length is a varint longer than it needs to be")

func (varint) Name() string  { return "varint" }
func (varint) About() string { return "a varint length, then the payload (protobuf delimited)" }

func (varint) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	n, size := binary.Uvarint(data)
	switch {
	case size == 0:
		return e.need(len(data)+1, "the length prefix")
	case size < 0:
		return malformed("the length is a varint of more than 64 bits")
	case padded(data[:size]):
		e.Flaw = errPaddedVarint
	}
	return e.sized(data, size, n, limit)
}

// padded reports whether a varint ends in a group of zero bits that it could
// do without.
func padded(v []byte) bool { return len(v) > 1 && v[len(v)-1] == 0 }

func (varint) Sync(data []byte, limit int) int {
	for i := range data {
		n, size := binary.Uvarint(data[i:])
		if size == 0 || size > 0 && n != 0 && n <= uint64(limit) && !padded(data[i:i+size]) {
			return i
		}
	}
	return -1
}

func (varint) header(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func (varint) trailer() string     { return "" }
func (varint) admits([]byte) error { return nil }
func (varint) exact(f *Frame) bool { return !padded(f.Raw[:f.Start]) }
