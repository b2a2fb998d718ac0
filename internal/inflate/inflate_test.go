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

	"github.com/wirectl/wirectl/internal/inflate"
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
	var wide bytes.Buffer
	z, _ := zstd.NewWriter(&wide, zstd.WithWindowSize(16<<20))
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	if _, err := read("zstd", wide.Bytes()); err == nil {
		t.Error("zstd may ask for a window of 16 MiB")
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

// A stream gives what was flushed as soon as its bytes are there, and no other bytes
// are read for it.
func TestStream(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	var ends []int
	for _, text := range []string{"one", "two"} {
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
		ends = append(ends, packed.Len())
	}
	_ = w.Close()

	s := inflate.Begin("gzip")
	defer s.Close()
	s.Add(packed.Bytes())
	for i, want := range []string{"one", "two"} {
		got, err := s.Next()
		if left := packed.Len() - ends[i]; string(got) != want || err != nil || s.Left() != left {
			t.Errorf("%q, %v, with %d bytes left; want %q and %d", got, err, s.Left(), want, left)
		}
	}
	if got, err := s.Next(); len(got) > 0 || err != nil {
		t.Errorf("where another member may follow: %q, %v", got, err)
	}
	s.EndInput()
	for range 2 {
		if !isEnd(s) {
			t.Error("the end is none")
		}
	}

	cut := inflate.Begin("gzip")
	cut.Add(packed.Bytes()[:ends[0]+2])
	for _, want := range []string{"one", "", "t"} {
		if got, err := cut.Next(); string(got) != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		if want == "" {
			cut.EndInput()
		}
	}
	if !isEnd(cut) {
		t.Error("an end that comes too early is none")
	}
	cut.Close()
	inflate.Begin("br").Close() // before anything was read
}

// A stream of brotli is whole whose last bytes do more than end it, as Node makes it.
func TestStreamToItsEnd(t *testing.T) {
	const packed = "\x8b\x04\x80data: {}\n\n\xd1\x00\x80\x5f\x52\x61\xab\x2b\x09\x51\x44\x93\x52\xc0\x25\xea\x82\x1f"
	for _, more := range []string{"", "and more"} {
		s := inflate.Begin("br")
		s.Add([]byte(packed + more))
		s.EndInput()
		var got []byte
		var err error
		for err == nil {
			var data []byte
			data, err = s.Next()
			got = append(got, data...)
		}
		if string(got) != "data: {}\n\ndata: [DONE]\n\n" || err != io.EOF {
			t.Errorf("%q, %v", got, err)
		}
		s.Close()
	}
}

func isEnd(s *inflate.Stream) bool {
	got, err := s.Next()
	return len(got) == 0 && err == io.EOF
}
