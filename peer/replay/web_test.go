package replay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/transport"
)

// webScript returns the script of a fixture that was recorded over HTTP, and its transport
// scheme.
func webScript(t *testing.T, name string, side frame.Dir) (*replay.Script, transport.Scheme) {
	t.Helper()
	s := load(t, name).WebScripts(side)[0]
	schemes := s.Schemes()
	if len(schemes) != 2 {
		t.Fatalf("%s is not played over HTTP: %v", name, schemes)
	}
	return s, schemes[0]
}

// serveWeb plays the units of recordings over HTTP for a number of visits.
func serveWeb(t *testing.T, player replay.Player, scheme transport.Scheme, o replay.Options, visits int) (address string, results <-chan outcome) {
	t.Helper()
	l, err := scheme.Listen(t.Context(), scheme.Name+"://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan outcome, visits), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	o.Side = frame.U2C
	go func() {
		defer close(ended)
		_ = replay.Serve(ctx, l, []replay.Player{player}, o, visits, func(_ int, r replay.Result, err error) {
			done <- outcome{r, err}
		}) // it ends with ctx
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr(), done
}

// recordings is the folder of recordings that are not built in.
const recordings = "../../test/testdata/recordings/"

// A recording over HTTP, on any number of connections, is played over HTTP by both sides, for
// any number of visits.
func TestWeb(t *testing.T) {
	for _, name := range []string{
		"opencode-serve", "agui-ts", "api-openai-made", "api-anthropic-made", "api-gemini-made",
		"mcp-http", "mcp25-ts-http", "mcp26-ts-http", "a2a03-ts-jsonrpc", "a2a10-ts-jsonrpc", "a2a10-ts-rest", "jsonrpc-http-jayson",
		recordings + "mcp26-go-http", recordings + "mcp26-http-errors", recordings + "a2a03-ts-rest", recordings + "a2a10-go-jsonrpc",
	} {
		t.Run(path.Base(name), func(t *testing.T) {
			unit, scheme := webScript(t, name, frame.U2C)
			const visits = 2
			address, there := serveWeb(t, unit, scheme, replay.Options{Match: replay.Matcher{Exact: true}}, visits)
			for range visits {
				controller, scheme := webScript(t, name, frame.C2U)
				conn, err := scheme.Dial(t.Context(), address, transport.Options{})
				if err != nil {
					t.Fatal(err)
				}
				here := <-start(t.Context(), controller, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
				if here.Extra = 0; here.Matched < 10 { // the end of a stream that had no end in the recording
					t.Errorf("%d frames as recorded", here.Matched)
				}
				here.check(t, "controller")
				there := <-there
				there.check(t, "unit")
				if there.Sent != here.Matched || there.Matched != here.Sent {
					t.Errorf("the unit sent %d and heard %d, the controller heard %d and sent %d", there.Sent, there.Matched, here.Matched, here.Sent)
				}
			}
		})
	}
}

// coder answers like the server of opencode. It has its own ids for sessions and questions.
type coder struct {
	t      *testing.T
	events chan string
	asked  chan struct{} // closed when the question is answered
}

const (
	liveSession  = "ses_live0000000000000000000001"
	liveQuestion = "per_live0000000000000000000001"
)

func (o *coder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	say := func(format string, args ...any) { o.events <- fmt.Sprintf(format, args...) }
	switch at := r.Method + " " + r.URL.Path; at {
	case "GET /event":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", `{"id":"evt_01","type":"server.connected","properties":{}}`)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e := <-o.events:
				fmt.Fprintf(w, "data: %s\n\n", e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case "POST /session":
		fmt.Fprintf(w, `{"id":%q,"title":"t"}`, liveSession)
	case "POST /session/" + liveSession + "/message":
		say(`{"id":"evt_02","type":"permission.asked","properties":{"id":%q,"sessionID":%q,"permission":"bash"}}`, liveQuestion, liveSession)
		<-o.asked
		say(`{"id":"evt_03","type":"session.idle","properties":{"sessionID":%q}}`, liveSession)
		_, _ = io.WriteString(w, `{"info":{"role":"assistant","finish":"stop"},"parts":[]}`)
	case "POST /permission/" + liveQuestion + "/reply":
		if string(body) != `{"reply":"once"}` || r.Header.Get("X-Opencode-Directory") != "/d" || r.Header.Get("Authorization") != "Bearer live" {
			o.t.Errorf("the reply is %s with %v", body, r.Header)
		}
		_, _ = io.WriteString(w, "true")
		close(o.asked)
	default:
		o.t.Errorf("%s was asked for", at)
		http.NotFound(w, r)
	}
}

// talk is a session with a server of opencode.
const talk = `c2u 1 1 GET /event
u2c 1 1 events
u2c 1 1 {"id":"evt_01","type":"server.connected","properties":{}}
c2u 2 1 POST /session {"title":"t"}
u2c 2 1 {"id":"ses_recorded1","title":"t"}
c2u 2 2 POST /session/ses_recorded1/message {"parts":[{"type":"text","text":"hi"}]}
u2c 1 1 {"id":"evt_02","type":"permission.asked","properties":{"id":"per_recorded1","sessionID":"ses_recorded1","permission":"bash"}}
c2u 3 1 POST /permission/per_recorded1/reply {"reply":"once"}
u2c 3 1 true
u2c 1 1 {"id":"evt_03","type":"session.idle","properties":{"sessionID":"ses_recorded1"}}
u2c 2 2 {"info":{"role":"assistant","finish":"stop"},"parts":[]}`

// talked returns the session that lines describe: side, connection and stream of HTTP, then a
// request with its body, or a part of its answer.
func talked(t *testing.T, text string) *replay.Session {
	t.Helper()
	return talkedIn(t, opencode.Spec.Protocol, text)
}

// talkedIn is talked in another protocol.
func talkedIn(t *testing.T, p protocol.Protocol, text string) *replay.Session {
	t.Helper()
	s, streams := new(replay.Session), map[int]bool{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.SplitN(line, " ", 4)
		conn, _ := strconv.Atoi(words[1])
		stream, _ := strconv.ParseInt(words[2], 10, 64)
		f := frame.Frame{Conn: conn, Stream: stream, Meta: &frame.Meta{Framing: frame.HTTP, Apart: true}}
		f.Dir, _ = frame.ParseDir(words[0])
		said := words[3]
		switch method, rest, _ := strings.Cut(said, " "); {
		case f.Dir == frame.C2U:
			target, body, _ := strings.Cut(rest, " ")
			f.Meta.Head = &frame.Head{Start: method + " " + target + " HTTP/1.1", Fields: []frame.Field{{Name: "Host", Value: "h"}, {Name: "x-opencode-directory", Value: "/d"}, {Name: "authorization", Value: "Bearer recorded"}}}
			if f.Meta.Data = []byte(body); body == "" {
				f.Meta.Signal = frame.Request
			}
		case said == "events":
			streams[conn] = true
			f.Meta.Signal, f.Meta.Head = frame.Response, &frame.Head{Start: "HTTP/1.1 200 OK", Fields: []frame.Field{{Name: "Content-Type", Value: "text/event-stream"}}}
		default:
			f.Meta.Data = []byte(said)
			if !streams[conn] {
				f.Meta.Head = &frame.Head{Start: "HTTP/1.1 200 OK"}
			}
		}
		s.Add(replay.Record{Seq: int64(i + 1), Time: time.Unix(int64(i), 0), Frame: &f, Framing: frame.Line, Protocol: p})
	}
	return s
}

// Ids of the live server replace the recorded ones in paths. Headers of the command line
// replace recorded headers. A request waits for the event that it answers.
func TestWebNames(t *testing.T) {
	server := httptest.NewServer(&coder{t, make(chan string, 8), make(chan struct{})})
	defer server.Close()
	script := talked(t, talk).Scripts(frame.C2U)[0]
	conn, err := script.Schemes()[0].Dial(t.Context(), server.URL, transport.Options{Header: http.Header{"Authorization": {"Bearer live"}}})
	if err != nil {
		t.Fatal(err)
	}
	here := <-start(t.Context(), script, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
	here.check(t, "controller")
	if here.Sent != 4 || here.Matched != 7 {
		t.Errorf("%d sent, %d as recorded", here.Sent, here.Matched)
	}
}

// An unreachable server, a different answer and a broken connection are reported.
func TestWebDiffers(t *testing.T) {
	asks := "c2u 1 1 GET /session/ses_1a\nu2c 1 1 {\"title\":\"t\"}"
	streams := "c2u 1 1 GET /event\nu2c 1 1 events\nu2c 1 1 {\"id\":\"evt_01\",\"type\":\"server.connected\",\"properties\":{}}\nu2c 1 1 {\"id\":\"evt_01\",\"type\":\"session.idle\",\"properties\":{}}"
	for _, tt := range []struct {
		name, talk string
		answer     http.HandlerFunc
		want       string
	}{
		{"another title", asks, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"title":"u"}`) }, "differs: frame 2, 200 1 is not as recorded"},
		{"no JSON", asks, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\xff") }, "differs: frame 2, 200 1 is not as recorded"},
		{"a failure", asks, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "differs: 500 1 arrived where frame 2, 200 1 was expected"},
		{"sent elsewhere", asks, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, "differs: 302 1 arrived where frame 2, 200 1 was expected"},
		{"a stream that breaks off", streams, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"id\":\"evt_01\",\"type\":\"server.connected\",\"properties\":{}}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "differs: cut 1 arrived where frame 4, session.idle 1 was expected"},
		{"no answer", asks, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "gone: reading from the peer failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			script := talked(t, tt.talk).Scripts(frame.C2U)[0]
			conn, err := script.Schemes()[0].Dial(t.Context(), server.URL, transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			here := <-start(t.Context(), script, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
			d := here.Divergence()
			if d == nil || !strings.HasPrefix(fmt.Sprintf("%s: %s", d.What, d.Text), tt.want) {
				t.Errorf("%+v (%v), want %s", d, here.err, tt.want)
			}
		})
	}
}

// A recording is a mock server: each request is answered any number of times. An unrecorded one
// is refused with the nearest. A client that leaves ends nothing.
func TestWebRepeat(t *testing.T) {
	script, scheme := webScript(t, "agui-ts", frame.U2C)
	o := replay.Options{Match: replay.Matcher{Exact: true}}
	address, there := serveWeb(t, replay.NewRepeater([]*replay.Script{script}, nil), scheme, o, 1)
	run, err := fixtures.Read("agui-ts/c2s.bin")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(run), "\r\n\r\n")
	body = body[:strings.Index(body, "}POST")+1]
	for range 3 {
		if status, text := ask(t, "POST", address+"/agent", body); status != 200 || !strings.Contains(text, `"type":"RUN_FINISHED"`) {
			t.Errorf("%d: %s", status, text)
		}
	}
	status, text := ask(t, "POST", address+"/agent", strings.Replace(body, `"hello"`, `"goodbye"`, 1))
	if status != http.StatusNotImplemented || !strings.Contains(text, `the nearest is frame 1, POST /agent 1, which differs in body.messages.0`) {
		t.Errorf("%d: %s", status, text)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", address+"/agent", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	if status, text := ask(t, "GET", address+"/agent", ""); status != http.StatusNotImplemented {
		t.Errorf("%d: %s", status, text)
	}
	select {
	case o := <-there:
		t.Errorf("the unit has ended: %+v", o)
	default:
	}
}

// Requests that the unit has no answer to are refused, and so are pages of other sites.
func TestWebRefuses(t *testing.T) {
	script := talked(t, "c2u 1 1 GET /session/ses_1a\nu2c 1 1 true").Scripts(frame.U2C)[0]
	address, there := serveWeb(t, script, script.Schemes()[0], replay.Options{KeepGoing: true}, 1)
	if status, text := ask(t, "GET", address+"/config", ""); status != http.StatusNotImplemented || !strings.Contains(text, "GET /config 1 has no counterpart in the recording") {
		t.Errorf("%d: %s", status, text)
	}
	if status, text := ask(t, "GET", address+"/session/ses_2b", ""); status != http.StatusOK || text != "true" {
		t.Errorf("%d: %s", status, text)
	}
	if o := <-there; o.Differences != 1 || o.Matched != 1 {
		t.Errorf("%+v", o.Result)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "elsewhere.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("%s", resp.Status)
	}
}

// ask makes a request, and returns the status and the beginning of the answer.
func ask(t *testing.T, method, address, body string) (int, string) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
