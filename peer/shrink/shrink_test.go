package shrink_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/peer/shrink"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// faulty says which faulty server the test program is.
const faulty = "WIRECTL_TEST_FAULTY"

func TestMain(m *testing.M) {
	if fault := os.Getenv(faulty); fault != "" {
		(&server{fault: fault}).serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// counter names a file that counts the calls of the flaky server.
const counter = "WIRECTL_TEST_COUNTER"

// isOdd counts, and reports whether the number is odd.
func isOdd(name string) bool {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_, _ = f.WriteString(".")
	info, err := f.Stat()
	return err == nil && info.Size()%2 == 1
}

// A server speaks MCP over its standard streams, and has one fault.
type server struct {
	fault   string
	mu      sync.Mutex
	calls   int
	opened  bool
	changed bool
	running int
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
		RequestID json.RawMessage
	} `json:"params"`
}

func (s *server) serve() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if s.fault == "stays" && s.calls > 1 {
				<-time.After(time.Hour) // with nothing to wait for, Go would end it
			}
			s.mu.Lock() // answers are whole
			os.Exit(0)
		}
		var m message
		_ = json.Unmarshal(line, &m)
		s.handle(&m)
	}
}

func (s *server) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (s *server) answer(m *message) { s.answerAs(m.ID) }
func (s *server) answerAs(id json.RawMessage) {
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, id)
}

func crash(why string) {
	fmt.Fprintln(os.Stderr, "panic:", why)
	os.Exit(3)
}

func (s *server) handle(m *message) {
	if s.fault == "absent" || s.fault == "elsewhere" && m.Method == "tools/call" {
		crash(s.fault)
	}
	switch m.Method {
	case "initialize":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"faulty","version":"1"}}}`, m.ID)
	case "tools/list":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"any","inputSchema":{"type":"object"}}]}}`, m.ID)
	case "notifications/roots/list_changed":
		s.changed = true
	case "tools/call":
		s.calls++
		s.call(m)
	}
}

func (s *server) call(m *message) {
	name, args := m.Params.Name, m.Params.Arguments
	text, _ := args["text"].(string)
	switch fault := s.fault; {
	case fault == "hang" && name == "wait":
		return
	case fault == "slip" && name == "add" && args["b"] == nil:
		os.Exit(4)
	case fault == "slip" && args["b"] == 13.0:
		crash(fault)
	case fault == "argument" && args["b"] == 13.0, fault == "long" && len(text) > 1000, fault == "number" && args["n"] != nil && args["n"].(float64) > 300:
		crash(fault)
	case fault == "flaky" && args["b"] == 13.0 && isOdd(os.Getenv(counter)):
		crash(fault)
	case fault == "late" && name == "slow":
		go func() {
			<-time.After(300 * time.Millisecond) // the client has cancelled by then
			s.answer(m)
		}()
		return
	case fault == "id" && s.calls >= 3:
		s.answerAs(json.RawMessage("999"))
		return
	case fault == "order":
		if name == "delete" && s.opened {
			crash("deleted while it is open")
		}
		s.opened = (s.opened || name == "open") && name != "close"
	case fault == "nested":
		filter, _ := args["filter"].(map[string]any)
		or, _ := filter["or"].([]any)
		for _, one := range or {
			if of, _ := one.(map[string]any); of != nil && of["not"] != nil {
				crash("not of nothing")
			}
		}
	case fault == "together" && (name == "read" || name == "write"):
		s.mu.Lock()
		if s.running++; s.running > 1 {
			crash("locked twice")
		}
		s.mu.Unlock()
		go func() {
			<-time.After(20 * time.Millisecond)
			s.mu.Lock()
			s.running--
			s.mu.Unlock()
			s.answer(m)
		}()
		return
	case fault == "invalid" && name == "report":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[}`, m.ID)
		return
	case fault == "notified" && s.changed:
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no roots"}}`, m.ID)
		return
	}
	s.answer(m)
}

const handshake = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// call is a call of a tool as a line.
func call(id int, name, args string) string {
	if args == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`+"\n", id, name)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", id, name, args)
}

// noise are calls that do not matter.
func noise(from, n int) (lines string) {
	for i := range n {
		lines += call(from+i, "noise", `{"a":1,"list":[1,2,3],"text":"nothing"}`)
	}
	return lines
}

// server starts a faulty server.
func endpoint(t testing.TB, fault string) transport.Endpoint {
	t.Helper()
	e, err := transport.Parse([]string{"exec", os.Args[0]}, transport.Options{Env: append(os.Environ(), faulty+"="+fault, "GORACE=atexit_sleep_ms=0"), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// record sends lines to a server, each request after the answer to the one before, and returns what
// was said. After an empty line it does not wait.
func record(t testing.TB, fault, lines string) *replay.Session {
	t.Helper()
	conn, err := endpoint(t, fault).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	process := conn.(transport.Process)
	var copied sync.WaitGroup
	copied.Go(func() { _, _ = io.Copy(io.Discard, process.Stderr()) })
	s, n := new(replay.Session), int64(0)
	mcp, err := all.Named("mcp")
	if err != nil {
		t.Fatal(err)
	}
	add := func(d frame.Dir, line string) {
		n++
		s.Add(replay.Record{Seq: n, Time: time.Now(), Frame: &frame.Frame{Raw: []byte(line), End: len(line) - 1, Conn: 1, Dir: d}, Framing: frame.Line, Protocol: mcp})
	}
	answers := make(chan string)
	copied.Go(func() {
		defer close(answers)
		for r := bufio.NewReader(conn); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			answers <- line
		}
	})
	wait := func() {
		select {
		case line, ok := <-answers:
			if ok {
				add(frame.U2C, line)
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
	waits := true
	for line := range strings.Lines(lines) {
		if line == "\n" {
			waits = false
			continue
		}
		add(frame.C2U, line)
		if _, err := io.WriteString(conn, line); err != nil {
			break
		}
		if waits && strings.Contains(line, `"id":`) {
			wait()
		}
		waits = true
	}
	for range 4 {
		wait()
	}
	copied.Go(func() { _ = conn.Close() })
	for line := range answers {
		add(frame.U2C, line)
	}
	copied.Wait()
	return s
}

// sent returns what the client sends in a session, without the handshake.
func sent(t testing.TB, r capture.Reader) (lines string) {
	t.Helper()
	for {
		var rec capture.Record
		if err := r.Next(&rec); errors.Is(err, io.EOF) {
			return strings.TrimPrefix(lines, handshake)
		} else if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == capture.Frame && rec.Dir == frame.C2U {
			lines += string(rec.Raw)
		}
	}
}

func options(t testing.TB, fault, keep string, s *replay.Session) shrink.Options {
	t.Helper()
	k, err := shrink.ParseKeep(keep)
	if err != nil {
		t.Fatal(err)
	}
	return shrink.Options{
		Scripts: s.Scripts(frame.C2U), Keep: k, Server: endpoint(t, fault), Judge: track.Judge, Patience: time.Second,
		Runs: 2, MaxTries: 400, MaxTime: time.Minute, Jobs: 1, Mask: func(text string) string { return text },
	}
}

var id = regexp.MustCompile(`"id":\d+,`)

// Each server has a fault, which one session in much noise shows. What was built in is all that is left.
func TestFaultyServers(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50,"reason":"too slow for me"}}` + "\n"
	for _, test := range []struct {
		fault, keep, lines, want string
	}{
		{"hang", "finding:unanswered", noise(1, 4) + call(50, "wait", `{"for":"ever","n":5}`), call(50, "wait", ``)},
		{"argument", "outcome:died", noise(1, 9) + call(50, "add", `{"a":5,"b":13,"c":[1,2,{"d":"e"}]}`), call(50, "add", `{"b":13}`)},
		{"slip", "outcome:died", noise(1, 2) + call(50, "add", `{"a":5,"b":13}`), call(50, "add", `{"b":13}`)}, // without b, it dies in another way
		{"late", "finding:late-result", noise(1, 5) + "\n" + call(50, "slow", `{"how":"very"}`) + cancel + noise(60, 3), call(50, "slow", ``) + strings.Replace(cancel, `,"reason":"too slow for me"`, "", 1)},
		{"id", "finding:orphan", noise(1, 9), call(2, "noise", "") + call(3, "noise", "") + call(4, "noise", "")},
		{"order", "outcome:died", noise(1, 3) + call(4, "open", `{"x":1}`) + noise(5, 2) + call(7, "close", `{"x":1}`) + noise(8, 1) + call(9, "open", `{"x":2}`) + noise(10, 2) + call(12, "delete", `{"x":2}`), call(9, "open", ``) + call(12, "delete", ``)},
		{"nested", "outcome:died", noise(1, 3) + call(50, "find", `{"limit":10,"filter":{"and":[{"a":1}],"or":[{"b":2},{"not":{"c":3},"also":true},{"d":"e"}]}}`), call(50, "find", `{"filter":{"or":[{"not":{}}]}}`)},
		{"long", "outcome:died", noise(1, 3) + call(50, "put", `{"key":"k","text":"`+strings.Repeat("lorem ipsum ", 400)+`"}`), call(50, "put", `{"text":"`+strings.Repeat("a", 1001)+`"}`)},
		{"number", "outcome:died", noise(1, 3) + call(50, "count", `{"n":123456.75}`), call(50, "count", `{"n":301}`)},
		{"together", "outcome:died", noise(1, 3) + "\n" + call(50, "read", `{"x":1}`) + "\n" + call(51, "noise", `{}`) + "\n" + call(52, "write", `{"x":1}`) + noise(60, 2), call(50, "read", ``) + call(52, "write", ``)},
		{"invalid", "finding:malformed", noise(1, 4) + call(50, "report", `{"of":"all"}`), call(50, "report", ``)},
		{"stays", "finding:ignores-eof", noise(1, 4), call(3, "noise", ``) + call(4, "noise", ``)},
		{"notified", "jq:(.code|tostring)==\"-32603\" and .name==\"last\"", noise(1, 4) + `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}` + "\n" + noise(20, 4) + call(50, "last", `{"a":1}`), `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}` + "\n" + call(50, "last", ``)},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel() // most of it waits for a server
			recorded := record(t, test.fault, handshake+test.lines)
			o := options(t, test.fault, test.keep, recorded)
			result, err := shrink.Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := sent(t, result.Capture)
			if test.fault == "id" || test.fault == "stays" { // any calls
				got, test.want = id.ReplaceAllString(got, ""), id.ReplaceAllString(test.want, "")
			}
			if got != test.want {
				t.Errorf("left is\n%swant\n%s", got, test.want)
			}
		})
	}
}

// A fault that does not always show is told, with how often it showed, and still found.
func TestFlakyServer(t *testing.T) {
	t.Setenv(counter, filepath.Join(t.TempDir(), "count"))
	recorded := record(t, "argument", handshake+noise(1, 4)+call(50, "add", `{"a":5,"b":13}`))
	o := options(t, "flaky", "outcome:died", recorded)
	o.Runs = 10
	result, err := shrink.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sent(t, result.Capture), call(50, "add", `{"b":13}`); got != want {
		t.Errorf("left is\n%swant\n%s", got, want)
	}
	if !strings.HasSuffix(result.Summary, "; flaky: the original shows it in 5 of 10 tries, the result in 5 of 10 tries") {
		t.Error(result.Summary)
	}
}

// What the original does not show is an error that says what was seen instead.
func TestNotShown(t *testing.T) {
	recorded := record(t, "argument", handshake+noise(1, 2)+call(50, "add", `{"a":5,"b":13}`))
	for keep, want := range map[string]string{
		"finding:late-result":          "the original does not show finding:late-result in 4 tries: it had initialize done, tools/call add died, 2× tools/call noise done; findings: died-with-open-requests; the server ended with status 3: panic: argument",
		"jq:.outcom==\"died\"":         `the original does not show jq:.outcom=="died" in 4 tries: it had initialize done, tools/call add died, 2× tools/call noise done; findings: died-with-open-requests; the server ended with status 3: panic: argument; calls have no field "outcom" (did you mean outcome?)`,
		`jq:error("x")`:                `the original does not show jq:error("x") in 4 tries: it had initialize done, tools/call add died, 2× tools/call noise done; findings: died-with-open-requests; the server ended with status 3: panic: argument; jq: error: x`,
		"jq:.arguments|fromjson|.b>99": "the original does not show jq:.arguments|fromjson|.b>99 in 4 tries: it had initialize done, tools/call add died, 2× tools/call noise done; findings: died-with-open-requests; the server ended with status 3: panic: argument",
	} {
		_, err := shrink.Run(context.Background(), options(t, "argument", keep, recorded))
		if _, ok := errors.AsType[*shrink.NotShownError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %s", keep, err, want)
		}
	}
}

// A server that is not the recorded one has another fault, and is not shrunk to it.
func TestAnotherServer(t *testing.T) {
	for fault, want := range map[string]string{
		"absent":    "the original does not show outcome:died in 4 tries: the server sent nothing, and it had initialize died; findings: died-with-open-requests; the server ended with status 3: panic: absent; the recording shows it in tools/call add",
		"elsewhere": "the original does not show outcome:died in 4 tries: it had initialize done, tools/call noise died; findings: died-with-open-requests; the server ended with status 3: panic: elsewhere; the recording shows it in tools/call add",
	} {
		recorded := record(t, "argument", handshake+noise(1, 2)+call(50, "add", `{"a":5,"b":13}`))
		recorded.Event(&capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Conn: 1, Dir: frame.U2C}})
		_, err := shrink.Run(context.Background(), options(t, fault, "outcome:died", recorded))
		if _, ok := errors.AsType[*shrink.NotShownError](err); !ok || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	recorded := record(t, "argument", handshake+noise(1, 2)) // how it ended is not known
	if _, err := shrink.Run(context.Background(), options(t, "absent", "outcome:died", recorded)); err == nil || !strings.Contains(err.Error(), "the server sent nothing, and it had initialize died") {
		t.Error(err)
	}
}

// What to keep is checked before anything runs, and a mistyped name is answered by the right one.
func TestKeepTypos(t *testing.T) {
	for text, want := range map[string]string{
		"":                    `"": want finding:NAME, outcome:NAME or jq:EXPR`,
		"died":                `"died": want finding:NAME, outcome:NAME or jq:EXPR (did you mean outcome:died?)`,
		"late-result":         `"late-result": want finding:NAME, outcome:NAME or jq:EXPR (did you mean finding:late-result?)`,
		"findng:late-result":  `"findng:late-result": want finding:NAME, outcome:NAME or jq:EXPR (did you mean finding:late-result?)`,
		"finding:late-resutl": `finding "late-resutl": there is none of this name (did you mean late-result?); `,
		"outcome:dead":        `unknown outcome "dead"`,
		"jq:":                 `"jq:" lacks the expression after the colon`,
		"jq:.a ==":            "jq: column ",
	} {
		if _, err := shrink.ParseKeep(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// When its time is up, or it is interrupted, the smallest session so far is returned. No server is left behind.
func TestStopped(t *testing.T) {
	recorded := record(t, "argument", handshake+noise(1, 9)+call(50, "add", `{"a":5,"b":13}`))
	o := options(t, "argument", "outcome:died", recorded)
	o.MaxTries = 7
	result, err := shrink.Run(context.Background(), o)
	if err != nil || !strings.HasSuffix(result.Summary, "; perhaps not the smallest: the limit of --max-tries") {
		t.Errorf("%v, %+v", err, result)
	}
	o.MaxTries = 1
	if _, err = shrink.Run(context.Background(), o); err == nil || err.Error() != "the original shows outcome:died, but not yet in 2 runs: the limit of --max-tries" {
		t.Error(err)
	}
	o.MaxTime = time.Nanosecond
	if _, err = shrink.Run(context.Background(), o); err == nil || err.Error() != "no try has come to its end: the limit of --max-time" {
		t.Error(err)
	}
	o.MaxTime = time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	o.MaxTries, o.Terminal = 400, writer(func(line []byte) {
		if strings.HasPrefix(string(line), "\rtry 8 ") {
			cancel()
		}
	})
	result, err = shrink.Run(ctx, o)
	if err != nil || !strings.HasSuffix(result.Summary, "; perhaps not the smallest: interrupted") {
		t.Errorf("%v, %+v", err, result)
	}
	if got := sent(t, result.Capture); !strings.Contains(got, `"b":13`) || strings.Count(got, "\n") > 6 {
		t.Errorf("left is\n%s", got)
	}
}

// Several tries at once find the same.
func TestJobs(t *testing.T) {
	recorded := record(t, "nested", handshake+noise(1, 9)+call(50, "find", `{"limit":10,"filter":{"or":[{"b":2},{"not":{"c":3},"also":true},{"d":"e"}]}}`))
	o := options(t, "nested", "outcome:died", recorded)
	o.Jobs = 4
	result, err := shrink.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sent(t, result.Capture), call(50, "find", `{"filter":{"or":[{"not":{}}]}}`); got != want {
		t.Errorf("left is\n%swant\n%s", got, want)
	}
}
