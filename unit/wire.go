package unit

import (
	"encoding/binary"

	"github.com/wirectl/wirectl/protocol/latis"
)

// appendFrame appends a message as a frame.
func appendFrame(dst []byte, m *latis.Message) []byte {
	start := len(dst)
	dst = m.Append(append(dst, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// frameSize returns the size of the frame that p begins with, or of what there is
// of it.
func frameSize(p []byte) int {
	if len(p) < 4 {
		return len(p)
	}
	return int(min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))))
}
