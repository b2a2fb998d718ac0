package all_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// detect lets a guess see a stream that arrives in pieces of the given size,
// and returns what it took it for and how much it needed.
func detect(g all.Guess, stream string, size int) (framing, name string, used int) {
	for used = min(size, len(stream)); !g.Detect([]byte(stream[:used]), used == len(stream)); {
		used = min(used+size, len(stream))
	}
	framing, name = "none", "none"
	if g.Framing != nil {
		framing = g.Framing.Name()
	}
	if g.Protocol != nil {
		name = g.Protocol.Name()
	}
	return framing, name, used
}

// families has what the fixtures of a folder are, by how its name begins. The
// first payload tells the protocol, or the family.
var families = []struct{ folder, framing, protocol string }{
	{"latis-echo-grpc", "grpc", "latis"},
	{"latis-echo-varint", "varint", "latis"},
	{"latis-", "len32", "latis"},
	{"rlm-", "len32", "rlm"},
	{"theory-", "line", "theory"},
	{"nexus-errors/c2s", "line", "jsonrpc"}, // the first line is not JSON, and has the mark
	{"nexus-calls/c2s", "line", "nexus"},    // the first method is of one protocol only
	{"mcp-go-sdk/c2s", "line", "mcp"},
	{"mcp-cancel/c2s", "line", "mcp"}, // initialize names a version of one protocol only
	{"mcp-everything/c2s", "line", "mcp"},
	{"nexus-", "line", "jsonrpc"},
	{"mcp-", "line", "jsonrpc"},
	{"acp-", "line", "jsonrpc"},
	{"lsp-", "header", "jsonrpc"},
	{"dap-", "header", "dap"},
	{"grpc-", "grpc", "protobuf"},
}

// Every fixture is recognized, and the same in whichever pieces it arrives.
func TestDetectFixtures(t *testing.T) {
	for _, name := range fixtures.Files() {
		stream, err := fixtures.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(name, f.folder) || len(stream) == 0 {
				continue
			}
			for _, size := range []int{1, 7, 4096, len(stream)} {
				framing, p, _ := detect(all.Guess{}, string(stream), size)
				if framing != f.framing || p != f.protocol {
					t.Errorf("%s in pieces of %d is %s, %s; want %s, %s", name, size, framing, p, f.framing, f.protocol)
				}
			}
			break
		}
	}
}

func TestDetect(t *testing.T) {
	for _, tt := range []struct{ comment, stream, framing, protocol string }{
		{"nothing", "", "none", "none"},
		{"JSON of no protocol", "{\"a\":1}\n", "line", "json"},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"m"}]` + "\n", "line", "jsonrpc"},
		{"an array that is none", "[1,2,3]\n", "line", "json"},
		{"a last line without LF", `{"jsonrpc":"2.0","id":1,"method":"m"}`, "line", "jsonrpc"},
		{"a line that is cut", `{"jsonrpc":"2.0","id":1,`, "line", "jsonrpc"},
		{"a log line before the messages", "[INFO] listening\n{\"jsonrpc\":\"2.0\"}\n", "line", "json"},
		{"a name that looks like rlm in JSON-RPC", `{"jsonrpc":"2.0","id":1,"method":"correlation_id"}` + "\n", "line", "jsonrpc"},
		{"an event of something else", `{"kind":"Event","apiVersion":"v1"}` + "\n", "line", "json"},
		{"a broken WireRequest", "\x00\x00\x00\x28" + `{"correlation_id":"e","prompt":"","z":1}`, "len32", "rlm"},
		{"a payload that is cut", "\x00\x00\x10\x00" + `{"correlation_id":"e","prompt":"`, "len32", "rlm"},
		{"header names in lower case", "content-length: 2\r\n\r\n{}", "header", "json"},
		{"a header behind another", "Content-Type: x\r\nContent-Length: 2\r\n\r\n{}", "header", "json"},
		{"an empty gRPC message", "\x00\x00\x00\x00\x00", "grpc", "protobuf"},
		{"empty gRPC messages before another", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x08\x01", "grpc", "protobuf"},
		{"a compressed gRPC message", "\x01\x00\x00\x00\x04\x1f\x8b\x08\x00", "grpc", "protobuf"},
		{"an empty frame before another", "\x00\x00\x00\x00\x00\x00\x00\x05\x0a\x012\x62\x00", "len32", "latis"},
		{"a varint length that is a digit, and LF", "5\n" + "3" + strings.Repeat("x", 51), "varint", "protobuf"},
		{"a header whose length is none", "Content-Length: 46.0\r\n\r\n{\"a\":1}" + strings.Repeat(" ", 100), "header", "json"},
		{"a header whose length is over any limit", "Content-Length: 9223372036854775808\r\n\r\n{}" + strings.Repeat(" ", 100), "header", "json"},
		{"a length over the limit, before JSON", "\x01\x31\x2d\x40" + `{"jsonrpc":"2.0","id":1,` + strings.Repeat(" ", 100), "len32", "jsonrpc"},
		{"JSON that ends in NUL", "{\"id\":1,\"method\":\"Browser.getVersion\"}\x00{\"id\":2,\"method\":\"Browser.close\"}\x00", "nul", "cdp"},
		{"an answer that ends in NUL", "{\"id\":1,\"result\":{}}\x00", "nul", "json"},
		{"text that ends in NUL", "a text\x00another\x00", "none", "none"},
		{"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "none", "none"},
		{"HTTP", "HTTP/1.1 200 OK\r\n\r\n", "none", "none"},
		{"UTF-16", "\xff\xfe{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", "none", "none"},
		{"noise", "\xfe\xdc\xba\x98\x76\x54", "none", "none"},
	} {
		for _, size := range []int{1, max(1, len(tt.stream))} {
			if framing, p, _ := detect(all.Guess{}, tt.stream, size); framing != tt.framing || p != tt.protocol {
				t.Errorf("%s, in pieces of %d, is %s, %s; want %s, %s", tt.comment, size, framing, p, tt.framing, tt.protocol)
			}
		}
	}
}

// What is named is not detected, also if it does not fit.
func TestDetectTheRest(t *testing.T) {
	for _, tt := range []struct {
		comment           string
		guess             all.Guess
		stream            string
		framing, protocol string
	}{
		{"framing, JSON", all.Guess{Framing: frame.Line}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n", "line", "jsonrpc"},
		{"framing, an HTTP response", all.Guess{Framing: frame.Len32}, "HTTP/1.1 200 OK\r\n\r\n", "len32", "bytes"},
		{"framing, a payload of noise", all.Guess{Framing: frame.Len32}, "\x00\x00\x00\x02\xff\xff", "len32", "bytes"},
		{"framing, the first line not text", all.Guess{Framing: frame.Line}, "\x01\n{}\n", "line", "json"},
		{"protocol", all.Guess{Protocol: jsonrpc.MCP}, "\x00\x00\x00\x02{}", "len32", "mcp"},
		{"protocol, a line that is cut", all.Guess{Protocol: jsonrpc.MCP}, `{"jsonrpc":`, "line", "mcp"},
		{"protocol, bytes", all.Guess{Protocol: opaque.Bytes}, "\x00\x00\x00\x05\x0a\x012\x62\x00", "len32", "bytes"},
		{"limit", all.Guess{Limit: 30_000_000}, "\x01\x31\x2d\x40\x0a\x011\x52\xb8\xda\xc4\x09\x0a\xb4\xda\xc4\x09" + strings.Repeat("x", 100), "len32", "latis"},
		{"both", all.Guess{Framing: frame.Varint, Protocol: opaque.JSON}, "{}\n", "varint", "json"},
	} {
		for _, size := range []int{1, len(tt.stream)} {
			if framing, p, _ := detect(tt.guess, tt.stream, size); framing != tt.framing || p != tt.protocol {
				t.Errorf("%s, in pieces of %d: %s, %s; want %s, %s", tt.comment, size, framing, p, tt.framing, tt.protocol)
			}
		}
	}
}

// Detection decides on the first frame, or 64 KiB.
func TestDetectDoesNotWait(t *testing.T) {
	line := `{"jsonrpc":"2.0","id":1,"method":"m"}` + "\n"
	if _, _, used := detect(all.Guess{}, line+line, 1); used != len(line) {
		t.Errorf("needed %d bytes, and the first frame has %d", used, len(line))
	}
	long := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 1<<20) + "\"}\n"
	framing, _, used := detect(all.Guess{}, long, 8192)
	if framing != "line" || used > frame.DetectSize {
		t.Errorf("took %s after %d bytes, want line after no more than %d", framing, used, frame.DetectSize)
	}
}

// A first frame that is whole decides, also where no protocol knows its payload,
// as soon as nothing else is possible any more.
func TestDetectUnknownDoesNotWait(t *testing.T) {
	request := `{"jsonrpc":"2.0","id":1,"method":"m"}`
	for _, tt := range []struct {
		comment            string
		guess              all.Guess
		stream             string
		used               int
		framing, protocols string
	}{
		{"text behind a length", all.Guess{}, "\x00\x00\x00\x05hello\x00\x00\x00\x05world", 9, "len32", "bytes"},
		{"bytes that are to be bytes", all.Guess{Protocol: opaque.Bytes}, "\x00\x00\x00\x05hello\x00\x00\x00\x05world", 9, "len32", "bytes"},
		{"text instead of JSON", all.Guess{Protocol: jsonrpc.MCP}, "\x00\x00\x00\x05hello\x00\x00\x00\x05world", 9, "len32", "mcp"},
		{"bytes that cannot be a message of gRPC", all.Guess{}, "\x00\x00\x00\x05\x01\x02\x03\xff\xfe\x00\x00\x00\x01\x02", 9, "len32", "bytes"},
		{"bytes that may begin one, and a second frame", all.Guess{}, "\x00\x00\x00\x04\x01\x0a\x7f\x80\x00\x00\x00\x01\x02\x00", 13, "len32", "bytes"},
		{"a message of gRPC", all.Guess{}, "\x00\x00\x00\x01\x04\x0a\xff\x01" + strings.Repeat("\xff", 300), 265, "grpc", "bytes"},
		{"text behind a byte", all.Guess{}, "\x05hello\x05world", 6, "varint", "bytes"},
		{"text behind headers", all.Guess{}, "Content-Length: 5\r\n\r\nhelloContent-Length: 5\r\n\r\n", 26, "header", "json"},
		{"broken JSON behind a length that is a digit", all.Guess{}, "2{\"correlation_id\":" + strings.Repeat(" ", 31) + "2", 51, "varint", "rlm"},
		{"two short lines", all.Guess{}, "ok\nyes\n" + request, 7, "line", "json"},
		{"JSON that is written over several lines", all.Guess{}, "{\n \"a\": 1\n}\n", 10, "line", "json"},
		{"Latin-1 in a line of JSON", all.Guess{}, "{\"a\":\"caf\xe9\"}\n" + request, 13, "line", "json"},
		{"a line of a log in colour", all.Guess{}, "\x1b[32mINFO\x1b[0m ready\n" + request, 20, "line", "json"},
		{"an empty frame of a framing that is named", all.Guess{Framing: frame.GRPC}, "\x00\x00\x00\x00\x00\x00", 5, "grpc", "protobuf"},
	} {
		framing, p, used := detect(tt.guess, tt.stream, 1)
		if framing != tt.framing || p != tt.protocols || used != tt.used {
			t.Errorf("%s: %s, %s after %d bytes; want %s, %s after %d", tt.comment, framing, p, used, tt.framing, tt.protocols, tt.used)
		}
		if f, q, _ := detect(tt.guess, tt.stream, len(tt.stream)); f != framing || q != p {
			t.Errorf("%s: %s, %s; in one piece %s, %s", tt.comment, framing, p, f, q)
		}
	}
}

func TestGuessString(t *testing.T) {
	for _, tt := range []struct {
		guess        all.Guess
		stream, want string
	}{
		{all.Guess{}, "\x00\x00\x00\x05\x0a\x012\x62\x00", `len32 framing (it begins with the length 5), latis protocol (the first message is "STATE_GET")`},
		{all.Guess{Framing: frame.GRPC}, "\x00\x00\x00\x00\x00", "protobuf protocol (the first message is empty)"},
		{all.Guess{Framing: frame.GRPC}, "\x02\x00\x00\x00\x01\x00", "protobuf protocol (the usual case, as the first message does not tell)"},
	} {
		g := tt.guess
		g.Detect([]byte(tt.stream), true)
		if g.String() != tt.want {
			t.Errorf("%s, want %s", g.String(), tt.want)
		}
	}
}

// Whatever a stream is, detection ends with it, says the same in whichever
// pieces it arrives, and has a protocol for a framing that is found.
func FuzzDetect(f *testing.F) {
	for _, dir := range fixtures.VectorDirs() {
		vectors, err := fixtures.Vectors(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			f.Add(v.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		var g all.Guess
		if !g.Detect(head, true) {
			t.Fatal("wants more than all of the stream")
		}
		checkSame(t, &g, head)
		if g.Framing == nil {
			return
		}
		if g.Protocol == nil || g.String() == "" {
			t.Fatalf("%s framing, without a protocol or a reason", g.Framing.Name())
		}
		if r := g.Refiner(); r != nil {
			if p, _, _ := r.Refine(head); p == nil {
				t.Fatal("refined to nothing")
			}
		}
	})
}

// checkSame compares a guess with what is guessed as the stream grows.
func checkSame(t *testing.T, want *all.Guess, stream []byte) {
	t.Helper()
	var g all.Guess
	step := max(1, len(stream)/100)
	for used := min(step, len(stream)); !g.Detect(stream[:used], used == len(stream)); {
		used = min(used+step, len(stream))
	}
	if g.String() != want.String() {
		t.Fatalf("%q: %s; in pieces: %s", stream, want, &g)
	}
}

// names returns the name of each protocol.
func names(protocols []protocol.Protocol) (names []string) {
	for _, p := range protocols {
		names = append(names, p.Name())
	}
	return names
}
