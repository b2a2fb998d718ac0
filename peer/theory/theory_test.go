package theory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/theory"
	"github.com/wirectl/wirectl/protocol"
	dialect "github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is a client of the test, which checks the messages that it receives.
type peer struct {
	t       *testing.T
	ctx     context.Context
	ws      *websocket.Conn
	tracker *session.Tracker
	seq     int64
}

// serve starts a runtime and returns its address.
func serve(t *testing.T, h theory.Handler, o theory.Options) (*theory.Runtime, string) {
	t.Helper()
	r := theory.New(h, o)
	s := httptest.NewServer(r)
	t.Cleanup(func() {
		r.Close()
		s.Close()
	})
	return r, s.URL
}

func connect(t *testing.T, url string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ws, _, err := websocket.Dial(ctx, url+"/run", &websocket.DialOptions{Subprotocols: []string{theory.Subprotocol}}) //nolint:bodyclose // there is none after an upgrade
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(16 << 20)
	return &peer{t, ctx, ws, session.New(dialect.Protocol, session.Options{}), 0}
}

func (p *peer) send(text string) {
	p.t.Helper()
	p.feed(frame.C2U, []byte(text))
	if err := p.ws.Write(p.ctx, websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) feed(dir frame.Dir, payload []byte) {
	var m protocol.Message
	p.seq++
	if err := dialect.Protocol.Parse(payload, &m); err == nil {
		p.tracker.Feed(session.Frame{Seq: p.seq, Time: time.Now(), Conn: 1, Dir: dir, Size: len(payload), Payload: payload}, &m)
	}
}

// timestamp is an integer in milliseconds.
var timestamp = regexp.MustCompile(`,"ts":[0-9]{13}\b`)

// next returns the next message, without the times in it.
func (p *peer) next() string {
	p.t.Helper()
	_, data, err := p.ws.Read(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	p.feed(frame.U2C, data)
	text := string(data)
	return timestamp.ReplaceAllString(text, "")
}

func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if got := p.next(); got != w {
			p.t.Fatalf("got  %s\nwant %s", got, w)
		}
	}
}

// closed returns the status with which the runtime closes.
func (p *peer) closed() int {
	p.t.Helper()
	_, data, err := p.ws.Read(p.ctx)
	if err == nil {
		p.t.Fatalf("there is more: %s", data)
	}
	return int(websocket.CloseStatus(err))
}

// behaves ends the session and checks that no rule was broken.
func (p *peer) behaves() {
	p.t.Helper()
	if err := p.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		p.t.Error(err)
	}
	p.tracker.End(1, time.Now())
	for f := range p.tracker.Findings() {
		p.t.Errorf("%s: %s", f.Name, f.Message)
	}
}

const (
	ack       = `{"kind":"Ack","control":{"run_id":"r"}}`
	started   = `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"started"}}`
	completed = `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"completed"}}`
)

func request(inputs string) string {
	return `{"kind":"Request","control":{"run_id":"r","mode":"real"},"inputs":` + inputs + `,"outputs":{}}`
}

func success(outputs string) string {
	return `{"kind":"Response","control":{"run_id":"r","status":"success","cost_micro":0,"final":true},"outputs":` + outputs + `}`
}

func failure(code, message string) string {
	return `{"kind":"Response","control":{"run_id":"r","status":"error","cost_micro":0,"final":true},"outputs":{},"error":{"code":"` + code + `","message":` + fmt.Sprintf("%q", message) + `}}`
}

// say is a handler that emits one message of each kind.
func say(_ context.Context, r *theory.Request, emit func(theory.Message)) (*theory.Result, error) {
	emit(theory.Message{Kind: "Log", Data: json.RawMessage(`{"msg":"hello"}`)})
	emit(theory.Message{Kind: "Token", Data: json.RawMessage(`{"text":"to"}`)})
	return &theory.Result{Outputs: r.Inputs, CostMicro: 7}, nil
}

func TestRun(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(say), theory.Options{})
	p := connect(t, url)
	p.send(request(`{"a":1}`))
	p.expect(ack, started,
		`{"kind":"Log","control":{"run_id":"r"},"data":{"msg":"hello"}}`,
		`{"kind":"Token","control":{"run_id":"r"},"data":{"text":"to"}}`,
		completed,
		`{"kind":"Response","control":{"run_id":"r","status":"success","cost_micro":7,"final":true},"outputs":{"a":1}}`)
	p.behaves()
}

// In the older dialects, all members are in content, and the answer is a RunResult.
func TestOlderDialects(t *testing.T) {
	for _, tt := range []struct {
		dialect    dialect.Dialect
		opener, id string
	}{
		{dialect.A, `{"role":"client","execution_id":"%s","payload":{"a":1}}`, "execution_id"},
		{dialect.A, `{"role":"client","run_id":"%s","payload":{"a":1}}`, "run_id"},
		{dialect.A, `{"role":"client","execution_id":"%s","payload":{"run_id":"r","execution_id":"r","mode":"real","inputs":{"a":1}}}`, "execution_id"},
		{dialect.A, `{"role":"client","payload":{"run_id":"%s","execution_id":"r","mode":"real","inputs":{"a":1},"outputs":{}}}`, "execution_id"},
		{dialect.A, `{"role":"client","payload":{"run_id":"%s","inputs":{"a":1}}}`, "run_id"},
		{dialect.B, `{"run_id":"%s","mode":"real","inputs":{"a":1},"outputs":{}}`, "run_id"},
	} {
		t.Run(string(tt.dialect)+" "+tt.id, func(t *testing.T) {
			_, url := serve(t, theory.HandlerFunc(say), theory.Options{Dialect: tt.dialect})
			p := connect(t, url)
			p.send(`{"kind":"RunOpen","content":` + fmt.Sprintf(tt.opener, "r") + `}`)
			p.expect(`{"kind":"Ack","content":{"`+tt.id+`":"r"}}`, `{"kind":"Event","content":{"phase":"started"}}`,
				`{"kind":"Log","content":{"msg":"hello"}}`, `{"kind":"Token","content":{"text":"to"}}`,
				`{"kind":"Event","content":{"phase":"completed"}}`,
				`{"kind":"RunResult","content":{"`+tt.id+`":"r","status":"success","cost_micro":7,"final":true,"outputs":{"a":1}}}`)
			p.behaves()
			p = connect(t, url)
			p.send(request(`{}`))
			if got := p.closed(); got != 1002 {
				t.Errorf("a Request is closed with %d", got)
			}
		})
	}
}

// A handler gets the members of an enveloped payload, and members of its Response reach the client.
func TestOldestHandler(t *testing.T) {
	needShell(t)
	script := `read -r line; printf '{"kind":"Response","status":"success","outputs":{},"index_path":"/i","got":%s}\n' "$line"`
	_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", script}}, theory.Options{Dialect: dialect.A})
	p := connect(t, url)
	p.send(`{"kind":"RunOpen","content":{"role":"client","execution_id":"r","payload":{"execution_id":"r","mode":"real","write_prefix":"/w","inputs":{"a":1}}}}`)
	p.expect(`{"kind":"Ack","content":{"execution_id":"r"}}`, `{"kind":"Event","content":{"phase":"started"}}`, `{"kind":"Event","content":{"phase":"completed"}}`,
		`{"kind":"RunResult","content":{"execution_id":"r","status":"success","cost_micro":0,"final":true,"outputs":{},`+
			`"got":{"kind":"Request","control":{"run_id":"r","mode":"real"},"inputs":{"a":1},"outputs":{},"write_prefix":"/w"},"index_path":"/i"}}`)
	p.behaves()
}

// An observer of the oldest dialect cannot control the run.
func TestObserver(t *testing.T) {
	w := newWaiting()
	_, url := serve(t, w, theory.Options{Dialect: dialect.A})
	open := func(role string) *peer {
		p := connect(t, url)
		p.send(`{"kind":"RunOpen","content":{"role":"` + role + `","execution_id":"r","payload":{}}}`)
		p.expect(`{"kind":"Ack","content":{"execution_id":"r"}}`)
		return p
	}
	open("client")
	<-w.begun
	observer := open("observer")
	observer.send(`{"kind":"control","content":{"op":"pause"}}`)
	observer.expect(`{"kind":"Event","content":{"phase":"control_noop","by":"controller"}}`)
	open("controller").send(`{"kind":"control","content":{"op":"preempt"}}`)
	observer.expect(`{"kind":"Event","content":{"phase":"preempted","by":"controller"}}`,
		`{"kind":"RunResult","content":{"execution_id":"r","status":"error","cost_micro":0,"final":true,"outputs":{},"error":{"code":"ERR_PREEMPTED","message":"the run was preempted"}}}`)
}

// Members that a Request omits have defaults, and a numeric run id stays a number.
func TestDefaults(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(func(_ context.Context, r *theory.Request, _ func(theory.Message)) (*theory.Result, error) {
		got, err := json.Marshal([]any{r.RunID, r.Mode, r.Inputs, r.Outputs})
		return &theory.Result{Outputs: map[string]json.RawMessage{"got": got}}, err
	}), theory.Options{})
	for id, text := range map[string]string{`9007199254740993`: "9007199254740993", `"7"`: "7", `7`: "7"} {
		p := connect(t, url)
		p.send(`{"kind":"Request","control":{"run_id":` + id + `}}`)
		for _, want := range []string{ack, started, completed, success(`{"got":["` + text + `","mock",{},{}]}`)} {
			p.expect(strings.Replace(want, `"r"`, id, 1))
		}
		if len(id) < 16 { // a longer number is a finding, because it is not safe in every client
			p.behaves()
		}
	}
}

// A controller sets budgets, and the Event repeats them.
func TestBudgets(t *testing.T) {
	w := newWaiting()
	_, url := serve(t, w, theory.Options{})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack, started)
	<-w.begun
	p.send(`{"kind":"control","content":{"op":"set_budget","by":"me","tokens":500,"time_s":1.5}}`)
	want := `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"budget_updated","by":"me","budgets":{"tokens":500,"time_s":1.5}}}`
	if got := []string{p.next(), p.next()}; got[0] != want && got[1] != want {
		t.Errorf("got %q, want %s", got, want)
	}
	p.send(`{"kind":"control","content":{"op":"set_budget","tokens":"many"}}`)
	p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"control_noop","by":"controller"}}`)
}

func TestDialectC(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(say), theory.Options{Dialect: dialect.C})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(`{"kind":"Ack","content":{"run_id":"r"}}`, `{"kind":"Event","content":{"phase":"started"}}`,
		`{"kind":"Log","content":{"msg":"hello"}}`, `{"kind":"Token","content":{"text":"to"}}`)
}

// An invalid request is answered, if it has a run id.
func TestRefusals(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(say), theory.Options{})
	for name, tt := range map[string]struct{ request, code string }{
		"the mode":    {`{"kind":"Request","control":{"run_id":"%s","mode":"maybe"},"inputs":{},"outputs":{}}`, "ERR_VALIDATION"},
		"no artifact": {`{"kind":"Request","control":{"run_id":"%s","mode":"mock"},"inputs":{"a":"/artifacts/x/y"},"outputs":{}}`, "ERR_INPUTS"},
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, url)
			p.send(fmt.Sprintf(tt.request, strings.ReplaceAll(name, " ", "-")))
			p.next()
			got := p.next()
			if strings.Contains(got, "started") {
				got = p.next()
			}
			if !strings.Contains(got, `"code":"`+tt.code+`"`) {
				t.Errorf("got %s", got)
			}
			p.behaves()
		})
	}
}

// A message that is not a request closes the connection, with a status that says why.
func TestCloses(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(say), theory.Options{})
	for _, tt := range []struct {
		name, text string
		binary     bool
		want       int
	}{
		{"not a Request", `{"kind":"Ack"}`, false, 1002},
		{"an older dialect", `{"kind":"RunOpen","content":{"run_id":"r"}}`, false, 1002},
		{"no run id", `{"kind":"Request","control":{"mode":"real"},"inputs":{},"outputs":{}}`, false, 1008},
		{"a blank run id", `{"kind":"Request","control":{"run_id":" "},"inputs":{},"outputs":{}}`, false, 1008},
		{"not JSON", `{"kind":`, false, 1007},
		{"not an object", `[]`, false, 1007},
		{"a run id that is not a name", `{"kind":"Request","control":{"run_id":true}}`, false, 1008},
		{"the id of an older dialect", `{"kind":"Request","control":{"execution_id":"r"}}`, false, 1008},
		{"a wrong type", `{"kind":1}`, false, 1002},
		{"binary", `{}`, true, 1003},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := connect(t, url)
			kind := websocket.MessageText
			if tt.binary {
				kind = websocket.MessageBinary
			}
			if err := p.ws.Write(p.ctx, kind, []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			if got := p.closed(); got != tt.want {
				t.Errorf("closed with %d, want %d", got, tt.want)
			}
		})
	}
}

func TestHTTP(t *testing.T) {
	_, url := serve(t, theory.HandlerFunc(say), theory.Options{Digest: "sha256:0"})
	resp, err := http.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var health struct {
		OK     bool
		Digest string
	}
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil || !health.OK || health.Digest != "sha256:0" {
		t.Errorf("healthz says %+v, %v", health, err)
	}
	_, resp, err = websocket.Dial(t.Context(), url+"/run", nil) //nolint:bodyclose // the library has closed it
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a handshake without the subprotocol gives %v, %v", resp, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// waiting is a handler that runs until it is stopped.
type waiting struct{ begun, end chan bool }

func newWaiting() *waiting { return &waiting{make(chan bool, 10), make(chan bool)} }

func (w *waiting) Run(ctx context.Context, r *theory.Request, emit func(theory.Message)) (*theory.Result, error) {
	w.begun <- true
	for {
		select {
		case <-w.end:
			return &theory.Result{}, nil
		case c := <-r.Controls:
			emit(theory.Message{Kind: "Log", Data: json.RawMessage(`{"msg":"a control"}`)})
			_ = c
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// A run that has ended sends its answer to every client that rejoins it. A run in progress
// sends its further messages.
func TestRejoin(t *testing.T) {
	w := newWaiting()
	_, url := serve(t, w, theory.Options{})
	first := connect(t, url)
	first.send(request(`{}`))
	first.expect(ack, started)
	<-w.begun
	second := connect(t, url)
	second.send(request(`{}`))
	second.expect(ack)
	close(w.end)
	for _, p := range []*peer{first, second} {
		p.expect(completed, success(`{}`))
		p.behaves()
	}
	third := connect(t, url)
	third.send(request(`{}`))
	third.expect(ack, success(`{}`))
	third.behaves()
}

// A run outlives the connection of its client.
func TestReconnect(t *testing.T) {
	w := newWaiting()
	_, url := serve(t, w, theory.Options{})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack)
	<-w.begun
	_ = p.ws.CloseNow()
	p = connect(t, url)
	p.send(request(`{}`))
	p.expect(ack)
	close(w.end)
	p.expect(completed, success(`{}`))
	p.behaves()
}

// A preempted run still ends with a Response, and controls are answered by events.
func TestControls(t *testing.T) {
	w := newWaiting()
	_, url := serve(t, w, theory.Options{})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack, started)
	<-w.begun
	for op, phase := range map[string]string{"pause": "paused", "resume": "resumed"} {
		p.send(`{"kind":"control","content":{"op":"` + op + `","by":"me"}}`)
		got := []string{p.next(), p.next()}
		if want := `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"` + phase + `","by":"me"}}`; got[0] != want && got[1] != want {
			t.Errorf("%s gives %s", op, got)
		}
	}
	p.send(`{"kind":"control","content":{"op":"dance"}}`)
	p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"control_noop","by":"controller"}}`)
	p.send(`{"kind":"control","content":{"op":"preempt"}}`)
	p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"preempted","by":"controller"}}`,
		failure("ERR_PREEMPTED", "the run was preempted"))
	p.behaves()
}

// While a run is silent, keep-alive events are sent.
func TestKeepAlive(t *testing.T) {
	_, url := serve(t, newWaiting(), theory.Options{KeepAlive: time.Millisecond})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack)
	for i := 0; i < 3; {
		if p.next() == `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"keepalive"}}` {
			i++
		}
	}
}

// Runs beyond the limit wait for their turn, or are refused.
func TestMaxRuns(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuse %t", refuse), func(t *testing.T) {
			w := newWaiting()
			_, url := serve(t, w, theory.Options{MaxRuns: 1, Refuse: refuse})
			first := connect(t, url)
			first.send(strings.Replace(request(`{}`), `"r"`, `"first"`, 1))
			<-w.begun
			p := connect(t, url)
			p.send(request(`{}`))
			if refuse {
				p.expect(ack, failure("ERR_RUNTIME", "1 runs are in progress; try again later"))
				return
			}
			p.expect(ack, `{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"queued"}}`)
			w.end <- true
			p.expect(started)
			w.end <- true
			p.expect(completed, success(`{}`))
		})
	}
}

// A run without clients is stopped after a while.
func TestOrphan(t *testing.T) {
	stopped := make(chan error, 1)
	_, url := serve(t, theory.HandlerFunc(func(ctx context.Context, _ *theory.Request, _ func(theory.Message)) (*theory.Result, error) {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}), theory.Options{Orphan: time.Millisecond})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack, started)
	_ = p.ws.CloseNow()
	if err := <-stopped; err == nil || err.Error() != "all clients left" {
		t.Errorf("the cause is %v", err)
	}
}

// When the runtime stops, each run is answered before its connection ends.
func TestClose(t *testing.T) {
	w := newWaiting()
	r, url := serve(t, w, theory.Options{})
	p := connect(t, url)
	p.send(request(`{}`))
	p.expect(ack, started)
	<-w.begun
	go r.Close()
	p.expect(failure("ERR_RUNTIME", "the runtime is shutting down"))
	if got := p.closed(); got != 1001 {
		t.Errorf("closed with %d", got)
	}
}

// A client that does not read blocks no other, and only loses tokens.
func TestSlowClient(t *testing.T) {
	const tokens = 400
	_, url := serve(t, theory.HandlerFunc(func(_ context.Context, _ *theory.Request, emit func(theory.Message)) (*theory.Result, error) {
		text := json.RawMessage(`{"text":"` + strings.Repeat("x", 50_000) + `"}`)
		for range tokens {
			emit(theory.Message{Kind: "Token", Data: text})
		}
		return &theory.Result{}, nil
	}), theory.Options{})
	slow, quick := connect(t, url), connect(t, url)
	slow.send(request(`{}`))
	slow.expect(ack)
	quick.send(request(`{}`))
	for !strings.Contains(quick.next(), `"kind":"Response"`) {
	}
	got := 0
	for {
		m := slow.next()
		if strings.Contains(m, `"kind":"Token"`) {
			got++
		}
		if strings.Contains(m, `"kind":"Response"`) {
			break
		}
	}
	if got == tokens {
		t.Skip("the client was quick enough")
	}
}

// Other clients of a run do not wait for one that never reads.
func TestStuckClient(t *testing.T) {
	joined := make(chan bool)
	_, url := serve(t, theory.HandlerFunc(func(_ context.Context, _ *theory.Request, emit func(theory.Message)) (*theory.Result, error) {
		<-joined
		text := json.RawMessage(`{"msg":"` + strings.Repeat("x", 50_000) + `"}`)
		for range 600 {
			emit(theory.Message{Kind: "Log", Data: text})
		}
		return &theory.Result{}, nil
	}), theory.Options{})
	stuck, quick := connect(t, url), connect(t, url)
	stuck.send(request(`{}`))
	stuck.expect(ack)
	quick.send(request(`{}`))
	quick.expect(ack)
	close(joined)
	last, longest := time.Now(), time.Duration(0)
	for !strings.Contains(quick.next(), `"kind":"Response"`) {
		longest, last = max(longest, time.Since(last)), time.Now()
	}
	if longest > 8*time.Second {
		t.Errorf("it waited %v for a message", longest)
	}
}

func needShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
}

// A process answers with lines of JSON.
func TestProcess(t *testing.T) {
	needShell(t)
	for _, tt := range []struct{ name, script, want string }{
		{"an answer", `read -r line; echo '{"kind":"Response","status":"success","outputs":{"a":2},"cost_micro":0}'`, success(`{"a":2}`)},
		{"an error", `echo '{"kind":"Response","status":"error","error":{"code":"ERR_PROVIDER","message":"no"}}'`, failure("ERR_PROVIDER", "no")},
		{"no answer, and a child left behind", `sleep 60 & exit 4`, failure("ERR_RUNTIME", "the worker ended with status 4 and gave no Response")},
		{"no answer", `exit 4`, failure("ERR_RUNTIME", "the worker ended with status 4 and gave no Response")},
		{"a log line", `echo starting; echo '[1]'; echo '{"kind":"Ack"}'; echo '{"kind":"Response","status":"success"}'`, success(`{}`)},
		{"a kind of its own", `echo '{"kind":"Song","content":{"key":"C"}}'`, `{"kind":"Song","control":{"run_id":"r"},"data":{"key":"C"}}`},
		{"a whole Response", `echo '{"kind":"Response","control":{"run_id":"r","status":"success","cost_micro":0,"final":true},"outputs":{"a":2}}'`, success(`{"a":2}`)},
		{"a whole error", `echo '{"kind":"Response","control":{"run_id":"r","status":"error","cost_micro":0,"final":true},"outputs":{},"error":{"code":"ERR_PROVIDER","message":"no"}}'`, failure("ERR_PROVIDER", "no")},
		{"no status", `echo '{"kind":"Response"}'`, failure("ERR_RUNTIME", `the Response of the worker has the status "" and no error`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", tt.script}}, theory.Options{})
			p := connect(t, url)
			p.send(request(`{}`))
			p.expect(ack, started)
			got := p.next()
			if got == completed {
				got = p.next()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if tt.name != "a kind of its own" { // there, more follows
				p.behaves()
			}
		})
	}
}

// No member of a Response costs the others: the client has paid for them.
func TestResponseMembers(t *testing.T) {
	needShell(t)
	with := func(text, old, changed string) string { return strings.Replace(text, old, changed, 1) }
	costs := func(micros string) string { return with(success(`{"a":1}`), `"cost_micro":0`, `"cost_micro":`+micros) }
	fails := func(micros, outputs, code, message string) string {
		return with(with(failure(code, message), `"cost_micro":0`, `"cost_micro":`+micros), `"outputs":{}`, `"outputs":`+outputs)
	}
	for _, tt := range []struct{ name, response, want string }{
		{"a float", `"status":"success","outputs":{"a":1},"cost_micro":113.0`, costs("113")},
		{"a half", `"control":{"status":"success","cost_micro":112.5},"outputs":{"a":1}`, costs("113")},
		{"less than half", `"status":"success","outputs":{"a":1},"cost_micro":1.1349e2`, costs("113")},
		{"text", `"status":"success","outputs":{"a":1},"cost_micro":" 113.0"`, costs("113")},
		{"a large number", `"status":"success","outputs":{"a":1},"cost_micro":9007199254740993`, costs("9007199254740993")},
		{"beside control", `"control":{"status":"success"},"outputs":{"a":1},"cost_micro":7`, costs("7")},
		{"no number", `"status":"success","outputs":{"a":1},"cost_micro":{"usd":1}`, costs("0")},
		{"null", `"status":"success","outputs":{"a":1},"cost_micro":null,"error":null`, costs("0")},
		{"too large", `"status":"success","outputs":{"a":1},"cost_micro":1e300`, costs("0")},
		{"content", `"content":{"status":"success","outputs":{"a":1},"cost_micro":7}`, costs("7")},
		{"an error as text", `"status":"error","error":"no quota","cost_micro":5.0`, fails("5", `{}`, "ERR_HANDLER", "no quota")},
		{"an error without a code", `"status":"error","error":{"message":"no quota"}`, failure("ERR_HANDLER", "no quota")},
		{"an error with a number as its code", `"status":"error","error":{"code":429}`, fails("0", `{}`, "ERR_HANDLER", `{"code":429}`)},
		{"an error with outputs", `"status":"error","error":"cut","outputs":{"a":1},"cost_micro":5`, fails("5", `{"a":1}`, "ERR_HANDLER", "cut")},
		{"another status", `"status":"done","outputs":{"a":1},"cost_micro":5`, fails("5", `{"a":1}`, "ERR_RUNTIME", `the Response of the worker has the status "done" and no error`)},
		{"outputs in a list", `"status":"success","outputs":[1],"cost_micro":5`, fails("5", `{"outputs":[1]}`, "ERR_RUNTIME", `the outputs of the worker are not an object of named values`)},
		{"members of its own", `"status":"success","outputs":{"a":1},"index_path":"/i","final":true`, with(costs("0"), `"a":1}`, `"a":1},"index_path":"/i"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", `printf '%s\n' "$0"`, `{"kind":"Response",` + tt.response + `}`}}, theory.Options{})
			p := connect(t, url)
			p.send(request(`{}`))
			p.expect(ack, started)
			got := p.next()
			if got == completed {
				got = p.next()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			p.behaves()
		})
	}
}

// A tool that reacts to a preempt keeps its cost and outputs, and its own words.
func TestPreemptedResult(t *testing.T) {
	needShell(t)
	for _, tt := range []struct{ name, response, want string }{
		{"a success", `"status":"success","outputs":{"partial":1,"stored":"x"},"cost_micro":777`, `"outputs":{"partial":1,"stored":"/artifacts/r/out"},"error":{"code":"ERR_PREEMPTED","message":"the run was preempted"}}`},
		{"an error", `"status":"error","error":{"code":"ERR_PREEMPTED","message":"mine"},"cost_micro":777`, `"outputs":{},"error":{"code":"ERR_PREEMPTED","message":"mine"}}`},
		{"another error", `"status":"error","error":{"code":"ERR_PROVIDER","message":"cut"},"outputs":{"partial":1},"cost_micro":777`, `"outputs":{"partial":1},"error":{"code":"ERR_PREEMPTED","message":"the run was preempted"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := `echo '{"kind":"Log"}'; while read -r line; do case $line in *cancel*) printf '%s\n' "$0"; exit;; esac; done`
			_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", script, `{"kind":"Response",` + tt.response + `}`}}, theory.Options{Files: theory.Files{Root: t.TempDir()}})
			p := connect(t, url)
			p.send(strings.Replace(request(`{}`), `"outputs":{}`, `"outputs":{"stored":"/artifacts/r/out"}`, 1))
			p.expect(ack, started, `{"kind":"Log","control":{"run_id":"r"},"data":{}}`)
			p.send(`{"kind":"control","content":{"op":"preempt"}}`)
			p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"preempted","by":"controller"}}`,
				`{"kind":"Response","control":{"run_id":"r","status":"error","cost_micro":777,"final":true},`+tt.want)
			p.behaves()
		})
	}
}

// A process reads the request and the controls; a cancel is the last line.
func TestProcessControls(t *testing.T) {
	needShell(t)
	script := `while read -r line; do printf '{"kind":"Log","data":{"msg":"%s"}}\n' "$(printf %s "$line" | tr -d '"{}')"; done; exit 0`
	_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", script}}, theory.Options{})
	p := connect(t, url)
	p.send(request(`{"a":1}`))
	p.expect(ack, started, `{"kind":"Log","control":{"run_id":"r"},"data":{"msg":"kind:Request,control:run_id:r,mode:real,inputs:a:1,outputs:"}}`)
	p.send(`{"kind":"control","content":{"op":"pause"}}`)
	p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"paused","by":"controller"}}`,
		`{"kind":"Log","control":{"run_id":"r"},"data":{"msg":"kind:control,op:pause"}}`)
	p.send(`{"kind":"control","content":{"op":"preempt"}}`)
	p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"preempted","by":"controller"}}`)
	got := p.next()
	if got == `{"kind":"Log","control":{"run_id":"r"},"data":{"msg":"kind:control,op:cancel"}}` {
		got = p.next()
	}
	if want := failure("ERR_PREEMPTED", "the run was preempted"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A process reads a numeric run id as the client wrote it.
func TestProcessNumber(t *testing.T) {
	needShell(t)
	script := `read -r line; case $line in *'"run_id":9007199254740993,'*) echo '{"kind":"Response","status":"success"}';; esac`
	_, url := serve(t, &theory.Process{Argv: []string{"sh", "-c", script}}, theory.Options{})
	p := connect(t, url)
	p.send(`{"kind":"Request","control":{"run_id":9007199254740993}}`)
	for _, want := range []string{ack, started, completed, success(`{}`)} {
		p.expect(strings.Replace(want, `"r"`, "9007199254740993", 1))
	}
}

// A Python tool runs in the embedded worker.
func TestTool(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "protocol"), 0o777); err != nil {
		t.Fatal(err)
	}
	const handler = `
def entry(payload, emit, ctrl):
    print("this is not a message")
    emit("token", {"text": "höhe"})
    emit({"kind": "log", "content": {"msg": "old"}})
    op = payload["inputs"]["op"]
    if op == "fail":
        raise ValueError("too loud")
    if op == "wait":
        while True:
            ctrl.check()
    return {"answer": op, "unasked": 1}
`
	if err := os.WriteFile(filepath.Join(dir, "protocol", "handler.py"), []byte(handler), 0o666); err != nil {
		t.Fatal(err)
	}
	tool, err := theory.Tool(python, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, url := serve(t, tool, theory.Options{})
	begin := func(op string) *peer {
		p := connect(t, url)
		p.send(`{"kind":"Request","control":{"run_id":"` + op + `","mode":"real"},"inputs":{"op":"` + op + `"},"outputs":{"answer":null}}`)
		id := `"control":{"run_id":"` + op + `"}`
		p.expect(`{"kind":"Ack",`+id+`}`, `{"kind":"Event",`+id+`,"data":{"phase":"started"}}`,
			`{"kind":"Token",`+id+`,"data":{"text":"höhe"}}`, `{"kind":"Log",`+id+`,"data":{"msg":"old"}}`)
		return p
	}
	p := begin("go")
	p.next() // completed
	p.expect(strings.Replace(success(`{"answer":"go","unasked":1}`), `"r"`, `"go"`, 1))
	p.behaves()
	p = begin("fail")
	p.expect(strings.Replace(failure("ERR_HANDLER", "ValueError: too loud"), `"r"`, `"fail"`, 1))
	p.behaves()
	p = begin("wait")
	p.send(`{"kind":"control","content":{"op":"preempt"}}`)
	p.next() // preempted
	p.expect(strings.Replace(failure("ERR_PREEMPTED", "the run was preempted"), `"r"`, `"wait"`, 1))
	p.behaves()
	if _, err := theory.Tool(python, t.TempDir(), nil); err == nil {
		t.Error("a folder without a handler is taken for a tool")
	}
}

// A tool may import what tools of older runtimes bring along, and says why it fails.
func TestToolWrites(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	const stored, contract = `{"answer":"/artifacts/r/out","tokens":2}`, `
from libs.runtime_common.hydration import hydrate_inputs, write_outputs

def entry(payload, emit, ctrl):
    inputs = hydrate_inputs(payload["inputs"])
    write_outputs(payload["outputs"], {"answer": inputs["text"], "unasked": 1})
    return {"kind": "Response", "control": {"status": "success", "cost_micro": (10 * 0.15 + 20 * 0.60) * 1_000_000 // 1_000_000 + 100},
            "outputs": {"answer": payload["outputs"]["answer"], "tokens": 2}}
`
	costs := func(outputs string) string {
		return strings.Replace(success(outputs), `"cost_micro":0`, `"cost_micro":113`, 1)
	}
	for _, tt := range []struct {
		name, handler string
		files         map[string]string
		want          string
	}{
		{"the runtime's module", contract, nil, costs(stored)},
		{"the runtime's module beside others of the tool", contract, map[string]string{"libs/__init__.py": "", "libs/runtime_common/other.py": ""}, costs(stored)},
		{"a copied module", strings.ReplaceAll(contract, `"unasked": 1`, `"unasked": 1, "copied": True`), map[string]string{
			"libs/runtime_common/hydration.py": "def hydrate_inputs(inputs):\n    return inputs\n\ndef write_outputs(places, results):\n    assert results['copied']\n",
		}, costs(stored)},
		{"a module of PYTHONPATH", "import elsewhere\n\ndef entry(payload, emit, ctrl):\n    return {'a': elsewhere.value}\n", nil, success(`{"a":"found"}`)},
		{"a missing module", "import no_such_module\n", nil, failure("ERR_HANDLER", "the tool cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'")},
		{"an error in the text of the tool", "def entry(:\n", nil, `"code":"ERR_HANDLER","message":"the tool cannot be loaded: SyntaxError: `},
		{"an exception", "def entry(payload, emit, ctrl):\n    return payload['inputs']['missing']\n", nil, failure("ERR_HANDLER", "KeyError: 'missing'")},
		{"a kind of its own", "def entry(payload, emit, ctrl):\n    emit({'kind': 'Song', 'key': 'C'})\n", nil, `{"kind":"Song","control":{"run_id":"r"},"data":{"key":"C"}}`},
		{
			"an output without a form in JSON", "def entry(payload, emit, ctrl):\n    return {'a': 1, 'b': float('nan'), 'c': '\\udc80'}\n", nil,
			strings.Replace(failure("ERR_HANDLER", "outputs without a form in JSON: b: Out of range float values are not JSON compliant"), `"outputs":{}`, `"outputs":{"a":1,"c":"\udc80"}`, 1),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, path := t.TempDir(), t.TempDir()
			t.Setenv("PYTHONPATH", path)
			files := map[string]string{filepath.Join(dir, "protocol", "handler.py"): tt.handler, filepath.Join(path, "elsewhere.py"): "value = 'found'\n"}
			for name, text := range tt.files {
				files[filepath.Join(dir, name)] = text
			}
			for name, text := range files {
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
					t.Fatal(err)
				}
			}
			tool, err := theory.Tool(python, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, url := serve(t, tool, theory.Options{Files: theory.Files{Root: t.TempDir()}})
			p := connect(t, url)
			p.send(`{"kind":"Request","control":{"run_id":"r"},"inputs":{"text":"hello"},"outputs":{"answer":"/artifacts/r/out"}}`)
			p.expect(ack, started)
			got := p.next()
			if got == completed {
				got = p.next()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A tool gets a payload, emits whole messages and returns a whole Response. Bytes pass in both
// directions.
func TestToolContract(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir, root := t.TempDir(), t.TempDir()
	const handler = `
def entry(payload, emit=None, ctrl=None):
    assert sorted(payload) == ["inputs", "mode", "outputs", "run_id"], payload
    run_id, inputs = payload["run_id"], payload["inputs"]
    def message(kind, data):
        return {"kind": kind, "control": {"run_id": run_id}, "data": data}
    emit(message("Event", {"phase": payload["mode"]}))
    control = {"run_id": run_id, "status": "success", "cost_micro": 5, "final": True}
    if inputs["do"] == "fail":
        control["status"] = "error"
        return {"kind": "Response", "control": control, "outputs": {}, "error": {"code": "ERR_PROVIDER", "message": "no quota"}}
    if inputs["do"] == "wait":
        assert not ctrl.is_set()
        assert ctrl.wait(60)
        return {}
    if inputs["do"] == "budgets":
        while not ctrl.budgets and not ctrl.wait(0.01):
            pass
        return dict(ctrl.budgets, run_id=run_id)
    assert inputs["raw"] == b"\xff\x00", inputs
    return {"kind": "Response", "control": control, "outputs": {"raw": b"\xfe" + inputs["raw"], "inline": b"\xff", "nothing": None}}
`
	for name, text := range map[string]string{filepath.Join(dir, "protocol", "handler.py"): handler, filepath.Join(root, "r", "raw"): "\xff\x00"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	tool, err := theory.Tool(python, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ inputs, want string }{
		{`{"do":"budgets"}`, success(`{"run_id":"r","time_s":1.5,"tokens":500}`)},
		{`{"do":"go","raw":"/artifacts/r/raw"}`, `{"kind":"Response","control":{"run_id":"r","status":"success","cost_micro":5,"final":true},"outputs":{"inline":{"$bytes":"/w=="},"nothing":"/artifacts/r/nothing","raw":"/artifacts/r/out"}}`},
		{`{"do":"fail"}`, `{"kind":"Response","control":{"run_id":"r","status":"error","cost_micro":5,"final":true},"outputs":{},"error":{"code":"ERR_PROVIDER","message":"no quota"}}`},
		{`{"do":"wait"}`, failure("ERR_PREEMPTED", "the run was preempted")},
	} {
		_, url := serve(t, tool, theory.Options{Files: theory.Files{Root: root}})
		p := connect(t, url)
		p.send(`{"kind":"Request","control":{"run_id":"r"},"inputs":` + tt.inputs + `,"outputs":{"raw":"/artifacts/r/out","nothing":"/artifacts/r/nothing"}}`)
		p.expect(ack, started, strings.Replace(started, "started", "mock", 1))
		switch {
		case strings.Contains(tt.inputs, "wait"):
			p.send(`{"kind":"control","content":{"op":"preempt"}}`)
		case strings.Contains(tt.inputs, "budgets"):
			p.send(`{"kind":"control","content":{"op":"set_budget","tokens":500,"time_s":1.5}}`)
			p.expect(`{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"budget_updated","by":"controller","budgets":{"tokens":500,"time_s":1.5}}}`)
		}
		got := p.next()
		if strings.Contains(got, `"kind":"Event"`) { // completed, or preempted
			got = p.next()
		}
		if got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
		p.behaves()
	}
	for name, want := range map[string]string{"out": "\xfe\xff\x00", "nothing": "null"} {
		if got, err := os.ReadFile(filepath.Join(root, "r", name)); string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}

// A page of another site whose name resolves to this machine gets no information.
func TestForeignHost(t *testing.T) {
	for _, remote := range []bool{false, true} {
		r := theory.New(nil, theory.Options{Listener: transport.Options{Remote: remote}})
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.example:8090/healthz", nil))
		if got := w.Code == http.StatusOK; got != remote {
			t.Errorf("remote %t: the status is %d", remote, w.Code)
		}
		r.Close()
	}
}
