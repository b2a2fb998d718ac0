package again

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/run/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The user of all tests.
func user(name string) string {
	return map[string]string{"HOME": "/home/mia", "CODEX_HOME": "/data/codex", KeyVariable: "key-of-the-other-model"}[name]
}

// Requests ask the same although they differ in what changes from run to run; nearly the same if they differ in what the agent
// adds by itself.
func TestQuestions(t *testing.T) {
	r := newReader(user, "/home/mia/project", "/home/mia/copy")
	messages := func(text string) string {
		return `{"model":"m","messages":[{"role":"user","content":` + string(quoted(text)) + `}]}`
	}
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":` + params + `}`
	}
	for _, c := range []struct {
		name, target, a, b, want string
	}{
		{"the same", "/v1/messages", messages("hi"), messages("hi"), "same"},
		{"another prompt", "/v1/messages", messages("hi"), messages("ho"), "differs"},
		{"an answer in parts", "/v1/messages", messages("hi"), strings.Replace(messages("hi"), "{", `{"stream":true,`, 1), "differs"},
		{"an answer at once", "/v1/messages", messages("hi"), strings.Replace(messages("hi"), "{", `{"stream":false,`, 1), "same"},
		{"another model", "/v1/messages", messages("hi"), strings.Replace(messages("hi"), `"m"`, `"n"`, 1), "differs"},
		{"the folder", "/v1/messages", messages("in /home/mia/project/x"), messages("in /home/mia/copy/x"), "same"},
		{"the home", "/v1/messages", messages("/home/mia/.x"), messages("/home/bob/.x"), "same"},
		{"the temporary folder", "/v1/messages", messages("/tmp/a1/x"), messages("/tmp/b2/x"), "same"},
		{"a date", "/v1/messages", messages("today is 2026-11-29"), messages("today is 2026-12-01"), "same"},
		{"a time", "/v1/messages", messages("at 2026-11-29T04:00:01.5Z"), messages("at 2026-11-29T14:10:01Z"), "same"},
		{"a date in words", "/v1/messages", messages("Sunday, November 29, 2026"), messages("Mon Dec 1, 2026"), "same"},
		{"a duration", "/v1/messages", messages("Wall time: 0.0000 seconds"), messages("Wall time: 0.0012 seconds"), "same"},
		{"a process", "/v1/messages", messages("PGID: 20820"), messages("PGID: 21556"), "same"},
		{"an id", "/v1/messages", messages("Chunk ID: 35a09f"), messages("Chunk ID: 4d8439"), "same"},
		{"the id of an agent", "/v1/messages", messages("send to: 'a3d1711739b0da8b6'"), messages("send to: 'ac969939fdd87fd5d'"), "same"},
		{"a commit", "/v1/messages", messages("93b3fed2000000000000000000000000000000aa"), messages("93b3fed2000000000000000000000000000000ab"), "differs"},
		{"a UUID", "/v1/messages", messages("01a2258b-9873-7992-9e08-3bfaf2e10219"), messages("01a2258b-9afc-70e2-8d1e-ab7a3a5573f9"), "same"},
		{"a port", "/v1/messages", messages("http://127.0.0.1:4000/"), messages("http://127.0.0.1:4111/"), "same"},
		{"a number", "/v1/messages", messages("the sum is 42"), messages("the sum is 43"), "differs"},
		{"a word that looks like an id", "/v1/messages", messages("agent id is good"), messages("agent id is bad"), "differs"},
		{"a reminder", "/v1/messages", messages("hi<system-reminder>a</system-reminder>"), messages("hi <system-reminder>b</system-reminder>"), "loose"},
		{"a broken reminder", "/v1/messages", messages("hi</system-reminder>a<system-reminder>"), messages("hi</system-reminder>b<system-reminder>"), "differs"},
		{"who is asked", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"a"}]}`, `{"model":"m","messages":[{"role":"assistant","content":"a"}]}`, "differs"},
		{"a message of the system", "/v1/messages", `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"x"}]}`, `{"model":"m","messages":[{"role":"system","content":"b"},{"role":"user","content":"x"}]}`, "loose"},
		{"the system prompt", "/v1/messages", `{"model":"m","system":"a","messages":[{"role":"user","content":"x"}]}`, `{"model":"m","system":"b","messages":[{"role":"user","content":"x"}]}`, "same"},
		{"metadata and marks", "/v1/messages", `{"model":"m","metadata":{"user_id":"a"},"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "same"},
		{"white space and the order of keys", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, `{ "messages": [ { "content": "x", "role": "user" } ], "model": "m" }`, "same"},
		{"the arguments of a call", "/v1/messages", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"add","input":{"a":1}}]}]}`, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"add","input":{"a":2}}]}]}`, "differs"},
		{"the id of a call", "/v1/messages", `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"add","input":{}}]}]}`, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"add","input":{}}]}]}`, "same"},
		{"the ids of items", "/v1/responses", `{"model":"m","input":[{"type":"message","role":"user","id":"msg_1","content":[{"type":"input_text","text":"x"}]}]}`, `{"model":"m","input":[{"type":"message","role":"user","id":"msg_2","content":[{"type":"input_text","text":"x"}]}]}`, "same"},
		{"the answer that is continued", "/v1/responses", `{"model":"m","previous_response_id":"a","input":"x"}`, `{"model":"m","previous_response_id":"b","input":"x"}`, "differs"},
		{"the answer before, for diagnostics", "/v1/messages", messages("hi"), strings.Replace(messages("hi"), "{", `{"diagnostics":{"previous_message_id":"msg_1"},`, 1), "same"},
		{"a prewarm", "/v1/responses", `{"type":"response.create","generate":false,"model":"m","input":"x"}`, `{"type":"response.create","model":"m","input":"x"}`, "differs"},
		{"a key in the query", "/v1/models?key=1", "", "", "same"},
		{"a secret", "/v1/x", `{"api_key":"[redacted]","q":"x"}`, `{"api_key":"sk-abcdefghijklmnopqrst","q":"x"}`, "same"},
		{"a secret in a text", "/v1/messages", messages("use [redacted]"), messages("use sk-abcdefghijklmnopqrstuv"), "same"},
		{"the id of JSON-RPC", "/mcp", call(`{"name":"add","arguments":{"a":1}}`), strings.Replace(call(`{"name":"add","arguments":{"a":1},"_meta":{"progressToken":7}}`), `"id":4`, `"id":"x"`, 1), "same"},
		{"the arguments of JSON-RPC", "/mcp", call(`{"name":"add","arguments":{"a":1}}`), call(`{"name":"add","arguments":{"a":2}}`), "differs"},
		{"telemetry", "/api/event", `{"session_id":"a","event":"start","timestamp":1}`, `{"session_id":"b","event":"start","timestamp":2}`, "same"},
		{"other JSON", "/v1/embeddings", `{"q":"a"}`, `{"q":"b"}`, "differs"},
		{"text", "/x", "a", "b", "differs"},
	} {
		a, b := r.read("POST", c.target, []byte(c.a)), r.read("POST", c.target, []byte(c.b))
		got := "differs"
		switch {
		case a.sum == b.sum:
			got = "same"
		case a.loose == b.loose:
			got = "loose"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s\n%s\n%s", c.name, got, c.want, a.doc, b.doc)
		}
	}
}

// A model call is the turn after the answers in it.
func TestTurns(t *testing.T) {
	r := newReader(user)
	for body, want := range map[string]int{
		`{"messages":[{"role":"user","content":"a"}]}`:                                                                                                                  1,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`:                                                 2,
		`{"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"r"},{"type":"function_call","name":"f"},{"type":"function_call_output","output":"x"}]}`:      2,
		`{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"type":"function_call","name":"f"},{"type":"function_call_output","output":"x"}]}`: 2,
		`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]}`: 3,
		`{"input":[{"type":"function_call_output","output":"x"}],"previous_response_id":"r"}`: 0,
	} {
		if got := r.read("POST", "/", []byte(body)).turn; got != want {
			t.Errorf("turn %d, want %d: %s", got, want, body)
		}
	}
}

func quoted(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

// FuzzQuestion reads anything twice with the same result.
func FuzzQuestion(f *testing.F) {
	f.Add("/v1/messages", `{"model":"m","messages":[{"role":"user","content":"<env>a</env>"}]}`)
	f.Add("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`)
	f.Add("%", "\x00{")
	f.Fuzz(func(t *testing.T, target, body string) {
		r := newReader(user, "/home/mia/project")
		a, b := r.read("POST", target, []byte(body)), r.read("POST", target, []byte(body))
		if a.sum != b.sum || a.loose != b.loose {
			t.Errorf("%s\n%s", a.doc, b.doc)
		}
		p := &player{record: &record{}, reader: r}
		_ = p.unknown(&a, "host:443")
		_ = a.withIDs([]byte(body), &b)
	})
}

// playerOf returns a player of a run, which was recorded by our own agent.
func playerOf(t *testing.T, folder string, change func(*Options)) *player {
	t.Helper()
	r, err := read(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Agent: agent.Options{Getenv: user}}
	if change != nil {
		change(&o)
	}
	return newPlayer(r, o)
}

// as serves a player to a client that asks for a host.
func (p *player) as(t *testing.T, host string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "https", host
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// All that was asked in recorded runs is answered as it was, over HTTP and WebSocket, compressed or not.
func TestRunsAnswerThemselves(t *testing.T) {
	folders, err := filepath.Glob("../../test/testdata/runs/*/run.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"fixtures/sessions/api-anthropic-made", "fixtures/sessions/api-gemini-made", "fixtures/sessions/api-openai-made", "fixtures/sessions/api-openai-realtime-made",
		"fixtures/sessions/api-gemini-live-made", "fixtures/sessions/mcp25-ts-http", "fixtures/sessions/mcp26-ts-http", "fixtures/sessions/a2a10-ts-rest", "fixtures/sessions/opencode-serve",
		"fixtures/sessions/agui-ts", "test/testdata/recordings/api-anthropic-gzip-made", "test/testdata/recordings/api-openai-aimock", "test/testdata/recordings/api-openai-realtime-deflate-made", "test/testdata/recordings/http-empty-bodies",
	} {
		folder := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.CopyFS(filepath.Join(folder, "model"), os.DirFS(filepath.Join("../..", name))); err != nil {
			t.Fatal(err)
		}
		about := history.Run{Version: 1, ID: "abc", Level: history.Full, Ended: time.Now(), Dir: folder}
		if err := about.Update(); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, filepath.Join(folder, history.RunFile))
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			p := playerOf(t, folder, nil)
			for _, c := range p.calls {
				if c.socket != nil || c.status == 0 || c.status == 101 || c.end == left {
					continue
				}
				s := p.as(t, c.host)
				request, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.target, bytes.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := s.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != c.status {
					t.Errorf("%s %s is answered %d, not %d: %s", c.method, c.target, answer.StatusCode, c.status, body)
				}
				for _, piece := range c.pieces {
					if _, data, _ := bytes.Cut(body, bytes.SplitN(piece.data, []byte("\n"), 2)[0]); len(piece.data) > 0 && data == nil {
						t.Errorf("the answer lacks %s", piece.data)
					}
				}
			}
			for _, recorded := range p.sockets {
				s := p.as(t, recorded.upgrade.host)
				conn, answer, err := websocket.Dial(t.Context(), s.URL+recorded.upgrade.target, nil)
				if err != nil {
					t.Fatal(err)
				}
				if answer.Body != nil {
					answer.Body.Close()
				}
				conn.SetReadLimit(-1)
				first := &call{pieces: recorded.first} // of the server
				for _, c := range slices.Concat([]*call{first}, recorded.calls) {
					if c != first {
						if err := conn.Write(t.Context(), websocket.MessageText, c.body); err != nil {
							t.Fatal(err)
						}
					}
					for _, piece := range c.pieces {
						if _, data, err := conn.Read(t.Context()); err != nil || !bytes.Equal(data, piece.data) {
							t.Fatalf("%v: %s\nand not\n%s", err, data, piece.data)
						}
					}
				}
				_ = conn.CloseNow()
			}
			text, departures := p.outcome(nil)
			if len(departures) > 0 || strings.Contains(text, "model call;") {
				t.Error(text)
			}
		})
	}
}

// A recorded call that tests play.
func made(status int, end ending, events bool, pieces ...piece) *call {
	head := &frame.Head{Start: fmt.Sprintf("HTTP/1.1 %d", status), Fields: []frame.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "Content-Encoding", Value: "gzip"}, {Name: "Content-Length", Value: "7"}}}
	return &call{seq: 7, host: "api.test:443", method: "POST", target: "/v1/messages", body: []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`), status: status, head: head, events: events, end: end, pieces: pieces}
}

func playing(o Options, calls ...*call) *player {
	o.Agent.Getenv = user
	return newPlayer(&record{run: history.Run{ID: "abc", Agent: "claude"}, calls: calls, hosts: map[string]bool{}}, o)
}

func (p *player) ask(t *testing.T, body string, headers ...string) (status int, text string, err error) {
	t.Helper()
	s := p.as(t, "api.test:443")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := s.Client().Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(out), err
}

// Equal requests get their answers in turn, and then the last again; what was cut is cut; what was compressed is not.
func TestAnswers(t *testing.T) {
	hi := string(made(0, 0, false).body)
	p := playing(Options{}, made(429, whole, false, piece{data: []byte("busy")}), made(200, whole, true, piece{event: "a", eventID: "1", data: []byte("x\ny")}))
	for i, want := range []string{"429 busy", "200 event: a\nid: 1\ndata: x\ndata: y\n\n", "200 event: a\nid: 1\ndata: x\ndata: y\n\n"} {
		if status, text, err := p.ask(t, hi); err != nil || fmt.Sprint(status, " ", text) != want {
			t.Errorf("answer %d is %d %q (%v), want %q", i, status, text, err, want)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, hi)
	w.Close()
	if status, text, err := p.ask(t, packed.String(), "Content-Encoding", "gzip"); status != 200 || err != nil {
		t.Errorf("a compressed request is answered %d %s, %v", status, text, err)
	}
	p = playing(Options{}, made(200, cut, true, piece{data: []byte("x")}))
	if _, text, err := p.ask(t, hi); err == nil || text != "data: x\n\n" {
		t.Errorf("an answer that was cut is %q, %v", text, err)
	}
	dropped := made(0, cut, false, piece{})
	dropped.dropped = true
	p = playing(Options{}, dropped, made(200, whole, false, piece{data: []byte("x")}))
	for i, want := range []string{"0 ", "200 x"} { // as when the server ended its connection
		if status, text, err := p.ask(t, hi); fmt.Sprint(status, " ", text) != want || (err != nil) != (i == 0) {
			t.Errorf("answer %d is %d %q (%v), want %q", i, status, text, err, want)
		}
	}
	idle := playing(Options{}, made(200, whole, false))
	if text, _ := idle.outcome(nil); !idle.idle || !strings.HasSuffix(text, "played of run:abc: 0 model calls; never asked: 1 model call") {
		t.Errorf("an agent that asks nothing: %s", text)
	}
	p = playing(Options{}, made(0, cut, false))
	if status, text, _ := p.ask(t, hi); status != 400 || !strings.Contains(text, "is frame 7, whose answer is not in the record") {
		t.Errorf("a request without an answer is answered %d %s", status, text)
	}
	status, text, _ := p.ask(t, strings.Replace(hi, "hi", "ho", 1))
	if want := `the call of m of turn 1 was never recorded; the nearest is frame 7, the call of m, which differs in messages.0.user: \"hi\" → \"ho\"`; status != 400 || !strings.Contains(text, want) {
		t.Errorf("another request is answered %d %s", status, text)
	}
	if text, departures := p.outcome(nil); len(departures) != 2 || !strings.Contains(text, "played of run:abc: 0 model calls; refused, as it is not in the record: the call of m") {
		t.Errorf("%s: %q", text, departures)
	}
}

// Answers come at their recorded times, divided by the speed.
func TestPace(t *testing.T) {
	for speed, want := range map[float64]time.Duration{1: 3 * time.Second, 2: 1500 * time.Millisecond, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			c := made(200, whole, true, piece{after: time.Second, data: []byte("x")}, piece{after: 3 * time.Second, data: []byte("y")})
			p := playing(Options{Speed: speed}, c)
			began := time.Now()
			p.replayCall(t.Context(), httptest.NewRecorder(), c, &c.question)
			if took := time.Since(began); took != want {
				t.Errorf("at speed %v it took %s, want %s", speed, took, want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w := httptest.NewRecorder()
			p.replayCall(ctx, w, c, &c.question)
			if w.Body.Len() > 0 {
				t.Errorf("who has left gets %q", w.Body)
			}
		})
	}
}

// Hosts that the record has nothing of are refused; the ones that the agent calls for itself are no departure.
func TestRefuses(t *testing.T) {
	p := playing(Options{Tools: map[string]string{"live.test": Live}})
	p.hosts["api.test:443"], p.run.Unread = true, []string{"unread.test"}
	for address, want := range map[string]bool{"api.test:443": false, "model.test:443": false, "live.test:443": false, "downloads.claude.ai:443": true, "unread.test:443": true, "other.test:443": true} {
		if err := p.refuses(address, address == "model.test:443"); (err != nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if text, departures := p.outcome(nil); !slices.Equal(departures, []string{"other.test (the record has nothing of it)"}) {
		t.Errorf("%s: %q", text, departures)
	}
}

// After its first turns, a run goes on with another model, which gets neither the credentials of the first nor its name.
func TestGoesOnLive(t *testing.T) {
	var got struct {
		path, body string
		header     http.Header
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.path, got.body, got.header = r.URL.RequestURI(), string(body), r.Header
		_, _ = io.WriteString(w, "live")
	}))
	defer other.Close()
	u, err := url.Parse(other.URL + "/gateway/v1")
	if err != nil {
		t.Fatal(err)
	}
	p := playing(Options{ModelLive: true, ModelURL: u, ModelName: "n", From: 1}, made(200, whole, false, piece{data: []byte("recorded")}))
	p.outside = http.DefaultTransport
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	first := string(made(0, 0, false).body)
	second := strings.Replace(first, `}]}`, `},{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`, 1)
	if _, text, _ := p.ask(t, strings.Replace(first, "hi", "ho", 1)); !strings.Contains(text, "never recorded") {
		t.Errorf("another first turn is answered %q", text)
	}
	if _, text, _ := p.ask(t, first); text != "recorded" {
		t.Errorf("the first turn is answered %q", text)
	}
	if _, text, _ := p.ask(t, second, "X-Api-Key", "secret", "Authorization", "Bearer secret", "Anthropic-Version", "1"); text != "live" {
		t.Errorf("the second turn is answered %q", text)
	}
	if h := got.header; got.path != "/gateway/v1/messages" || !strings.Contains(got.body, `"model":"n"`) || h.Get("X-Api-Key") != user(KeyVariable) || h.Get("Authorization") != "" || h.Get("Anthropic-Version") != "1" {
		t.Errorf("asked is %+v", got)
	}
	if text, _ := p.outcome(nil); !strings.Contains(text, "asked live: 1 model call;") && !strings.HasSuffix(text, "asked live: 1 model call") {
		t.Error(text)
	}
	p.ModelURL = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	if status, _, _ := p.ask(t, second); status != 502 {
		t.Errorf("a model that is not there is answered for with %d", status)
	}
	if text, _ := p.outcome(nil); !strings.Contains(text, "asked live: 2 model calls (1 failed: dial tcp 127.0.0.1:1:") {
		t.Error(text)
	}
	p.ModelURL = u
	if _, text, _ := p.ask(t, strings.Replace(first, "hi", "title", 1)); text != "live" { // as of a sub-agent of the new model
		t.Errorf("another first turn is then answered %q", text)
	}
}

// Codex speaks WebSocket, and leaves out what the provider holds. Another model gets all of it, over HTTP.
func TestSocketGoesOnLive(t *testing.T) {
	var input string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		input = r.URL.Path + " " + string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"live_1\",\"output\":[]}}\n\n")
	}))
	defer other.Close()
	u, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := playerOf(t, "../../test/testdata/runs/codex", func(o *Options) { o.ModelLive, o.ModelURL, o.From = true, u, 1 })
	p.outside = http.DefaultTransport
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	recorded := p.sockets[0]
	s := p.as(t, recorded.upgrade.host)
	conn, answer, err := websocket.Dial(t.Context(), s.URL+recorded.upgrade.target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body != nil {
		answer.Body.Close()
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	for i, c := range recorded.calls[:3] { // the prewarm, the first turn, and the one with the result of its tool
		if err := conn.Write(t.Context(), websocket.MessageText, c.body); err != nil {
			t.Fatal(err)
		}
		n := len(c.pieces)
		if i == 2 {
			n = 1
		}
		for range n {
			if _, data, err := conn.Read(t.Context()); err != nil || i == 2 && !strings.Contains(string(data), "live_1") {
				t.Fatalf("message %d: %s, %v", i, data, err)
			}
		}
	}
	for _, want := range []string{"/v1/responses {", `"function_call_output"`, `"function_call"`, `"stream":true`} {
		if !strings.Contains(input, want) {
			t.Errorf("the other model is not asked %s: %.300s", want, input)
		}
	}
	if strings.Contains(input, "previous_response_id") || strings.Contains(input, "response.create") {
		t.Errorf("the other model is asked %.300s", input)
	}
}

// What cannot be played is refused in plain words.
func TestUnplayable(t *testing.T) {
	write := func(t *testing.T, r history.Run, level history.Level) string {
		dir := t.TempDir()
		r.Version, r.Dir = 1, dir
		if err := r.Update(); err != nil {
			t.Fatal(err)
		}
		rec, err := agent.Record(dir, "model.pcapng", capture.Session{}, level, func(text string) { t.Error(text) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct {
		folder string
		want   string
	}{
		"metadata":  {write(t, history.Run{ID: "abc", Level: history.Metadata, Ended: time.Now()}, history.Metadata), "abc has no texts, so there is nothing to play: it was recorded with --record metadata; record it again without that flag"},
		"empty":     {write(t, history.Run{ID: "abc", Level: history.Full, Ended: time.Now()}, history.Full), "abc has nothing to play: neither a call over HTTP nor a server"},
		"no folder": {t.TempDir(), "run.json"},
	} {
		if _, err := read(t.Context(), c.folder); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that was killed has what was written until then.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../test/testdata/runs/claude")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model/s2c.bin", "model/conn-2/s2c.bin"} {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err == nil {
			err = os.Truncate(file, info.Size()/2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, c := range r.calls {
		if c.status > 0 && c.end == whole && strings.HasSuffix(pathIn(c.target), "/messages") {
			answered++
		}
	}
	if answered == 0 || answered == len(r.calls) {
		t.Errorf("%d of %d calls are answered", answered, len(r.calls))
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"recorded": "false ", "live": "true ", "http://h:1/v1": "true http://h:1/v1",
		"gpt": "want recorded, live", "ftp://h": "want recorded, live", "https://u:p@h/": "give the key in " + KeyVariable, "https://h/?key=x": "give the key in",
	} {
		o := Options{}
		got := fmt.Sprint(o.ParseModel(text))
		if got == "<nil>" {
			got = fmt.Sprint(o.ModelLive, " ")
			if o.ModelURL != nil {
				got += o.ModelURL.String()
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("--model %s: %s", text, got)
		}
	}
	o := Options{}
	if err := o.ParseTools([]string{"live", "two=recorded", "lab=live"}); err != nil || !o.ToolsLive || o.Tools["two"] != Recorded || o.Tools["lab"] != Live {
		t.Errorf("%+v, %v", o, err)
	}
	for _, word := range []string{"lab", "=live", "lab=on", ""} {
		if o.ParseTools([]string{word}) == nil {
			t.Errorf("--tools %q is taken", word)
		}
	}
}

// Servers of the record are played, unless they are live; what was spoken with in another way runs for real.
func TestPlays(t *testing.T) {
	s := &agent.Servers{Files: map[string][]string{"lab": {"x"}}, Tools: []string{"print__"}, Live: []string{"two"}}
	all := &agent.Servers{AllLive: true, Recorded: []string{"lab"}}
	for name, want := range map[string][2]bool{"lab": {true, true}, "two": {false, false}, "unknown": {true, false}, "print()": {false, false}} {
		if got := [2]bool{s.Plays(name), all.Plays(name)}; got != want {
			t.Errorf("%s is played: %v, want %v", name, got, want)
		}
	}
	if (*agent.Servers)(nil).Plays("lab") {
		t.Error("a server of a run is played")
	}
	if err := PlayServer(t.Context(), s, "unknown", 0, nil, nil); err == nil || !strings.Contains(err.Error(), "--tools unknown=live would") {
		t.Error(err)
	}
}

// What is live is asked at its server, as it would be without the record.
func TestLiveTools(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "live "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for name, o := range map[string]Options{
		"all": {ToolsLive: true}, "by its name": {Tools: map[string]string{"web": Live}}, "by its host": {Tools: map[string]string{host: Live}},
		"not": {}, "not it": {ToolsLive: true, Tools: map[string]string{"web": Recorded}},
	} {
		o.Names = map[string]string{host: "web"}
		p := playing(o)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		p.outside = transport
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		r.Header.Set("Authorization", "mine")
		p.ServeHTTP(w, r)
		if got := w.Body.String() == "live mine"; got == strings.HasPrefix(name, "not") {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
