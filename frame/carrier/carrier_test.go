package carrier_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// A part is bytes of one direction of a connection.
type part struct {
	dir  frame.Dir
	data string
}

// show writes a frame in one line.
func show(f *frame.Frame) string {
	s := fmt.Sprintf("%s %d", f.Dir, f.Stream)
	if f.Gap {
		return fmt.Sprintf("%s gap %d: %v", f.Dir, len(f.Raw), f.Flaw)
	}
	if m := f.Meta; m != nil {
		s += " " + m.Framing
		for _, v := range []string{string(m.Signal), m.Opcode.String(), m.Encoding, m.Event, m.EventID, m.Text} {
			if v != "" {
				s += " " + v
			}
		}
		if m.Head != nil {
			s += fmt.Sprintf(" %q", m.Head.Start)
		}
	}
	if f.Flaw != nil {
		s += " (" + f.Flaw.Error() + ")"
	}
	if len(f.Payload()) > 0 {
		s += fmt.Sprintf(" %.60q", f.Payload())
	}
	return s
}

// read feeds a carrier, in reads of n bytes at most, and checks that no byte is
// lost.
func read(t testing.TB, o carrier.Options, parts []part, n func() int) []string {
	t.Helper()
	c := carrier.New(o)
	var lines []string
	var in, out [3]bytes.Buffer
	take := func(frames []frame.Frame) {
		for ; len(frames) > 0; frames = c.More() {
			for i := range frames {
				f := &frames[i]
				if f.Offset != int64(out[f.Dir].Len()) {
					t.Errorf("a frame at %d, and before it are %d bytes", f.Offset, out[f.Dir].Len())
				}
				out[f.Dir].Write(f.Raw)
				lines = append(lines, show(f))
			}
		}
	}
	for _, p := range parts {
		in[p.dir].WriteString(p.data)
		for data := []byte(p.data); len(data) > 0; {
			size := min(n(), len(data))
			take(c.Feed(p.dir, bytes.Clone(data[:size])))
			data = data[size:]
		}
	}
	for _, d := range []frame.Dir{frame.C2U, frame.U2C} {
		take(c.End(d))
		if !bytes.Equal(in[d].Bytes(), out[d].Bytes()) {
			t.Errorf("%s: the frames hold %d bytes, and there were %d", d, out[d].Len(), in[d].Len())
		}
	}
	return lines
}

func all() int  { return 1 << 30 }
func one() int  { return 1 }
func some() int { return 1 + rand.IntN(9) }

// recorded returns the two directions of a session, in the order of its timing
// if that matters to no frame.
func recorded(t testing.TB, name string) []part {
	t.Helper()
	var parts []part
	for file, dir := range map[string]frame.Dir{"c2s.bin": frame.C2U, "s2c.bin": frame.U2C} {
		data, err := fixtures.Read(name + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part{dir, string(data)})
	}
	if parts[0].dir != frame.C2U {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return parts
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// h2Frame is a frame of HTTP/2.
func h2Frame(kind, flags, stream byte, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, stream}) + payload
}

// chunks is a body in chunks.
func chunks(parts ...string) (s string) {
	for _, p := range append(parts, "") {
		s += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return s
}

const (
	upgrade = "GET /acp HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"
	agreed  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
)

// eventsHead is the block of a response whose body are events.
const eventsHead = "\x88\x0f\x10\x11text/event-stream"

var sessions = []struct {
	name  string
	parts []part
	want  []string
}{
	{"requests and responses, pipelined", []part{
		{frame.C2U, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}HEAD / HTTP/1.1\r\nHost: h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nA: b\r\n\r\n"},
		{frame.U2C, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[{}]HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\nsorry"},
	}, []string{
		`c2u 1 http "POST / HTTP/1.1" "{}"`,
		`c2u 2 http request "HEAD / HTTP/1.1"`,
		`c2u 3 http "POST / HTTP/1.1" "{}"`,
		`u2c 1 http response "HTTP/1.1 100 Continue"`,
		`u2c 1 http "HTTP/1.1 200 OK" "[{}]"`,
		`u2c 2 http response "HTTP/1.1 200 OK"`,
		`u2c 3 http response "HTTP/1.1 404 Not Found" "sorry"`,
	}},
	{"server-sent events", []part{
		{frame.C2U, "GET /sse HTTP/1.1\r\nHost: h\r\n\r\n"},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunks("event: endpoint\ndata: /messages?s=1\r\n\r\n: ", "ping\nid: 7\ndata: {\"a\":1}\n\n", "data: {\nd", "ata: }\n\n")},
	}, []string{
		`c2u 1 http request "GET /sse HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http event endpoint "/messages?s=1"`,
		`u2c 1 http 7 "{\"a\":1}"`,
		`u2c 1 http "{\n}"`,
		`u2c 1 http end`,
	}},
	{"WebSocket: fragments, a ping between them, and a close", []part{
		{frame.C2U, upgrade},
		{frame.U2C, agreed + "\x01\x01{\x89\x02hi\x80\x01}\x81\x02{}"},
		{frame.C2U, "\x81\x82\x01\x02\x03\x04zy\x88\x84abcd\x62\x8a\x0c\x0f"},
	}, []string{
		`c2u 1 http request "GET /acp HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
		`u2c 0 ws ping "hi"`,
		`u2c 0 ws text "{}"`,
		`u2c 0 ws text "{}"`,
		`c2u 0 ws text "{{"`,
		`c2u 0 ws close ok` + ` "\x03\xe8ok"`,
	}},
	{"Latis over WebSocket: len32 inside binary messages", []part{
		{frame.U2C, agreed + "\x82\x12\x00\x00\x00\x05\x0a\x01\x32\x62\x00\x00\x00\x00\x05\x0a\x01\x33\x62\x00\x82\x02\x0a\x00"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
		`u2c 0 len32 binary "\n\x012b\x00"`,
		`u2c 0 len32 binary "\n\x013b\x00"`,
		`u2c 0 ws binary "\n\x00"`,
	}},
	{"a WebSocket that is refused goes on as HTTP", []part{
		{frame.C2U, upgrade},
		{frame.U2C, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"},
		{frame.C2U, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
	}, []string{
		`c2u 1 http request "GET /acp HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 403 Forbidden"`,
		`c2u 2 http request "GET / HTTP/1.1"`,
	}},
	{"HTTP/1.1 that is none", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nsurprise"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c gap 8: frame 2 at byte 38: neither a request nor a response of HTTP/1.1`,
	}},
	{"bodies and messages that are compressed", []part{
		{frame.C2U, "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: " + fmt.Sprint(len(gzipped("{}"))) + "\r\n\r\n" + gzipped("{}")},
		{frame.C2U, upgrade},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}" + agreed},
		{frame.U2C, "\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\xc1\x05\xf2\x00\x11\x00\x00\xc1\x01\xff"},
	}, []string{
		`c2u 1 http gzip "POST / HTTP/1.1" "{}"`,
		`c2u 2 http request "GET /acp HTTP/1.1"`,
		`u2c 1 http damaged "HTTP/1.1 200 OK" (the body is not gzip: unexpected EOF) "{}"`,
		`u2c 2 http response "HTTP/1.1 101 Switching Protocols"`,
		`u2c 0 ws text deflate "Hello"`,
		`u2c 0 ws text deflate "Hello"`,
		`u2c 0 ws damaged text (frame 6 at byte 160: the compressed WebSocket message is damaged: flate: corrupt input before offset 1) "\xff"`,
	}},
	{"an upgrade to HTTP/2", []part{
		{frame.C2U, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"},
		{frame.U2C, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\x89"},
		{frame.C2U, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08"},
	}, []string{
		`c2u 1 http request "GET / HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
		`u2c 1 http response "HTTP/2 204"`,
		`c2u 1 http reset CANCEL`,
	}},
	{"an event stream that its reader leaves", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n1\r\n\n"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http "{}"`,
	}},
	{"an event stream that is cut inside an event", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: {}"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c gap 11: frame 2 at byte 80: the stream ended inside a body`,
	}},
	{"an event stream behind a byte order mark, with lines that end in CR", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\xef\xbb\xbfdata: {}\r\rid: 1\rdata: [\rdata: ]\r\n\r\n:\rdata: [1]\r\r"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http "{}"`,
		`u2c 1 http 1 "[\n]"`,
		`u2c 1 http "[1]"`,
		`u2c 1 http end`,
	}},
	{"an event stream that is cut behind CR", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\na\r\ndata: {}\r\r"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http "{}"`,
	}},
	{"HTTP/2: trailers end a body, and a message of gRPC inside", []part{
		{frame.U2C, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 1, "\x88") + h2Frame(0, 0, 1, "{}") + h2Frame(1, 5, 1, "\x00\x01a\x01b")},
		{frame.U2C, h2Frame(1, 4, 3, "\x88\x0f\x10\x10application/grpc") + h2Frame(0, 0, 3, "\x00\x00\x00\x00\x05he") + h2Frame(1, 5, 3, "\x00\x01a\x01b")},
	}, []string{
		`u2c 1 http response "HTTP/2 200"`,
		`u2c 1 http "{}"`,
		`u2c 1 http trailers ""`,
		`u2c 3 http response "HTTP/2 200"`,
		`u2c gap 16: frame 5 at byte 73: the stream 3 ended inside a gRPC message`,
		`u2c 3 http trailers ""`,
	}},
	{"HTTP/2: a body, and a message of gRPC, that the connection is cut in", []part{
		{frame.C2U, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 1, "\x83\x84") + h2Frame(0, 0, 1, "{")},
		{frame.U2C, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 3, "\x88\x0f\x10\x10application/grpc") + h2Frame(0, 0, 3, "\x00\x00\x00\x00\x02{}\x00\x00\x00\x00\x05he")},
	}, []string{
		`c2u 1 http request "POST / HTTP/2"`,
		`u2c 3 http response "HTTP/2 200"`,
		`u2c 3 grpc "{}"`,
		`c2u gap 10: frame 2 at byte 20: the stream ended inside a message of HTTP/2`,
		`u2c gap 7: frame 3 at byte 54: the stream ended inside a message of HTTP/2`,
	}},
	{"HTTP/2: events that the connection is cut between, and in", []part{
		{frame.U2C, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 1, eventsHead) + h2Frame(0, 0, 1, "data: {}\r\r")},
		{frame.C2U, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 1, eventsHead) + h2Frame(0, 0, 1, "data: {}\n\ndata: {")},
	}, []string{
		`u2c 1 http response "HTTP/2 200"`,
		`c2u 1 http response "HTTP/2 200"`,
		`c2u 1 http "{}"`,
		`c2u gap 7: frame 3 at byte 58: the stream ended inside a message of HTTP/2`,
		`u2c 1 http "{}"`,
	}},
	{"HTTP/2: a DATA frame that has no room for the padding that it says it has", []part{
		{frame.U2C, h2Frame(4, 0, 0, "") + h2Frame(1, 4, 1, "\x88") + h2Frame(0, 8, 1, "")},
	}, []string{
		`u2c 1 http response "HTTP/2 200"`,
		`u2c gap 9: frame 2 at byte 19: the padding of an HTTP/2 DATA frame is longer than the frame`,
	}},
	{"HTTP/2: where the head leaves a body open that does not come, an end tells", []part{
		{frame.C2U, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2Frame(4, 0, 0, "") + h2Frame(1, 5, 7, "\x42\x04HEAD\x84")},
		{frame.U2C, h2Frame(4, 0, 0, "") + h2Frame(1, 5, 1, "\x88") + h2Frame(1, 4, 3, "\x88") + h2Frame(0, 1, 3, "")},
		{frame.U2C, h2Frame(1, 5, 5, "\x89") + h2Frame(1, 5, 7, "\x88") + h2Frame(1, 5, 9, "\x88\x0f\x0d\x010")},
		{frame.U2C, h2Frame(1, 4, 11, "\x88") + h2Frame(0, 0, 11, "{}") + h2Frame(0, 1, 11, "")},
	}, []string{
		`c2u 7 http request "HEAD / HTTP/2"`,
		`u2c 1 http response "HTTP/2 200"`,
		`u2c 1 http end`,
		`u2c 3 http response "HTTP/2 200"`,
		`u2c 3 http end`,
		`u2c 5 http response "HTTP/2 204"`,
		`u2c 7 http response "HTTP/2 200"`,
		`u2c 9 http response "HTTP/2 200"`,
		`u2c 11 http response "HTTP/2 200"`,
		`u2c 11 http "{}"`,
	}},
	{"an event stream up to the close that is cut inside an event", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\ndata: {"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http "{}"`,
		`u2c gap 7: frame 3 at byte 62: the stream ended inside a body`,
	}},
	{"events that are compressed", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n" + gzipped("data: {}\n\ndata: two\n\n")},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`u2c 1 http gzip "{}"`,
		`u2c 1 http event gzip "two"`,
		`u2c 1 http end gzip`,
	}},
	{"events in an encoding that is not undone are one piece, and no message", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: compress\r\nContent-Length: 3\r\n\r\n{}\n"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK" "{}\n"`,
	}},
	{"a body in an encoding that is not undone is not a message", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: compress\r\nContent-Length: 3\r\n\r\n\v\x02\x80"},
	}, []string{
		`u2c 1 http response "HTTP/1.1 200 OK" "\v\x02\x80"`,
	}},
	{"lines of JSON are a message where there is one", []part{
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 3\r\n\r\n{}\n"},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 6\r\n\r\n{}\n{}\n"},
	}, []string{
		`u2c 1 http "HTTP/1.1 200 OK" "{}\n"`,
		`u2c 2 http response "HTTP/1.1 200 OK" "{}\n{}\n"`,
	}},
	{"a tunnel, in both directions", []part{
		{frame.C2U, "CONNECT api.example:443 HTTP/1.1\r\n\r\n"},
		{frame.U2C, "HTTP/1.1 200 OK\r\n\r\n"},
		{frame.C2U, "\x16\x03\x01"},
		{frame.U2C, "\x16\x03\x03"},
	}, []string{
		`c2u 1 http request "CONNECT api.example:443 HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 200 OK"`,
		`c2u gap 3: <nil>`,
		`u2c gap 3: <nil>`,
	}},
	{"an upgrade to what is not known", []part{
		{frame.C2U, "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: else\r\n\r\n"},
		{frame.U2C, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: else\r\n\r\n"},
		{frame.C2U, "hello"},
		{frame.U2C, "hello"},
	}, []string{
		`c2u 1 http request "GET / HTTP/1.1"`,
		`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
		`c2u gap 5: <nil>`,
		`u2c gap 5: <nil>`,
	}},
	{"a body that is cut", []part{
		{frame.C2U, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{}"},
	}, []string{
		`c2u gap 49: frame 1 at byte 0: the stream ended inside a body`,
	}},
}

// Every frame is what its carrier made of it, wherever the reads end.
func TestFrames(t *testing.T) {
	for _, tt := range sessions {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []func() int{all, one, some} {
				got := read(t, carrier.Options{Patient: true}, tt.parts, n)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("frames (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(tt.want, read(t, carrier.Options{}, tt.parts, all)); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

// What is not a frame is the same wherever the reads end, too.
func TestFaults(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct{ name, stream, want string }{
		{"a request that is none by its first bytes", request + "{} / HTTP/1.1\r\n\r\n", "neither a request nor a response of HTTP/1.1"},
		{"and by its first line", request + "{} / HTTP/1.1\r\na: " + strings.Repeat("a", carrier.MaxHead) + "\r\n\r\n", "neither a request nor a response of HTTP/1.1"},
		{"a head that is too long", request + "GET / HTTP/1.1\r\nHost: h\r\na: " + strings.Repeat("a", carrier.MaxHead) + "\r\n\r\n", "the head of a request or response is over 65536 bytes"},
		{"a line that is too long", chunked + "1;" + strings.Repeat("a", 16<<10) + "\r\n{", "a line between chunks is over 16384 bytes"},
	} {
		parts := []part{{frame.C2U, tt.stream + strings.Repeat("a", 100<<10)}}
		want := read(t, carrier.Options{Patient: true}, parts, all)
		if last := want[len(want)-1]; !strings.HasSuffix(last, tt.want) {
			t.Errorf("%s: %s", tt.name, last)
		}
		for _, n := range []func() int{one, func() int { return 1000 }} {
			if diff := cmp.Diff(want, read(t, carrier.Options{Patient: true}, parts, n)); diff != "" {
				t.Errorf("%s (-whole +pieces):\n%s", tt.name, diff)
			}
		}
	}
}

// The recorded connections are read in one piece as byte by byte, and hold no
// fault.
func TestRecorded(t *testing.T) {
	for _, name := range []string{"acp-ws", "jsonrpc-http-jayson", "grpc-cancellation", "grpc-route-guide"} {
		parts := recorded(t, name)
		want := read(t, carrier.Options{}, parts, all)
		for _, n := range []func() int{one, some} {
			if diff := cmp.Diff(want, read(t, carrier.Options{}, parts, n)); diff != "" {
				t.Errorf("%s (-whole +pieces):\n%s", name, diff)
			}
		}
		for _, line := range want {
			if bytes.Contains([]byte(line), []byte("frame ")) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// The gRPC messages of a recorded connection are those that were taken out of
// it stream by stream.
func TestGRPC(t *testing.T) {
	for _, name := range []string{"grpc-cancellation", "grpc-route-guide"} {
		got := map[string][]byte{}
		c := carrier.New(carrier.Options{})
		for _, p := range recorded(t, name) {
			for _, f := range c.Feed(p.dir, []byte(p.data)) {
				if f.Meta.Framing == "grpc" {
					file := fmt.Sprintf("%s/stream%d.%s.grpc", name, f.Stream, map[frame.Dir]string{frame.C2U: "c2s", frame.U2C: "s2c"}[f.Dir])
					got[file], _ = frame.Append(got[file], frame.GRPC, f.Payload())
				}
			}
		}
		for file, data := range got {
			want, err := fixtures.Read(file)
			if err != nil || !bytes.Equal(data, want) {
				t.Errorf("%s: %v, %d bytes instead of %d", file, err, len(data), len(want))
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: no messages", name)
		}
	}
}

// A connection that ends anywhere loses no byte and no frame before.
func TestCut(t *testing.T) {
	for _, tt := range sessions {
		for i, p := range tt.parts {
			for cut := range len(p.data) {
				parts := append(append([]part{}, tt.parts[:i]...), part{p.dir, p.data[:cut]})
				read(t, carrier.Options{}, parts, all)
			}
		}
	}
	for _, name := range []string{"acp-ws", "grpc-cancellation"} {
		for _, p := range recorded(t, name) {
			for cut := range len(p.data) {
				read(t, carrier.Options{}, []part{{p.dir, p.data[:cut]}}, all)
			}
		}
	}
}

// A frame of HTTP/2 that is not looked into is passed over, however long it is
// and wherever the reads end.
func TestUnknownFrame(t *testing.T) {
	long := h2Frame(4, 0, 0, "\x00\x01\x00\x00\x10\x00") + h2Frame(0x77, 0, 0, string(make([]byte, 300<<10))) + h2Frame(1, 5, 1, "\x88")
	for _, n := range []func() int{all, func() int { return 1000 }} {
		got := read(t, carrier.Options{}, []part{{frame.U2C, long}}, n)
		if diff := cmp.Diff([]string{`u2c 1 http response "HTTP/2 200"`, `u2c 1 http end`}, got); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	}
}

// What is over the limit is passed over, with its length named before memory is
// taken for it, and the frames behind it are read.
func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts []part
		want  []string
	}{
		{"a WebSocket message", []part{{frame.U2C, agreed + "\x81\x7e\x01\x00" + string(make([]byte, 256)) + "\x81\x02{}"}}, []string{
			`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
			`u2c gap 260: frame 2 at byte 77: length 256 is over the limit of 99`,
			`u2c 0 ws text "{}"`,
		}},
		{"a WebSocket message that is cut", []part{{frame.U2C, agreed + "\x81\x7f\x00\x00\x00\x01\x00\x00\x00\x00abc"}}, []string{
			`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
			`u2c gap 13: frame 2 at byte 77: length 4294967296 is over the limit of 99`,
		}},
		{"an event", []part{{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\ndata: " + string(make([]byte, 100)) + "\n\n"}}, []string{
			`u2c 1 http response "HTTP/1.1 200 OK"`,
			`u2c 1 http "{}"`,
			`u2c gap 108: frame 3 at byte 62: length 100 is over the limit of 99`,
		}},
		{"a request", []part{{frame.C2U, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + string(make([]byte, 100)) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n"}}, []string{
			`c2u 1 http request "POST / HTTP/1.1" (frame 1 at byte 0: length 100 is over the limit of 99)`,
			"c2u gap 100: frame 1 at byte 0: length 100 is over the limit of 99",
			`c2u 2 http request "GET / HTTP/1.1"`,
		}},
		{"a chunked body", []part{{frame.U2C, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + string(make([]byte, 100)) + "\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"}}, []string{
			`u2c 1 http response "HTTP/1.1 200 OK" (frame 1 at byte 0: a payload is over the limit of 99)`,
			"u2c gap 103: frame 1 at byte 0: a payload is over the limit of 99",
			"u2c gap 8: frame 1 at byte 0: a payload is over the limit of 99",
			`u2c 2 http response "HTTP/1.1 204 No Content"`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []func() int{all, one, some} {
				if diff := cmp.Diff(tt.want, read(t, carrier.Options{Limit: 99}, tt.parts, n)); diff != "" {
					t.Errorf("frames (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// What comes after the last blank line of a stream of events is no event: readers discard it.
func TestUnfinishedEvent(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for text, want := range map[string][]string{
		"data: {}\n\ndata: [DONE]\n": {"u2c gap 13: frame 3 at byte %d: the event stream ended inside an event: a blank line has to follow it"},
		"data: {}\n\ndata: {\"a\":":  {"u2c gap 11: frame 3 at byte %d: the event stream ended inside an event: a blank line has to follow it"},
		"data: {}\n\n: done\n":       nil,
		"data: {}\r\rretry: 1\r":     nil,
	} {
		head := head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(text))
		all := []string{`u2c 1 http response "HTTP/1.1 200 OK"`, `u2c 1 http "{}"`}
		for _, gap := range want {
			all = append(all, fmt.Sprintf(gap, len(head)+len("data: {}\n\n")))
		}
		all = append(all, "u2c 1 http end", `u2c 2 http response "HTTP/1.1 204 No Content"`)
		if diff := cmp.Diff(all, read(t, carrier.Options{}, []part{{frame.U2C, head + text + "HTTP/1.1 204 No Content\r\n\r\n"}}, one)); diff != "" {
			t.Errorf("%q: frames (-want +got):\n%s", text, diff)
		}
	}
}

// However many frames a message may be taken for, they do not take much more
// memory than the message does.
func TestManyFramesWithin(t *testing.T) {
	for _, tt := range []struct {
		o     carrier.Options
		parts []part
		want  []string
	}{
		{carrier.Options{}, []part{{frame.U2C, agreed + "\x82\x7f\x00\x00\x00\x00\x00\x10\x00\x00" + string(make([]byte, 1<<20))}}, []string{
			`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
			fmt.Sprintf("u2c 0 ws binary %.60q", make([]byte, 60)),
		}},
		{carrier.Options{Framing: frame.Len32}, []part{{frame.U2C, agreed + "\x82\x7f\x00\x00\x00\x00\x00\x10\x00\x00" + string(make([]byte, 1<<20))}}, []string{
			`u2c 1 http response "HTTP/1.1 101 Switching Protocols"`,
			"u2c 0 ws binary (frame 3 at byte 1048663: a WebSocket message that does not consist of len32 frames, 16384 at most)" + fmt.Sprintf(" %.60q", make([]byte, 60)),
		}},
	} {
		if diff := cmp.Diff(tt.want, read(t, tt.o, tt.parts, all)); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	}
}

// What the streams of a connection hold of events that are not whole is bounded
// over all of them.
func TestHeldEvents(t *testing.T) {
	const limit = 1 << 20
	half := "data: " + string(make([]byte, limit/2))
	for _, tt := range []struct {
		about, end string
		want       bool // all are read
	}{
		{"events that do not end", "", false},
		{"events that end", "\n\n", true},
	} {
		c := carrier.New(carrier.Options{Kind: carrier.H2, Limit: limit})
		var faults []error
		for id := range byte(20) {
			id = 2*id + 1
			wire := h2Frame(1, 4, id, eventsHead) + h2Frame(0, 0, id, half) + h2Frame(0, 0, id, tt.end)
			for _, f := range c.Feed(frame.U2C, []byte(wire)) {
				if f.Flaw != nil {
					faults = append(faults, f.Flaw)
				}
			}
		}
		if (len(faults) == 0) != tt.want {
			t.Errorf("%s: faults are %v", tt.about, faults)
		}
	}
}

func TestDetect(t *testing.T) {
	for head, want := range map[string]carrier.Kind{
		"POST /x HTTP/1.1\r\n":                                      carrier.HTTP1,
		"HTTP/1.1 200 OK\r\n":                                       carrier.HTTP1,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                          carrier.H2,
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00": carrier.H2,
		"\x00\x00\x00\x05\x0a\x01\x32\x62\x00":                      carrier.Plain,
		`{"jsonrpc":"2.0"}` + "\n":                                  carrier.Plain,
		"GET a life\n":                                              carrier.Plain,
		"PROPFIND / HTTP/1.0\r\n":                                   carrier.HTTP1,
		"ERROR / HTTP/1.2\n":                                        carrier.Plain,
		"Content-Length: 2\r\n\r\n{}":                               carrier.Plain,
	} {
		if g := carrier.Detect([]byte(head), true); g.Kind != want {
			t.Errorf("%q is taken for %s, and is %s", head, g.Kind, want)
		}
		for n := range len(head) {
			if g := carrier.Detect([]byte(head[:n]), false); !g.More && g.Kind != want {
				t.Errorf("%q is taken for %s, and may be %s", head[:n], g.Kind, want)
			}
		}
	}
}
