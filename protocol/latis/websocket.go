package latis

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A WebSocket is the unit's end of a WebSocket. Its binary messages hold frames, which may continue
// in the next one, or each one message of latis without a length. Answers follow the controller.
type WebSocket struct {
	head [4]byte // of a frame whose header continues in the next binary message
	have int
	left int64 // bytes of a frame that continues there
	bare atomic.Bool
}

// CopyFrames copies one binary message from the controller to dst, as frames.
func (w *WebSocket) CopyFrames(dst io.Writer, message io.Reader) error {
	var first [1]byte
	if _, err := io.ReadFull(message, first[:]); err != nil {
		if err == io.EOF { //nolint:errorlint // of an empty message
			return nil
		}
		return err
	}
	message = io.MultiReader(bytes.NewReader(first[:]), message)
	// A frame within the limit begins with 0, and a message never does.
	if w.have == 0 && w.left == 0 && first[0] != 0 {
		whole, err := io.ReadAll(io.LimitReader(message, frame.DefaultLimit+1))
		if err != nil {
			return err
		}
		var m protocol.Message
		if len(whole) <= frame.DefaultLimit && Protocol.Parse(whole, &m) == nil && len(m.ID.Text) > 0 {
			w.bare.Store(true)
			whole = append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(whole)), uint32(len(whole))), whole...)
		}
		message = io.MultiReader(bytes.NewReader(whole), message)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(boundaries{w}, dst)}, message, make([]byte, 4<<10))
	return err
}

// boundaries follows where frames begin and end.
type boundaries struct{ w *WebSocket }

func (b boundaries) Write(p []byte) (int, error) {
	for w, rest := b.w, p; len(rest) > 0; {
		if w.left > 0 {
			n := min(w.left, int64(len(rest)))
			w.left, rest = w.left-n, rest[n:]
			continue
		}
		n := copy(w.head[w.have:], rest)
		w.have, rest = w.have+n, rest[n:]
		if w.have == len(w.head) {
			w.left, w.have = int64(binary.BigEndian.Uint32(w.head[:])), 0
		}
	}
	return len(p), nil
}

// Bare reports whether the controller sends bare messages.
func (w *WebSocket) Bare() bool { return w.bare.Load() }

// SendFrames sends each frame as one binary message, since some controllers expect no more in one.
func (w *WebSocket) SendFrames(frames []byte, send func([]byte) error) error {
	for len(frames) > 0 {
		n, start := FrameSize(frames), 0
		if w.Bare() {
			start = min(4, n)
		}
		if err := send(frames[start:n]); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// FrameSize returns the size of the first frame of p, or of its beginning.
func FrameSize(p []byte) int {
	if len(p) < 4 {
		return len(p)
	}
	return int(min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))))
}
