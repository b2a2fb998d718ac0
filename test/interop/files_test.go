package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// calledOnce checks that a file of another program shows one call of a model, with the tokens of
// the broker's log.
func calledOnce(t *testing.T, file, log string) {
	t.Helper()
	line, err := os.ReadFile(log)
	check(t, err)
	var counted, read struct {
		Name, Outcome string
		Input         int64 `json:"input_tokens"`
		Output        int64 `json:"output_tokens"`
	}
	check(t, json.Unmarshal(line, &counted))
	out, notice := command(t, nil, "calls", "-o", "ndjson", "--where", "protocol==openai", file)
	if bytes.Count([]byte(out), []byte("\n")) != 1 {
		t.Fatalf("want one call, and got:\n%s%s", out, notice)
	}
	check(t, json.Unmarshal([]byte(out), &read))
	if read.Name != "mock-1" || read.Outcome != "done" || counted.Input == 0 || read.Input != counted.Input || read.Output != counted.Output {
		t.Errorf("the file shows %s\nand the broker has logged %s", out, line)
	}
}

const streamed = `{"model":"mock-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

// Chromium records a stream of a model as a HAR.
func TestChromiumHAR(t *testing.T) {
	dir := t.TempDir()
	file, log := filepath.Join(dir, "page.har"), filepath.Join(dir, "log.ndjson")
	doors := serve(t, "--no-tap", "--log", log, "--config", configured(t, rehearsed))
	var saw struct{ Text string }
	browse(t, &saw, "har.mjs", "http://"+doors["openai"]+"/v1/chat/completions", streamed, file)
	if !strings.Contains(saw.Text, "[DONE]") {
		t.Fatalf("the page got %q", saw.Text)
	}
	calledOnce(t, file, log)
	again := filepath.Join(dir, "again.pcapng")
	command(t, nil, "convert", file, again)
	calledOnce(t, again, log)
}

// Wireshark's dumpcap records the packets of a stream of a model.
func TestPacketsOfLoopback(t *testing.T) {
	dumpcap, dir := need(t, "dumpcap"), t.TempDir()
	file, log := filepath.Join(dir, "packets.pcapng"), filepath.Join(dir, "log.ndjson")
	doors := serve(t, "--no-tap", "--log", log, "--config", configured(t, rehearsed))
	_, port, err := net.SplitHostPort(doors["openai"])
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	capture := exec.CommandContext(ctx, dumpcap, "-q", "-i", "lo", "-f", "tcp port "+port, "-w", file)
	stderr, err := capture.StderrPipe()
	check(t, err)
	check(t, capture.Start())
	ready := make([]byte, 4096)
	for said := ""; !strings.Contains(said, "File: "); {
		n, err := stderr.Read(ready)
		check(t, err)
		said += string(ready[:n])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post("http://"+doors["openai"]+"/v1/chat/completions", "application/json", strings.NewReader(streamed))
	check(t, err)
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(text, []byte("[DONE]")) {
		t.Fatalf("%v, and the client got %q", err, text)
	}
	// dumpcap has written the packets when it shows the end of the connection.
	for out := []byte(nil); len(out) == 0; {
		check(t, ctx.Err())
		out, _ = exec.CommandContext(ctx, need(t, "tshark"), "-r", file, "-Y", "tcp.flags.fin==1 and tcp.srcport=="+port).Output()
	}
	check(t, capture.Process.Signal(os.Interrupt))
	check(t, capture.Wait())
	calledOnce(t, file, log)
}

// mitmproxy stands before a model and a server of MCP, and writes what passes: an event stream over HTTP/1.1 and
// HTTP/2, and a WebSocket.
func TestFlowsOfMitmproxy(t *testing.T) {
	mitmdump, dir := need(t, "mitmdump"), t.TempDir()
	log := filepath.Join(dir, "log.ndjson")
	door := "http://" + serve(t, "--no-tap", "--log", log, "--config", configured(t, rehearsed))["openai"]
	target, err := url.Parse(door)
	check(t, err)
	secure := httptest.NewUnstartedServer(forwards(target))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	self, err := os.Executable()
	check(t, err)
	relay := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--framing", "line", "--listen", "ws://127.0.0.1:0", "--", self)
	relay.Env = append(os.Environ(), serveMCP+"=1")
	server, _ := listening(t, relay, listeningOn)
	// before starts mitmproxy in a mode, does something, and returns the file.
	before := func(t *testing.T, mode string, do func(address string)) (file string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "flows")
		cmd := exec.CommandContext(t.Context(), mitmdump, "--mode", mode, "--listen-host", "127.0.0.1", "--listen-port", freePort(t),
			"--ssl-insecure", "--set", "confdir="+t.TempDir(), "-w", file)
		cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
		address, stop := listening(t, cmd, regexp.MustCompile(`listening at (?:\S+//)?(\S+:\d+)`))
		do(address)
		stop()
		return file
	}
	ask := func(t *testing.T, server, proxy string) (proto string) {
		t.Helper()
		transport := &http.Transport{ForceAttemptHTTP2: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its authority is new
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Post(server+"/v1/chat/completions", "application/json", strings.NewReader(streamed))
		check(t, err)
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(text, []byte("[DONE]")) {
			t.Fatalf("%v, and the client got %q", err, text)
		}
		return answer.Proto
	}
	last := func(t *testing.T) string {
		t.Helper()
		text, err := os.ReadFile(log)
		check(t, err)
		lines := bytes.SplitAfter(bytes.TrimSpace(text), []byte("\n"))
		file := filepath.Join(t.TempDir(), "last.ndjson")
		check(t, os.WriteFile(file, lines[len(lines)-1], 0o600))
		return file
	}
	for name, c := range map[string]struct{ server, proto string }{"HTTP": {door, "HTTP/1.1"}, "HTTP2": {secure.URL, "HTTP/2.0"}} {
		t.Run(name, func(t *testing.T) {
			file := before(t, "regular", func(address string) {
				if proto := ask(t, c.server, address); proto != c.proto {
					t.Errorf("it was %s, and not %s", proto, c.proto)
				}
			})
			calledOnce(t, file, last(t))
			again := filepath.Join(t.TempDir(), "again.pcapng")
			command(t, nil, "convert", file, again)
			calledOnce(t, again, last(t))
		})
	}
	t.Run("WebSocket", func(t *testing.T) {
		file := before(t, "reverse:"+strings.Replace(server, "ws://", "http://", 1), func(address string) {
			out, _ := command(t, nil, "send", "mcp", "tools/call", `{"name":"upper","arguments":{"text":"hi"}}`, "ws://"+address)
			if !strings.Contains(string(out), "HI") {
				t.Errorf("the tool has answered %s", out)
			}
		})
		out, notice := command(t, nil, "calls", "-o", "ndjson", "--where", "kind==tools/call", file)
		if n := strings.Count(string(out), `"name":"upper"`); n != 1 || !strings.Contains(string(out), `"outcome":"done"`) {
			t.Errorf("want one call, and got:\n%s%s", out, notice)
		}
		command(t, nil, "lint", "-q", file)
	})
}
