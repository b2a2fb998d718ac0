package pcapng

import (
	"errors"
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// blocks cuts a stream into blocks.
type blocks struct {
	r     io.Reader
	limit int
	order order

	buf        []byte
	head, tail int   // buf[head:tail] is read and not yet returned
	offset     int64 // the position of buf[head] in the stream
	size       int   // of the current block
	readErr    error
}

const (
	readSize = 256 << 10 // bytes per read
	keepSize = 4 * readSize
)

// nextBlock returns the type and the body of the next block, which are valid until the
// next call. At a clean end, between two blocks, the error is io.EOF.
func (b *blocks) nextBlock() (kind uint32, body []byte, err error) {
	b.head += b.size
	b.offset += int64(b.size)
	b.size = 0
	if !b.need(blockOverhead) {
		return 0, nil, b.ended()
	}
	n, err := b.length()
	if err != nil {
		return 0, nil, err
	}
	if !b.need(n) {
		return 0, nil, b.ended()
	}
	data := b.buf[b.head : b.head+n]
	if again := b.order.u32(data[n-4:]); int64(again) != int64(n) {
		return 0, nil, b.malformed("a block of %d bytes ends with the length %d", n, again)
	}
	b.size = n
	return b.order.u32(data), data[8 : n-4], nil
}

// buffered reports whether the next record, or the end of the stream, has been read. It does
// not look past a section header, which may change the byte order.
func (b *blocks) buffered() bool {
	rest := b.buf[b.head+b.size : b.tail]
	for len(rest) >= blockOverhead {
		kind, n := b.order.u32(rest), b.order.u32(rest[4:])
		switch {
		case kind == sectionHeader || n < blockOverhead || uint64(n) > uint64(len(rest)):
			return false
		case kind == enhancedPacket:
			return true
		}
		rest = rest[n:]
	}
	return b.readErr != nil
}

// length returns the length of the current block. Its first 12 bytes must be in the buffer. A
// section header sets the byte order up to the next section header.
func (b *blocks) length() (int, error) {
	head := b.buf[b.head:b.tail]
	if b.order.u32(head) == sectionHeader { // the same in both byte orders
		if err := b.setOrder(head); err != nil {
			return 0, err
		}
	}
	n := b.order.u32(head[4:])
	switch {
	case n < blockOverhead || n%4 != 0:
		return 0, b.malformed("%d is not a block length", n)
	case uint64(n) > uint64(b.limit):
		return 0, &capture.Error{
			Err: capture.ErrTooLarge, Offset: b.offset,
			Detail: fmt.Sprintf("a block of %d bytes, and the limit is %d", n, b.limit),
		}
	}
	return int(n), nil
}

func (b *blocks) setOrder(head []byte) error {
	for _, o := range []order{{big: false}, {big: true}} {
		if o.u32(head[8:]) == byteOrderMagic {
			b.order = o
			return nil
		}
	}
	return b.malformed("%#x is not a byte-order magic", head[8:12])
}

// foreign returns the error for a stream that does not begin with a section header.
func (b *blocks) foreign(packed bool) error {
	e := &capture.Error{Err: capture.ErrForeign, Offset: b.offset}
	a := frame.Recognize(b.buf[b.head:b.tail])
	switch {
	case packed: // only captures are decompressed
		e.Detail = fmt.Sprintf("there is %s in the zstd data: decompress it first (zstd -dc FILE | wirectl decode)", a)
	case a != frame.NoAccident:
		e.Detail = "this looks like " + a.String()
	}
	return e
}

func (b *blocks) malformed(format string, args ...any) error {
	return &capture.Error{Err: capture.ErrMalformed, Offset: b.offset, Detail: fmt.Sprintf(format, args...)}
}

// ended returns the error for a stream that ends too early, and io.EOF if it ends between two
// blocks.
func (b *blocks) ended() error {
	rest := b.tail - b.head
	switch {
	case b.readErr == io.EOF && rest == 0:
		return io.EOF
	case b.readErr == io.EOF || errors.Is(b.readErr, io.ErrUnexpectedEOF):
		e := &capture.Error{Err: capture.ErrCut, Offset: b.offset, Detail: "the compression ends early"}
		if rest > 0 {
			e.Detail = fmt.Sprintf("the last %d bytes are not a whole block", rest)
		}
		return e
	case errors.Is(b.readErr, errDamaged):
		return b.malformed("%v", b.readErr)
	}
	return &capture.Error{Err: b.readErr, Offset: b.offset}
}

// need reads until n bytes are available. It returns false if the stream ends first. The
// buffer grows as bytes arrive, not by the length that a block claims.
func (b *blocks) need(n int) bool {
	for empty := 0; b.tail-b.head < n; {
		if b.readErr != nil {
			return false
		}
		b.makeRoom(n)
		var got int
		got, b.readErr = b.r.Read(b.buf[b.tail:])
		b.tail += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == 100 && b.readErr == nil {
			b.readErr = io.ErrNoProgress
		}
	}
	return true
}

// makeRoom makes room for the next read, if n bytes are needed in total.
func (b *blocks) makeRoom(n int) {
	rest := b.tail - b.head
	size := len(b.buf)
	switch {
	case rest == size:
		size = max(readSize, min(2*size, max(n, readSize)))
	case size > keepSize && n <= readSize && rest < readSize:
		size = readSize
	case b.tail < size && (b.head == 0 || b.head+n <= size):
		return
	}
	buf := b.buf
	if size != len(buf) {
		buf = make([]byte, size)
	}
	b.tail = copy(buf, b.buf[b.head:b.tail])
	b.head, b.buf = 0, buf
}
