package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A world has hosts that all are one server in TLS, reached through a proxy.
type world struct {
	proxy, roots string
	models       atomic.Int64 // requests of models
}

// forwards returns a proxy that hands on all requests to a server, which may answer before it has read one whole.
func forwards(target *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
}

// newWorld returns a world whose server is a door of a broker.
func newWorld(t *testing.T, door string, names ...string) *world {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, DNSNames: names, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	w := &world{roots: filepath.Join(t.TempDir(), "roots.pem")}
	check(t, os.WriteFile(w.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	target, err := url.Parse(door)
	check(t, err)
	forward := forwards(target)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if regexp.MustCompile(`/(messages|responses|chat/completions)$|[gG]enerateContent`).MatchString(r.URL.Path) && r.Method == http.MethodPost {
			w.models.Add(1)
		}
		forward.ServeHTTP(rw, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		isHere := false
		for _, name := range names {
			isHere = isHere || name == host
		}
		if r.Method != http.MethodConnect || !isHere {
			http.Error(rw, "there is no other host", http.StatusBadGateway)
			return
		}
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(proxy.Close)
	w.proxy = proxy.URL
	return w
}

// scripted is a broker whose mock calls a tool, and then ends. It logs its calls.
func scripted(t *testing.T, tool, arguments string) (door, log string) {
	log = filepath.Join(t.TempDir(), "log.ndjson")
	doors := serve(t, "--no-tap", "--log", log, "--config", configured(t, fmt.Sprintf(`providers:
  m: {kind: mock, mock: {delay: 1ms, chunk: 8, turns: [
    {text: I look., tool_calls: [{name: %s, arguments: %s}]},
    {text: All is done.}]}}
models: {"*": {provider: m}}
`, tool, arguments)))
	return "http://" + doors["openai"], log
}

// tellsWhatItSent checks that the transcript of an agent has the calls of its run, with the tokens that the
// broker has logged.
func tellsWhatItSent(t *testing.T, run, pattern, log string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("there are the transcripts %q", found)
	}
	lines, err := os.ReadFile(log)
	check(t, err)
	sum := func(lines []byte) (calls int, in, out int64) {
		for line := range bytes.Lines(lines) {
			var c struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			}
			check(t, json.Unmarshal(line, &c))
			calls, in, out = calls+1, in+c.Input, out+c.Output
		}
		return calls, in, out
	}
	counted, in, out := sum(lines)
	listed, _ := command(t, nil, "calls", "-o", "ndjson", found[0])
	if _, told, answered := sum([]byte(listed)); told != in || answered != out || in == 0 || out == 0 {
		t.Errorf("the broker has counted %d and %d tokens, and the transcript has %d and %d:\n%s", in, out, told, answered, listed)
	}
	differing, notice := command(t, nil, "diff", run, found[0])
	if !strings.Contains(notice, fmt.Sprintf("both have %d model calls and 1 tool call,", counted)) {
		t.Errorf("compared is:\n%s%s", differing, notice)
	}
}

// Agents run as they are, each against a mock behind a made-up host in TLS, and what they say to it is
// recorded as often as it was asked.
func TestRunOfAgents(t *testing.T) {
	need(t, "sh")
	for _, a := range []struct {
		name, host, tool, arguments string
		transcript                  string // below its home, if wirectl finds it there
		command                     func(t *testing.T, home string) (env, args []string)
	}{
		{"claude", "api.anthropic.com", "Bash", `{command: "printf tool-said-%d 42", description: look}`, ".claude/projects/*/*.jsonl", func(t *testing.T, home string) (env, args []string) {
			return []string{"IS_SANDBOX=1", "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1"},
				[]string{program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*"), "-p", "--allowedTools", "Bash", "--model", "mock-2", "look around"}
		}},
		{"codex", "model.test", "exec_command", `{cmd: "printf tool-said-%d 42"}`, "sessions/*/*/*/rollout-*.jsonl", func(t *testing.T, home string) (env, args []string) {
			return []string{"CODEX_HOME=" + codexHome(t, "https://model.test")},
				[]string{program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*"), "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "look around"}
		}},
		{"gemini", "generativelanguage.googleapis.com", "run_shell_command", `{command: "printf tool-said-%d 42"}`, "", func(t *testing.T, home string) (env, args []string) {
			return []string{"GEMINI_API_KEY=x", "GEMINI_CLI_TRUST_WORKSPACE=true"},
				[]string{filepath.Join(packages(t, "npm-coding"), ".bin/gemini"), "--yolo", "-p", "look around"}
		}},
		{"opencode", "model.test", "bash", `{command: "printf tool-said-%d 42", description: look}`, "", func(t *testing.T, home string) (env, args []string) {
			path, own := opencode(t, "https://model.test")
			return own[1:], []string{path, "run", "--model", "mock/mock-1", "look around"}
		}},
		{"qwen", "model.test", "run_shell_command", `{command: "printf tool-said-%d 42", is_background: false}`, "", func(t *testing.T, home string) (env, args []string) {
			return qwen(t, home, "https://model.test"), []string{filepath.Join(packages(t, "npm-node24"), ".bin/qwen"), "--yolo", "-p", "look around"}
		}},
		{"copilot", "model.test", "bash", `{command: "printf tool-said-%d 42", description: look}`, "", func(t *testing.T, home string) (env, args []string) {
			return copilot("https://model.test"), []string{program(t, "npm-node24", "@github/copilot-linux-*/copilot"), "--allow-all-tools", "-p", "look around"}
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			door, log := scripted(t, a.tool, a.arguments)
			w := newWorld(t, door, a.host)
			home := t.TempDir()
			env, args := a.command(t, home)
			out, notice, run := w.run(t, home, env, args...)
			if !strings.Contains(out, "All is done.") {
				t.Errorf("the agent has answered:\n%s\n%s", out, notice)
			}
			if !strings.Contains(notice, a.host) {
				t.Errorf("it was not recorded: %s", notice)
			}
			listed, _ := command(t, nil, "calls", "-o", "ndjson", filepath.Join(run, "model.pcapng"))
			got := int64(len(regexp.MustCompile(`"kind":"[^"]*(messages|responses|chat/completions|enerateContent)`).FindAll(listed, -1)))
			if want := w.models.Load(); got != want || want == 0 {
				t.Errorf("%d calls are recorded, and %d were made:\n%s", got, want, listed)
			}
			if codex, ok := strings.CutPrefix(env[0], "CODEX_HOME="); ok {
				home = codex
			}
			if a.transcript != "" {
				tellsWhatItSent(t, run, filepath.Join(home, a.transcript), log)
			}
		})
	}
}

// Agents that somebody has written, in Python and in Node, ask once. A Node that uses no proxy is moved to a relay.
func TestRunOfScripts(t *testing.T) {
	door := "http://" + serve(t, "--no-tap", "--config", configured(t, rehearsed))["openai"]
	const ask = `{"model":"mock-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct{ program, code string }{
		"python": {"python3", `import urllib.request
print(urllib.request.urlopen(urllib.request.Request("https://api.openai.com/v1/chat/completions", b'` + ask + `', {"Content-Type": "application/json"})).read().decode())`},
		"node": {"node", `fetch((process.env.OPENAI_BASE_URL) + "/chat/completions", {method: "POST", headers: {"content-type": "application/json"}, body: '` + ask + `'}).then(r => r.text()).then(console.log)`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, door, "api.openai.com")
			file := filepath.Join(t.TempDir(), "agent.mjs")
			check(t, os.WriteFile(file, []byte(c.code), 0o600))
			out, notice, run := w.run(t, t.TempDir(), []string{"OPENAI_BASE_URL=" + door + "/v1"}, need(t, c.program), file)
			if !strings.Contains(out, "Hel") || !strings.Contains(out, "[DONE]") {
				t.Errorf("the model has answered %s\n%s", out, notice)
			}
			if listed, _ := command(t, nil, "calls", filepath.Join(run, "model.pcapng")); !strings.Contains(string(listed), "mock-1") {
				t.Errorf("recorded is:\n%s\n%s", listed, notice)
			}
		})
	}
}

// run runs an agent in a world, and returns its output, what wirectl says, and the folder of the record.
func (w *world) run(t *testing.T, home string, env []string, args ...string) (stdout, stderr, folder string) {
	t.Helper()
	var out, notice bytes.Buffer
	cmd := exec.CommandContext(t.Context(), wirectl, append([]string{"run", "--"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &notice
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "HTTPS_PROXY=" + w.proxy, "SSL_CERT_FILE=" + w.roots, "NODE_EXTRA_CA_CERTS=" + w.roots}, env...)
	state := t.TempDir()
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state, "TMPDIR="+state)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s\n%s", err, &out, &notice)
	}
	found, err := filepath.Glob(filepath.Join(state, "wirectl/runs/*"))
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("there are the runs %q\n%s", found, &notice)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "wirectl-run-*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	return out.String(), notice.String(), found[0]
}
