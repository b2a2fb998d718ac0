package frame

import (
	"encoding/binary"
	"fmt"
)

// GRPC frames are gRPC's Length-Prefixed-Message: a flag byte (bit 0 means that
// the message is compressed), a 4-byte big-endian length, then the message.
var GRPC Framing = grpc{}

type grpc struct{}

const (
	grpcHeader     = 5
	grpcCompressed = 1
)

func (grpc) Name() string  { return "grpc" }
func (grpc) About() string { return "a flag byte, a 4-byte big-endian length, then the message" }

func (grpc) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	if len(data) > 0 && data[0]&^grpcCompressed != 0 {
		return malformed(fmt.Sprintf("the flag byte is 0x%02x, which is neither 0 nor 1", data[0]))
	}
	if len(data) < grpcHeader {
		return e.need(grpcHeader, "the length prefix")
	}
	e.Compressed = data[0] == grpcCompressed
	return e.sized(data, grpcHeader, uint64(binary.BigEndian.Uint32(data[1:])), limit)
}

func (grpc) Sync(data []byte, limit int) int { return syncLength(data, grpcHeader, limit) }

func (grpc) header(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(n))
}

func (grpc) trailer() string { return "" }

func (grpc) admits(payload []byte) error { return admits32("grpc", payload) }

func (grpc) exact(f *Frame) bool { return !f.Compressed }
