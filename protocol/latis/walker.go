package latis

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/protocol/protobuf"
)

// walker moves over the fields of a message in the wire format.
type walker struct {
	wire  []byte
	pos   int // after the current field
	fault *protobuf.Error

	num    protowire.Number
	typ    protowire.Type
	varint uint64 // of a varint
	value  []byte // of a length-delimited field; nil for any other
}

// nextField moves to the next field. It returns false at end, and if the field is
// malformed or extends beyond end.
func (w *walker) nextField(end int) bool {
	if w.pos >= end || w.fault != nil {
		return false
	}
	rest := w.wire[w.pos:end]
	n := 1
	if w.num, w.typ = protowire.DecodeTag(uint64(rest[0])); rest[0] >= 0x80 || w.num == 0 {
		if w.num, w.typ, n = protowire.ConsumeTag(rest); n < 0 {
			return w.fail(n)
		}
		if w.num > protowire.MaxValidNumber {
			w.fault = &protobuf.Error{Offset: w.pos, Msg: "invalid field number"}
			return false
		}
	}
	w.value = nil
	size := 0
	switch rest = rest[n:]; {
	case w.typ == protowire.BytesType && len(rest) > 0 && int(rest[0]) < min(len(rest), 0x80):
		size = 1 + int(rest[0])
		w.value = rest[1:size]
	case w.typ == protowire.BytesType:
		w.value, size = protowire.ConsumeBytes(rest)
	case w.typ == protowire.VarintType:
		w.varint, size = protowire.ConsumeVarint(rest)
	default:
		size = protowire.ConsumeFieldValue(w.num, w.typ, rest)
	}
	if size < 0 {
		return w.fail(size)
	}
	w.pos += n + size
	return true
}

// fail records an error code of package protowire.
func (w *walker) fail(code int) bool {
	w.fault = protobuf.WireError(w.pos, code)
	return false
}

// err returns the fault that ended the walk, or nil.
func (w *walker) err() error {
	if w.fault == nil {
		return nil
	}
	return w.fault
}

// inside returns a walker over the value that the walker has just passed, which ends at
// w.pos.
func (w *walker) inside() walker {
	return walker{wire: w.wire, pos: w.pos - len(w.value)}
}
