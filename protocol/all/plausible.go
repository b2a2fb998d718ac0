package all

import (
	"errors"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// Plausible returns a function that reports whether bytes may be a payload of p or, if they
// are not whole, the beginning of one.
func Plausible(p protocol.Protocol) func(payload []byte, whole bool) bool {
	return func(payload []byte, whole bool) bool {
		switch p.Encoding() {
		case protocol.JSON:
			return (p == opaque.JSON || isContainer(payload)) && isJSON(payload, whole)
		case protocol.Protobuf:
			return whole && parses(p, payload) || !whole && beginsFields(p, payload, math.MaxInt)
		default:
			return true
		}
	}
}

// isContainer reports whether a JSON text begins as an object or an array.
func isContainer(text []byte) bool {
	var s jsonscan.Scanner
	s.Init(text)
	kind := s.Peek()
	return kind == jsonscan.Object || kind == jsonscan.Array
}

// isJSON reports whether text is JSON or, unless it is whole, how some begins.
func isJSON(text []byte, whole bool) bool {
	return jsonscan.WellFormed(text) == nil || !whole && jsonscan.IsCut(text)
}

// beginsFields reports whether a message of p, of no more than size bytes, may
// begin with wire.
func beginsFields(p protocol.Protocol, wire []byte, size int) bool {
	for len(wire) > 0 {
		num, typ, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return isCut(n)
		}
		if has := Of(p).HasField; has != nil && !has(int32(num)) {
			return false
		}
		value := protowire.ConsumeFieldValue(num, typ, wire[n:])
		if value < 0 {
			return isCut(value) && fits(typ, wire[n:], size-n)
		}
		wire = wire[n+value:]
		size -= n + value
	}
	return true
}

// fits reports whether a field's value that is cut can end within size bytes.
func fits(typ protowire.Type, value []byte, size int) bool {
	if typ != protowire.BytesType {
		return true
	}
	length, n := protowire.ConsumeVarint(value)
	return n < 0 || length <= uint64(size-n)
}

// isCut reports whether an error code of package protowire says that bytes are
// missing, rather than wrong.
func isCut(code int) bool { return errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) }
