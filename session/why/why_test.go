package why_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/why"
	"github.com/wirectl/wirectl/table"
)

// A script is a session over HTTP/1.1. Its lines begin with ">" for what the client sends, or "<", or are a
// time to wait, such as "12s".
type script struct {
	records []capture.Record
	at      time.Time
	ofRun   bool
}

func sessionOf(wire ...string) *script {
	s := &script{at: time.Unix(1_800_000_000, 0).UTC()}
	c := carrier.New(carrier.Options{})
	for _, w := range wire {
		if wait, err := time.ParseDuration(w); err == nil {
			s.at = s.at.Add(wait)
			continue
		}
		dir := frame.C2U
		if w[0] == '<' {
			dir = frame.U2C
		}
		if w == "<" || w == ">" { // it ends its side
			s.add(c.End(dir))
			s.records = append(s.records, capture.Record{Kind: capture.HalfClosed, Time: s.at, Frame: frame.Frame{Conn: 1, Dir: dir}})
			continue
		}
		s.add(c.Feed(dir, []byte(w[1:])))
		s.at = s.at.Add(10 * time.Millisecond)
	}
	return s
}

func (s *script) add(frames []frame.Frame) {
	for i := range frames {
		f := frames[i]
		f.Raw, f.Meta, f.Conn = bytes.Clone(f.Raw), f.Meta.Clone(), 1
		s.records = append(s.records, capture.Record{Framing: f.Meta.Framing, Frame: f, Time: s.at})
	}
}

func (s *script) Session() *capture.Session { return &capture.Session{} }

func (s *script) Next(r *capture.Record) error {
	if len(s.records) == 0 {
		return io.EOF
	}
	*r, s.records = s.records[0], s.records[1:]
	return nil
}

// ask reads a session and returns the report as text, and its verdicts.
func ask(t *testing.T, s *script, q why.Question) (text, verdicts string) {
	t.Helper()
	ts := &track.Trackers{Joins: true, Asked: true}
	q.Mask = ts.Hide
	r, err := why.NewReader(q)
	if err != nil {
		t.Fatal(err)
	}
	ts.Watcher, ts.Event = r, r.Happened
	cfg := decode.Config{Workers: 1, Resync: true}
	in := decode.Input{Capture: s, OfRun: s.ofRun}
	f := track.NewFollower(ts, in, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View {
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			x := why.Frame{Frame: it.Frame, Seq: it.Seq, Time: it.Time, Protocol: it.Protocol, Body: it.Payload}
			if !it.Frame.Gap && it.Err == nil {
				x.Message = &it.Message
			}
			r.See(x)
			return f.View(dst, it)
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.End()
	report, err := r.Report(f.Last, ts.Wires, ts.OfRun)
	if err != nil {
		return err.Error(), "error"
	}
	var list []string
	for _, a := range report.Answers {
		list = append(list, a.Verdict)
	}
	var out bytes.Buffer
	if err := report.Write(table.Output{To: &out, Form: table.AsText, Style: &render.Style{}}); err != nil {
		t.Fatal(err)
	}
	return out.String(), strings.Join(list, " ")
}

func post(path, body string, fields ...string) string {
	return fmt.Sprintf(">POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, lines(fields), len(body), body)
}

func lines(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String()
}

func get(path string) string { return ">GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" }

func form(path, body string) string {
	return fmt.Sprintf(">POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func said(status, body string, fields ...string) string {
	return fmt.Sprintf("<HTTP/1.1 %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, lines(fields), len(body), body)
}

const (
	streamed = "<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	begun    = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}`
	delta    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`
)

func event(data string) string {
	data = "data: " + data + "\n\n"
	return fmt.Sprintf("<%x\r\n%s\r\n", len(data), data)
}

// asks is a request to a model with messages, and a tool if there is one.
func asks(tool string, messages ...string) string {
	tools := ""
	if tool != "" {
		tools = `,"tools":[{"name":"` + tool + `","input_schema":{"type":"object"}}]`
	}
	return post("/v1/messages", `{"model":"claude-x","max_tokens":9,"messages":[`+strings.Join(messages, ",")+`]`+tools+`}`, "Anthropic-Version: 2023-06-01")
}

const user = `{"role":"user","content":"go"}`

// use and back are a tool call in the conversation, and its result.
func use(id, arguments string) string {
	return `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"look","input":` + arguments + `}]}`
}

func back(id, result string) string {
	return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"` + result + `"}]}`
}

// calls is the answer of a model that calls a tool.
func calls(id, arguments string) string {
	return said("200 OK", `{"id":"m","type":"message","role":"assistant","model":"claude-x","stop_reason":"tool_use","content":[{"type":"tool_use","id":"`+id+`","name":"look","input":`+arguments+`}],"usage":{"input_tokens":5,"output_tokens":1}}`)
}

func ends(reason string) string {
	return said("200 OK", `{"id":"m","type":"message","role":"assistant","model":"claude-x","stop_reason":"`+reason+`","content":[{"type":"text","text":"ok"}],"usage":{"input_tokens":5,"output_tokens":1}}`)
}

func failed(status, kind, text string) string {
	return said(status, `{"type":"error","error":{"type":"`+kind+`","message":"`+text+`"}}`)
}

// conversation is one in which the tool is called with arguments and has results, in turn.
func conversation(steps ...[2]string) (wire []string) {
	messages := []string{user}
	for i, step := range steps {
		id := fmt.Sprint("t", i)
		wire = append(wire, asks("look", messages...), calls(id, step[0]))
		messages = append(slices.Clone(messages), use(id, step[0]), back(id, step[1]))
	}
	return append(wire, asks("look", messages...), ends("end_turn"))
}

// listed is a list of the tools of a server.
func listed() []string {
	return []string{post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), said("200 OK", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`)}
}

func repeat(n int, wire ...string) (list []string) {
	for range n {
		list = append(list, wire...)
	}
	return list
}

// Each verdict comes where its rule holds, and not where something is missing for it.
func TestVerdicts(t *testing.T) {
	a, same := `{"a":1,"b":"x"}`, `{"b":"x", "a":1}`
	list := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"look","arguments":{"a":1}}}`
	}
	wrong := `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"busy"}}`
	for _, test := range []struct {
		about string
		wire  []string
		want  string // verdicts
		says  string // in the text
	}{
		{"nothing wrong", conversation([2]string{a, "one"}), "", "Nothing here explains it: 2 calls, none of which failed."},
		{"a stream that stops, and a client that leaves", []string{asks("", user), streamed, event(begun), event(delta), "42s", ">", "<"}, "stalled-stream", "nothing came for 42s"},
		{"only the head", []string{asks("", user), streamed, "15s", ">", "<"}, "stalled-stream", "the head of its response"},
		{"a short pause", []string{asks("", user), streamed, event(begun), event(delta), "4s", ">", "<"}, "cancelled", ""},
		{"no head, so no stream", []string{asks("", user), "42s", ">", "<"}, "cancelled", ""},
		{"three equal calls with equal results", conversation([2]string{a, "no"}, [2]string{same, "no"}, [2]string{a, "no"}), "loop", "look was called 3 times in a row"},
		{"another result", conversation([2]string{a, "no"}, [2]string{a, "no"}, [2]string{a, "yes"}), "", ""},
		{"other arguments", conversation([2]string{a, "no"}, [2]string{`{"a":2}`, "no"}, [2]string{a, "no"}), "", ""},
		{"reminders that count down", conversation([2]string{a, `no<system-reminder>3 left</system-reminder>`}, [2]string{a, `no<system-reminder>2 left</system-reminder>`}, [2]string{a, `no<system-reminder>1 left</system-reminder>`}), "loop", ""},
		{"heads of Codex", conversation([2]string{a, `Chunk ID: 1\nWall time: 1 s\nOutput:\nno`}, [2]string{a, `Chunk ID: 2\nWall time: 2 s\nOutput:\nno`}, [2]string{a, `Chunk ID: 3\nWall time: 2 s\nOutput:\nno`}), "loop", ""},
		{"a tool within the agent that fails", conversation([2]string{a, `<tool_use_error>not allowed</tool_use_error>","is_error":true,"x":"`}), "finished-on-failure", "look, the last tool that the turn called, failed, and the agent ended the turn as done: not allowed.\n"},
		{"and then succeeds", conversation([2]string{a, `not allowed","is_error":true,"x":"`}, [2]string{a, `ok","is_error":false,"x":"`}), "failed", "look failed: not allowed."},
		{"three conversations", slices.Concat(conversation([2]string{a, "no"}), conversation([2]string{a, "no"}), conversation([2]string{a, "no"})), "", ""},
		{"a storm", repeat(4, asks("", user), failed("529 Overloaded", "overloaded_error", "Overloaded")), "retry-storm", "4 times with the same content"},
		{"a storm that ends well", append(repeat(4, asks("", user), failed("529 Overloaded", "overloaded_error", "Overloaded")), asks("", user), ends("end_turn")), "retry-storm", "The same request succeeded later."},
		{"three are none", repeat(3, asks("", user), failed("529 Overloaded", "overloaded_error", "Overloaded")), "failed", "HTTP 529 Overloaded"},
		{"it succeeds in the end", append(repeat(3, asks("", user), failed("529 Overloaded", "overloaded_error", "Overloaded")), asks("", user), ends("end_turn")), "failed", "Overloaded. The same request succeeded later."},
		{"other content", slices.Concat(repeat(2, asks("", user), failed("500 No", "api_error", "no")), repeat(2, asks("x", user), failed("500 No", "api_error", "no"))), "failed", ""},
		{"a full context", []string{asks("", user), failed("400 Bad Request", "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")}, "context-full", "the prompt has"},
		{"another error", []string{asks("", user), failed("400 Bad Request", "invalid_request_error", "messages: at least one message is required")}, "failed", ""},
		{"a cut answer", []string{asks("", user), ends("max_tokens")}, "output-limit", "limit of output tokens"},
		{"a tool that the model never sees", append(listed(), asks("other", user), ends("end_turn")), "tool-not-offered", "could not call echo"},
		{"it has another name there", append(listed(), asks("mcp__lab__echo", user), ends("end_turn")), "", ""},
		{"or a search for tools", append(listed(), asks("ToolSearch", user), ends("end_turn")), "", ""},
		{"or the model calls what is not known", append(listed(), asks("other", user), calls("t", a)), "", ""},
		{"a call of MCP again and again", repeat(4, post("/mcp", list("1")), said("200 OK", wrong)), "retry-storm", "-32000 busy"},
	} {
		t.Run(test.about, func(t *testing.T) {
			if text, got := ask(t, sessionOf(test.wire...), why.Question{}); got != test.want || !strings.Contains(text, test.says) {
				t.Errorf("%q, want %q with %q:\n%s", got, test.want, test.says, text)
			}
		})
	}
}

// Of an authorization, the step that failed is named, by the rules of the version.
func TestAuthorization(t *testing.T) {
	const (
		body     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		resource = "/.well-known/oauth-protected-resource"
		issuer   = "/.well-known/oauth-authorization-server"
		meta     = `Www-Authenticate: Bearer resource_metadata="https://h/.well-known/oauth-protected-resource"`
	)
	at := func(version string, fields ...string) string {
		return post("/mcp", body, append([]string{"MCP-Protocol-Version: " + version}, fields...)...)
	}
	refused := said("401 Unauthorized", `{"error":"unauthorized"}`, meta)
	describes := []string{get(resource), said("200 OK", `{"resource":"https://h/mcp","authorization_servers":["https://h"]}`)}
	issues := []string{get(issuer), said("200 OK", `{"issuer":"https://h","token_endpoint":"https://h/token","registration_endpoint":"https://h/register"}`)}
	registers := []string{post("/register", `{"redirect_uris":["http://localhost/cb"]}`), said("201 Created", `{"client_id":"c"}`)}
	grants := []string{form("/token", "grant_type=authorization_code&code=SplxlOBeZQQYbYS6&resource=https%3A%2F%2Fh%2Fmcp"), said("200 OK", `{"access_token":"hunter2hunter2","token_type":"Bearer"}`)}
	withToken := at("2025-11-25", "Authorization: Bearer hunter2hunter2")
	ok := said("200 OK", `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	upTo := func(parts ...[]string) []string {
		return slices.Concat(append([][]string{{at("2025-11-25"), refused}}, parts...)...)
	}
	for _, test := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"all of it", upTo(describes, issues, registers, grants, []string{withToken, ok}), "Nothing here explains it"},
		{"the client stops at the 401", upTo(), "did not go on after the 401"},
		{"the resource is not described", upTo([]string{get(resource), said("404 Not Found", "{}")}), "its resource metadata does not say where: HTTP 404"},
		{"the description names no server", upTo([]string{get(resource), said("200 OK", `{"resource":"x"}`)}), "names no authorization_servers"},
		{"the server is not described", upTo(describes, []string{get(issuer), said("500 Oops", "{}")}), "the metadata of its authorization server cannot be read: HTTP 500"},
		{"it is, the second time", upTo(describes, []string{get(issuer), said("404 Not Found", "{}")}, issues, registers, grants, []string{withToken, ok}), "Nothing here explains it"},
		{"no registration", upTo(describes, issues, []string{post("/register", `{"redirect_uris":["http://localhost/cb"]}`), said("403 Forbidden", `{"error":"access_denied","error_description":"closed"}`)}), "does not register the client: HTTP 403: access_denied closed"},
		{"no token is asked for", upTo(describes, issues, registers), "the client asked for no token"},
		{"the token is refused", upTo(describes, issues, registers, []string{form("/token", "grant_type=authorization_code&code=x"), said("400 Bad Request", `{"error":"invalid_grant","error_description":"code used twice"}`)}), "got no token: HTTP 400: invalid_grant code used twice"},
		{"it is not used", upTo(describes, issues, registers, grants), "did not send the request again"},
		{"it does not suffice", upTo(describes, issues, registers, grants, []string{withToken, said("401 Unauthorized", "{}", `Www-Authenticate: Bearer error="invalid_token", error_description="wrong audience"`)}), "refuses the token of the client: invalid_token wrong audience"},
		{"another scope is needed", upTo(describes, issues, registers, grants, []string{withToken, said("403 Forbidden", "{}", `Www-Authenticate: Bearer error="insufficient_scope", scope="files:write"`)}), "its scope does not suffice; it wants files:write"},
		{"2025-06-18 needs resource_metadata", []string{at("2025-06-18"), said("401 Unauthorized", "{}", "Www-Authenticate: Bearer")}, "no resource_metadata in WWW-Authenticate"},
		{"2025-11-25 does not", []string{at("2025-11-25"), said("401 Unauthorized", "{}", "Www-Authenticate: Bearer")}, "did not go on after the 401"},
		{"2025-03-26 has no description of the resource", []string{
			at("2025-03-26"), said("401 Unauthorized", "{}", "Www-Authenticate: Bearer"), get(resource), said("404 Not Found", "{}"), get(issuer), said("500 Oops", "{}"),
		}, "the metadata of its authorization server cannot be read: HTTP 500"},
		{"2025-03-26 has default endpoints", []string{
			at("2025-03-26"), said("401 Unauthorized", "{}", "Www-Authenticate: Bearer"), get(issuer), said("404 Not Found", "{}"), post("/register", `{"redirect_uris":["http://localhost/cb"]}`), said("403 Forbidden", `{"error":"access_denied"}`),
		}, "does not register the client: HTTP 403: access_denied"},
		{"2026-07-28 as 2025-11-25", []string{at("2026-07-28"), said("401 Unauthorized", "{}", "Www-Authenticate: Bearer")}, "did not go on after the 401"},
		{"its metadata is elsewhere", []string{at("2025-11-25"), said("401 Unauthorized", "{}", `Www-Authenticate: Bearer resource_metadata="https://other:9/x"`)}, "what the client did then at other:9 is not in this session"},
		{"nothing is described", []string{
			at("2025-11-25"), said("401 Unauthorized", "{}"), get(resource), said("404 Not Found", "{}"), get(issuer), said("404 Not Found", "{}"), post("/register", `{"redirect_uris":["http://localhost/cb"]}`), said("404 Not Found", `{}`),
		}, "nothing describes it: no metadata of the resource or of an authorization server, and HTTP 404"},
		{"2025-06-18 names the resource", []string{at("2025-06-18"), refused, form("/token", "grant_type=refresh_token"), said("200 OK", `{"access_token":"hunter2hunter2"}`), at("2025-06-18", "Authorization: Bearer hunter2hunter2"), said("401 Unauthorized", "{}", meta)}, "does not name the resource"},
	} {
		t.Run(test.about, func(t *testing.T) {
			text, _ := ask(t, sessionOf(test.wire...), why.Question{})
			if !strings.Contains(text, test.want) || strings.Contains(text, "hunter2") || strings.Contains(text, "SplxlOBe") {
				t.Errorf("want %q:\n%s", test.want, text)
			}
		})
	}
}

// What took long is split: requests that failed, the model until its first token, its text, the agent.
func TestTimeOfTurn(t *testing.T) {
	asked := strings.Replace(asks("", user), "Anthropic-Version", "X-Claude-Code-Prompt-Id: p\r\nAnthropic-Version", 1)
	wire := []string{
		asked, "3s", failed("529 Overloaded", "overloaded_error", "Overloaded"), "2s",
		asked, "4s", streamed, event(begun), event(delta), "6s",
		event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`), event(`{"type":"message_stop"}`), "<0\r\n\r\n",
	}
	s := sessionOf(wire...)
	s.ofRun = true
	text, _ := ask(t, s, why.Question{})
	for _, want := range []string{"in the model's text", "in the model until its first token", "in requests to the model that failed", "in the agent itself, or its user"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q:\n%s", want, text)
		}
	}
}

// ofLines is a session over pipes, like that of sessionOf; "<" and ">" are the ends of its sides.
func ofLines(protocol string, wire ...string) *script {
	s := &script{at: time.Unix(1_800_000_000, 0).UTC()}
	for _, w := range wire {
		if wait, err := time.ParseDuration(w); err == nil {
			s.at = s.at.Add(wait)
			continue
		}
		text, dir := []byte(w[1:]+"\n"), frame.C2U
		if w[0] == '<' {
			dir = frame.U2C
		}
		r := capture.Record{Framing: "line", Protocol: protocol, Seq: int64(len(s.records) + 1), Time: s.at, Frame: frame.Frame{Dir: dir, Raw: text, End: len(text) - 1}}
		if len(w) == 1 {
			r = capture.Record{Kind: capture.HalfClosed, Time: s.at, Frame: frame.Frame{Dir: dir}}
		}
		s.records = append(s.records, r)
	}
	return s
}

// A call that is open when the client ends is unanswered, if that took long.
func TestUnansweredAtEnd(t *testing.T) {
	call := `>{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{"a":1}}}`
	if text, verdict := ask(t, ofLines("mcp", call, "14s", ">", "<"), why.Question{}); verdict != "unanswered" || !strings.Contains(text, "look (tools/call 1) had no answer for 14s, until its connection ended.") {
		t.Errorf("%q:\n%s", verdict, text)
	}
	if text, verdict := ask(t, ofLines("mcp", call, "4s", ">", "<"), why.Question{}); verdict != "" {
		t.Errorf("%q:\n%s", verdict, text)
	}
}

// A turn that its agent tells of over its own wire waits for the user while there is a question.
func TestTimeOfQuestion(t *testing.T) {
	s := ofLines("acp",
		`>{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
		`<{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`,
		`>{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}`, "2s",
		`<{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}}`, "30s",
		`>{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`, "3s",
		`<{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`)
	text, verdict := ask(t, s, why.Question{})
	if !strings.Contains(text, "30s in permission, or another answer of the user, 5s in session/prompt") || verdict != "slow" {
		t.Errorf("%q:\n%s", verdict, text)
	}
}

// A run does not tell what a command has written, so equal commands are no loop.
func TestCommandsAreNoLoop(t *testing.T) {
	var wire []string
	for i := range 10 {
		wire = append(wire, fmt.Sprintf(`>{"event":"start","time":"2026-11-20T09:00:00Z","pid":%d,"what":"shell","parent":1,"command":"date"}`, 2+i),
			fmt.Sprintf(`<{"event":"exit","time":"2026-11-20T09:00:00Z","pid":%d,"status":0}`, 2+i), "1s")
	}
	s := ofLines("process", wire...)
	if text, verdict := ask(t, s, why.Question{}); verdict != "" || !strings.Contains(text, "10 calls") {
		t.Errorf("%q:\n%s", verdict, text)
	}
}

// A question may be about a call, or about a moment.
func TestQuestions(t *testing.T) {
	wire := slices.Concat([]string{asks("", user), "12s"}, []string{ends("end_turn"), "5s"}, []string{asks("x", user), failed("500 No", "api_error", "no")})
	for _, test := range []struct {
		q    why.Question
		want string
	}{
		{why.Question{Call: "#1"}, "claude-x (messages 1) took 12s, and ended as done: 12s in the model"},
		{why.Question{Call: "2"}, "claude-x (messages 2) failed: HTTP 500 no"},
		{why.Question{Call: "#4"}, "claude-x (messages 2) failed"},
		{why.Question{Call: "9"}, "no call has the id 9"},
		{why.Question{At: "4"}, "The session waited for claude-x (messages 1), for 4s by then."},
		{why.Question{At: "14s"}, "No call was open at that time"},
		{why.Question{At: "2027-01-15T08:00:04Z"}, "The session waited for claude-x"},
		{why.Question{At: "500"}, "nothing was recorded at 500"},
	} {
		if text, _ := ask(t, sessionOf(wire...), test.q); !strings.Contains(text, test.want) {
			t.Errorf("%+v: want %q:\n%s", test.q, test.want, text)
		}
	}
	for _, at := range []string{"-1", "noon", "1e300"} {
		if _, err := why.NewReader(why.Question{At: at}); err == nil {
			t.Errorf("--at %s: no error", at)
		}
	}
}
