package grpc

import (
	"bufio"
	"encoding/binary"
	"io"
)

// In a call a message stands behind whether it is compressed, a byte, and its
// length as it is on streams of bytes.
const head = 1 + prefix

// messages are those of one direction of a call.
type messages struct {
	in    *bufio.Reader
	limit int64
}

// readAhead is how much of a call is read at a time.
const readAhead = 32 << 10

func newMessages(in io.Reader, limit int64) messages {
	return messages{bufio.NewReaderSize(in, readAhead), limit}
}

// next reads up to the next message, and returns its length. At the end of the
// call the error is what the reader says.
func (m messages) next() (size uint32, err error) {
	var b [head]byte
	if _, err := io.ReadFull(m.in, b[:]); err != nil {
		return 0, cut(err)
	}
	size = binary.BigEndian.Uint32(b[1:])
	switch {
	case b[0] != 0:
		return 0, statusf(internal, "a message is compressed, which was not agreed on")
	case int64(size) > m.limit:
		return 0, statusf(resourceExhausted, "a message of %d bytes is over the limit of %d", size, m.limit)
	}
	return size, nil
}

// whole reads a message.
func (m messages) whole() ([]byte, error) {
	size, err := m.next()
	if err != nil {
		return nil, err
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(m.in, message); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, cut(err)
	}
	return message, nil
}

// cut says what a call that ends inside a message is.
func cut(err error) error {
	if err == io.ErrUnexpectedEOF {
		return statusf(internal, "the call ended inside a message")
	}
	return err
}

// appendMessage appends a message as it stands in a call.
func appendMessage(dst, message []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0), uint32(len(message)))
	return append(dst, message...)
}
