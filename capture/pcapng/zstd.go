package pcapng

import (
	"bufio"
	"bytes"
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
	// One at a time: no goroutines are left behind by a reader that is dropped.
	z, err := zstd.NewReader(peek, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return z, true, err
}

// Compress returns what compresses a capture with zstd on its way to w. What
// has not been flushed is lost in a crash. Closing it does not close w.
func Compress(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
