package replay_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/transport"
)

// both plays the controller of one recording against the unit of another. Time passes only
// while both wait.
func both(t *testing.T, protocol string, framing frame.Framing, controller, unit string, o replay.Options) (here, there outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := bubblePipes()
		there1 := start(t.Context(), parse(t, unit, protocol, framing).Scripts(frame.U2C)[0], far, replay.Options{Side: frame.U2C})
		o.Side = frame.C2U
		here1 := start(t.Context(), parse(t, controller, protocol, framing).Scripts(frame.C2U)[0], near, o)
		here, there = <-here1, <-there1
	})
	return here, there
}

// The live peer chooses ids other than the recorded ones. Each live id replaces the recorded
// one wherever that occurs, and nowhere else.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, protocol string
		framing        frame.Framing
		recording      string
		live           *strings.Replacer
	}{
		{
			"sessions of ACP, and the ids of both sides", "acp", frame.Line, `c2u {"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/"}}
u2c {"jsonrpc":"2.0","id":0,"result":{"sessionId":"one","toolCallId":"one"}}
c2u {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"one","prompt":["one"]}}
u2c {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"one","update":{"sessionUpdate":"x"}}}
u2c {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"one"}}
c2u {"jsonrpc":"2.0","id":0,"result":{"outcome":{"id":0}}}
u2c {"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`,
			strings.NewReplacer(`sessionId":"one"`, `sessionId":"another"`, `"id":0,"method":"session/request`, `"id":"perm-1","method":"session/request`, `"id":0,"result":{"outcome"`, `"id":"perm-1","result":{"outcome"`),
		},
		{
			"progress tokens and names that a tool gives", "mcp", frame.Line, `c2u {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":5}}}
u2c {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":5}}
u2c {"jsonrpc":"2.0","id":5,"result":{"content":[],"structuredContent":{"taskId":"t-5","pageId":5}}}
c2u {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"b","arguments":{"taskId":"t-5","pageId":5,"count":5}}}
u2c {"jsonrpc":"2.0","id":6,"result":{"content":[]}}`,
			strings.NewReplacer(`t-5`, `task-0`, `"pageId":5`, `"pageId":77`, `"id":5,`, `"id":500,`, `"progressToken":5`, `"progressToken":"p"`),
		},
		{
			"ids and sessions of latis", "latis", frame.Len32, `c2u {"id":"1","sessionCreate":{}}
u2c {"id":"1","ack":{"requestId":"1","sessionId":"s"}}
c2u {"id":"2","sessionResume":{"sessionId":"s"}}
u2c {"id":"2","ack":{"requestId":"2"}}
c2u {"id":"3","promptSend":{"content":"3"}}
u2c {"id":"3","responseChunk":{"requestId":"3","content":"3"}}
c2u {"id":"4","promptCancel":{"targetId":"3"}}
u2c {"id":"3","responseCancelled":{"requestId":"3"}}`,
			strings.NewReplacer(`"id":"`, `"id":"live-`, `"requestId":"`, `"requestId":"live-`, `"targetId":"`, `"targetId":"live-`, `sessionId":"s"`, `sessionId":"a much longer session"`),
		},
		{
			"numbers of DAP", "dap", frame.Header, `c2u {"seq":1,"type":"request","command":"threads"}
u2c {"seq":1,"type":"response","request_seq":1,"command":"threads","success":true,"body":{"threads":[{"threadId":9}]}}
u2c {"seq":2,"type":"request","command":"runInTerminal","arguments":{}}
c2u {"seq":2,"type":"response","request_seq":2,"command":"runInTerminal","success":true}
c2u {"seq":3,"type":"request","command":"pause","arguments":{"threadId":9}}
u2c {"seq":3,"type":"response","request_seq":3,"command":"pause","success":true}`,
			strings.NewReplacer(`"threadId":9`, `"threadId":10`, `{"seq":2,"type":"request"`, `{"seq":40,"type":"request"`, `"request_seq":2`, `"request_seq":40`),
		},
		{
			"threads and turns of codex", "codex", frame.Line, `c2u {"id":1,"method":"thread/start","params":{}}
u2c {"id":1,"result":{"thread":{"id":"th"}}}
c2u {"id":2,"method":"turn/start","params":{"threadId":"th","input":[]}}
u2c {"id":2,"result":{"turn":{"id":"tu","status":"inProgress"}}}
u2c {"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"tu"}}
u2c {"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"th","turnId":"tu","itemId":"i"}}
c2u {"id":3,"method":"turn/interrupt","params":{"threadId":"th","turnId":"tu"}}
u2c {"id":3,"result":{}}
u2c {"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"interrupted"}}}
c2u {"id":4,"method":"turn/start","params":{"threadId":"th","input":[]}}
u2c {"id":4,"result":{"turn":{"id":"tv","status":"inProgress"}}}
c2u {"id":5,"method":"turn/steer","params":{"threadId":"th","expectedTurnId":"tv","input":[]}}
u2c {"id":5,"result":{"turnId":"tv"}}
u2c {"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tv","status":"completed"}}}`,
			strings.NewReplacer(`"th"`, `"thread-of-today"`, `d":"tu"`, `d":"turn-of-today"`, `"tv"`, `"turn-of-later"`, `"id":0,`, `"id":7,`),
		},
		{
			"states of retries, and tasks", "mcp", frame.Line, `c2u {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}
u2c {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"one"}}
c2u {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{},"inputResponses":{},"requestState":"one"}}
u2c {"jsonrpc":"2.0","id":2,"result":{"resultType":"task","taskId":"t","status":"working"}}
c2u {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t"}}
u2c {"jsonrpc":"2.0","id":3,"result":{"taskId":"t","status":"working"}}
c2u {"jsonrpc":"2.0","id":4,"method":"tasks/cancel","params":{"taskId":"t"}}
u2c {"jsonrpc":"2.0","id":4,"result":{}}`,
			strings.NewReplacer(`"one"`, `"another"`, `"t"`, `"task"`),
		},
		{
			"turns of ACP 2", "acp", frame.Line, `c2u {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}
u2c {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}
c2u {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}
u2c {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}
c2u {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
u2c {"jsonrpc":"2.0","id":2,"result":{}}
u2c {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m"}}}
c2u {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}
u2c {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}`,
			strings.NewReplacer(`"s"`, `"session"`),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			here, there := both(t, tt.protocol, tt.framing, tt.recording, tt.live.Replace(tt.recording), replay.Options{Match: replay.Matcher{Exact: true}, Timeout: 10 * time.Second})
			here.check(t, "controller")
			there.check(t, "unit")
		})
	}
}

// A language server ends when its client's process is gone, as that of a recording is. So it
// gets no process id.
func TestProcessOfTheClient(t *testing.T) {
	const recording = `c2u {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId": 4711 ,"capabilities":{}}}
u2c {"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}
c2u {"jsonrpc":"2.0","id":2,"method":"workspace/executeCommand","params":{"command":"kill","arguments":[{"processId":4711}]}}
u2c {"jsonrpc":"2.0","id":2,"result":null}`
	want := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId": null ,"capabilities":{}}}
{"jsonrpc":"2.0","id":2,"method":"workspace/executeCommand","params":{"command":"kill","arguments":[{"processId":4711}]}}`
	var said []string
	another := strings.Replace(recording, `"processId": 4711 `, `"processId":12`, 1)
	here, there := both(t, "lsp", frame.Header, recording, another, replay.Options{
		Match: replay.Matcher{Exact: true}, Timeout: 10 * time.Second,
		Trace: func(e replay.Event) {
			if e.Dir == frame.C2U {
				said = append(said, string(e.Payload))
			}
		},
	})
	here.check(t, "controller")
	there.check(t, "unit")
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("the server is told\n%s\nand not\n%s", got, want)
	}
}

const conversation = `c2u {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
u2c {"jsonrpc":"2.0","id":1,"result":{"text":"hello","time":1}}
c2u {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b"}}
u2c {"jsonrpc":"2.0","id":2,"result":{}}`

// Differences of the peer are found, or ignored if the options say so.
func TestDivergence(t *testing.T) {
	path, err := jsondiff.ParsePath("result.*")
	if err != nil {
		t.Fatal(err)
	}
	jq := func(expr string) replay.Matcher {
		program, err := query.CompileJQ(expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		return replay.Matcher{Form: func(ctx context.Context, object []byte) ([]byte, error) {
			return program.Append(ctx, nil, object)
		}}
	}
	exact := replay.Matcher{Exact: true}
	for _, tt := range []struct {
		name     string
		from, to string // how the live unit differs
		match    replay.Matcher
		want     string // "" if it must not be noticed
	}{
		{"another text", `hello`, `bye`, exact, "differs: frame 2, result 1 is not as recorded"},
		{"another text, ignored", `hello`, `bye`, replay.Matcher{Exact: true, Ignore: []jsondiff.Path{path}}, ""},
		{"another text, and kinds alone count", `hello`, `bye`, replay.Matcher{}, ""},
		{"another text, and a filter that does not look at it", `hello`, `bye`, jq(`.payload.result | keys`), ""},
		{"another text, and a filter that does", `hello`, `bye`, jq(`.payload.result.text`), "differs: frame 2, result 1 is not as recorded"},
		{"spaces and escapes", `{"text":"hello"`, `{ "text" : "h\u0065llo"`, exact, ""},
		{"an error", `"result":{"text":"hello","time":1}`, `"error":{"code":1,"message":"no"}`, replay.Matcher{}, "differs: error 1 arrived where frame 2, result 1 was expected"},
		{"a notification too many", `u2c {"jsonrpc":"2.0","id":2`, `u2c {"jsonrpc":"2.0","method":"notifications/message"}
u2c {"jsonrpc":"2.0","id":2`, exact, "unforeseen: notifications/message has no counterpart in the recording"},
		{"a notification too many, of no account", `u2c {"jsonrpc":"2.0","id":2`, `u2c {"jsonrpc":"2.0","method":"notifications/message"}
u2c {"jsonrpc":"2.0","id":2`, replay.Matcher{Exact: true, Skip: []string{"notifications/message"}}, ""},
		{"an answer that never comes", "\n" + `u2c {"jsonrpc":"2.0","id":2,"result":{}}`, "", exact, "late: frame 4, result 2 did not arrive within 50ms; it answers frame 3, tools/call 2"},
		{"an answer that others wait for", "\n" + `u2c {"jsonrpc":"2.0","id":1,"result":{"text":"hello","time":1}}`, "", exact, "late: frame 2, result 1 did not arrive within 50ms; frame 3, tools/call 2 waits for it; it answers frame 1, tools/call 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live := strings.Replace(conversation, tt.from, tt.to, 1)
			here, _ := both(t, "mcp", frame.Line, conversation, live, replay.Options{Match: tt.match, Timeout: patience(tt.want)})
			got := ""
			if d := here.Divergence(); d != nil {
				got = string(d.What) + ": " + d.Text
			}
			if got != tt.want || here.err != nil {
				t.Errorf("%q, want %q; %v", got, tt.want, here.err)
			}
		})
	}
}

// patience is short only if the test is about a timeout.
func patience(want string) time.Duration {
	if strings.HasPrefix(want, "late") {
		return 50 * time.Millisecond
	}
	return 20 * time.Second
}

// A turn that continues after its answer ends with a later message. The number of frames before
// that may differ if they are not compared, and later frames wait for the end.
func TestPartsOfTurns(t *testing.T) {
	recording := `c2u {"id":2,"method":"turn/start","params":{"threadId":"th","input":[]}}
u2c {"id":2,"result":{"turn":{"id":"tu","status":"inProgress"}}}
u2c {"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"a"}}
u2c {"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"b"}}
u2c {"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"completed"}}}
c2u {"id":4,"method":"thread/read","params":{"threadId":"th"}}
u2c {"id":4,"result":{}}`
	fewer := strings.Replace(recording, "\n"+`u2c {"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"tu","itemId":"i","delta":"b"}}`, "", 1)
	here, _ := both(t, "codex", frame.Line, recording, fewer, replay.Options{Timeout: 20 * time.Second})
	if here.Divergence() != nil || here.err != nil || here.Missing != 1 {
		t.Errorf("%+v, %v: %d missing", here.Divergence(), here.err, here.Missing)
	}
	here, _ = both(t, "codex", frame.Line, fewer, recording, replay.Options{Timeout: 20 * time.Second})
	if here.Divergence() != nil || here.err != nil || here.Extra != 1 {
		t.Errorf("%+v, %v: %d more", here.Divergence(), here.err, here.Extra)
	}
	failed := strings.Replace(recording, `"completed"}}}`, `"failed"}}}`, 1)
	here, _ = both(t, "codex", frame.Line, recording, failed, replay.Options{Match: replay.Matcher{Exact: true}, Timeout: 20 * time.Second})
	if d := here.Divergence(); d == nil || d.Text != "frame 5, turn/completed is not as recorded" {
		t.Errorf("%+v", d)
	}
}

// The number of parts may differ if they are not compared.
func TestChunks(t *testing.T) {
	recording := `c2u {"id":"1","promptSend":{"content":"go"}}
u2c {"id":"1","responseChunk":{"requestId":"1","content":"ab"}}
u2c {"id":"1","responseChunk":{"requestId":"1","content":"cd","sequence":1}}
c2u {"id":"2","stateGet":{}}
u2c {"id":"2","stateUpdate":{}}
u2c {"id":"1","responseComplete":{"requestId":"1"}}`
	one := strings.Replace(strings.Replace(recording, "\n"+`u2c {"id":"1","responseChunk":{"requestId":"1","content":"ab"}}`, "", 1), `,"sequence":1`, "", 1)
	three := strings.Replace(recording, `u2c {"id":"2"`, `u2c {"id":"1","responseChunk":{"requestId":"1","content":"ef","sequence":2}}
u2c {"id":"2"`, 1)
	for _, live := range []string{one, three} {
		here, _ := both(t, "latis", frame.Len32, recording, live, replay.Options{Match: replay.Matcher{Exact: true}, Timeout: time.Second})
		if here.Divergence() == nil {
			t.Error("a part more or less is not noticed")
		}
	}
	for _, match := range []replay.Matcher{{Exact: true, IgnoreChunks: true}, {}} {
		here, _ := both(t, "latis", frame.Len32, recording, three, replay.Options{Match: match, Timeout: 20 * time.Second})
		if here.Divergence() != nil || here.err != nil || here.Extra != 1 {
			t.Errorf("%+v, %v: %d more", here.Divergence(), here.err, here.Extra)
		}
	}
}

// The recorded pauses, divided by the speed, count from the last frame that was waited for.
func TestTimes(t *testing.T) {
	for speed, want := range map[float64]time.Duration{1: 3 * time.Second, 2: 1500 * time.Millisecond, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			near, far := bubblePipes()
			began := time.Now()
			there := start(t.Context(), parse(t, conversation, "mcp", frame.Line).Scripts(frame.U2C)[0], far, replay.Options{Side: frame.U2C, Speed: speed})
			here := start(t.Context(), parse(t, conversation, "mcp", frame.Line).Scripts(frame.C2U)[0], near, replay.Options{Side: frame.C2U, Speed: speed, Timeout: time.Minute})
			(<-here).check(t, "controller")
			(<-there).check(t, "unit")
			if took := time.Since(began); took != want {
				t.Errorf("at speed %v it took %v, want %v", speed, took, want)
			}
		})
	}
}

// A run ends with its context, even if that ends while a frame, or the cancel of a sweep, is
// handed to the writer.
func TestEndsWhileSending(t *testing.T) {
	recording := `c2u {"id":"1","promptSend":{"content":"go"}}
u2c {"id":"1","responseChunk":{"requestId":"1","content":"ab"}}
u2c {"id":"1","responseComplete":{"requestId":"1"}}`
	for _, kind := range []string{"PROMPT_SEND", "PROMPT_CANCEL"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			near, far := bubblePipes()
			defer far.Close()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			o := replay.Options{Side: frame.C2U, Trace: func(e replay.Event) {
				if e.Kind == kind {
					cancel()
					synctest.Wait()
				}
			}}
			dial := func(context.Context) (transport.Conn, error) { return near, nil }
			script := parse(t, recording, "latis", frame.Len32).Scripts(frame.C2U)[0]
			err := script.Sweep(ctx, o, replay.Sweep{Dial: dial}, nil)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("at the %s it ends with %v", kind, err)
			}
		})
	}
}

// Any number of clients are served, each with its own run.
func TestServe(t *testing.T) {
	l, err := transport.Listen(t.Context(), "tcp://127.0.0.1:0", transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const clients = 5
	served := make(chan error, 1)
	results := 0
	players := []replay.Player{parse(t, conversation, "mcp", frame.Line).Scripts(frame.U2C)[0]}
	go func() {
		served <- replay.Serve(t.Context(), l, players, replay.Options{Side: frame.U2C}, clients, func(_ int, r replay.Result, err error) {
			if err == nil && r.Divergence() == nil {
				results++
			}
		})
	}()
	e, err := transport.Parse([]string{l.Addr()}, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var running []<-chan outcome
	for range clients {
		conn, err := e.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, start(t.Context(), parse(t, conversation, "mcp", frame.Line).Scripts(frame.C2U)[0], conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: 20 * time.Second}))
	}
	for _, r := range running {
		(<-r).check(t, "controller")
	}
	if err := <-served; err != nil || results != clients {
		t.Errorf("%d of %d were served: %v", results, clients, err)
	}
}
