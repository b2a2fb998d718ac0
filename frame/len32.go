package frame

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Len32 frames are a 4-byte big-endian payload length, then the payload.
var Len32 Framing = len32{}

type len32 struct{}

const len32Header = 4

func (len32) Name() string  { return "len32" }
func (len32) About() string { return "a 4-byte big-endian length, then the payload" }

func (len32) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	if len(data) < len32Header {
		return e.need(len32Header, "the length prefix")
	}
	return e.sized(data, len32Header, uint64(binary.BigEndian.Uint32(data)), limit)
}

func (len32) Sync(data []byte, limit int) int { return syncLength(data, len32Header, limit) }

// syncLength finds a plausible length in the last four bytes of a header. A header of five
// bytes begins with the flag byte of gRPC.
func syncLength(data []byte, header, limit int) int {
	for i := 0; i+header <= len(data); i++ {
		n := binary.BigEndian.Uint32(data[i+header-len32Header:])
		if n != 0 && uint64(n) <= uint64(limit) && (header == len32Header || data[i]&^grpcCompressed == 0) {
			return i
		}
	}
	return max(0, len(data)-header+1)
}

func (len32) header(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func (len32) trailer() string { return "" }

func (len32) admits(payload []byte) error { return admits32("len32", payload) }

func (len32) exact(*Frame) bool { return true }

// admits32 checks that a payload's length fits in 32 bits.
func admits32(framing string, payload []byte) error {
	if uint64(len(payload)) > math.MaxUint32 {
		return fmt.Errorf("%s: a payload of %d bytes does not fit a 32-bit length", framing, len(payload))
	}
	return nil
}
