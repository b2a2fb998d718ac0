package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/peer/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard gathers what a call hands out.
type heard struct{ text, asides []string }

func (h *heard) part(p client.Part) {
	switch {
	case p.Aside:
		h.asides = append(h.asides, p.Name)
	case p.JSON != nil:
		h.text = append(h.text, string(p.JSON))
	default:
		h.text = append(h.text, p.Text)
	}
}

// listen lets peer serve one connection and returns the other end of it.
func listen(t *testing.T, peer func(net.Conn)) *net.TCPConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		nc, err := l.Accept()
		l.Close() // earlier it would reset what was not accepted yet
		if err != nil {
			return
		}
		defer nc.Close()
		peer(nc)
		_, _ = io.Copy(io.Discard, nc)
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-served
	})
	return nc.(*net.TCPConn)
}

// A dialogue is what a peer of the JSON-RPC family says: a line that begins with
// "> " has to come, one with "< " is sent. The order of keys is ours.
type dialogue struct {
	name    string
	dialect *client.Dialect
	lines   string
	ask     func(r *client.RPC) client.Call
	want    heard
	err     string
}

const (
	mcpHello = `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"roots":{}},"clientInfo":{"name":"wirectl","version":"v"},"protocolVersion":"2025-06-18"}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
`
	acpHello = `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"clientInfo":{"name":"wirectl","version":"v"},"protocolVersion":1}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}
`
	codexTurn = `> {"method":"initialize","id":1,"params":{"clientInfo":{"name":"wirectl","title":"wirectl","version":"v"}}}
< {"id":1,"result":{"userAgent":"x"}}
> {"method":"initialized"}
> {"method":"thread/start","id":2,"params":{"cwd":"/a b"}}
< {"id":2,"result":{"thread":{"id":"t1"}}}
> {"method":"turn/start","id":3,"params":{"input":[{"text":"hi","type":"text"}],"threadId":"t1"}}
`
	lspHello = `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"window":{"workDoneProgress":true},"workspace":{"configuration":true,"workspaceFolders":true}},"clientInfo":{"name":"wirectl","version":"v"},"processId":null,"rootUri":"file:///a%20b"}}
< {"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}
> {"jsonrpc":"2.0","method":"initialized","params":{}}
`
	dapHello = `> {"seq":1,"type":"request","command":"initialize","arguments":{"adapterID":"wirectl","clientID":"wirectl","columnsStartAt1":true,"linesStartAt1":true,"pathFormat":"path"}}
< {"seq":1,"type":"event","event":"initialized"}
< {"seq":2,"type":"response","request_seq":1,"success":true,"command":"initialize"}
`
)

func method(name, params string) func(*client.RPC) client.Call {
	return func(r *client.RPC) client.Call { return r.Call(name, []byte(params)) }
}

// prompted opens a session and sends a prompt in it.
func prompted(r *client.RPC) client.Call {
	if _, err := r.NewSession(context.Background()); err != nil {
		panic(err)
	}
	return r.Prompt("hi")
}

var dialogues = []dialogue{
	{
		"mcp", client.MCP, mcpHello + `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"<x>"}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}
< {"jsonrpc":"2.0","id":0,"method":"ping"}
> {"jsonrpc":"2.0","id":0,"result":{}}
< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
> {"jsonrpc":"2.0","id":1,"result":{"roots":[{"name":"a b","uri":"file:///a%20b"}]}}
< {"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{}}
> {"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}
< {"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{}}
> {"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"the user refused: wirectl send has no model"}}
< {"jsonrpc":"2.0","id":"four","method":"tasks/other"}
> {"jsonrpc":"2.0","id":"four","error":{"code":-32601,"message":"Method not found: tasks/other"}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[9007199254740993]}}`,
		method("tools/call", `{"name":"<x>"}`),
		heard{text: []string{`{"content":[9007199254740993]}`}, asides: []string{"notifications/message"}},
		"",
	},
	{
		"an error", client.MCP, mcpHello + `> {"jsonrpc":"2.0","id":2,"method":"nope"}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found","data":{"a":1}}}`,
		method("nope", ""),
		heard{},
		`-32601: Method not found {"a":1}`,
	},
	{
		"the handshake fails", client.MCP, `> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"roots":{}},"clientInfo":{"name":"wirectl","version":"v"},"protocolVersion":"2025-06-18"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported protocol version"}}`,
		nil,
		heard{},
		"-32602: Unsupported protocol version",
	},
	{
		"no JSON", client.MCP, mcpHello + `> {"jsonrpc":"2.0","id":2,"method":"x"}
< starting server`,
		method("x", ""),
		heard{},
		`the peer broke its protocol: "starting server" is not a message, but looks like plain text: invalid JSON at byte 0`,
	},
	{
		"acp", client.ACP, acpHello + `> {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/a b","mcpServers":[]}}
< {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}
> {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"prompt":[{"text":"hi","type":"text"}],"sessionId":"s1"}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hel"}}}}
< {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]}}
> {"jsonrpc":"2.0","id":0,"result":{"outcome":{"optionId":"r","outcome":"selected"}}}
< {"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","options":[]}}
> {"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan"}}}
< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"lo"}}}}
< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`,
		prompted,
		heard{text: []string{"Hel", "lo"}, asides: []string{"session/update", "result"}},
		"",
	},
	{
		"codex", client.Codex, codexTurn + `< {"id":3,"result":{"turn":{"id":"u1","status":"inProgress"}}}
< {"method":"turn/started","params":{"threadId":"t1","turn":{"id":"u1","status":"inProgress"}}}
< {"method":"item/started","params":{"threadId":"t1","turnId":"u1","item":{"type":"agentMessage","id":"i1"}}}
< {"method":"item/agentMessage/delta","params":{"threadId":"t1","turnId":"u1","itemId":"i1","delta":"Hel"}}
< {"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t1","turnId":"u1","itemId":"c1"}}
> {"id":0,"result":{"decision":"decline"}}
< {"id":1,"method":"mcpServer/elicitation/request","params":{"threadId":"t1","turnId":"u1"}}
> {"id":1,"result":{"action":"decline"}}
< {"id":2,"method":"item/tool/call","params":{"threadId":"t1","turnId":"u1"}}
> {"id":2,"error":{"code":-32601,"message":"Method not found: item/tool/call"}}
< {"method":"turn/completed","params":{"threadId":"t2","turn":{"id":"u2","status":"completed"}}}
< {"method":"item/agentMessage/delta","params":{"threadId":"t1","turnId":"u1","itemId":"i1","delta":"lo"}}
< {"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u1","status":"completed","error":null}}}`,
		prompted,
		heard{text: []string{"Hel", "lo"}, asides: []string{"turn/started", "item/started", "turn/completed", "turn/completed", "result"}},
		"",
	},
	{
		"a turn of codex fails, before it was said to have begun", client.Codex, codexTurn + `< {"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u1","status":"failed","error":{"message":"no model"}}}}
< {"id":3,"result":{"turn":{"id":"u1","status":"inProgress"}}}`,
		prompted,
		heard{asides: []string{"turn/completed"}},
		"failed: no model",
	},
	{
		"lsp", client.LSP, lspHello + `> {"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{}}
< {"jsonrpc":"2.0","id":"c","method":"workspace/configuration","params":{"items":[{},{}]}}
> {"jsonrpc":"2.0","id":"c","result":[null,null]}
< {"jsonrpc":"2.0","id":1,"method":"client/registerCapability","params":{}}
> {"jsonrpc":"2.0","id":1,"result":null}
< {"jsonrpc":"2.0","id":2,"result":null}
> {"jsonrpc":"2.0","id":3,"method":"shutdown"}
< {"jsonrpc":"2.0","id":3,"result":null}
> {"jsonrpc":"2.0","method":"exit"}`,
		method("textDocument/hover", "{}"),
		heard{text: []string{"null"}},
		"",
	},
	{
		"shutdown", client.LSP, lspHello + `> {"jsonrpc":"2.0","id":2,"method":"shutdown"}
< {"jsonrpc":"2.0","id":2,"result":null}
> {"jsonrpc":"2.0","method":"exit"}`,
		method("shutdown", ""),
		heard{text: []string{"null"}},
		"",
	},
	{
		"disconnect", client.DAP, dapHello + `> {"seq":2,"type":"request","command":"disconnect"}
< {"seq":3,"type":"response","request_seq":2,"success":true,"command":"disconnect"}`,
		method("disconnect", ""),
		heard{text: []string{"{}"}},
		"",
	},
	{
		"dap", client.DAP, dapHello + `> {"seq":2,"type":"request","command":"threads"}
< {"seq":3,"type":"event","event":"output","body":{"output":"x"}}
< {"seq":4,"type":"request","command":"runInTerminal","arguments":{}}
> {"command":"runInTerminal","message":"Method not found: runInTerminal","request_seq":4,"seq":3,"success":false,"type":"response"}
< {"seq":5,"type":"response","request_seq":2,"success":true,"command":"threads","body":{"threads":[]}}
> {"seq":4,"type":"request","command":"disconnect","arguments":{}}
< {"seq":6,"type":"response","request_seq":4,"success":true,"command":"disconnect"}`,
		method("threads", ""),
		heard{text: []string{`{"threads":[]}`}, asides: []string{"output"}},
		"",
	},
	{
		"a DAP error", client.DAP, dapHello + `> {"seq":2,"type":"request","command":"threads"}
< {"seq":5,"type":"response","request_seq":2,"success":false,"command":"threads","message":"notStopped"}
> {"seq":3,"type":"request","command":"disconnect","arguments":{}}
< {"seq":6,"type":"response","request_seq":3,"success":true,"command":"disconnect"}`,
		method("threads", ""),
		heard{},
		"threads: notStopped",
	},
	{
		"jsonrpc", client.Plain, `> {"jsonrpc":"2.0","id":1,"method":"m","params":[1]}
< [{"jsonrpc":"2.0","id":1,"result":"r"}]`,
		method("m", "[1]"),
		heard{text: []string{`"r"`}},
		"",
	},
	{
		"an error of a request that could not be read", client.Plain, `> {"jsonrpc":"2.0","id":1,"method":"m"}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`,
		method("m", ""),
		heard{},
		"-32600: Invalid Request",
	},
	{
		"the peer goes away", client.Plain, `> {"jsonrpc":"2.0","id":1,"method":"m"}
close`,
		method("m", ""),
		heard{},
		"the peer ended the connection",
	},
}

func TestDialogues(t *testing.T) {
	for _, d := range dialogues {
		t.Run(d.name, func(t *testing.T) {
			ended := make(chan struct{})
			nc := listen(t, func(nc net.Conn) {
				defer close(ended)
				d.play(t, nc)
			})
			w := client.NewWatch(d.dialect.Protocol, nil)
			r, err := client.DialRPC(t.Context(), nc, d.dialect, w, client.RPCOptions{Version: "v", Dir: "/a b"})
			var got heard
			if err == nil {
				err = d.ask(r)(t.Context(), got.part)
				if cerr := r.Close(); cerr != nil {
					t.Error(cerr)
				}
			}
			<-ended
			if err == nil && d.err != "" || err != nil && !strings.HasPrefix(err.Error(), d.err) || d.err == "" && err != nil {
				t.Errorf("the error is %v, want %q", err, d.err)
			}
			if !slices.Equal(got.text, d.want.text) || !slices.Equal(got.asides, d.want.asides) {
				t.Errorf("heard %q, want %q", got, d.want)
			}
			found, _ := w.Findings()
			for _, f := range found {
				if d.err == "" && f.Name != "undeclared" { // servers ask what this client has not declared
					t.Errorf("%s: %s", f.Name, f.Message)
				}
			}
		})
	}
}

// Some peers write null for the error of a result, which breaks a rule and is not an error.
func TestNullError(t *testing.T) {
	d := dialogue{dialect: client.Plain, lines: `> {"jsonrpc":"2.0","id":1,"method":"m"}
< {"jsonrpc":"2.0","id":1,"result":"r","error":null}`}
	nc := listen(t, func(nc net.Conn) { d.play(t, nc) })
	r, err := client.DialRPC(t.Context(), nc, d.dialect, client.NewWatch(d.dialect.Protocol, nil), client.RPCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got heard
	if err := r.Call("m", nil)(t.Context(), got.part); err != nil || !slices.Equal(got.text, []string{`"r"`}) {
		t.Errorf("heard %q, %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// play is the peer's side of a dialogue.
func (d *dialogue) play(t *testing.T, nc net.Conn) {
	r := bufio.NewReader(nc)
	header := d.dialect == client.LSP || d.dialect == client.DAP
	for line := range strings.Lines(d.lines) {
		line = strings.TrimSuffix(line, "\n")
		switch want, in := strings.CutPrefix(line, "> "); {
		case in:
			got, err := readMessage(r, header)
			if err != nil || got != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
				return
			}
		case line == "close":
			_ = nc.(*net.TCPConn).CloseWrite()
		default:
			text := strings.TrimPrefix(line, "< ")
			if header {
				fmt.Fprintf(nc, "Content-Length: %d\r\n\r\n%s", len(text), text)
			} else {
				_, _ = io.WriteString(nc, text+"\n")
			}
		}
	}
}

func readMessage(r *bufio.Reader, header bool) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil || !header {
		return strings.TrimSuffix(line, "\n"), err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "Content-Length:")))
	if err != nil {
		return "", err
	}
	body := make([]byte, n+2)
	_, err = io.ReadFull(r, body)
	return string(body[2:]), err
}

// A call that is given up is cancelled at the peer.
func TestCancels(t *testing.T) {
	for _, d := range []dialogue{
		{"mcp", client.MCP, mcpHello + `> {"jsonrpc":"2.0","id":2,"method":"tools/call"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"interrupted","requestId":2}}`, method("tools/call", ""), heard{}, ""},
		{"lsp", client.LSP, lspHello + `> {"jsonrpc":"2.0","id":2,"method":"x"}
> {"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}`, method("x", ""), heard{}, ""},
		{"acp", client.ACP, acpHello + `> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}
> {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`, method("session/prompt", `{"sessionId":"s"}`), heard{}, ""},
		{"codex", client.Codex, codexTurn + `< {"id":3,"result":{"turn":{"id":"u1","status":"inProgress"}}}
< {"method":"item/agentMessage/delta","params":{"threadId":"t1","turnId":"u1","itemId":"i1","delta":"x"}}
> {"method":"turn/interrupt","id":4,"params":{"threadId":"t1","turnId":"u1"}}`, prompted, heard{text: []string{"x"}}, ""},
		{"dap", client.DAP, dapHello + `> {"seq":2,"type":"request","command":"evaluate"}
> {"seq":3,"type":"request","command":"cancel","arguments":{"requestId":2}}`, method("evaluate", ""), heard{}, ""},
	} {
		t.Run(d.name, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan struct{})
			first, last, _ := cutLast(d.lines)
			nc := listen(t, func(nc net.Conn) {
				defer close(ended)
				(&dialogue{dialect: d.dialect, lines: first}).play(t, nc)
				close(asked)
				(&dialogue{dialect: d.dialect, lines: last}).play(t, nc)
			})
			ctx, cancel := context.WithCancel(t.Context())
			r, err := client.DialRPC(ctx, nc, d.dialect, client.NewWatch(d.dialect.Protocol, nil), client.RPCOptions{Version: "v", Dir: "/a b"})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-asked
				cancel()
			}()
			if err := d.ask(r)(ctx, func(client.Part) {}); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			<-ended
			nc.Close() // the peer says no goodbye
			r.Close()
		})
	}
}

func cutLast(lines string) (first, last string, ok bool) {
	at := strings.LastIndexByte(lines, '\n')
	return lines[:at], lines[at+1:], at > 0
}

// MCP over HTTP: answers are JSON or a stream of events, the session is kept and
// ended, and every request names the version that the server chose.
func TestHTTP(t *testing.T) {
	var log []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		log = append(log, strings.TrimSpace(r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Mcp-Protocol-Version")))
		if r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		switch {
		case strings.Contains(string(body), "initialize\""):
			w.Header().Set("Mcp-Session-Id", "s")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{\n \"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"protocolVersion\": \"2025-03-26\"}}")
		case strings.Contains(string(body), `"id":2`):
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(w, ": comment\nevent: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\ndata: \"params\":{}}\n\n")
			_, _ = io.WriteString(w, "data:{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"ok\":true}}\n\n")
		case strings.Contains(string(body), `"id":3`):
			http.Error(w, "no such session", http.StatusNotFound)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer s.Close()
	w := client.NewWatch(client.MCP.Protocol, nil)
	r, err := client.DialHTTP(t.Context(), s.URL, client.MCP, w, client.RPCOptions{Version: "v"},
		client.HTTPOptions{Client: s.Client(), Header: http.Header{"Authorization": {"Bearer t"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got heard
	if err := r.Call("tools/list", nil)(t.Context(), got.part); err != nil || !slices.Equal(got.text, []string{`{"ok":true}`}) || len(got.asides) != 1 {
		t.Errorf("heard %q, %v", got, err)
	}
	var refused *client.PeerError
	if err := r.Call("tools/list", nil)(t.Context(), got.part); !errors.As(err, &refused) || refused.Message != "no such session" {
		t.Errorf("the error is %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"POST", "POST s 2025-03-26", "POST s 2025-03-26", "POST s 2025-03-26", "DELETE s 2025-03-26"}; !slices.Equal(log, want) {
		t.Errorf("the requests are %q, want %q", log, want)
	}
}

// Over HTTP the head of each request of MCP 2026-07-28 says what its body says, errors
// come with a status and a body, and to close the stream of an answer is the cancel.
func TestStatelessHTTP(t *testing.T) {
	var log []string
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		log = append(log, strings.Join([]string{r.Method, r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name")}, " "))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(string(body), "server/discover"):
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public"}}`)
		case strings.Contains(string(body), "none"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":1}}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(left)
		}
	}))
	defer s.Close()
	w := client.NewWatch(client.MCP.Protocol, nil)
	r, err := client.DialHTTP(t.Context(), s.URL, client.MCP, w, client.RPCOptions{Version: "v", Stateless: true}, client.HTTPOptions{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	var refused *client.PeerError
	if err := r.Call("resources/read", []byte(`{"uri":"x://none"}`))(t.Context(), func(client.Part) {}); !errors.As(err, &refused) || refused.Code != "-32601" {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Call("tools/call", []byte(`{"name":"größe","_meta":{"progressToken":"p"}}`))(ctx, func(client.Part) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	<-left
	want := []string{"POST 2026-07-28 server/discover ", "POST 2026-07-28 resources/read x://none", "POST 2026-07-28 tools/call =?base64?Z3LDtsOfZQ==?="}
	if !slices.Equal(log, want) {
		t.Errorf("the requests are %q, want %q", log, want)
	}
}

func TestNexus(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		switch m.Method {
		case "send":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":"hello","request_id":"x"}}`, m.ID)
		case "get_tokens":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"total":1}}`, m.ID)
		case "both":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`)
		case "none":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s}`, m.ID)
		default:
			http.Error(w, "proxy", http.StatusBadGateway)
		}
	}))
	defer s.Close()
	c := client.NewNexus(s.URL, client.NewWatch(client.Plain.Protocol, nil), client.HTTPOptions{Client: s.Client()})
	for _, tt := range []struct{ method, want, err string }{
		{"send", "hello", ""},
		{"get_tokens", `{"total":1}`, ""},
		{"both", "", "-32600: Invalid Request"},
		{"none", "", "the peer broke its protocol: the answer has neither a result nor an error"},
		{"elsewhere", "", "HTTP 502 Bad Gateway: proxy"},
	} {
		var got heard
		err := c.Call(tt.method, nil)(t.Context(), got.part)
		if strings.Join(got.text, "") != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: heard %q, %v", tt.method, got, err)
		}
	}
}

// The token is that of the environment, of the server's port, or of all servers;
// other machines never get one from a file.
func TestNexusToken(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home) // where nothing is looked for without a home
	for name, text := range map[string]string{"rpc-8765.token": "nxk_port\n", "rpc.token": "nxk_all"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(home, ".nexus3"), 0o700), os.WriteFile(filepath.Join(home, ".nexus3", name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ url, key, home, want string }{
		{"http://127.0.0.1:8765", "", home, "nxk_port"},
		{"http://localhost:9", "", home, "nxk_all"},
		{"http://example.org:8765", "", home, ""},
		{"http://example.org", "nxk_env", home, "nxk_env"},
		{"http://127.0.0.1:8765", "", t.TempDir(), ""},
		{"http://127.0.0.1:8765", "", "", ""},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.NexusToken(u, func(name string) string {
			return map[string]string{"HOME": tt.home, "NEXUS3_API_KEY": tt.key}[name]
		})
		if got != tt.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", tt.url, got, err, tt.want)
		}
	}
}

// A token that others of this machine can read is not used.
func TestNexusTokenIsPrivate(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("files have no such modes")
	}
	home := t.TempDir()
	path := filepath.Join(home, ".nexus3", "rpc.token")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("nxk_open"), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	got, err := client.NexusToken(&url.URL{Scheme: "http", Host: "127.0.0.1:8765"}, func(name string) string {
		return map[string]string{"HOME": home}[name]
	})
	if got != "" || err == nil || !strings.HasSuffix(err.Error(), "rpc.token can be read by others (mode 0644): try chmod 600 "+path) {
		t.Errorf("%q, %v", got, err)
	}
}
