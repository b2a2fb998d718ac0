package mcphttp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bridge is a connection to a server, and what the server was asked for.
type bridge struct {
	*testing.T
	conn  transport.Conn
	lines *bufio.Reader
	url   string

	mu      sync.Mutex
	log     []string
	notices []string
}

// dial connects to a server that serve is, which gets the body of each request.
func dial(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, body string)) *bridge {
	t.Helper()
	b := &bridge{T: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		words := []string{r.Method}
		for _, name := range []string{"Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"} {
			words = append(words, r.Header[name]...)
		}
		b.mu.Lock()
		b.log = append(b.log, strings.Join(words, " "))
		b.mu.Unlock()
		serve(w, r, string(body))
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	b.url = s.URL
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := &mcphttp.Endpoint{
		URL: u, Options: mcphttp.Options{Client: s.Client(), Header: http.Header{"Authorization": {"Bearer t"}}},
		Pause: time.Millisecond,
		Notice: func(text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notices = append(b.notices, strings.ReplaceAll(text, b.url, "URL"))
		},
	}
	if b.conn, err = e.Dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	b.lines = bufio.NewReader(b.conn)
	return b
}

func (b *bridge) send(lines ...string) {
	b.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(b.conn, line+"\n"); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bridge) want(lines ...string) {
	b.Helper()
	for _, want := range lines {
		if got, err := b.lines.ReadString('\n'); err != nil || got != want+"\n" {
			b.Fatalf("got %q, %v, want %s", got, err, want)
		}
	}
}

func (b *bridge) wantLog(want ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.log, want) {
		b.Errorf("the requests are %q, want %q", b.log, want)
	}
}

func event(w http.ResponseWriter, lines string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, lines+"\n\n")
	w.(http.Flusher).Flush()
}

// A session: headers that the server gives and agrees on go with every request, answers and
// events come out as lines, and what the server refuses is an error of the request alone.
func TestBridge(t *testing.T) {
	b := dial(t, func(w http.ResponseWriter, r *http.Request, body string) {
		switch {
		case strings.Contains(body, `"initialize"`):
			w.Header().Set("Mcp-Session-Id", "s")
			_, _ = io.WriteString(w, "{\n \"jsonrpc\":\"2.0\", \"id\": 0, \"result\": {\"protocolVersion\":\"2025-06-18\"}}")
		case r.Method == http.MethodGet:
			event(w, "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/tools/list_changed\"}")
			<-r.Context().Done()
		case strings.Contains(body, `"id":"a"`):
			event(w, `data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
			event(w, `data: {"jsonrpc":"2.0","id":"a","result":{}}`)
		case strings.Contains(body, `"id":2`):
			http.Error(w, "not\x1ballowed", http.StatusForbidden)
		case strings.Contains(body, `"id":3`):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no","data":{"supported":["x"]}}}`)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	b.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	b.want(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`)
	b.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	b.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	b.send(`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	b.want(`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`)
	b.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	b.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"HTTP 403 Forbidden: \"not\\x1ballowed\""}}`)
	b.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	b.want(`{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"no","data":{"supported":["x"]}}}`)
	if err := b.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(b.lines); len(rest) > 0 || err != nil {
		t.Errorf("the end is %q, %v", rest, err)
	}
	later := " Bearer t s 2025-06-18"
	b.wantLog("POST Bearer t", "POST"+later, "GET"+later, "POST"+later, "POST"+later, "POST"+later, "DELETE"+later)
}

// A request that carries the version of MCP has headers of its own, and is cancelled by
// closing its stream, while others go on.
func TestBridgeStateless(t *testing.T) {
	left := make(chan struct{})
	b := dial(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if strings.Contains(body, `"id":1`) {
			event(w, `data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
			<-r.Context().Done()
			close(left)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
	request := `{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	b.send(fmt.Sprintf(request, 1, "tools/call", `"name":"wäit"`))
	b.want(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-left
	b.send(fmt.Sprintf(request, 2, "resources/read", `"uri":"file:///a"`))
	b.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	b.wantLog("POST Bearer t 2026-07-28 tools/call =?base64?d8OkaXQ=?=", "POST Bearer t 2026-07-28 resources/read file:///a")
}

// A request that the server does not answer fails alone: the connection serves the next one.
func TestBridgeUnanswered(t *testing.T) {
	const retry = "; it may have been carried out: repeat it only if that does no harm"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with %v", r.Header)
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		serve func(w http.ResponseWriter, r *http.Request)
		want  string // after the server's address; "" is an answer
	}{
		"an empty body": {func(http.ResponseWriter, *http.Request) {}, "no answer to tools/call: HTTP 200 OK without an answer in the body" + retry},
		"no content":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "no answer to tools/call: HTTP 204 No Content without an answer in the body" + retry},
		"a stream that ends": {func(w http.ResponseWriter, _ *http.Request) {
			event(w, ": hello")
		}, "no answer to tools/call: the stream ended before it" + retry},
		"a stream that breaks": {func(w http.ResponseWriter, _ *http.Request) {
			event(w, ": hello")
			panic(http.ErrAbortHandler)
		}, "no answer to tools/call: the connection broke" + retry},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>\nLog in")
		}, `no answer to tools/call: the body of HTTP 200 OK is not JSON: "<html>\nLog in"` + retry},
		"no message": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{}`)
		}, "no answer to tools/call: HTTP 200 OK without an answer in the body" + retry},
		"another server": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "it redirects to another server, " + elsewhere.URL + ": use that address if you trust it"},
		"a redirect of a GET": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusFound)
		}, "HTTP 302 Found redirects to URL/other, but as a GET: use that address"},
		"a loop": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/", http.StatusPermanentRedirect)
		}, "it redirects more than 10 times: check the address"},
		"nowhere":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }, "HTTP 302 Found"},
		"no redirect": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "HTTP 304 Not Modified"},
		"the same server": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, ""},
		"one that remains": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusPermanentRedirect)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := dial(t, func(w http.ResponseWriter, r *http.Request, body string) {
				switch {
				case strings.Contains(body, `"id":2`) || r.URL.Path == "/other" && r.Method == http.MethodPost:
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%c,"result":{}}`, body[strings.Index(body, `"id":`)+5])
				default:
					c.serve(w, r)
				}
			})
			b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
			var answer struct {
				ID     int
				Result json.RawMessage
				Error  struct {
					Code    int
					Message string
				}
			}
			line, err := b.lines.ReadBytes('\n')
			if err == nil && bytes.Equal(line, []byte("{}\n")) { // what the server said
				line, err = b.lines.ReadBytes('\n')
			}
			if err = errors.Join(err, json.Unmarshal(line, &answer)); err != nil || answer.ID != 1 {
				t.Fatalf("the answer is %q, %v", line, err)
			}
			got := strings.ReplaceAll(strings.TrimPrefix(answer.Error.Message, b.url+": "), b.url, "URL")
			if got != c.want || (c.want == "") != (answer.Result != nil) {
				t.Errorf("the answer is %s, want %s", line, c.want)
			}
			b.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			b.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		})
	}
}

// What a refusal says of how to log in, and when to ask again, is in the error's data and in a
// notice, whatever else the server says. A byte order mark before JSON is no part of it.
func TestBridgeAdvice(t *testing.T) {
	const bearer = `Bearer resource_metadata="https://h/.well-known", error="invalid_token"`
	const challenges = `"Bearer resource_metadata=\"https://h/.well-known\", error=\"invalid_token\", Basic realm=\"x\""`
	const data = `"data":{"Retry-After":"7","WWW-Authenticate":` + challenges + `}`
	for name, tt := range map[string]struct {
		status     int
		body, want string // the error of the answer
	}{
		"text":          {401, "who are you", `{"code":-32603,` + data + `,"message":"HTTP 401 Unauthorized: \"who are you\""}`},
		"nothing":       {503, "", `{"code":-32603,` + data + `,"message":"HTTP 503 Service Unavailable"}`},
		"an error":      {401, "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}}`, `{"code":-32001,` + data + `,"message":"no"}`},
		"data":          {429, `{"error":{"code":-32001,"message":"no","data":{"a":12345678901234567890,"Retry-After":9}}}`, `{"code":-32001,"data":{"Retry-After":9,"WWW-Authenticate":` + challenges + `,"a":12345678901234567890},"message":"no"}`},
		"other data":    {429, `{"error":{"code":-32001,"message":"no","data":"soon"}}`, `{"code":-32001,"message":"no","data":"soon"}`},
		"another error": {429, `{"error":"slow_down"}`, `{"code":-32603,` + data + `,"message":"HTTP 429 Too Many Requests: \"{\\\"error\\\":\\\"slow_down\\\"}\""}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := dial(t, func(w http.ResponseWriter, _ *http.Request, body string) {
				if strings.Contains(body, `"id":2`) {
					_, _ = io.WriteString(w, "\xef\xbb\xbf"+`{"jsonrpc":"2.0","id":2,"result":{}}`)
					return
				}
				w.Header().Set("Retry-After", "7")
				w.Header()["Www-Authenticate"] = []string{bearer, `Basic realm="x"`}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`)
			b.want(`{"jsonrpc":"2.0","id":1,"error":` + tt.want + `}`)
			b.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			b.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			b.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
			if len(b.notices) != 2 {
				t.Fatalf("the notices are %q", b.notices)
			}
			for i, request := range []string{"tools/call", "notifications/initialized"} {
				from, to := "URL: the server refused "+request+": HTTP ", "; WWW-Authenticate: "+bearer+`, Basic realm="x"; Retry-After: 7`
				if got := b.notices[i]; !strings.HasPrefix(got, from) || !strings.HasSuffix(got, to) {
					t.Errorf("the notice is %q", got)
				}
			}
		})
	}
}

// A server of the older transport may accept messages with an empty 200.
func TestBridgeOlder(t *testing.T) {
	posted := make(chan struct{}, 2)
	b := dial(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch {
		case r.Method == http.MethodGet:
			event(w, "event: endpoint\ndata: /post")
			for id := range 2 {
				<-posted
				event(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%d,"result":{}}`, id))
			}
			<-r.Context().Done()
		case r.URL.Path != "/post":
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			_, _ = io.WriteString(w, "OK")
			posted <- struct{}{}
		}
	})
	b.send(`{"jsonrpc":"2.0","id":0,"method":"initialize"}`)
	b.want(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	b.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	b.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if err := b.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(b.lines); len(rest) > 0 || err != nil {
		t.Errorf("the end is %q, %v", rest, err)
	}
}

// Events of another type than message are no lines, whatever they contain, and so are those
// that are not JSON.
func TestBridgeEvents(t *testing.T) {
	const noise = "event: ping\ndata: ping\n\nevent: ping\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n: x\n\nevent: endpoint\ndata: /x\n\ndata: <html>\n\ndata: null\n\ndata: \n\n"
	for name, older := range map[string]bool{"streams of answers": false, "one stream": true} {
		t.Run(name, func(t *testing.T) {
			posted := make(chan struct{}, 1)
			answer := func(w http.ResponseWriter) {
				event(w, noise+"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"+noise+`data: {"jsonrpc":"2.0","id":1,"result":{"ok":1}}`)
			}
			b := dial(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				switch {
				case older && r.Method == http.MethodGet:
					event(w, "event: endpoint\ndata: /post")
					<-posted
					answer(w)
					<-r.Context().Done()
				case older && r.URL.Path != "/post":
					w.WriteHeader(http.StatusMethodNotAllowed)
				case older:
					w.WriteHeader(http.StatusAccepted)
					posted <- struct{}{}
				default:
					answer(w)
				}
			})
			b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
			b.want(`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","id":1,"result":{"ok":1}}`)
		})
	}
}

// A stream whose events have ids goes on in another one.
func TestBridgeResumed(t *testing.T) {
	b := dial(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch r.Header.Get("Last-Event-Id") {
		case "":
			event(w, "id: 1\ndata:")
			panic(http.ErrAbortHandler)
		case "1":
			event(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}")
		default:
			event(w, `data: {"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	})
	b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	b.want(`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	b.wantLog("POST Bearer t", "GET Bearer t 1", "GET Bearer t 2")
}

// Answers that are still to come are waited for when the input ends, and a call that hangs
// holds nothing up after that.
func TestBridgeEnds(t *testing.T) {
	for name, hangs := range map[string]bool{"answered": false, "hanging": true} {
		t.Run(name, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan struct{})
			b := dial(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				close(asked)
				select {
				case <-ended:
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				case <-r.Context().Done():
				}
			})
			b.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
			<-asked
			if err := b.conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if hangs {
				if err := b.conn.Close(); err != nil {
					t.Fatal(err)
				}
				return
			}
			close(ended)
			b.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			if _, err := b.lines.ReadByte(); err != io.EOF {
				t.Errorf("the end is %v", err)
			}
		})
	}
}

// What comes from a server that says nothing sensible is one line each, and no crash.
func TestBridgeNonsense(t *testing.T) {
	b := dial(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		if !json.Valid([]byte(body)) {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, "[{\"id\":\r\n1,\"result\":[]}]")
	})
	b.send(``, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	b.want(`[{"id":1,"result":[]}]`)
	b.send(`{"id":`)
	b.want(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"HTTP 400 Bad Request: \"no JSON\""}}`)
	_, err := b.conn.Write(bytes.Repeat([]byte("x"), mcphttp.MaxBody+1))
	if want := "a line is over the limit of 16777216 bytes"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
