package frame_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
)

// failure returns the fault of a stream in a framing.
func failure(t *testing.T, f frame.Framing, stream string, limit int) string {
	t.Helper()
	s := frame.NewScanner(strings.NewReader(stream), f)
	s.SetLimit(limit)
	for s.Scan() {
	}
	if s.Err() == nil {
		t.Fatalf("%s: %q has no fault", f.Name(), stream)
	}
	return s.Err().Error()
}

// Four bytes of text are named as such only where they were the length.
func TestLengthThatIsText(t *testing.T) {
	const said = "; that is the text "
	if got := failure(t, frame.Len32, `{"js`, 100); !strings.Contains(got, said+`"{\"js"`) {
		t.Errorf("len32: %s", got)
	}
	for _, tt := range []struct {
		framing frame.Framing
		stream  string
	}{
		{frame.Line, `{"jsonrpc":"2.0"}` + "\n"},
		{frame.Header, "Content-Length: 99\r\n\r\n"},
		{frame.GRPC, "\x00{\"js"},
		{frame.Varint, "proc"},
	} {
		if got := failure(t, tt.framing, tt.stream, 8); strings.Contains(got, said) {
			t.Errorf("%s: %s", tt.framing.Name(), got)
		}
	}
}

func TestRecognize(t *testing.T) {
	for data, want := range map[string]frame.Accident{
		"\x80\x00\x00\x00\x0fgrpc-status:0\r\n":   frame.GRPCWebTrailers,
		"\x80\x00\x00\x00\x0f\r\n":                frame.NoAccident,
		`0036{"correlation_id":"a","prompt":"x"}`: frame.DecimalLength,
		"\x80\x01\x0a\x7ehttp://localhost":        frame.NoAccident,
		`36:{"a":1}`:                              frame.DecimalLength,
		`1700000000 {"level":1}`:                  frame.PlainText,
		`5:{"a":1}`:                               frame.DecimalLength,
		`0{"a":1}`:                                frame.PlainText, // 0 is the length 48 as a varint
		`36` + "\n" + `{"a":1}`:                   frame.NoAccident,
	} {
		if got := frame.Recognize([]byte(data)); got != want {
			t.Errorf("%q looks like %s, want %s", data, got, want)
		}
	}
	if got := failure(t, frame.GRPC, "\x80\x00\x00\x00\x0fgrpc-status:0\r\n", 100); !strings.HasSuffix(got, "; this looks like a gRPC-Web trailers frame") {
		t.Error(got)
	}
}

// A frame that is cut is not taken for what a length and a payload may look like.
func TestAccidentOfACutFrame(t *testing.T) {
	const said = "; this looks like "
	for _, tt := range []struct {
		framing          frame.Framing
		stream, accident string
	}{
		{frame.Varint, "HTTP/1.1 200 OK\r\n", "an HTTP response"},
		{frame.Varint, "Last login: Fri Nov 20", "a shell banner"},
		{frame.Varint, "\x1f\x8b\x08\x00", "gzip data"},
		{frame.Header, "INFO: listening\r\n", "a log line"},
		{frame.Line, "Traceback (most recent call last):", "a stack trace"},
		{frame.Varint, ` {"jsonrpc":"2.0"`, ""}, // 32 bytes of JSON
		{frame.Varint, "\x1b[1,2", ""},          // and 27
		{frame.Varint, "Process started", ""},   // 80 bytes of text
		{frame.Varint, "\x0a\x0d\x0d\x0a", ""},  // protobuf
		{frame.Len32, "\x00\x00\x00\x20" + `{"jsonrpc"`, ""},
		{frame.Header, "Content-Length: 40\r\n\r\n{", ""},
		{frame.Line, `{"jsonrpc":"2.0"`, ""},
	} {
		got := failure(t, tt.framing, tt.stream, 100)
		if _, accident, _ := strings.Cut(got, said); accident != tt.accident || !strings.Contains(got, "the stream ended inside ") {
			t.Errorf("%s: %q: %s, want %q", tt.framing.Name(), tt.stream, got, tt.accident)
		}
	}
}

// What stands between two frames with header lines is placed and named, however the
// stream is cut into reads: also a log line that looks like a header field.
func TestBetweenHeaderFrames(t *testing.T) {
	const one = "Content-Length: 2\r\n\r\n{}"
	const logLine, levels = "a log line", "INFO:     Started server process [1]\n"
	for _, tt := range []struct{ between, fault, accident string }{
		{levels, "expected a header line", logLine},
		{levels + "WARNING:root:low\n", "expected a header line", logLine},
		{"Listening: 8080\n", "expected a header line", "plain text"},
		{"\n" + levels, "an empty line before the header block", logLine},
		{"\r\n", "an empty line before the header block", "nothing known"},
		{"\r\n\r\n", "an empty line before the header block", "nothing known"},
		{levels + "\r\n", "the header block has no Content-Length", logLine},
		{"Content-Type: a\n", "", ""},
		{"X-Trace: a\r\n", "", ""},
		{"X-Trace: a\nContent-Length: 2\n\n[]", "", ""},
	} {
		in := one + tt.between + one
		for how, r := range reads([]byte(in)) {
			frames, s := scan(frame.Header, r, (*frame.Scanner).Resync)
			if string(join(frames)) != in || s.Err() != nil || frames[len(frames)-1].Gap {
				t.Errorf("%q, %s: %d frames and gaps, %v", tt.between, how, len(frames), s.Err())
			}
			var fault *frame.Error
			switch found := errors.As(frames[1].Flaw, &fault); {
			case found != (tt.fault != ""):
				t.Errorf("%q, %s: the fault is %v", tt.between, how, fault)
			case found && (fault.Frame != 2 || fault.Offset != int64(len(one)) || fault.Detail != tt.fault || fault.Accident.String() != tt.accident):
				t.Errorf("%q, %s: %v", tt.between, how, fault)
			}
		}
	}
}

// A line may be cut anywhere, also inside of a character.
func TestCandidateOfCutLine(t *testing.T) {
	const line = `{"a":"é€😀"}`
	for n := 1; n < len(line); n++ {
		for _, atEOF := range []bool{false, true} {
			if !isLine(line[:n], atEOF) {
				t.Errorf("%q is not a line, at the end of the stream: %v", line[:n], atEOF)
			}
		}
	}
	for _, stream := range []string{"\"\xe2\x82\"\n", "\"\xe2\x82\n", "\"\xff\"", "\"\x01"} {
		if isLine(stream, true) {
			t.Errorf("%q is a line of text", stream)
		}
	}
}

// isLine reports whether a stream could be lines.
func isLine(stream string, atEOF bool) bool {
	for _, c := range frame.Candidates([]byte(stream), atEOF, frame.DefaultLimit) {
		if c.Framing == frame.Line {
			return true
		}
	}
	return false
}
