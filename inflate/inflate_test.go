package inflate_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/inflate"
)

// What is compressed under a name is had back, and what is cut is an error.
func TestOpen(t *testing.T) {
	text := strings.Repeat(`{"content":"so be it"}`, 100)
	for _, tt := range []struct {
		name     string
		compress func(w io.Writer) io.WriteCloser
	}{
		{"gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
		{"x-gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
		{"deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }},
		{"deflate", func(w io.Writer) io.WriteCloser { c, _ := flate.NewWriter(w, 6); return c }},
		{"br", func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }},
		{"zstd", func(w io.Writer) io.WriteCloser { c, _ := zstd.NewWriter(w); return c }},
	} {
		if !inflate.Knows(tt.name) {
			t.Errorf("%s is not known", tt.name)
		}
		var b bytes.Buffer
		c := tt.compress(&b)
		_, _ = io.WriteString(c, text)
		_ = c.Close()
		got, err := read(tt.name, b.Bytes())
		if err != nil || got != text {
			t.Errorf("%s: %.40q, %v", tt.name, got, err)
		}
		if got, err = read(tt.name, b.Bytes()[:b.Len()/2]); err == nil {
			t.Errorf("%s, cut in the middle: %d bytes and no error", tt.name, len(got))
		}
		if _, err = read(tt.name, []byte("this is no such thing")); err == nil {
			t.Errorf("%s: text was read as if it were compressed", tt.name)
		}
	}
	if _, err := inflate.Open("identity", strings.NewReader("")); inflate.Knows("identity") || err == nil {
		t.Error("identity is taken for a compression")
	}
}

func read(name string, data []byte) (string, error) {
	r, err := inflate.Open(name, bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}
