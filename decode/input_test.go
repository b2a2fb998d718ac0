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
