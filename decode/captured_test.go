package decode_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
)

var reframe = convert.Reframe(convert.EncodeConfig{})

// opened decodes whatever text holds to NDJSON.
func opened(t testing.TB, text string, cfg decode.Config) (string, decode.Result, error) {
	t.Helper()
	cfg.Reframe = reframe
	in, err := decode.Open(strings.NewReader(text), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	result, err := decode.Run(t.Context(), in, &out, cfg, decode.NDJSON)
	return out.String(), result, err
}

func record(n int, members string) string {
	return fmt.Sprintf(`{"seq":%d,"offset":0,"size":2,"framing":"line",%s}`+"\n", n, members)
}

// Where a framing is named, blank lines that begin as a capture does are lines.
func TestBlankLinesAreNoCapture(t *testing.T) {
	const lines = "\n\r\r\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	out, result, err := opened(t, lines, decode.Config{Framing: frame.Line, Workers: 1})
	if err != nil || result.Frames != 1 || string(encoded(t, out)) != lines {
		t.Errorf("%+v, %v, %s", result, err, out)
	}
	_, err = decode.Open(strings.NewReader(lines), decode.Config{})
	if !errors.Is(err, capture.ErrMalformed) {
		t.Error(err)
	}
}

// A live capture is shown as it comes, in whatever form: a record does not wait
// for the next one.
func TestLiveCaptureIsShownAsItComes(t *testing.T) {
	forms := map[string]func(w io.Writer) func(n int) error{
		"ndjson": func(w io.Writer) func(int) error {
			return func(n int) error {
				_, err := io.WriteString(w, record(n, `"payload":{}`))
				return err
			}
		},
		"pcapng": func(w io.Writer) func(int) error {
			var pw *pcapng.Writer
			return func(n int) (err error) {
				if pw == nil {
					if pw, err = pcapng.NewWriter(w, capture.Session{Framing: "line"}, nil); err != nil {
						return err
					}
				}
				rec := capture.Record{Seq: int64(n), Frame: frame.Frame{Conn: n, Raw: []byte("{}\n"), End: 2}}
				return pw.Write(&rec)
			}
		},
		"events": func(w io.Writer) func(int) error {
			events := `data: {"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n"
			return func(n int) error {
				if n == 1 {
					_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+events)
					return err
				}
				_, err := io.WriteString(w, events)
				return err
			}
		},
		"log": func(w io.Writer) func(int) error {
			entry := `{"time":1700000000,"message":{"jsonrpc":"2.0","method":"m"}}` + "\n"
			return func(n int) error {
				if n == 1 {
					_, err := io.WriteString(w, entry+entry)
					return err
				}
				_, err := io.WriteString(w, entry)
				return err
			}
		},
		"http1": func(w io.Writer) func(int) error {
			return func(int) error {
				_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				return err
			}
		},
	}
	for form, start := range forms {
		t.Run(form, func(t *testing.T) {
			in, source := io.Pipe()
			sink, out := io.Pipe()
			done := make(chan error)
			go func() {
				input, err := decode.Open(in, decode.Config{Reframe: reframe})
				if err == nil {
					_, err = decode.Run(context.Background(), input, out, decode.Config{Workers: 2}, decode.NDJSON)
				}
				out.Close()
				done <- err
			}()
			write := start(source)
			line := make([]byte, 1<<16)
			next := 1
			for i := range 3 {
				if err := write(i + 1); err != nil {
					t.Fatal(err)
				}
				n, err := sink.Read(line)
				if err != nil || !strings.HasPrefix(string(line[:n]), fmt.Sprintf(`{"seq":%d,`, next)) {
					t.Fatalf("%s %v", line[:n], err)
				}
				next += bytes.Count(line[:n], []byte("\n"))
			}
			source.Close()
			if _, err := io.Copy(io.Discard, sink); err != nil { // events have an end
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// What was skipped counts as it did when it was: one fault for a run of gaps
// with the same error, and none for blank lines.
func TestSkippedGapsAreFaults(t *testing.T) {
	gap := func(n int, fault string) string {
		return record(n, fmt.Sprintf(`"kind":"skipped","raw":"YWJj","error":%q`, fault))
	}
	text := record(1, `"raw":"e30K"`) + gap(2, "a") + gap(3, "a") + gap(4, "b") + record(5, `"raw":"e30K"`) + gap(6, "b") +
		gap(7, "blank lines, which belong to no frame")
	out, result, err := opened(t, text, decode.Config{Workers: 1})
	want := frame.Skipped{Faults: 3, Bytes: 12}
	if err != nil || result.Skipped != want || result.Faults != 3 || result.Frames != 2 {
		t.Errorf("%+v %v", result, err)
	}
	if again, second, err := opened(t, out, decode.Config{Workers: 1}); again != out || err != nil || second.Faults != 3 {
		t.Errorf("%+v %v\n%s, want\n%s", second, err, again, out)
	}
}

// The bytes of a record that names no framing are its payload.
func TestRawWithoutFraming(t *testing.T) {
	out, result, err := opened(t, `{"seq":1,"offset":0,"size":3,"raw":"YWJj"}`, decode.Config{Workers: 1})
	if err != nil || result.Faults != 0 || out != `{"seq":1,"offset":0,"size":3,"protocol":"bytes","kind":"bytes","phase":"note","summary":"abc","raw":"YWJj"}`+"\n" {
		t.Errorf("%s %+v %v", out, result, err)
	}
}

// What cannot be read of a capture is the capture's fault.
func TestCaptureErrorsAreTyped(t *testing.T) {
	for text, want := range map[string]string{
		record(1, `"raw":"e30K"`) + "x\n":                   "line 2: invalid JSON",
		record(1, `"raw":"e30K"`) + record(2, `"id":1`):     "line 2: the record has neither payload nor raw",
		record(1, `"raw":"e30K","protocol":"strange"`):      `frame 1: unknown protocol "strange"`,
		`{"seq":1,"offset":0,"framing":"odd","raw":"e30K"}`: `frame 1: unknown framing "odd"`,
		`{"seq":1,"offset":0,"payload":{}}`:                 "line 1: the framing of this payload is unknown",
	} {
		_, _, err := opened(t, text, decode.Config{Workers: 1})
		if e := (*capture.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Detail, want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The connections of several inputs are told apart.
func TestConnectionsOfSeveralInputs(t *testing.T) {
	const raw = `"raw":"e30K"`
	for text, want := range map[string][]int{
		record(1, raw) + record(2, raw): {2, 2},
		record(1, raw+`,"conn":7`) + record(2, raw+`,"conn":8`) + record(3, raw+`,"conn":7`): {2, 2_000_008, 2},
	} {
		out, _, err := opened(t, text, decode.Config{Conn: 2, Workers: 1})
		lines := strings.SplitAfter(out, "\n")
		for i, conn := range want {
			if err != nil || !strings.Contains(lines[i], fmt.Sprintf(`,"conn":%d,`, conn)) {
				t.Errorf("%s, want connection %d (%v)", lines[i], conn, err)
			}
		}
	}
}

// A capture that names ever new connections does not fill the memory.
func TestManyConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and one goroutine reads")
	}
	var text strings.Builder
	for i := range 70_000 {
		fmt.Fprintf(&text, `{"seq":%d,"conn":%d,"offset":0,"framing":"line","raw":"e30K"}`+"\n", i+1, i+1)
	}
	text.WriteString(record(70_001, `"conn":1,"raw":"e30K"`))
	if _, result, err := opened(t, text.String(), decode.Config{Workers: 1}); err != nil || result.Frames != 70_001 {
		t.Errorf("%+v %v", result, err)
	}
}

// Messages that look like records at their beginning are a stream.
func TestOpenTellsRecordsFromMessages(t *testing.T) {
	long := strings.Repeat("x", 8<<10)
	for text, want := range map[string]bool{
		`{"seq":1,"offset":0,"size":1}` + "\n":                                        false,
		`{"seq":1,"offset":0,"size":1,"raw":"YQ==","more":1}` + "\n":                  false,
		`{"seq":1,"type":"request","command":"next"}` + "\n":                          false,
		`{"seq":1,"offset":0,"payload":"` + long + `"}` + "\n":                        false,
		`{"seq":1,"offset":0,"size":1,"raw":"YQ=="}`:                                  true,
		`{"seq":1,"offset":0,"size":1,"payload":{}}` + "\n" + long:                    true,
		`{"seq":1,"offset":0,"framing":"line","payload":"` + long + `"}` + "\n":       true,
		`{"seq":1,"offset":0,"framing":"line","payl`:                                  true,
		"\n \r\n" + `{ "size" : 1, "raw": "YQ==", "offset": 0, "\u0073eq": 1}` + "\n": true,
		`{"conn": 1, "framing": "line", "payload": "` + long + `", "seq": 1}` + "\n":  true,
		`{"payload": "` + long + `", "conn": 1, "framing": "line", "seq": 1}` + "\n":  false,
		`{"id": 1, "kind": "x", "framing": "line", "payload": {}}` + "\n":             false,
		`{"seq": 1, "conn": 1, "framing": x`:                                          true,
		`["seq", 1, "offset", 0, "payload", "framing"]` + "\n":                        false,
	} {
		in, err := decode.Open(strings.NewReader(text), decode.Config{Reframe: reframe})
		if err != nil || (in.Capture != nil) != want {
			t.Errorf("%.60s: a capture: %v, want %v (%v)", text, in.Capture != nil, want, err)
		}
	}
}

// A stream is known for one as soon as it has a key that no record has: the rest of its
// first line may be long in coming.
func TestOpenWaitsForNoMoreThanItNeeds(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	opened := make(chan decode.Input)
	go func() {
		in, err := decode.Open(r, decode.Config{})
		if err != nil {
			t.Error(err)
		}
		opened <- in
	}()
	_, _ = io.WriteString(w, `{"id": 1, "jsonrpc":`)
	if in := <-opened; in.Stream == nil { // though the line goes on
		t.Errorf("%+v", in)
	}
}

// A payload that does not parse is a fault in whatever form the bytes come, also
// ahead of those that tell the protocol.
func TestFirstPayloadThatDoesNotParse(t *testing.T) {
	const broken, good = `{"jsonrpc":"2.0","id":1,`, `{"jsonrpc":"2.0","id":1,"method":"shutdown"}`
	const want = `"protocol":"jsonrpc","raw":"eyJqc29ucnBjIjoiMi4wIiwiaWQiOjEsCg==","error":"not jsonrpc: invalid JSON at byte 24`
	inputs := map[string]decode.Input{
		"stream":    {Stream: strings.NewReader(broken + "\n" + good + "\n")},
		"recording": {Capture: recordingOf(t, broken+"\n"+good+"\n", decode.Config{})},
		"pcapng":    {Capture: pcapngOf(t, broken, good)},
		"ndjson":    ndjsonOf(t, broken, good),
	}
	for form, in := range inputs {
		var out bytes.Buffer
		result, err := decode.Run(t.Context(), in, &out, decode.Config{Workers: 1}, decode.NDJSON)
		if err != nil || result.Faults != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %+v, %v\n%s", form, result, err, &out)
		}
	}
}

// recordingOf is a recording of which the controller sent that.
func recordingOf(t *testing.T, c2s string, cfg decode.Config) capture.Reader {
	t.Helper()
	r, err := decode.OpenRecording(fstest.MapFS{"c2s.bin": {Data: []byte(c2s)}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// pcapngOf is a capture of lines that names no protocol.
func pcapngOf(t *testing.T, lines ...string) capture.Reader {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{Framing: "line"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		rec := capture.Record{Seq: int64(i + 1), Frame: frame.Frame{Conn: 1, Raw: []byte(line + "\n"), End: len(line)}}
		if err := w.Write(&rec); err != nil {
			t.Fatal(err)
		}
	}
	r, err := pcapng.NewReader(&file, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ndjsonOf is records of lines that name no protocol, behind a gap.
func ndjsonOf(t *testing.T, lines ...string) decode.Input {
	t.Helper()
	text := record(1, `"kind":"skipped","raw":"Cg=="`)
	for i, line := range lines {
		text += record(i+2, fmt.Sprintf(`"raw":%q`, base64.StdEncoding.EncodeToString([]byte(line+"\n"))))
	}
	in, err := decode.Open(strings.NewReader(text), decode.Config{Reframe: reframe})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The number in the words of a fault is that of the item that shows it first, in
// whatever form the bytes come: gaps are numbered, too, and so is the other direction.
func TestFaultsNameTheNumberShown(t *testing.T) {
	const frames = "\x00\x00\x00\x02{}" + "zzzzzzzz" + "\x00\x00\x00\x02{}" + "zzzzzzzz" + "\x00\x00\x00\x02{}"
	gap := func(n int, words string) string {
		return record(n, fmt.Sprintf(`"kind":"skipped","raw":"YWJj","error":%q`, words))
	}
	records, err := decode.Open(strings.NewReader(record(7, `"payload":{}`)+gap(8, "frame 8 at byte 3: odd")+gap(9, "frame 8 at byte 3: odd")+
		record(10, `"payload":{}`)+gap(11, "frame 11 at byte 9: even")), decode.Config{Reframe: reframe})
	if err != nil {
		t.Fatal(err)
	}
	both, err := decode.OpenRecording(fstest.MapFS{"c2s.bin": {Data: []byte(frames[:6])}, "s2c.bin": {Data: []byte(frames)}}, decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	told := regexp.MustCompile(`(?m)^{"seq":(\d+),.*"error":"(frame \d+ at byte \d+:)`)
	for form, c := range map[string]struct {
		in   decode.Input
		want []string
	}{
		"stream":    {decode.Input{Stream: strings.NewReader(frames)}, []string{"12", "frame 12 at byte 6:", "14", "frame 14 at byte 20:"}},
		"recording": {decode.Input{Capture: both}, []string{"13", "frame 13 at byte 6:", "15", "frame 15 at byte 20:"}},
		"ndjson":    {records, []string{"12", "frame 12 at byte 3:", "13", "frame 12 at byte 3:", "15", "frame 15 at byte 9:"}},
	} {
		var out bytes.Buffer
		_, err := decode.Run(t.Context(), c.in, &out, decode.Config{Workers: 1, Resync: true, FirstSeq: 11}, decode.NDJSON)
		var got []string
		for _, gap := range told.FindAllStringSubmatch(out.String(), -1) {
			got = append(got, gap[1], gap[2])
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q (%v)", form, got, c.want, err)
		}
	}
}

// What is over the limit is skipped in pieces, none larger than those of a stream.
func TestLimitOfCaptures(t *testing.T) {
	payload := `"` + strings.Repeat("x", 150_000) + `"`
	text := record(1, `"payload":1`) + record(2, `"payload":`+payload) + record(3, `"payload":3`)
	for resync, want := range map[bool]decode.Result{
		false: {Frames: 1},
		true:  {Frames: 2, Faults: 1, Skipped: frame.Skipped{Faults: 1, Bytes: int64(len(payload)) + 1}},
	} {
		out, got, err := opened(t, text, decode.Config{Workers: 1, Limit: 1, Resync: resync})
		if errors.Is(err, frame.ErrTooLarge) == resync || got.Frames != want.Frames || got.Faults != want.Faults || got.Skipped != want.Skipped {
			t.Errorf("resync %v: %+v, %v", resync, got, err)
		}
		if n := strings.Count(out, `"error":"frame 2 at byte 0: length 150002 is over the limit of 1"`); resync && n != 3 {
			t.Errorf("%d pieces", n)
		}
	}
}

// alike is a capture of so many frames that are the same.
type alike struct {
	record capture.Record
	left   int
}

func (*alike) Session() *capture.Session { return &capture.Session{} }

func (a *alike) Next(rec *capture.Record) error {
	if a.left == 0 {
		return io.EOF
	}
	a.left--
	*rec = a.record
	return nil
}

// What is held at once of a capture is bounded, also where its frames have no bytes of
// their own.
func TestBatchesAreBounded(t *testing.T) {
	apart := &frame.Meta{Framing: frame.WS, Apart: true, Data: make([]byte, 64<<10)}
	for _, tt := range []struct {
		about  string
		frame  frame.Frame
		frames int
		most   int // at once
	}{
		{"nothing", frame.Frame{}, 20_000, 8 << 10},
		{"payloads apart from the bytes", frame.Frame{Meta: apart}, 100, 2},
	} {
		most, seen, before := 0, 0, 0
		cfg := decode.Config{Workers: 1, Around: func(show func()) {
			show()
			most, before = max(most, seen-before), seen
		}}
		cfg.Match = func(*decode.Item) bool { seen++; return false }
		in := decode.Input{Capture: &alike{capture.Record{Frame: tt.frame}, tt.frames}}
		_, err := decode.Run(t.Context(), in, io.Discard, cfg, decode.Raw)
		if err != nil || seen != tt.frames || most > tt.most {
			t.Errorf("%s: %d frames, up to %d at once, %v", tt.about, seen, most, err)
		}
	}
}

// All bodies are read that came at once, however large they are once they are
// decompressed, from a stream and from a recording.
func TestManyCompressedBodies(t *testing.T) {
	const count = 5
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write(bytes.Repeat([]byte("0"), 1<<20))
	_ = w.Close()
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", body.Len(), &body)
	wire := strings.Repeat(response, count)
	stream, err := decode.Open(strings.NewReader(wire), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	recording, err := decode.OpenRecording(fstest.MapFS{"s2c.bin": {Data: []byte(wire)}}, decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()
	for from, in := range map[string]decode.Input{"a stream": stream, "a recording": {Capture: recording}} {
		var raw bytes.Buffer
		result, err := decode.Run(t.Context(), in, &raw, decode.Config{Workers: 1}, decode.Raw)
		if err != nil || result.Frames != count || raw.String() != wire {
			t.Errorf("%s: %+v, %d bytes of %d, %v", from, result, raw.Len(), len(wire), err)
		}
	}
}

// What payloads tell of the protocol is said once of each, however many connections
// tell it.
func TestDetectionIsSaidOnce(t *testing.T) {
	var text strings.Builder
	for conn, method := range []string{"tools/list", "tools/list", "textDocument/hover", "tools/list"} {
		for i, m := range []string{"m", method} {
			text.WriteString(record(2*conn+i+1, fmt.Sprintf(`"conn":%d,"dir":"c2u","protocol":"jsonrpc","payload":{"jsonrpc":"2.0","id":1,"method":%q}`, conn+1, m)))
		}
	}
	var said []string
	_, _, err := opened(t, text.String(), decode.Config{Workers: 1, Notice: func(text string) { said = append(said, text) }})
	if err != nil || len(said) != 2 || !strings.HasSuffix(said[0], "mcp from here on") || !strings.HasSuffix(said[1], "lsp from here on") {
		t.Errorf("%q was said, %v", said, err)
	}
}

// Older relays recorded the messages of a WebSocket whole. Those that consist of frames
// of latis are read as these, as messages are that pass now, and come back as they were.
func TestMessagesRecordedWhole(t *testing.T) {
	const ping, prompt = "\x00\x00\x00\x06\n\x011\xf2\x01\x00", "\x00\x00\x00\x08\n\x012R\x03\n\x01x"
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{ping, prompt + ping, `{"jsonrpc":"2.0","method":"m"}`} {
		rec := capture.Record{Kind: capture.Frame, Framing: frame.WS, Frame: frame.Frame{
			Raw: []byte(message), End: len(message), Conn: 1, Dir: frame.C2U, Meta: &frame.Meta{Framing: frame.WS},
		}}
		if err := w.Write(&rec); err != nil {
			t.Fatal(err)
		}
	}
	for _, workers := range []int{1, 2} {
		out, result, err := opened(t, file.String(), decode.Config{Workers: workers})
		if err != nil || result.Frames != 4 || result.Faults != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		kinds := regexp.MustCompile(`"protocol":"latis","kind":"(PING|PROMPT_SEND)"`).FindAllStringSubmatch(out, -1)
		if len(kinds) != 3 || kinds[0][1] != "PING" || kinds[1][1] != "PROMPT_SEND" {
			t.Errorf("decoded:\n%s", out)
		}
		if back := string(encoded(t, out)); back != ping+prompt+ping+`{"jsonrpc":"2.0","method":"m"}` {
			t.Errorf("it comes back as %q", back)
		}
	}
}
