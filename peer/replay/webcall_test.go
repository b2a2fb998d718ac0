package replay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// called returns the session of MCP over HTTP that lines describe. A line has the number of a
// request, and one of: "POST BODY", "GET" or "DELETE"; a status with its body; "events"; an
// event; "end"; or "gone" if the client closes the connection.
func called(t *testing.T, version, text string) *replay.Session {
	t.Helper()
	s := new(replay.Session)
	for i, line := range strings.Split(strings.ReplaceAll(text, "VERSION", version), "\n") {
		number, said, _ := strings.Cut(line, " ")
		verb, rest, _ := strings.Cut(said, " ")
		fields := []frame.Field{{Name: "Mcp-Protocol-Version", Value: version}}
		if number != "1" && version < "2026" {
			fields = append(fields, frame.Field{Name: "mcp-session-id", Value: "recorded"})
		}
		f := frame.Frame{Conn: int(number[0] - '0'), Stream: 1, Dir: frame.U2C, Meta: &frame.Meta{Framing: frame.HTTP, Apart: true, Data: []byte(rest)}}
		switch verb {
		case "POST", "GET", "DELETE":
			f.Dir, f.Meta.Head = frame.C2U, &frame.Head{Start: verb + " /mcp HTTP/1.1", Fields: fields}
			if rest == "" {
				f.Meta.Signal = frame.Request
			}
		case "events":
			f.Meta.Signal, f.Meta.Head = frame.Response, &frame.Head{Start: "HTTP/1.1 200 OK", Fields: []frame.Field{{Name: "Content-Type", Value: "text/event-stream"}}}
			if number == "1" && version < "2026" {
				f.Meta.Head.Fields = append(f.Meta.Head.Fields, frame.Field{Name: "mcp-session-id", Value: "recorded"})
			}
		case "event":
		case "end":
			f.Meta.Signal = frame.End
		case "gone":
			f.Gap, f.Raw = true, []byte("\r\n")
		default:
			f.Meta.Head = &frame.Head{Start: "HTTP/1.1 " + verb + " OK"}
			if f.Meta.Signal = frame.NoSignal; rest == "" {
				f.Meta.Signal = frame.Response
			}
		}
		s.Add(replay.Record{Seq: int64(i + 1), Time: time.Unix(int64(i), 0), Frame: &f, Framing: frame.Line, Protocol: jsonrpc.MCP})
	}
	return s
}

const handshake = `1 POST {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"VERSION","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}
1 events
1 event {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"VERSION","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
1 end
2 POST {"jsonrpc":"2.0","method":"notifications/initialized"}
2 202
`

// asking is a call in which the server sends a request with an id that the client has also
// used.
const asking = handshake + `3 GET
3 events
4 POST {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"n":1},"_meta":{"progressToken":1}}}
4 events
4 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
4 event {"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}
5 POST {"jsonrpc":"2.0","id":2,"result":{"action":"accept","content":{}}}
5 202
4 event {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
4 end
6 POST {"jsonrpc":"2.0","id":2,"method":"ping"}
6 200 {"jsonrpc":"2.0","id":2,"result":{}}
7 POST {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"late"}}
7 202
8 DELETE
8 200`

const batch = `6 POST [{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]
6 200 [{"jsonrpc":"2.0","id":2,"result":{}}]`

// An mcpServer has its own sessions and ids.
type mcpServer struct {
	t        *testing.T
	version  string
	answered chan string

	mu   sync.Mutex
	seen []string
}

func (s *mcpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/elsewhere" || !strings.Contains(string(body), "initialize\"") && r.Header.Get("Mcp-Session-Id") != "live" {
		s.t.Errorf("%s %s of session %q: %s", r.Method, r.URL.Path, r.Header.Get("Mcp-Session-Id"), body)
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "id: 7_1\ndata:\n\nevent: message\ndata: "+format+"\n\n", args...)
		_ = http.NewResponseController(w).Flush()
	}
	stream := func() { w.Header().Set("Content-Type", "text/event-stream") }
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ RequestID json.RawMessage }
	}
	_ = json.Unmarshal(body, &m) // a batch has no such member
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+m.Method+" "+string(m.ID)+string(m.Params.RequestID))
	s.mu.Unlock()
	switch {
	case r.Method == "GET":
		stream()
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == "DELETE":
	case m.Method == "initialize":
		stream()
		w.Header().Set("Mcp-Session-Id", "live")
		say(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, s.version)
	case m.Method == "tools/call":
		stream()
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		say(`{"jsonrpc":"2.0","id":99,"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}`)
		if id := <-s.answered; id != "99" {
			s.t.Errorf("request 99 is answered as %s", id)
		}
		say(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	case m.Method == "ping":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case body[0] == '[':
		_, _ = io.WriteString(w, `[{"jsonrpc":"2.0","id":2,"result":{}}]`)
	case m.Method == "":
		w.WriteHeader(http.StatusAccepted)
		s.answered <- string(m.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// The session and the requests of the live server have their own ids, and its endpoint has
// another path. The client's ids stay as recorded, even if they look like the server's.
func TestWebCalls(t *testing.T) {
	for version, talk := range map[string]string{
		"2025-03-26": strings.ReplaceAll(asking, `6 POST {"jsonrpc":"2.0","id":2,"method":"ping"}
6 200 {"jsonrpc":"2.0","id":2,"result":{}}`, batch),
		"2025-06-18": asking,
		"2025-11-25": asking,
	} {
		t.Run(version, func(t *testing.T) {
			live := &mcpServer{t: t, version: version, answered: make(chan string, 1)}
			server := httptest.NewServer(live)
			defer server.Close()
			script := called(t, version, talk).WebScripts(frame.C2U)[0]
			conn, err := script.Schemes()[0].Dial(t.Context(), server.URL+"/elsewhere/", transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			here := <-start(t.Context(), script, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
			here.check(t, "controller")
			if here.Sent != 8 || here.Matched != 14 {
				t.Errorf("%d sent, %d as recorded", here.Sent, here.Matched)
			}
			if !slices.Contains(live.seen, "POST notifications/cancelled 1") || live.seen[len(live.seen)-1] != "DELETE  " {
				t.Errorf("the server saw %q", live.seen)
			}
		})
	}
}

// An answer is an HTTP answer, which the test closes at its end.
type answer struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// A client that numbers its requests differently is answered under its own numbers.
func TestWebCallsOfClient(t *testing.T) {
	script := called(t, "2025-11-25", asking).WebScripts(frame.U2C)[0]
	address, there := serveWeb(t, script, script.Schemes()[0], replay.Options{Match: replay.Matcher{Exact: true, Ignore: []jsondiff.Path{{"params", "clientInfo"}}}}, 1)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	do := func(method, body string) answer {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address+"/any", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(body, "initialize\"") {
			req.Header.Set("Mcp-Session-Id", "recorded")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return answer{resp.StatusCode, resp.Header, resp.Body}
	}
	expect := func(a answer, status int, parts ...string) {
		t.Helper()
		text, err := io.ReadAll(a.body)
		if err != nil || a.status != status || parts == nil && len(text) > 0 {
			t.Errorf("%d: %s %v", a.status, text, err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: there is no %s", text, part)
			}
		}
	}
	begun := do("POST", `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"other"}}}`)
	expect(begun, http.StatusOK, `"id":"a"`)
	if id := begun.header.Get("Mcp-Session-Id"); id != "recorded" {
		t.Errorf("the session is %q", id)
	}
	expect(do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.StatusAccepted)
	stream := do("GET", "")
	call := do("POST", `{"jsonrpc":"2.0","id":50,"method":"tools/call","params":{"name":"ask","arguments":{"n":1},"_meta":{"progressToken":7}}}`)
	expect(do("POST", `{"jsonrpc":"2.0","id":2,"result":{"action":"accept","content":{}}}`), http.StatusAccepted)
	expect(call, http.StatusOK, `"progressToken":7`, `"id":2,"method":"elicitation/create"`, `"id":50,"result"`)
	expect(do("POST", `{"jsonrpc":"2.0","id":51,"method":"ping"}`), http.StatusOK, `{"jsonrpc":"2.0","id":51,"result":{}}`)
	expect(do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50,"reason":"late"}}`), http.StatusAccepted)
	stream.body.Close()
	expect(do("DELETE", ""), http.StatusOK)
	o := <-there
	o.Extra = 0 // a client may leave its stream at any time
	o.check(t, "unit")
}

// A mock that repeats waits for the client's answer to its request before it goes on, each time.
func TestWebRepeatWaits(t *testing.T) {
	script := called(t, "2025-11-25", asking).WebScripts(frame.U2C)[0]
	said := make(chan string, 100)
	o := replay.Options{Match: replay.Matcher{Exact: true}, Trace: func(e replay.Event) {
		if e.Dir == frame.C2U || strings.Contains(string(e.Payload), `"result":{"content"`) {
			said <- e.Dir.String() + " " + e.Kind
		}
	}}
	address, _ := serveWeb(t, replay.NewRepeater([]*replay.Script{script}, nil), script.Schemes()[0], o, 1)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	post := func(body string) *bufio.Reader {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", address+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewReader(resp.Body)
	}
	for n := range 3 {
		call := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask","arguments":{"n":1},"_meta":{"progressToken":%[1]d}}}`, 50+n))
		for line := ""; !strings.Contains(line, "elicitation/create"); {
			var err error
			if line, err = call.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := io.ReadAll(post(`{"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}`)); err != nil || len(text) > 0 {
			t.Errorf("%q %v", text, err)
		}
		if text, err := io.ReadAll(call); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"id":%d,"result"`, 50+n)) {
			t.Errorf("%q %v", text, err)
		}
		for _, want := range []string{"c2u tools/call", "c2u result", "u2c result"} {
			if got := <-said; got != want {
				t.Errorf("then comes %s, want %s", got, want)
			}
		}
	}
}

// Two sessions with the same requests and ids are distinguished by their names.
func TestWebSessions(t *testing.T) {
	talk := `1 POST {"jsonrpc":"2.0","id":1,"method":"tools/list"}
2 POST {"jsonrpc":"2.0","id":1,"method":"tools/list"}
1 200 {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
2 200 {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}`
	script := called(t, "2025-06-18", talk).WebScripts(frame.U2C)[0] // the first has no session
	address, there := serveWeb(t, script, script.Schemes()[0], replay.Options{Match: replay.Matcher{Exact: true}}, 1)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	var asking sync.WaitGroup
	for session, want := range map[string]string{"recorded": `"name":"x"`, "": `"tools":[]`} {
		asking.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "POST", address+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Error(err)
				return
			}
			if session != "" {
				req.Header.Set("Mcp-Session-Id", session)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("session %q gets %s %v", session, text, err)
			}
		})
	}
	asking.Wait()
	(<-there).check(t, "unit")
}

// Answers that differ are reported, and so are missing ones.
func TestWebCallsDiffer(t *testing.T) {
	talk := `1 POST {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}
1 events
1 event {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
1 end`
	for _, tt := range []struct {
		answer, want string
		kind         bool // kinds are compared
	}{
		{answer: `data: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}`, want: "frame 3, result 1 is not as recorded"},
		{answer: `data: {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`, want: "frame 3, result 1 is not as recorded"},
		{answer: `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"sunk"}}`, want: "error 1 arrived where frame 3, result 1 was expected", kind: true},
		{answer: `data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}`, want: "notifications/message arrived where frame 3, result 1 was expected"},
		{answer: ": nothing", want: "whole arrived where frame 3, result 1 was expected"},
		{answer: ": nothing", want: "the answer ended, but frame 3, result 1 was expected", kind: true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "%s\n\n", tt.answer)
		}))
		script := called(t, "2026-07-28", talk).WebScripts(frame.C2U)[0]
		conn, err := script.Schemes()[0].Dial(t.Context(), server.URL, transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		here := <-start(t.Context(), script, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: !tt.kind}, Timeout: time.Minute})
		if d := here.Divergence(); d == nil || d.Text != tt.want {
			t.Errorf("%s: %+v, want %s", tt.answer, d, tt.want)
		} else if strings.Contains(tt.want, "not as recorded") && (len(d.Changes) == 0 || strings.HasPrefix(d.Changes[0].Path, "body")) {
			t.Errorf("%s: %+v", tt.answer, d.Changes)
		}
		server.Close()
	}
}

// Errors explain why a recording cannot be played over HTTP.
func TestWebUnplayable(t *testing.T) {
	sse := load(t, "mcp-sse").WebScripts(frame.C2U)[0]
	_, err := sse.Run(t.Context(), transport.Conn(nopConn{}), replay.Options{Side: frame.C2U})
	if err == nil || !strings.Contains(err.Error(), "frame 3 is of the HTTP+SSE transport of MCP 2024-11-05") {
		t.Error(err)
	}
	if err := sse.Sweep(t.Context(), replay.Options{}, replay.Sweep{At: -1}, nil); err == nil {
		t.Error("it is swept")
	}
	s := called(t, "2025-11-25", handshake+"3 GET\n3 events")
	resumed := frame.Frame{Conn: 4, Stream: 1, Dir: frame.C2U, Meta: &frame.Meta{Framing: frame.HTTP, Signal: frame.Request, Head: &frame.Head{Start: "GET /mcp HTTP/1.1", Fields: []frame.Field{{Name: "last-event-id", Value: "7_1"}}}}}
	s.Add(replay.Record{Seq: 9, Frame: &resumed, Framing: frame.Line, Protocol: jsonrpc.MCP})
	if _, err := replay.NewRepeater(s.WebScripts(frame.U2C), nil).Run(t.Context(), nopConn{}, replay.Options{Side: frame.U2C}); err == nil || !strings.Contains(err.Error(), "frame 9 resumes a stream") {
		t.Error(err)
	}
}

type nopConn struct{ io.ReadWriteCloser }

func (nopConn) CloseWrite() error { return nil }
func (nopConn) Close() error      { return nil }

// Up to version 2025-11-25 the sweep cancels by a message, since 2026-07-28 by closing the
// stream.
func TestWebSweep(t *testing.T) {
	call := `4 POST {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1STATED}}}
4 events
4 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
4 event {"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}
4 end`
	stated := `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	for version, talk := range map[string]string{
		"2025-11-25": handshake + strings.ReplaceAll(call, "STATED", ""),
		"2026-07-28": strings.ReplaceAll(call, "STATED", stated),
	} {
		t.Run(version, func(t *testing.T) {
			cancelled := make(chan string, 10)
			stop := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch {
				case strings.Contains(string(body), "notifications/cancelled"):
					cancelled <- string(body)
					w.WriteHeader(http.StatusAccepted)
					stop <- struct{}{}
					return
				case strings.Contains(string(body), "notifications/initialized"):
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Mcp-Session-Id", "live")
				if strings.Contains(string(body), "initialize") {
					fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
					return
				}
				fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-stop:
				case <-r.Context().Done():
					cancelled <- "left"
				}
			}))
			defer server.Close()
			script := called(t, version, talk).WebScripts(frame.C2U)[0]
			var points []*replay.Point
			w := replay.Sweep{At: 1, Settle: 10 * time.Millisecond, Dial: func(ctx context.Context) (transport.Conn, error) {
				return script.Schemes()[0].Dial(ctx, server.URL, transport.Options{})
			}}
			err := script.Sweep(t.Context(), replay.Options{Timeout: time.Minute}, w, func(p *replay.Point) error {
				points = append(points, p)
				return nil
			})
			if err != nil || len(points) != 1 || !points[0].Reached || points[0].Class != session.Silent || points[0].Breaks() {
				t.Fatalf("%v: %+v", err, points)
			}
			got := <-cancelled
			if want := map[string]string{"2026-07-28": "left", "2025-11-25": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}[version]; got != want {
				t.Errorf("the server noticed %s, want %s", got, want)
			}
		})
	}
}

// A task of A2A over REST is cancelled at its own path, in the syntax of its version. Without a
// stream, it is polled there.
func TestWebSweepREST(t *testing.T) {
	const task, update = `{"id":"TASK","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}`, `{"statusUpdate":{"taskId":"TASK","contextId":"c","status":{"state":"TASK_STATE_STATE"}}}`
	stream := `c2u 1 1 POST /agent/PREFIXmessage:stream {"message":{"messageId":"m"}}
u2c 1 1 events
u2c 1 1 {"task":` + task + `}
u2c 1 1 ` + strings.ReplaceAll(update, "TASK_STATE_STATE", "TASK_STATE_WORKING")
	for _, test := range []struct{ name, talk, want string }{
		{"1.0", strings.ReplaceAll(stream, "PREFIX", ""), "POST /x/agent/tasks/live%2F1:cancel"},
		{"0.3", strings.ReplaceAll(stream, "PREFIX", "v1/"), "POST /x/agent/v1/tasks/live%2F1:cancel"},
		{"polled", `c2u 1 1 POST /agent/message:send {"message":{"messageId":"m"}}
u2c 1 1 {"task":` + task + "}", "GET /x/agent/tasks/live%2F1, POST /x/agent/tasks/live%2F1:cancel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cancelled := make(chan struct{})
			var seen []string
			var mu sync.Mutex
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				live := func(text, state string) string {
					return strings.NewReplacer("TASK_STATE_STATE", "TASK_STATE_"+state, "TASK_STATE_WORKING", "TASK_STATE_"+state, "TASK", "live/1").Replace(text)
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case strings.HasSuffix(r.URL.Path, "/message:stream"):
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"task\":%s}\n\n", live(task, "WORKING"))
					_ = http.NewResponseController(w).Flush()
					mu.Unlock()
					select {
					case <-cancelled:
					case <-r.Context().Done():
					}
					mu.Lock()
					fmt.Fprintf(w, "data: %s\n\n", live(update, "CANCELED"))
				case strings.HasSuffix(r.URL.Path, "/message:send"):
					fmt.Fprintf(w, `{"task":%s}`, live(task, "WORKING"))
				case r.Method == "GET":
					seen = append(seen, r.Method+" "+r.RequestURI)
					_, _ = io.WriteString(w, live(task, "CANCELED"))
				default:
					seen = append(seen, r.Method+" "+r.RequestURI)
					close(cancelled)
					_, _ = io.WriteString(w, live(task, "WORKING"))
				}
			}))
			defer server.Close()
			script := talkedIn(t, opaque.JSON, test.talk).WebScripts(frame.C2U)[0]
			var points []*replay.Point
			w := replay.Sweep{At: 0, Settle: 10 * time.Millisecond, Dial: func(ctx context.Context) (transport.Conn, error) {
				return script.Schemes()[0].Dial(ctx, server.URL+"/x", transport.Options{})
			}}
			err := script.Sweep(t.Context(), replay.Options{Timeout: time.Minute}, w, func(p *replay.Point) error {
				points = append(points, p)
				return nil
			})
			if err != nil || len(points) != 1 || points[0].Class != session.Confirmed || !points[0].Confirmed || points[0].Breaks() {
				t.Fatalf("%v: %+v", err, points)
			}
			slices.Sort(seen) // they arrive on two connections
			if got := strings.Join(seen, ", "); got != test.want {
				t.Errorf("the agent was asked for %s, want %s", got, test.want)
			}
		})
	}
}
