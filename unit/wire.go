package unit

import (
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/protocol/latis"
)

// appendFrame appends a message as a frame.
func appendFrame(dst []byte, m *latis.Message) []byte {
	start := len(dst)
	dst = m.Append(append(dst, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// readPing reads a message that is a PING and nothing else, as peers write it,
// without taking memory. The id borrows from the payload.
func readPing(payload []byte) (id []byte, timestamp int64, ok bool) {
	id, rest := takeBytes(payload, idNumber)
	body, rest := takeBytes(rest, protowire.Number(latis.Ping))
	if len(id) == 0 || body == nil || len(rest) != 0 || !utf8.Valid(id) {
		return nil, 0, false
	}
	if len(body) == 0 {
		return id, 0, true
	}
	if body[0] != 1<<3|byte(protowire.VarintType) {
		return nil, 0, false
	}
	v, n := protowire.ConsumeVarint(body[1:])
	return id, int64(v), n == len(body)-1
}

const idNumber protowire.Number = 1

// takeBytes takes a length-delimited field of that number off data, which
// begins with it; value is nil if it does not.
func takeBytes(data []byte, num protowire.Number) (value, rest []byte) {
	got, typ, n := protowire.ConsumeTag(data)
	if n < 0 || got != num || typ != protowire.BytesType {
		return nil, data
	}
	value, m := protowire.ConsumeBytes(data[n:])
	if m < 0 {
		return nil, data
	}
	return value, data[n+m:]
}

// frameSize returns the size of the frame that p begins with, or of what there is
// of it.
func frameSize(p []byte) int {
	if len(p) < 4 {
		return len(p)
	}
	return int(min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))))
}
