package pcapng

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture"
)

// A Random reads single frames of a capture at given positions; see [capture.Placed]. It
// ignores the rest of the file: the caller knows the session and connection of a frame.
type Random struct {
	file   io.ReaderAt
	reader Reader
	window []byte // part of the file, since frames are mostly read in order
	start  int64  // the position of window in the file
}

// windowSize is how much of the file is read at once.
const windowSize = 64 << 10

// NewRandom returns a reader of the frames of file. For the limit, see [NewReader].
func NewRandom(file io.ReaderAt, limit int) *Random {
	limit = cmp.Or(max(limit, 0), DefaultLimit)
	return &Random{file: file, reader: Reader{blocks: blocks{limit: limit}}}
}

// ReadAt reads the frame at a position in the file into rec. It leaves rec's Protocol and
// Framing as they were. The bytes are valid until the next call.
func (r *Random) ReadAt(place int64, rec *capture.Record) error {
	b := &r.reader.blocks
	b.offset = place
	head, err := r.bytes(place, blockOverhead)
	if err != nil {
		return err
	}
	switch {
	case order{big: false}.u32(head) == enhancedPacket:
		b.order = order{big: false}
	case order{big: true}.u32(head) == enhancedPacket:
		b.order = order{big: true}
	default:
		return b.malformed("the frame is no longer there")
	}
	n := b.order.u32(head[4:])
	if n < blockOverhead || uint64(n) > uint64(b.limit) {
		return b.malformed("%d is not a block length", n)
	}
	data, err := r.bytes(place, int(n))
	if err != nil {
		return err
	}
	*rec = capture.Record{Kind: capture.Frame, Protocol: rec.Protocol, Framing: rec.Framing}
	return r.reader.packet(data[8:n-4], rec)
}

// bytes returns n bytes of the file, through the window.
func (r *Random) bytes(at int64, n int) ([]byte, error) {
	if at < r.start || at+int64(n) > r.start+int64(len(r.window)) {
		if err := r.slide(at, n); err != nil {
			return nil, err
		}
	}
	return r.window[at-r.start:][:n], nil
}

// slide moves the window so that it holds the n bytes at a position. If the caller reads
// backwards, the window also includes the bytes before them.
func (r *Random) slide(at int64, n int) error {
	start := at
	if at < r.start {
		start = max(at+int64(n)-windowSize/2, 0)
		start = min(start, at)
	}
	size := max(int(at-start)+n, windowSize)
	if cap(r.window) < size || cap(r.window) > keepSize {
		r.window = make([]byte, size)
	}
	got, err := r.file.ReadAt(r.window[:size], start)
	r.start, r.window = start, r.window[:got]
	if int(at-start)+n <= got {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file ends before byte %d", at+int64(n))
	}
	return &capture.Error{Err: err, Offset: at}
}
