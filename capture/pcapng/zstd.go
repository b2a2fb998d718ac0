package pcapng

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a compressed capture may ask for.
const maxWindow = 64 << 20

func isZstd(data []byte) bool { return bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")) }

// inflated returns the stream that r holds, and whether it was compressed.
func inflated(r io.Reader) (io.Reader, bool, error) {
	peek := bufio.NewReaderSize(r, 16)
	if head, _ := peek.Peek(4); !isZstd(head) {
		return peek, false, nil
	}
	from := &source{r: peek}
	// One at a time: no goroutines are left behind by a reader that is dropped.
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &inflater{z, from}, true, err
}

// InZstd reports whether r, which begins as zstd data does, holds a capture: one that
// is cut before it tells counts as one. It reads no more than it needs to tell.
func InZstd(r io.Reader) bool {
	in, _, err := inflated(r)
	if err != nil {
		return false
	}
	var head [len(magic)]byte
	n, err := io.ReadFull(in, head[:])
	return string(head[:n]) == magic[:n] && !errors.Is(err, errDamaged)
}

// errDamaged is the error of what is not zstd data.
var errDamaged = errors.New("the compression is damaged")

// An inflater decompresses, and tells what is wrong with the data from what is
// wrong with reading it.
type inflater struct {
	z    *zstd.Decoder
	from *source
}

func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.z.Read(p)
	if err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || i.from.err != nil {
		return n, err
	}
	return n, fmt.Errorf("%w: %w", errDamaged, err)
}

// A source keeps the error that a read of it had, other than its end.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// Compress returns what compresses a capture with zstd on its way to w. What
// has not been flushed is lost in a crash. Closing it does not close w.
func Compress(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
