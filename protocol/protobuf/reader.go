package protobuf

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks the wire format. Its methods read at pos, but nothing from end on. Once they
// fail, err says why and the reader must not be used again.
type reader struct {
	wire []byte
	pos  int
	err  *Error
}

// fail records the fault at an offset and returns false.
func (r *reader) fail(at int, what string) bool {
	r.err = &Error{Offset: at, Msg: what}
	return false
}

// failCode records an error code of package protowire.
func (r *reader) failCode(at, code int) bool {
	r.err = WireError(at, code)
	return false
}

func (r *reader) varint(end int) (uint64, bool) {
	if r.pos < end && r.wire[r.pos] < 0x80 {
		r.pos++
		return uint64(r.wire[r.pos-1]), true
	}
	return r.longVarint(end)
}

func (r *reader) longVarint(end int) (uint64, bool) {
	v, n := protowire.ConsumeVarint(r.wire[r.pos:end])
	if n < 0 {
		return 0, r.failCode(r.pos, n)
	}
	r.pos += n
	return v, true
}

func (r *reader) tag(end int) (protowire.Number, protowire.Type, bool) {
	return r.tagUpTo(protowire.MaxValidNumber, end)
}

// tagInGroup is tag for fields in an unknown group. There the protobuf module, like
// [reader.skip], accepts every number that fits 31 bits.
func (r *reader) tagInGroup(end int) (protowire.Number, protowire.Type, bool) {
	return r.tagUpTo(math.MaxInt32, end)
}

func (r *reader) tagUpTo(limit protowire.Number, end int) (protowire.Number, protowire.Type, bool) {
	at := r.pos
	v, ok := r.varint(end)
	if !ok {
		return 0, 0, false
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber || num > limit {
		return 0, 0, r.fail(at, "invalid field number")
	}
	return num, typ, true
}

func (r *reader) fixed32(end int) (uint32, bool) {
	if end-r.pos < 4 {
		return 0, r.fail(r.pos, "truncated")
	}
	r.pos += 4
	return binary.LittleEndian.Uint32(r.wire[r.pos-4:]), true
}

func (r *reader) fixed64(end int) (uint64, bool) {
	if end-r.pos < 8 {
		return 0, r.fail(r.pos, "truncated")
	}
	r.pos += 8
	return binary.LittleEndian.Uint64(r.wire[r.pos-8:]), true
}

// length consumes a length and returns where the value that follows ends.
func (r *reader) length(end int) (int, bool) {
	at := r.pos
	n, ok := r.varint(end)
	if !ok {
		return 0, false
	}
	if n > uint64(end-r.pos) {
		return 0, r.fail(at, "truncated")
	}
	return r.pos + int(n), true
}

// bytes consumes a length-delimited value and returns it without its length.
func (r *reader) bytes(end int) ([]byte, bool) {
	stop, ok := r.length(end)
	if !ok {
		return nil, false
	}
	start := r.pos
	r.pos = stop
	return r.wire[start:stop:stop], true
}

// skip consumes the value of a field of any type.
func (r *reader) skip(num protowire.Number, typ protowire.Type, end int) bool {
	n := protowire.ConsumeFieldValue(num, typ, r.wire[r.pos:end])
	if n < 0 {
		return r.failCode(r.pos, n)
	}
	r.pos += n
	return true
}
