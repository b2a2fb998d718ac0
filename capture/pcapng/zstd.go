package pcapng

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a compressed capture may require.
const maxWindow = 64 << 20

func isZstd(data []byte) bool { return bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")) }

// inflated returns the decompressed stream of r, and whether it was compressed.
func inflated(r io.Reader) (io.Reader, bool, error) {
	peek := bufio.NewReaderSize(r, 16)
	if head, _ := peek.Peek(4); !isZstd(head) {
		return peek, false, nil
	}
	from := &source{r: peek}
	// Concurrency 1 starts no goroutines, so a reader that is dropped leaves none running.
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &inflater{z, from}, true, err
}

// InZstd reports whether r, which must begin as zstd data does, contains a capture. If r is
// cut before that is known, it returns true. It reads no more than necessary.
func InZstd(r io.Reader) bool {
	in, _, err := inflated(r)
	if err != nil {
		return false
	}
	var head [len(magic)]byte
	n, err := io.ReadFull(in, head[:])
	return string(head[:n]) == magic[:n] && !errors.Is(err, errDamaged)
}

// errDamaged is the error for invalid zstd data.
var errDamaged = errors.New("the compression is damaged")

// An inflater decompresses. It distinguishes damaged data from errors of the source.
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

// A source remembers the last read error, except io.EOF.
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

// Compress returns a writer that compresses a capture with zstd and writes it to w. Data that
// has not been flushed is lost in a crash. Closing it does not close w.
func Compress(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
