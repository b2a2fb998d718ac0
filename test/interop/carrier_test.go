package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listening starts a program that runs until the test ends, or until stop interrupts it and
// waits for it. It returns the address that the program prints, the first match in its
// output.
func listening(t *testing.T, cmd *exec.Cmd, where *regexp.Regexp) (address string, stop func()) {
	t.Helper()
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	check(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		w.Close()
		close(exited)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-exited:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-exited
		}
	}
	t.Cleanup(stop)
	var said strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if m := where.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return m[1], stop
		}
	}
	t.Fatalf("%s does not listen:\n%s", cmd, &said)
	return "", nil
}

// freePort returns a port where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// listeningOn finds the address that a relay listens on.
var listeningOn = regexp.MustCompile(`listening on (\S+)`)

// relayed puts wirectl relay, with flags, in front of a unit, and returns its address. The
// function end stops it and decodes the capture, which must have no findings if clean is
// set.
func relayed(t *testing.T, listen string, unit ...string) (address string, end func(clean bool, stats ...string) (ndjson []byte)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "session.pcapng")
	cmd := exec.CommandContext(t.Context(), wirectl, append([]string{"relay", "--no-tap", "--listen", listen, "--capture", file}, unit...)...)
	address, stop := listening(t, cmd, listeningOn)
	return address, func(clean bool, stats ...string) []byte {
		t.Helper()
		stop()
		if clean {
			command(t, nil, "lint", "-q", "--fail-on", "error,warning", file)
		}
		out, _ := command(t, nil, "stats", "-q", file)
		for _, want := range stats {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("stats do not say %q:\n%s", want, out)
			}
		}
		ndjson, _ := command(t, nil, "decode", "-q", "-o", "ndjson", file)
		return ndjson
	}
}

// node runs one of our scripts, which must succeed, and returns its JSON output.
func node(t *testing.T, script string, args ...string) (result map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, need(t, "node"), append([]string{script, npm(t)}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &result) != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, &stderr)
	}
	return result
}

// A client of the MCP SDK and the reference server do not notice the relay between them,
// over both HTTP transports. The capture has each call in the session of its id.
func TestRelayMCPOverHTTP(t *testing.T) {
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	for _, tt := range []struct{ kind, path string }{{"streamableHttp", "/mcp"}, {"sse", "/sse"}} {
		t.Run(tt.kind, func(t *testing.T) {
			port := freePort(t)
			cmd := exec.CommandContext(t.Context(), need(t, "node"), server, tt.kind)
			cmd.Env = append(os.Environ(), "PORT="+port)
			listening(t, cmd, regexp.MustCompile(`on port (\d+)`))
			address, end := relayed(t, "http://127.0.0.1:0", "http://127.0.0.1:"+port+tt.path)
			result := node(t, "node/mcp.cjs", tt.kind, address)
			for what, want := range map[string]any{
				"tools": true, "echo": "Echo: hello", "sum": "The sum of 2 and 3 is 5.", "cancelled": true,
				"slow": "Long running operation completed. Duration: 1 seconds, Steps: 4.",
			} {
				if result[what] != want {
					t.Errorf("%s: %v, want %v", what, result[what], want)
				}
			}
			ndjson := end(true, "tools/call", "cancels")
			for _, want := range []string{`"kind":"notifications/progress"`, `"kind":"notifications/cancelled","ref":5,"phase":"cancel"`, `"framing":"http"`, `"stream":`} {
				if !bytes.Contains(ndjson, []byte(want)) {
					t.Errorf("no record has %s", want)
				}
			}
		})
	}
}

// Node's fetch receives compressed bodies unchanged, and the capture has them decompressed.
func TestRelayEncodings(t *testing.T) {
	server, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/encodings.cjs", npm(t), "serve"), listeningOn)
	address, end := relayed(t, "http://127.0.0.1:0", server)
	got := node(t, "node/encodings.cjs", "ask", address)
	ndjson := end(true)
	for _, encoding := range []string{"gzip", "deflate", "br"} {
		if got[encoding] != encoding {
			t.Errorf("%s: the client got %v", encoding, got[encoding])
		}
	}
	for encoding := range got {
		count(t, ndjson, map[string]int{`"payload":{"packed":"` + encoding + `"}`: 1, `"encoding":"` + encoding + `"`: 1})
	}
}

// A third-party WebSocket client and server compress or fragment every message. The capture
// shows the messages.
func TestRelayWebSocket(t *testing.T) {
	port, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/ws.cjs", npm(t), "serve"), regexp.MustCompile(`^(\d+)$`))
	for _, scheme := range []string{"tcp", "http"} {
		t.Run(scheme, func(t *testing.T) {
			address, end := relayed(t, scheme+"://127.0.0.1:0", scheme+"://127.0.0.1:"+port)
			_, hostPort, _ := strings.Cut(address, "://")
			if result := node(t, "node/ws.cjs", "talk", "ws://"+hostPort); result["same"] != true {
				t.Errorf("what came back is not what was sent: %v", result)
			}
			count(t, end(true), map[string]int{
				`"protocol":"json","kind":"object"`:            6,
				`"meta":{"opcode":"text","encoding":"deflate"`: 6,
				`"signal":"ping"`:                              1,
				`"signal":"pong"`:                              1,
				`"signal":"close","code":1000,"text":"done"`:   2,
			})
		})
	}
}

// Latis uses binary messages, each of which can hold several frames.
func TestRelayLatisOverWebSocket(t *testing.T) {
	port, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/ws.cjs", npm(t), "serve"), regexp.MustCompile(`^(\d+)$`))
	address, end := relayed(t, "tcp://127.0.0.1:0", "tcp://127.0.0.1:"+port)
	_, hostPort, _ := strings.Cut(address, "://")
	if result := node(t, "node/ws.cjs", "latis", "ws://"+hostPort); result["same"] != true {
		t.Errorf("what came back is not what was sent: %v", result)
	}
	count(t, end(false), map[string]int{
		`"framing":"len32","protocol":"latis","kind":"STATE_GET","id":"2"`: 2,
		`"framing":"len32","protocol":"latis","kind":"STATE_GET","id":"3"`: 2,
	})
}

// count checks how many records contain each text.
func count(t *testing.T, ndjson []byte, texts map[string]int) {
	t.Helper()
	for want, n := range texts {
		if got := bytes.Count(ndjson, []byte(want)); got != n {
			t.Errorf("%d records have %s, and not %d:\n%s", got, want, n, ndjson)
		}
	}
}
