// Package inflate undoes compressions by the names that peers give them: HTTP in
// Content-Encoding, gRPC in grpc-encoding.
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

// Known are the names of what can be undone.
var Known = []string{"gzip", "x-gzip", "deflate", "br", "zstd"}

// Knows reports whether a compression is known by that name.
func Knows(name string) bool { return slices.Contains(Known, name) }

// maxWindow bounds what zstd looks back on, and so its memory, in bytes; streamWindow
// is that of a stream, of which there may be many for long: what RFC 9659 allows.
const (
	maxWindow    = 64 << 20
	streamWindow = 8 << 20
)

// Open returns what r holds without its compression, which is one of [Known]. How
// much that is is for the reader to bound.
func Open(name string, r io.Reader) (io.ReadCloser, error) { return open(name, r, maxWindow) }

func open(name string, r io.Reader, window uint64) (io.ReadCloser, error) {
	switch name {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return deflate(bufio.NewReader(r))
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(window))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("the compression %q is not known", name)
}

// deflate reads zlib, which is what RFC 9110 means by the name, or without its
// header and sum what many take it for.
func deflate(r *bufio.Reader) (io.ReadCloser, error) {
	const method = 8 // in the lower half of the first byte
	if b, _ := r.Peek(2); len(b) == 2 && b[0]&0xf == method && (int(b[0])<<8|int(b[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
