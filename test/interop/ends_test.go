package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// port matches the port that our peers print.
var port = regexp.MustCompile(`^(\d+)$`)

// at matches the address that wirectl prints.
var at = regexp.MustCompile(`listening at (\S+)`)

// The MCP reference server answers send, over its standard streams and over both HTTP
// transports.
func TestSendMCP(t *testing.T) {
	node := need(t, "node")
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	web := func(mode, path string) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			number := freePort(t)
			cmd := exec.CommandContext(t.Context(), node, server, mode)
			cmd.Env = append(cmd.Environ(), "PORT="+number)
			listening(t, cmd, regexp.MustCompile(`(?:listening|running) on port (\d+)`))
			return []string{"http://127.0.0.1:" + number + path}
		}
	}
	for name, endpoint := range map[string]func(t *testing.T) []string{
		"stdio":         func(*testing.T) []string { return []string{"--", node, server} },
		"HTTP":          web("streamableHttp", "/mcp"),
		"HTTP with SSE": web("sse", "/sse"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := endpoint(t)
			tools, _ := command(t, nil, append([]string{"send", "-q", "mcp", "tools/list", "{}"}, peer...)...)
			if !bytes.Contains(tools, []byte(`"name": "echo"`)) {
				t.Errorf("tools/list gives %s", tools)
			}
			echo, _ := command(t, nil, append([]string{"send", "-q", "mcp", "tools/call", `{"name":"echo","arguments":{"message":"grüße"}}`}, peer...)...)
			if !bytes.Contains(echo, []byte("Echo: grüße")) {
				t.Errorf("the echo gives %s", echo)
			}
		})
	}
}

// The example server of the ACP SDK answers send over WebSocket.
func TestSendACPOverWebSocket(t *testing.T) {
	number := freePort(t)
	cmd := exec.CommandContext(t.Context(), need(t, "node"), filepath.Join(npm(t), "@agentclientprotocol/sdk/dist/examples/http-server.js"))
	cmd.Env = append(cmd.Environ(), "PORT="+number)
	listening(t, cmd, regexp.MustCompile(`listening at (ws://\S+)`))
	out, _ := command(t, nil, "send", "-q", "--header", "Authorization: Bearer example-token", "--prompt", "hi", "acp", "ws://127.0.0.1:"+number+"/acp")
	if !bytes.Contains(out, []byte("Hello from the ACP HTTP/WebSocket example server")) {
		t.Errorf("the agent says %s", out)
	}
}

// A language server answers send, between its handshake and its shutdown.
func TestSendLSP(t *testing.T) {
	server := filepath.Join(npm(t), "typescript-language-server/lib/cli.mjs")
	out, _ := command(t, nil, "send", "-q", "-o", "ndjson", "lsp", "workspace/executeCommand", `{"command":"nope"}`, "--", need(t, "node"), server, "--stdio")
	for _, want := range []string{`"kind":"initialize"`, `"kind":"initialized"`, `"kind":"workspace/executeCommand"`, `"kind":"shutdown"`, `"kind":"exit"`} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("there is no %s:\n%s", want, out)
		}
	}
}

// The unit understands frames encoded by buf, and buf decodes the unit's answers.
func TestBufEncoded(t *testing.T) {
	convert := func(stdin []byte, kind, from, to string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=test/tools/go.mod", "buf", "convert", "protocol/schema",
			"--type", "latis.v1."+kind, "--from", "-#format="+from, "--to", "-#format="+to)
		cmd.Dir = "../.."
		cmd.Stdin = bytes.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
		}
		return out
	}
	payload := convert([]byte(`{"id":"1","promptSend":{"content":"grüße","metadata":{"b":"2","a":"1"}}}`), "ConnectRequest", "json", "binpb")
	answers, _ := command(t, append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...), "unit")
	var got []string
	for len(answers) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(answers))
		var compact bytes.Buffer
		check(t, json.Compact(&compact, convert(answers[4:n], "ConnectResponse", "binpb", "json")))
		got = append(got, compact.String())
		answers = answers[n:]
	}
	want := []string{
		`{"id":"1","responseChunk":{"requestId":"1","content":"Echo: grüße"}}`,
		`{"id":"1","responseComplete":{"requestId":"1"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the unit answers %q, want %q", got, want)
	}
}

// Both ends of theory and of Latis over WebSocket, against the package ws.
func TestWebSocketEnds(t *testing.T) {
	t.Run("theory serve", func(t *testing.T) {
		address, _ := listening(t, exec.CommandContext(t.Context(), wirectl, "theory", "serve", "--listen", "127.0.0.1:0"), at)
		got := node(t, "node/ends.cjs", "run", address)
		if fmt.Sprint(got["kinds"]) != "[Ack Event Log Event Response]" || got["status"] != "success" || fmt.Sprint(got["outputs"]) != "map[text:grüße]" || got["binary"] != false {
			t.Errorf("the client got %v", got)
		}
	})
	t.Run("send theory", func(t *testing.T) {
		number, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/ends.cjs", npm(t), "runtime"), port)
		got, tokens := command(t, nil, "send", "--stream", "--input", "a=1", "theory", "ws://127.0.0.1:"+number)
		if string(got) != "{\n  \"a\": 1\n}\n" || !strings.Contains(tokens, "token\n") {
			t.Errorf("send prints %q, and of tokens %q", got, tokens)
		}
	})
	t.Run("unit", func(t *testing.T) {
		address, _ := listening(t, exec.CommandContext(t.Context(), wirectl, "unit", "--listen", "ws://127.0.0.1:0"), at)
		got := node(t, "node/ends.cjs", "prompt", address)
		if want := "[000000130a0131a2010d0a013112084563686f3a206869 000000090a0131aa01030a0131]"; fmt.Sprint(got["got"]) != want {
			t.Errorf("the client got %v, want %s", got["got"], want)
		}
	})
	t.Run("send latis", func(t *testing.T) {
		number, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/ends.cjs", npm(t), "unit"), port)
		got, _ := command(t, nil, "send", "--prompt", "hi", "latis", "ws://127.0.0.1:"+number)
		if string(got) != "ok\n" {
			t.Errorf("send prints %q", got)
		}
	})
}

// A broker in Python answers send over rlm.
func TestSendRLM(t *testing.T) {
	number, _ := listening(t, exec.CommandContext(t.Context(), need(t, "python3"), "python/broker.py"), port)
	got, _ := command(t, []byte("hello\nworld\n"), "send", "--prompts", "-", "rlm", "tcp://127.0.0.1:"+number)
	if string(got) != "HELLO\nWORLD\n" {
		t.Errorf("send prints %q", got)
	}
}
