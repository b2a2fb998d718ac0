package latis

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/protocol"
)

// AppendRenamed appends payload with other ids. It calls name with each id, and name
// returns the replacement, or nil to keep it. Every other byte stays, except for the
// lengths around an id. A payload that does not parse is appended unchanged.
func (latis) AppendRenamed(dst, payload []byte, name func(protocol.Token) []byte) []byte {
	start := len(dst)
	w := walker{wire: payload}
	for from := 0; w.nextField(len(payload)); from = w.pos {
		k := kindOf(w.num)
		switch {
		case w.value == nil || w.num != idNumber && k == nil:
			dst = append(dst, payload[from:w.pos]...)
		case k == nil:
			dst = appendNamed(dst, &w, from, protocol.SpaceID, name)
		default:
			inner := renameInside(w.value, k, name)
			dst = protowire.AppendTag(dst, w.num, w.typ)
			dst = protowire.AppendBytes(dst, inner)
		}
	}
	if w.fault != nil {
		return append(dst[:start], payload...)
	}
	return dst
}

// renameInside returns the fields of a payload with other ids.
func renameInside(payload []byte, k *kind, name func(protocol.Token) []byte) []byte {
	var dst []byte
	w := walker{wire: payload}
	for from := 0; w.nextField(len(payload)); from = w.pos {
		switch f := k.field(w.num); {
		case w.value != nil && (f == requestID || f == targetID):
			dst = appendNamed(dst, &w, from, protocol.SpaceID, name)
		case w.value != nil && f == sessionID:
			dst = appendNamed(dst, &w, from, protocol.SpaceSession, name)
		default:
			dst = append(dst, payload[from:w.pos]...)
		}
	}
	if w.fault != nil {
		return payload
	}
	return dst
}

// appendNamed appends the field that w has just passed, which is an id.
func appendNamed(dst []byte, w *walker, from int, space protocol.Space, name func(protocol.Token) []byte) []byte {
	other := name(protocol.Token{Space: space, Text: w.value})
	if other == nil {
		return append(dst, w.wire[from:w.pos]...)
	}
	dst = protowire.AppendTag(dst, w.num, w.typ)
	return protowire.AppendBytes(dst, other)
}
