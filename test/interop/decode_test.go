package interop

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The MCP reference server, with several calls in flight, ids of both types, and non-ASCII
// text.
func TestDecodeMCP(t *testing.T) {
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	p := start(t, line, need(t, "node"), server, "stdio")
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}}`)
	p.await("0")
	p.send(
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"a/2","method":"tools/call","params":{"name":"echo","arguments":{"message":"grüße, \u4e16界"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"trigger-long-running-operation","arguments":{"duration":1,"steps":4},"_meta":{"progressToken":"p3"}}}`,
		`{"jsonrpc":"2.0", "id":4, "method":"ping"}`,
		`{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"nowhere://"}}`,
	)
	p.await("1", `"a/2"`, "3", "4", "5")
	p.end()
	p.verify("mcp")
}

// A language server, over Content-Length headers.
func TestDecodeLSP(t *testing.T) {
	modules := npm(t)
	root := t.TempDir()
	file := filepath.Join(root, "a.ts")
	source := "export function double(n: number): number { return n * 2 }\ndouble(21)\n"
	check(t, os.WriteFile(file, []byte(source), 0o666))
	uri := (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()

	p := start(t, header, need(t, "node"), filepath.Join(modules, "typescript-language-server/lib/cli.mjs"), "--stdio")
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{},"initializationOptions":{"tsserver":{"path":%q}}}}`,
		filepath.Join(modules, "typescript/lib/tsserver.js")))
	p.await("0")
	p.send(
		`{"jsonrpc":"2.0","method":"initialized","params":{}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":%q,"languageId":"typescript","version":1,"text":%q}}}`, uri, source),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{"textDocument":{"uri":%q},"position":{"line":1,"character":2}}}`, uri),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"textDocument/documentSymbol","params":{"textDocument":{"uri":%q}}}`, uri),
		`{"jsonrpc":"2.0","id":3,"method":"no/such/method"}`,
	)
	p.await("1", "2", "3")
	p.send(`{"jsonrpc":"2.0","id":4,"method":"shutdown"}`)
	p.await("4")
	p.send(`{"jsonrpc":"2.0","method":"exit"}`)
	p.end()
	p.verify("lsp")
}

// Frames written by Python, as rlm peers do.
func TestDecodeRLM(t *testing.T) {
	for _, side := range []struct {
		name        string
		kind, phase string
		ids         string
	}{
		{"requests", "WireRequest", "open", `"one" "two" "three"`},
		{"responses", "WireResponse", "close", `"one" "two" "three"`},
	} {
		t.Run(side.name, func(t *testing.T) {
			var ids []string
			for _, r := range decode(t, python(t, nil, side.name), "len32", "rlm") {
				if r.Kind != side.kind || r.Phase != side.phase {
					t.Errorf("%s was decoded as %s of phase %s", r.Payload, r.Kind, r.Phase)
				}
				ids = append(ids, string(r.ID))
			}
			if got := strings.Join(ids, " "); got != side.ids {
				t.Errorf("the ids are %s, want %s", got, side.ids)
			}
		})
	}
}

// The reverse direction: Python reads the frames that wirectl writes.
func TestEncodeRLM(t *testing.T) {
	payloads := []byte("{\"correlation_id\":\"ü\",\"prompt\":\"hi\"}\n{\"correlation_id\":\"2\",\"prompts\":[{},\"\"]}\n")
	stream, _ := command(t, payloads, "encode", "--protocol", "rlm")
	if got := python(t, stream, "unpack"); !bytes.Equal(got, payloads) {
		t.Errorf("Python reads %q, want %q", got, payloads)
	}
}

// python runs rlm.py and returns its output.
func python(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "python3"), append([]string{"python/rlm.py"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return out
}
