package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

const runToken = "t0ken-of-the-run"

// newTestProxy returns a proxy that records into a folder, and trusts a server.
func newTestProxy(t *testing.T, s *httptest.Server, user map[string]string) (p *proxy, folder string) {
	t.Helper()
	folder = t.TempDir()
	record, err := Record(folder, "model.pcapng", capture.Session{}, history.Full, func(text string) { t.Error(text) }, nil, runToken)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = newProxy(ca, runToken, record, func(name string) string { return user[name] }); err != nil {
		t.Fatal(err)
	}
	if s != nil && s.Certificate() != nil {
		p.roots = x509.NewCertPool()
		p.roots.AddCert(s.Certificate())
	}
	t.Cleanup(func() { finish(t, p) })
	return p, folder
}

func finish(t *testing.T, p *proxy) {
	t.Helper()
	if p.record != nil {
		p.close()
		if err := p.record.Close(); err != nil {
			t.Error(err)
		}
		p.record = nil
	}
}

// through returns a client of the proxy that trusts its authority.
func through(p *proxy, user string) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(p.authority.cert)
	return &http.Client{Transport: &http.Transport{
		Proxy: func(*http.Request) (*url.URL, error) {
			u := p.url("wirectl")
			if user != "wirectl" {
				u.User = url.UserPassword("wirectl", user)
			}
			return u, nil
		},
		TLSClientConfig: &tls.Config{RootCAs: pool},
	}}
}

func get(t *testing.T, c *http.Client, address string) string {
	t.Helper()
	answer, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status + " " + string(text)
}

// Bytes pass unchanged in TLS and in plain, and are recorded; what is not listed is not.
func TestProxy(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.Header.Get("Proxy-Authorization")+r.Host)
	})
	secure, plain, other := httptest.NewTLSServer(hello), httptest.NewServer(hello), httptest.NewServer(hello)
	defer secure.Close()
	defer plain.Close()
	defer other.Close()
	p, folder := newTestProxy(t, secure, nil)
	p.list(secure.Listener.Addr().String(), plain.Listener.Addr().String())
	c := through(p, "wirectl")
	for _, s := range []*httptest.Server{secure, plain, other} {
		if got, want := get(t, c, s.URL+"/?env="+runToken), "200 OK hello "+s.Listener.Addr().String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	c.CloseIdleConnections()
	finish(t, p)
	text, err := os.ReadFile(filepath.Join(folder, "model.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*httptest.Server]bool{secure: true, plain: true, other: false} {
		if got := strings.Contains(string(text), "hello "+s.Listener.Addr().String()); got != want {
			t.Errorf("%s is recorded: %t", s.URL, got)
		}
	}
	if strings.Contains(string(text), runToken) {
		t.Error("the token of the run is recorded")
	}
	if notes := strings.Join(p.unseen(&Kind{}), ""); !strings.Contains(notes, other.Listener.Addr().String()) || strings.Contains(notes, plain.Listener.Addr().String()) {
		t.Errorf("not seen: %q", notes)
	}
	opened := 0
	r, err := pcapng.NewReader(strings.NewReader(string(text)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for rec := (capture.Record{}); r.Next(&rec) == nil; {
		if rec.Kind == capture.Opened {
			opened++
		}
	}
	if opened != 2 {
		t.Errorf("%d connections are recorded", opened)
	}
}

// A list of tools that has changed does not reach a client through the proxy, over TLS, with and without HTTP/2, or in plain.
func TestProxyPins(t *testing.T) {
	var description atomic.Value
	mcp := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"look","description":%q}]}}`, description.Load())
	})
	for _, name := range []string{"http", "https", "h2"} {
		s := httptest.NewUnstartedServer(mcp)
		if s.EnableHTTP2 = name == "h2"; name == "http" {
			s.Start()
		} else {
			s.StartTLS()
		}
		defer s.Close()
		p, folder := newTestProxy(t, s, nil)
		p.list("127.0.0.1")
		var told []string
		store := &pin.Store{Dir: t.TempDir()}
		p.record.refuses = pin.NewWatch(store, pin.Refuse, jsonrpc.MCP, func(text string) { told = append(told, text) })
		c := through(p, "wirectl")
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		for _, test := range []struct{ text, want string }{{"Looks.", "Looks."}, {"Sends all.", "wirectl: the tools have changed"}, {"Looks.", "Looks."}} {
			description.Store(test.text)
			answer, err := c.Post(s.URL+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Fatal(name, err)
			}
			text, err := io.ReadAll(answer.Body)
			if answer.Body.Close(); err != nil || !strings.Contains(string(text), test.want) || answer.ProtoMajor != 1 {
				t.Errorf("%s %s: %v %s", name, test.text, err, text)
			}
		}
		c.CloseIdleConnections()
		finish(t, p)
		if len(told) != 1 || !strings.Contains(told[0], s.URL+"/mcp: the tools have changed") {
			t.Errorf("%s: %q", name, told)
		}
		refused := 0
		text, err := os.ReadFile(filepath.Join(folder, "model.pcapng"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := pcapng.NewReader(bytes.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		for rec := (capture.Record{}); r.Next(&rec) == nil; {
			if note, ok := tap.ParseNote(&rec); ok && note.How == tap.Refused && bytes.Contains(note.Payload, []byte("Sends all.")) {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%s: the record has %d notes of a refusal", name, refused)
		}
	}
}

// The proxy serves those with the token, and this user; it does nothing but forward, and not to itself.
func TestProxyRefuses(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	p, _ := newTestProxy(t, s, nil)
	if got := get(t, through(p, "wrong"), s.URL); !strings.HasPrefix(got, "407 ") {
		t.Errorf("a wrong token: %s", got)
	}
	address := p.listener.Addr().String()
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                     "400",
		"GET https://x/ HTTP/1.1\r\nHost: x\r\n\r\n":                            "400",
		"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n":                              "400",
		"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n":                                 "400",
		"CONNECT " + address + " HTTP/1.1\r\nHost: x\r\n\r\n":                   "502",
		"GET http://" + address + "/ HTTP/1.1\r\nHost: " + address + "\r\n\r\n": "502",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		request = strings.Replace(request, "\r\nHost", "\r\nProxy-Authorization: basic "+base64.StdEncoding.EncodeToString([]byte("x:"+runToken))+"\r\nHost", 1)
		_, _ = io.WriteString(c, request)
		line, _ := bufio.NewReader(c).ReadString('\n')
		if !strings.Contains(line, " "+want+" ") {
			t.Errorf("%q is answered %q", request, line)
		}
		c.Close()
	}
}

// A socket is of this user if the tables say so.
func TestOwnSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the tables are not read here")
	}
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", network)
		if err != nil {
			t.Log(err)
			continue
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		client, server := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
		if !isOwn(client, server) {
			t.Errorf("%v is not our own", client)
		}
		if isOwn(netip.AddrPortFrom(client.Addr(), 1), server) {
			t.Error("what is not connected is our own")
		}
	}
}

// The environment of the user can be restored.
func TestEnvironment(t *testing.T) {
	user := []string{"A=1", "HTTPS_PROXY=http://corp:1", "Z=ä=b"}
	e := newEnvironment(user)
	e.SetBoth("HTTPS_PROXY", "http://127.0.0.1:9")
	e.Set("HTTPS_PROXY", "http://127.0.0.1:10")
	e.Set("NEW", "x")
	if got := e.Get("https_proxy") + e.Get("HTTPS_PROXY") + e.Get("NEW"); got != "http://127.0.0.1:9http://127.0.0.1:10x" {
		t.Errorf("set %q", got)
	}
	got := Original(e.List())
	slices.Sort(got)
	if !slices.Equal(got, user) {
		t.Errorf("restored %q", got)
	}
}

// Files of certificates are the user's own with the authority, or the system's.
func TestTrust(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own.pem")
	if err := os.WriteFile(own, []byte("own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	set, _, err := ca.trust(folder, func(name string) string {
		return map[string]string{"SSL_CERT_FILE": own, "NODE_EXTRA_CA_CERTS": own}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range trustVariables {
		text, err := os.ReadFile(set[v.name])
		if err != nil || string(text) != string(ca.pem)+"own\n" {
			t.Errorf("%s: %v, %d bytes", v.name, err, len(text))
		}
	}
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		text, _ := os.ReadFile(filepath.Join(folder, entry.Name()))
		if strings.Contains(string(text), "PRIVATE") {
			t.Errorf("%s has a key", entry.Name())
		}
	}
}

// Hosts are those of models, of the user, and of the agent's configuration.
func TestConfiguredHosts(t *testing.T) {
	home := t.TempDir()
	for file, text := range map[string]string{
		".codex/config.toml": "[model_providers.x]\nbase_url = \"https://gate.test/v1\"\n[mcp_servers.y]\nurl = 'https://mcp.test:8443/mcp'\n[mcp_servers.z]\nurl = \"http://127.0.0.1:1/mcp\"\n",
		".claude.json":       `{"mcpServers":{"a":{"type":"http","url":"https://a.test/mcp"}},"source":{"url":"https://git.test/x.git"}}`,
	} {
		file = filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	for name, want := range map[string]string{"codex": "gate.test:443 mcp.test:8443", "/usr/bin/claude": "a.test:443", "other": ""} {
		if got := strings.Join(KindOf(name).configured(getenv, []string{"CI_PROJECT_URL=https://no.test"}, t.TempDir()), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := KindOf("x").configured(getenv, []string{"ANTHROPIC_BASE_URL=https://corp.test/a"}, home); !slices.Equal(got, []string{"corp.test:443"}) {
		t.Errorf("from the environment: %q", got)
	}
}

// Codex gets no daemon, and does not work in one.
func TestPrepareCodex(t *testing.T) {
	codex := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(codex, []byte("#!/bin/sh\necho \"  --no-daemon\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"": "--no-daemon", "-m x fix": "--no-daemon -m x fix", "resume --last": "--no-daemon resume --last", "exec hi": "exec hi", "app-server": "app-server",
		"--no-daemon": "--no-daemon", "app-server proxy": "refused", "--remote ws://x": "refused", "--remote=ws://x": "refused", "queue": "refused",
	} {
		s := &Setup{Program: codex, Args: strings.Fields(line), Env: newEnvironment(nil)}
		got := ""
		if err := prepareCodex(s); err != nil {
			got = "refused"
		} else {
			got = strings.Join(s.Args, " ")
		}
		if runtime.GOOS != "windows" && got != want {
			t.Errorf("codex %s: %q, want %q", line, got, want)
		}
	}
}

// What a killed run has left is removed, and that of a living one is not.
func TestRemoveLeftovers(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	getenv := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": parent}[name] }
	for _, name := range []string{"wirectl-run-1-killed", "wirectl-run-1-living", "wirectl-run-1-beginning", "other"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
		state, err := os.Create(filepath.Join(parent, name, stateFile))
		if err != nil {
			t.Fatal(err)
		}
		defer state.Close()
		if strings.HasSuffix(name, "killed") {
			_, _ = state.WriteString("{}")
		}
		if strings.HasSuffix(name, "living") {
			if err := history.Hold(state); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := RemoveLeftovers(getenv); got != 1 {
		t.Errorf("%d are removed", got)
	}
	left, _ := os.ReadDir(parent)
	if len(left) != 3 {
		t.Errorf("%v are left", left)
	}
}

// An agent runs without a proxy where no private folder can be made, and in the second place where it can.
func TestPrivateFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the agent is a shell")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "")
	for name, test := range map[string]struct{ runtime, temporary, prints, says string }{
		"neither":    {dir + "/gone", file + "/x", "none", "not seen: anything: "},
		"the second": {dir + "/file", dir, "a proxy", "recorded 0 connections"},
	} {
		t.Setenv("TMPDIR", test.temporary)
		env := []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir, "XDG_RUNTIME_DIR=" + test.runtime, "PATH=" + os.Getenv("PATH")}
		var stdout, stderr bytes.Buffer
		status, err := Run(t.Context(), Options{
			Command: []string{"sh", "-c", `echo ${HTTPS_PROXY:+a proxy} ${HTTPS_PROXY:-none}; exit 3`}, Level: history.Full, Environ: env, Getenv: newEnvironment(env).Get,
			Stdout: &stdout, Stderr: &stderr,
		})
		if status != 3 || err != nil || !strings.HasPrefix(stdout.String(), test.prints) || !strings.Contains(stderr.String(), test.says) || strings.Contains(stderr.String(), `\n`) {
			t.Errorf("%s: status %d, %v, it printed %q and we %q", name, status, err, stdout.String(), stderr.String())
		}
	}
}

// A client that leaves in mid-stream is missed by the server, over either version of HTTP.
func TestProxyPassesOnThatClientsLeave(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		gone := make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		}))
		s.EnableHTTP2 = h2
		s.StartTLS()
		p, _ := newTestProxy(t, s, nil)
		p.list(s.Listener.Addr().String())
		c := through(p, "wirectl")
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len("HTTP/x.x"))
		_, _ = io.ReadFull(answer.Body, b)
		if want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]; string(b) != want {
			t.Errorf("the server speaks %s, want %s", b, want)
		}
		cancel()
		<-gone
		answer.Body.Close()
		s.Close()
	}
}

// A server may answer before it has read the request, whose rest still arrives.
func TestProxyPassesEarlyAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_, _ = io.WriteString(w, "first ")
		_ = control.Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	p, _ := newTestProxy(t, server, nil)
	client := through(p, "wirectl")
	defer client.CloseIdleConnections()
	body, rest := io.Pipe()
	answer, err := client.Post(server.URL, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.WriteString(rest, "and last")
	_ = rest.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "first and last" {
		t.Errorf("%q, %v", text, err)
	}
}

// A server that is not trusted, or that asks for a certificate, is not opened: the client judges it itself.
func TestProxyLeavesServersToTheirClients(t *testing.T) {
	for want, cfg := range map[string]*tls.Config{"failed to verify": {}, "asks for a certificate": {ClientAuth: tls.RequestClientCert}} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
		s.TLS = cfg
		s.StartTLS()
		p, _ := newTestProxy(t, s, nil)
		if cfg.ClientAuth == tls.NoClientCert {
			p.roots = x509.NewCertPool()
		}
		p.list(s.Listener.Addr().String())
		c := through(p, "wirectl")
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate()) // and not that of the proxy
		c.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
		if got := get(t, c, s.URL); got != "200 OK hello" {
			t.Errorf("%s: %s", want, got)
		}
		c.CloseIdleConnections()
		finish(t, p)
		if notes := strings.Join(p.unseen(&Kind{}), ""); !strings.Contains(notes, want) {
			t.Errorf("not seen: %q, want %q", notes, want)
		}
		s.Close()
	}
}

// A WebSocket is recorded message by message.
func TestProxyReadsWebSockets(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		kind, text, err := c.Read(r.Context())
		if err == nil && c.Write(r.Context(), kind, text) == nil {
			_, _, _ = c.Read(r.Context()) // until the client leaves
		}
	}))
	defer s.Close()
	p, folder := newTestProxy(t, s, nil)
	p.list(s.Listener.Addr().String())
	const text = `{"type":"response.create"}`
	c, _, err := websocket.Dial(t.Context(), strings.Replace(s.URL, "https", "wss", 1), &websocket.DialOptions{HTTPClient: through(p, "wirectl")}) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	_ = c.CloseNow()
	finish(t, p)
	file, err := os.Open(filepath.Join(folder, "model.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapng.NewReader(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	var directions []frame.Dir
	for rec := (capture.Record{}); r.Next(&rec) == nil; {
		if rec.Kind == capture.Frame && string(rec.Payload()) == text {
			directions = append(directions, rec.Dir)
		}
	}
	if !slices.Equal(directions, []frame.Dir{frame.C2U, frame.U2C}) {
		t.Errorf("the message is recorded in the directions %v", directions)
	}
}

// The version of an agent is in its path, or in its own package.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/package.json": `{"name":"@openai/codex-linux-x64","version":"0.169.0"}`, "a/bin/codex": "", "a/bin/python": "", "versions/2.1.330": "",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"a/bin/codex": "0.169.0", "a/bin/python": "", "versions/2.1.330": "2.1.330", "none": ""} {
		if got := KindOf(name).versionOf(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A host that cannot be reached is named with the reason.
func TestProxyNamesUnreachableHosts(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	p, _ := newTestProxy(t, nil, map[string]string{"HTTPS_PROXY": closed.URL})
	p.list("model.test")
	if _, err := through(p, "wirectl").Get("https://model.test/"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") { //nolint:bodyclose // there is none
		t.Error(err)
	}
	finish(t, p)
	if notes := strings.Join(p.unseen(&Kind{}), ""); !p.hasFailed() || !strings.HasPrefix(notes, "model.test (") || !strings.Contains(notes, closed.URL[len("http://"):]) {
		t.Errorf("not seen: %q", notes)
	}
}

// The password of the user's own proxy may have any characters.
func TestOwnProxy(t *testing.T) {
	for own, want := range map[string]string{
		"http://u:p%20w@h:1": "u p w", "http://u:50%@h:1": "u 50%", "http://u:a/b#c?d@h:1": "u a/b#c?d", "u:a@b%@h:1": "u a@b%", "http://u%r@h:1": "u%r ", "h:1": " ",
	} {
		via, err := proxyOf(func(name string) string { return map[string]string{"HTTPS_PROXY": own}[name] })(&url.URL{Scheme: "https", Host: "model.test"})
		if err != nil || via == nil {
			t.Errorf("%s: %v, %v", own, via, err)
			continue
		}
		password, _ := via.User.Password()
		if got := via.User.Username() + " " + password; got != want || via.Host != "h:1" {
			t.Errorf("%s: %q at %s, want %q", own, got, via.Host, want)
		}
	}
}

// A signal that comes before the agent is there ends the run: the agent would not hear of it.
func TestStoppedBeforeTheAgent(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for name, c := range map[string]struct {
		ctx     context.Context
		signals []os.Signal
		want    int
	}{
		"terminated":            {context.Background(), []os.Signal{syscall.SIGTERM}, 143},
		"interrupted, and more": {context.Background(), []os.Signal{syscall.SIGPIPE, os.Interrupt}, 130},
		"interrupted before":    {ended, nil, 130},
	} {
		dir, signals := t.TempDir(), make(chan os.Signal, 2)
		for _, s := range c.signals {
			signals <- s
		}
		program, err := os.Executable() // which would run all tests
		if err != nil {
			t.Fatal(err)
		}
		environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "XDG_RUNTIME_DIR=" + dir}
		status, err := Run(c.ctx, Options{
			Command: []string{program}, Level: None, Quiet: true, Getenv: newEnvironment(environ).Get, Environ: environ,
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Signals: signals,
		})
		if status != c.want || err != nil {
			t.Errorf("%s: the status is %d (%v), want %d", name, status, err, c.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}
