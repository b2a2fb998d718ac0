package decode_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A request line is known by the carrier for as long as it may be, from a file, from a
// pipe and from a recording.
func TestLongRequestLine(t *testing.T) {
	const begin, end = "GET /", " HTTP/1.1\r\n"
	for size, want := range map[int]bool{
		5000:                 true,
		carrier.HeadSize:     true,
		carrier.HeadSize + 1: false,
	} {
		request := []byte(begin + strings.Repeat("x", size-len(begin)-len(end)) + end + "Host: a\r\n\r\n")
		for how, r := range map[string]io.Reader{
			"at once":       bytes.NewReader(request),
			"one byte each": iotest.OneByteReader(bytes.NewReader(request)),
		} {
			in, err := decode.Open(r, decode.Config{})
			if err != nil || (in.Capture != nil) != want {
				t.Errorf("%d bytes, %s: in a carrier: %v, want %v (%v)", size, how, in.Capture != nil, want, err)
			}
		}
		dir := fstest.MapFS{"c2s.bin": {Data: request}, "s2c.bin": {}}
		var said []string
		_, err := decode.OpenRecording(dir, decode.Config{Notice: func(text string) { said = append(said, text) }})
		if got := strings.Contains(strings.Join(said, ""), "request line of HTTP"); err != nil || got != want {
			t.Errorf("%d bytes, a recording: %q, want a carrier: %v (%v)", size, said, want, err)
		}
	}
}

// What a carrier cannot read is skipped by the same gaps, whether it comes from a file
// or byte by byte.
func TestGapsOfCarriers(t *testing.T) {
	stream := []byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n" + strings.Repeat("{}\n", 30_000))
	var want []byte
	for how, r := range map[string]io.Reader{
		"at once":       bytes.NewReader(stream),
		"one byte each": iotest.OneByteReader(bytes.NewReader(stream)),
	} {
		in, err := decode.Open(r, decode.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		result, err := decode.Run(t.Context(), in, &out, decode.Config{Workers: 1}, decode.NDJSON)
		if err != nil || result.Faults != 1 || bytes.Count(out.Bytes(), []byte("\n")) != 3 {
			t.Errorf("%s: %+v, %v, %d records", how, result, err, bytes.Count(out.Bytes(), []byte("\n")))
		}
		if want == nil {
			want = out.Bytes()
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: it is shown otherwise", how)
		}
	}
}
