package interop

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// A client of the MCP SDK starts the reference server through a relay without noticing it.
// The capture has every call and no findings.
func TestRelayMCP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	result := node(t, "node/mcp.cjs", "stdio", wirectl, "relay", "--no-tap", "--capture", file, "--", need(t, "node"), server, "stdio")
	for what, want := range map[string]any{
		"tools": true, "echo": "Echo: hello", "sum": "The sum of 2 and 3 is 5.", "cancelled": true,
		"slow": "Long running operation completed. Duration: 1 seconds, Steps: 4.",
	} {
		if result[what] != want {
			t.Errorf("%s: %v, want %v", what, result[what], want)
		}
	}
	command(t, nil, "lint", "-q", "--fail-on", "error,warning", file)
	ndjson, _ := command(t, nil, "decode", "-q", "-o", "ndjson", file)
	for _, want := range []string{`"kind":"initialize"`, `"kind":"notifications/progress"`, `"kind":"notifications/cancelled"`, `"framing":"line"`} {
		if !bytes.Contains(ndjson, []byte(want)) {
			t.Errorf("no record has %s", want)
		}
	}
}

// A language server, over Content-Length headers, through a relay.
func TestRelayLSP(t *testing.T) {
	modules := npm(t)
	file := filepath.Join(t.TempDir(), "session.pcapng")
	p := start(t, header, wirectl, "relay", "-q", "--no-tap", "--capture", file, "--",
		need(t, "node"), filepath.Join(modules, "typescript-language-server/lib/cli.mjs"), "--stdio")
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{},"initializationOptions":{"tsserver":{"path":%q}}}}`,
		filepath.Join(modules, "typescript/lib/tsserver.js")))
	p.await("0")
	p.send(`{"jsonrpc":"2.0","method":"initialized","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"no/such/method"}`)
	p.await("1")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`)
	p.await("2")
	p.send(`{"jsonrpc":"2.0","method":"exit"}`)
	p.end()
	p.verify("lsp")
	for dir, want := range map[string][]byte{"c2u": p.c2u.Bytes(), "u2c": p.u2c.Bytes()} {
		raw, _ := command(t, nil, "decode", "-q", "-o", "raw", "--where", "dir=="+dir, file)
		if !bytes.Equal(raw, want) {
			t.Errorf("%s: the capture has %d bytes that are not the %d that passed", dir, len(raw), len(want))
		}
	}
}

// A third-party program between two relays does not change the bytes.
func TestRelaySocat(t *testing.T) {
	socat := need(t, "socat")
	want := bytes.Repeat([]byte("no frames at all \x00\xff\r\n"), 1<<16)
	got, _ := command(t, want, "relay", "-q", "--no-tap", "--", socat, "-", "EXEC:cat,pipes")
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back that are not the %d that were sent", len(got), len(want))
	}
}
