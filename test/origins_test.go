//go:build unix

package test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// No listener of any command admits web pages of other sites, by HTTP or WebSocket: neither by
// their origin nor by a name that resolves to this machine.
func TestOrigins(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); strings.Contains(origin, "evil") || origin == "null" {
			t.Errorf("a request of %q was forwarded", origin)
		}
		// The proxy leaves CORS to the server.
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	const others = http.StatusForbidden
	for _, l := range []struct {
		command, address string // the pattern of the address that the command prints
		path             string
		local, allowed   int // the status that a WebSocket gets for pages of this machine, and of app.example
	}{
		{"relay --no-tap --allow-origin https://app.example --listen http://127.0.0.1:0 " + server.URL, "listening on http://(.*)", "/mcp", 204, 204},
		{"relay --no-tap --allow-origin https://APP.example:443/ --listen ws://127.0.0.1:0 --framing line -- cat", "listening on ws://(.*)", "/", 101, 101},
		{"relay --no-tap --allow-origin https://app.example --shared --protocol mcp --listen ws://127.0.0.1:0 --framing line -- cat", "listening on ws://(.*)", "/", 101, 101},
		{"unit --allow-origin https://app.example --listen ws://127.0.0.1:0", "listening at ws://(.*)", "/", 101, 101},
		{"send --allow-origin https://app.example --listen ws://127.0.0.1:0/path --prompt hi latis", "listening at ws://(.*)/path", "/path", 101, 0},
		{"replay --allow-origin https://app.example --as unit --listen ws://127.0.0.1:0 fixture:acp-ws", "listening at ws://(.*)", "/", 101, 101},
		{"replay --allow-origin https://app.example --as unit --repeat --listen http://127.0.0.1:0 fixture:mcp-http", "listening at http://(.*)", "/", 501, 501},
		{"theory serve --allow-origin https://app.example --listen 127.0.0.1:0", "listening at ws://(.*)/run", "/run", 101, 101},
		{"serve --no-tap --any-port --print-addresses", `"proxy":"(.*?)"`, "/llm_query", 404, others},
		{"serve --no-tap --any-port --print-addresses", `"nexus":"(.*?)"`, "/rpc", 405, others},
		{"serve --no-tap --any-port --print-addresses", `"latis_ws":"(.*?)"`, "/", 101, others},
		{"serve --no-tap --any-port --print-addresses", `"openai":"(.*?)"`, "/v1/models", 200, others},
		{"serve --no-tap --any-port --print-addresses", `"admin":"(.*?)"`, "/usage", 200, others},
		{"monitor --web --listen 127.0.0.1:0", "the page is at http://(.*)/", "/", others, others},
		{"hub --listen 127.0.0.1:0 --page 127.0.0.1:0", "the page is at http://(.*)/", "/", others, others},
	} {
		t.Run(l.command+" "+l.address, func(t *testing.T) {
			address := listening(t, l.command, l.address)
			for _, upgrade := range []bool{false, true} {
				for _, origins := range foreignPages(address) {
					if got := ask(t, address+l.path, address, origins, upgrade); got != others {
						t.Errorf("a page of %q, upgrade %t: status %d", origins, upgrade, got)
					}
				}
				for _, origins := range [][]string{nil, {"http://evil.example"}} {
					if got := ask(t, address+l.path, "evil.example", origins, upgrade); got != others && got != 421 {
						t.Errorf("a page at evil.example of %q, upgrade %t: status %d", origins, upgrade, got)
					}
				}
				for origin, want := range map[string]int{"http://localhost:6274": l.local, "https://app.example": l.allowed} {
					if want == 0 {
						continue
					}
					if got := ask(t, address+l.path, address, []string{origin}, upgrade); upgrade && got != want || (got == others) != (want == others) {
						t.Errorf("a page of %s, upgrade %t: status %d, want %d", origin, upgrade, got, want)
					}
				}
			}
		})
	}
}

// foreignPages returns the Origin headers of pages of other sites.
func foreignPages(address string) (pages [][]string) {
	for _, origin := range []string{
		"null", "https://evil.example", "http://evil.example:80", "http://localhost.evil.example", "http://127.0.0.1.evil.example",
		"http://127.0.0.1@evil.example", "http://" + address + ".evil.example", "http://192.0.2.1", "file://", "chrome-extension://evil",
		"https://app.example.evil.example", "http://app.example:444", "evil.example",
	} {
		pages = append(pages, []string{origin})
	}
	return append(pages, []string{"", "https://evil.example"}, []string{"http://localhost", "null"})
}

// listening starts a program, and returns the address that it prints.
func listening(t *testing.T, command, pattern string) string {
	t.Helper()
	state, err := os.MkdirTemp("", "at") // a short name, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	cmd := program(t, "wirectl", strings.Fields(command)...)
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state, "XDG_RUNTIME_DIR="+state, "WIRECTL_HUB=")
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		w.Close()
		close(ended)
	}()
	t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill()
		<-ended
	})
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return m[1]
		}
	}
	t.Fatalf("%s prints no %s", command, pattern)
	return ""
}

// ask sends a request as a page makes a browser send it, and returns the status.
func ask(t *testing.T, address, host string, origins []string, upgrade bool) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if origins != nil {
		req.Header["Origin"] = origins
	}
	req.Header.Set("Sec-Websocket-Protocol", "theory.run.v1")
	if upgrade {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		req.Header.Set("Sec-Websocket-Version", "13")
		req.Header.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(fmt.Errorf("a page of %q at %s: %w", origins, host, err))
	}
	resp.Body.Close()
	return resp.StatusCode
}
