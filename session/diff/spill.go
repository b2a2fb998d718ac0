package diff

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A spill keeps messages in a temporary file.
type spill struct {
	file  *os.File
	wrote int64  // bytes in the file
	buf   []byte // bytes that follow those in the file
	err   error  // the first error; nothing is stored after it
}

const spillBuffer = 256 << 10

// appendBytes stores b and returns its position.
func (s *spill) appendBytes(b ...[]byte) int64 {
	at := s.wrote + int64(len(s.buf))
	for _, b := range b {
		s.buf = append(s.buf, b...)
	}
	if len(s.buf) >= spillBuffer && s.err == nil {
		s.err = s.flush()
	}
	return at
}

func (s *spill) flush() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "wirectl-diff-"); err != nil {
			return err
		}
		_ = os.Remove(s.file.Name()) // on Windows this fails for an open file, and removeFile removes it
	}
	n, err := s.file.Write(s.buf)
	s.wrote += int64(n)
	if s.buf = s.buf[:0]; cap(s.buf) > 4*spillBuffer {
		s.buf = nil
	}
	return err
}

// readAt reads as many of the stored bytes at a position as there are.
func (s *spill) readAt(p []byte, at int64) []byte {
	n := 0
	if s.err == nil && at < s.wrote {
		n, s.err = s.file.ReadAt(p[:min(int64(len(p)), s.wrote-at)], at)
	}
	if from := at + int64(n) - s.wrote; from >= 0 && from < int64(len(s.buf)) {
		n += copy(p[n:], s.buf[from:])
	}
	return p[:n]
}

func (s *spill) removeFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Each message is stored after a header of fixed size with the lengths of its texts and its
// payload.
const headSize = 8 + 8 + 8 + 4 + 8 + 1 + 1 + 2 + 2 + 4 + len(message{}.digest)

// put stores a message. The previous message of its exchange is at prev; -1 means none.
func (s *spill) put(m *message, prev int64, payload []byte) int64 {
	le := binary.LittleEndian
	h := make([]byte, 0, 512)
	h = le.AppendUint64(h, uint64(prev))
	h = le.AppendUint64(h, uint64(m.seq))
	h = le.AppendUint64(h, uint64(m.time.Unix()))
	h = le.AppendUint32(h, uint32(m.time.Nanosecond()))
	h = le.AppendUint64(h, uint64(len(payload)))
	h = append(h, byte(m.dir), byte(m.phase))
	h = le.AppendUint16(h, uint16(len(m.kind)))
	h = le.AppendUint16(h, uint16(len(m.label)))
	h = le.AppendUint32(h, uint32(len(m.id)))
	h = append(h, m.digest[:]...)
	h = append(append(append(h, m.kind...), m.label...), m.id...)
	return s.appendBytes(h, payload)
}

// get reads the message at a position, without its payload, and the position of the previous
// message of its exchange.
func (s *spill) get(at int64) (m message, prev int64, ok bool) {
	b := s.readAt(make([]byte, headSize+128), at)
	if len(b) < headSize {
		return m, -1, false
	}
	le := binary.LittleEndian
	prev, m.seq = int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	m.time = time.Unix(int64(le.Uint64(b[16:])), int64(le.Uint32(b[24:])))
	m.size = int(le.Uint64(b[28:]))
	m.dir, m.phase = frame.Dir(b[36]), protocol.Phase(b[37])
	kind, label := int(le.Uint16(b[38:])), int(le.Uint16(b[40:]))
	copy(m.digest[:], b[46:])
	end := headSize + kind + label + int(le.Uint32(b[42:]))
	if end > len(b) {
		if b = s.readAt(make([]byte, end), at); len(b) < end {
			return m, -1, false
		}
	}
	m.kind, m.label, m.id = string(b[headSize:headSize+kind]), string(b[headSize+kind:headSize+kind+label]), string(b[headSize+kind+label:end])
	m.spill, m.at = s, at+int64(end)
	return m, prev, true
}
