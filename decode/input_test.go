package decode_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
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

// What begins as zstd data is a capture only if it holds one, and if no framing is
// named. Not a byte of a stream is lost in finding that out.
func TestZstd(t *testing.T) {
	compressed := func(write func(io.Writer) error) []byte {
		var b bytes.Buffer
		z, err := pcapng.Compress(&b)
		if err == nil {
			err = errors.Join(write(z), z.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	captured := compressed(func(w io.Writer) error {
		_, err := pcapng.NewWriter(w, capture.Session{}, nil)
		return err
	})
	text := compressed(func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("{}\n", 100_000))
		return err
	})
	frames := []byte("\x28\xb5\x2f\xfd" + strings.Repeat("x", 0x28-3)) // one of 0x28 bytes
	for name, tt := range map[string]struct {
		data    []byte
		framing frame.Framing
		want    bool // a capture
	}{
		"a capture":                        {captured, nil, true},
		"a capture that is cut":            {captured[:len(captured)/2], nil, true},
		"only the magic number":            {captured[:4], nil, true},
		"a capture, and a framing":         {captured, frame.Varint, false},
		"text":                             {text, nil, false},
		"frames, and their framing":        {frames, frame.Varint, false},
		"frames, the framing not named":    {frames, nil, false},
		"frames, and one of another frame": {append(frames, captured...), frame.Varint, false},
	} {
		for how, r := range map[string]io.Reader{
			"at once":       bytes.NewReader(tt.data),
			"one byte each": iotest.OneByteReader(bytes.NewReader(tt.data)),
		} {
			in, err := decode.Open(r, decode.Config{Framing: tt.framing})
			if tt.want != (in.Capture != nil) {
				t.Errorf("%s, %s: a capture: %v, want %v (%v)", name, how, in.Capture != nil, tt.want, err)
			}
			if in.Stream == nil {
				continue
			}
			if got, err := io.ReadAll(in.Stream); err != nil || !bytes.Equal(got, tt.data) {
				t.Errorf("%s, %s: %d bytes of %d are left, %v", name, how, len(got), len(tt.data), err)
			}
		}
	}
}

// An input that fails while it is recognized has failed, even if it could be read on.
func TestFailureWhileRecognized(t *testing.T) {
	for name, content := range map[string]string{"capture": "\n\r\r\n", "ndjson": `{"seq":1}`, "stream": "{}\n{}\n"} {
		cfg := decode.Config{Workers: 1}
		in, err := decode.Open(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(content))), cfg)
		if err == nil {
			_, err = decode.Run(t.Context(), in, io.Discard, cfg, decode.NDJSON)
		}
		if !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
