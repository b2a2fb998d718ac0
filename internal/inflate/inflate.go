// Package inflate decompresses data. The compressions are named as in Content-Encoding of
// HTTP and grpc-encoding of gRPC.
package inflate

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Known are the names of the known compressions.
var Known = []string{"gzip", "x-gzip", "deflate", "br", "zstd"}

// Knows reports whether a compression is known.
func Knows(name string) bool { return slices.Contains(Known, name) }

// maxWindow is the bound of RFC 9659 on the window of zstd, in bytes. The decoder allocates what
// the first bytes of the data ask for, however short the data is.
const maxWindow = 8 << 20

// Open returns a reader that decompresses r. The name is one of [Known]. Callers must bound
// how much they read.
func Open(name string, r io.Reader) (io.ReadCloser, error) {
	switch name {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return deflate(bufio.NewReader(r))
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("unknown compression %q", name)
}

// deflate reads zlib, which RFC 9110 calls deflate, or plain deflate, which many
// implementations send.
func deflate(r *bufio.Reader) (io.ReadCloser, error) {
	const method = 8 // the lower half of the first byte
	if b, _ := r.Peek(2); len(b) == 2 && b[0]&0xf == method && (int(b[0])<<8|int(b[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
