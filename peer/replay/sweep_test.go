package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// A peer answers the first request of a connection in parts. After some of them, it waits for
// the cancel and answers that with any frames.
type peer struct {
	t        *testing.T
	protocol string
	framing  frame.Framing
	// part returns the nth part of the answer to the request with that id, and last its end.
	// cancelled returns the answer to a cancel after n parts.
	part      func(id string, n int) string
	last      func(id string) string
	cancelled func(id string, n int) []string
	// handshake answers a first request that is not the one to cancel.
	handshake string
	// accepted is sent before the first part, and polled answers a poll for a task.
	accepted func(id string) string
	polled   func(id string) []string

	starts time.Duration // how long it takes to start
	parts  int           // of a whole answer
	dials  int
	ended  chan struct{} // closed when the last connection has ended
}

// dial connects to a peer that waits for the cancel after one more part than on the previous
// connection.
func (p *peer) dial(context.Context) (transport.Conn, error) {
	controller, unit := bubblePipes()
	stop := p.dials
	p.dials++
	p.ended = make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		defer unit.Close()
		p.serve(unit, stop)
	}(p.ended)
	return controller, nil
}

func (p *peer) serve(conn io.ReadWriter, stop int) {
	proto, err := all.Named(p.protocol)
	if err != nil {
		p.t.Error(err)
		return
	}
	say := func(json string) {
		payload := []byte(json)
		if t, ok := proto.(protocol.Transcoder); ok {
			if payload, err = t.AppendPayload(nil, payload); err != nil {
				p.t.Error(err)
			}
		}
		raw, err := frame.Append(nil, p.framing, payload)
		if err != nil {
			p.t.Error(err)
		}
		conn.Write(raw) //nolint:errcheck // the controller may have left
	}
	s := frame.NewScanner(conn, p.framing)
	var id string
	for s.Scan() {
		if id == "" {
			time.Sleep(p.starts)
		}
		var m protocol.Message
		if err := proto.Parse(s.Frame().Payload(), &m); err != nil {
			p.t.Errorf("%q: %v", s.Frame().Payload(), err)
		}
		switch {
		case p.handshake != "" && m.Phase == protocol.Open && string(m.Kind) == "initialize":
			say(p.handshake)
		case m.Phase == protocol.Cancel:
			for _, answer := range p.cancelled(id, stop) {
				say(answer)
			}
		case m.Operation.Does == protocol.Cancel:
			for _, answer := range p.cancelled(string(m.ID.Text), stop) {
				say(answer)
			}
		case m.Phase == protocol.Open && id != "" && !m.Continues:
			for _, answer := range p.polled(string(m.ID.Text)) {
				say(answer)
			}
		case m.Phase == protocol.Open:
			id = string(m.ID.Text)
			if p.accepted != nil {
				say(p.accepted(id))
			}
			for n := range min(stop, p.parts) {
				say(p.part(id, n))
			}
			if stop > p.parts {
				if last := p.last(id); last != "" {
					say(last)
				}
			}
		}
	}
}

// sweep tries the points of a recording and returns the outcome of each. Time passes only while
// both sides wait.
func (p *peer) sweep(t *testing.T, recording string, framing frame.Framing, at int) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.t = t
		s := parse(t, recording, p.protocol, framing)
		err := s.Scripts(frame.C2U)[0].Sweep(t.Context(), replay.Options{Timeout: 20 * time.Second}, replay.Sweep{At: at, Settle: time.Second, Dial: p.dial}, func(pt *replay.Point) error {
			line := fmt.Sprintf("%d %s %d %t", pt.After, pt.Class, pt.Parts, pt.Confirmed)
			if !pt.Reached {
				line = fmt.Sprintf("%d %s", pt.After, pt.Why)
			}
			for _, f := range pt.Findings {
				line += " " + f.Name
			}
			if pt.Breaks() {
				line += " !"
			}
			lines = append(lines, line)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		<-p.ended
	})
	return lines
}

// A sweep of a unit that confirms cancels, except after three parts, finds that. It ends with
// the answer.
func TestSweepLatis(t *testing.T) {
	chunk := func(id string, n int) string {
		return fmt.Sprintf(`{"id":%q,"responseChunk":{"requestId":%q,"content":"x","sequence":%d}}`, id, id, n)
	}
	complete := func(id string) string { return fmt.Sprintf(`{"id":%q,"responseComplete":{"requestId":%q}}`, id, id) }
	p := &peer{
		protocol: "latis", framing: frame.Len32, parts: 4, part: chunk, last: complete,
		cancelled: func(id string, n int) []string {
			confirm := fmt.Sprintf(`{"id":%q,"responseCancelled":{"requestId":%q}}`, id, id)
			switch n {
			case 1:
				return []string{chunk(id, 1), confirm} // one was under way
			case 2:
				return []string{chunk(id, 2), complete(id)} // it ignored the cancel
			case 3:
				return nil // it hung
			case 4:
				return []string{confirm, complete(id)} // two ends
			}
			return []string{confirm}
		},
	}
	got := p.sweep(t, `c2u {"id":"7","promptSend":{"content":"go"}}
u2c {"id":"7","responseChunk":{"requestId":"7","content":"x"}}
u2c {"id":"7","responseComplete":{"requestId":"7"}}`, frame.Len32, -1)
	want := `0 confirmed 0 true
1 confirmed 1 true
2 ignored 1 false cancel-ignored !
3 silent 0 false cancel-silent !
4 confirmed 0 true after-end !`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// A peer that is slow to start, as on a busy machine, is not mistaken for a silent one.
func TestSweepSlowStart(t *testing.T) {
	complete := func(id string) string { return fmt.Sprintf(`{"id":%q,"responseComplete":{"requestId":%q}}`, id, id) }
	p := &peer{
		protocol: "latis", framing: frame.Len32, starts: 4 * time.Second,
		cancelled: func(id string, _ int) []string { return []string{complete(id)} },
	}
	got := p.sweep(t, `c2u {"id":"7","promptSend":{"content":"go"}}
u2c {"id":"7","responseChunk":{"requestId":"7","content":"x"}}
u2c {"id":"7","responseComplete":{"requestId":"7"}}`, frame.Len32, 0)
	if want := "0 ignored 0 false cancel-ignored !"; strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// In MCP, silence after a cancel is correct, and an answer is not.
func TestSweepMCP(t *testing.T) {
	progress := func(id string, n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, id, n)
	}
	result := func(id string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id) }
	p := &peer{
		protocol: "mcp", framing: frame.Line, parts: 2, part: progress, last: result,
		cancelled: func(id string, n int) []string {
			if n == 1 {
				return []string{progress(id, 1), result(id)}
			}
			return nil
		},
	}
	recording := `c2u {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":3}}}
u2c {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":0}}
u2c {"jsonrpc":"2.0","id":3,"result":{}}`
	got := p.sweep(t, recording, frame.Line, -1)
	want := `0 silent 0 false
1 late-result 1 false late-result !
2 silent 0 false`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	p.dials = 3
	if got := p.sweep(t, recording, frame.Line, 3); strings.Join(got, "\n") != "3 it had ended" {
		t.Errorf("a point behind the end: %q", got)
	}
}

// A turn that continues after its answer is interrupted by its name, once it has one. It ends
// with its own message.
func TestSweepCodex(t *testing.T) {
	const interrupt = "1000004"
	completed := func(status string) string {
		return `{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"live","status":"` + status + `"}}}`
	}
	delta := `{"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"live","itemId":"i","delta":"x"}}`
	p := &peer{
		protocol: "codex", framing: frame.Line, parts: 3,
		accepted: func(id string) string {
			return `{"id":` + id + `,"result":{"turn":{"id":"live","status":"inProgress"}}}`
		},
		part: func(string, int) string { return delta },
		last: func(string) string { return completed("completed") },
		cancelled: func(_ string, n int) []string {
			ok := `{"id":` + interrupt + `,"result":{}}`
			switch n {
			case 1:
				return []string{delta, ok, completed("interrupted")}
			case 2:
				return []string{ok, delta, completed("completed")}
			case 3:
				return []string{ok}
			}
			return []string{ok, completed("interrupted")}
		},
	}
	got := p.sweep(t, `c2u {"id":7,"method":"turn/start","params":{"threadId":"th","input":[]}}
u2c {"id":7,"result":{"turn":{"id":"then","status":"inProgress"}}}
u2c {"method":"item/agentMessage/delta","params":{"threadId":"th","turnId":"then","itemId":"i","delta":"x"}}
u2c {"method":"turn/completed","params":{"threadId":"th","turn":{"id":"then","status":"completed"}}}`, frame.Line, -1)
	want := `0 confirmed 0 true
1 confirmed 1 true
2 ignored 1 false cancel-ignored !
3 silent 0 false cancel-silent !`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// A turn of Claude Code is interrupted without a name.
func TestSweepClaude(t *testing.T) {
	part := `{"type":"assistant","message":{"role":"assistant","content":[]},"session_id":"s"}`
	p := &peer{
		protocol: "claude", framing: frame.Line, parts: 1,
		part: func(string, int) string { return part },
		last: func(string) string { return `{"type":"result","subtype":"success","is_error":false,"session_id":"s"}` },
		cancelled: func(string, int) []string {
			return []string{
				`{"type":"control_response","response":{"subtype":"success","request_id":"1000003"}}`,
				`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","session_id":"s"}`,
			}
		},
	}
	p.dials = 1
	got := p.sweep(t, `c2u {"type":"user","message":{"role":"user","content":"x"}}
u2c {"type":"assistant","message":{"role":"assistant","content":[]},"session_id":"r"}
u2c {"type":"result","subtype":"success","is_error":false,"session_id":"r"}`, frame.Line, 1)
	if want := "1 confirmed 0 true"; strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A prompt of ACP is cancelled by its session. In version 1 its answer says so; in version 2,
// where the answer only accepts it, an update does, which is a part too.
func TestSweepACP(t *testing.T) {
	update := func(text string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{` + text + `}}}`
	}
	chunk := update(`"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"x"}`)
	stopped := func(id, reason string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"stopReason":"` + reason + `"}}`
	}
	idle := func(reason string) string {
		return update(`"sessionUpdate":"state_update","state":"idle","stopReason":"` + reason + `"`)
	}
	accepted := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"messageId":"u"}}` }
	handshake := `c2u {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":VERSION,"info":{"name":"c","version":"1"},"capabilities":{}}}
u2c {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":VERSION}}
c2u {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
`
	for version, test := range map[string]struct {
		recording string
		accepted  func(id string) string
		end       func(id, reason string) string
		want      string
	}{
		"1": {"u2c " + chunk + "\nu2c " + stopped("1", "end_turn"), nil, stopped, "0 confirmed 0 true\n1 confirmed 1 true\n2 ignored 1 false cancel-ignored !\n3 silent 0 false cancel-silent !"},
		"2": {
			"u2c " + accepted("1") + "\nu2c " + chunk + "\nu2c " + idle("end_turn"), accepted, func(_, reason string) string { return idle(reason) },
			"0 confirmed 1 true\n1 confirmed 2 true\n2 ignored 2 false cancel-ignored !\n3 silent 0 false cancel-silent !",
		},
	} {
		p := &peer{
			protocol: "acp", framing: frame.Line, parts: 3,
			handshake: strings.ReplaceAll(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":VERSION}}`, "VERSION", version),
			accepted:  test.accepted,
			part:      func(string, int) string { return chunk },
			last:      func(id string) string { return test.end(id, "end_turn") },
		}
		p.cancelled = func(id string, n int) []string {
			switch n {
			case 1:
				return []string{chunk, test.end(id, "cancelled")}
			case 2:
				return []string{chunk, test.end(id, "end_turn")}
			case 3:
				return nil
			}
			return []string{test.end(id, "cancelled")}
		}
		got := p.sweep(t, strings.ReplaceAll(handshake, "VERSION", version)+test.recording, frame.Line, -1)
		if strings.Join(got, "\n") != test.want {
			t.Errorf("version %s: got\n%s\nwant\n%s", version, strings.Join(got, "\n"), test.want)
		}
	}
}

// A task is polled until it ends: before the cancel, for its parts, and after it.
func TestSweepTask(t *testing.T) {
	status := func(id, status string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"taskId":"live","status":%q}}`, id, status)
	}
	for _, test := range []struct {
		after  string // the status after the cancel; "" for none that ends the task
		at     int
		want   string
		polled int // at least
	}{
		{"cancelled", 0, "0 confirmed 0 true", 1},
		{"cancelled", 2, "2 confirmed 0 true", 3},
		{"completed", 1, "1 ignored 3 false", 5},
		{"", 1, "1 silent 10 false", 11},
	} {
		var polls, dead int
		p := &peer{
			protocol: "mcp", framing: frame.Line,
			accepted: func(id string) string {
				return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"task","taskId":"live","status":"working"}}`
			},
			cancelled: func(id string, _ int) []string {
				dead = polls
				return []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`}
			},
		}
		p.polled = func(id string) []string {
			if polls++; test.after == "" || polls <= test.at || test.after == "completed" && polls < 5 {
				return []string{status(id, "working")}
			}
			return []string{status(id, test.after)}
		}
		got := p.sweep(t, `c2u {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}
u2c {"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"then","status":"working"}}`, frame.Line, test.at)
		if strings.Join(got, "\n") != test.want || dead != test.at || polls < test.polled {
			t.Errorf("%q, want %q; cancelled after %d polls of %d", got, test.want, dead, polls)
		}
	}
}

// A task of A2A is cancelled by the name in the first event of its stream, in the syntax of its
// version. It is not polled, because the stream reports its state.
func TestSweepA2A(t *testing.T) {
	for _, test := range []struct{ method, cancel, task, piece, end string }{
		{
			"SendStreamingMessage", "CancelTask", `{"task":{"id":%q,"contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
			`{"artifactUpdate":{"taskId":%q,"contextId":"c","artifact":{"artifactId":"a","parts":[]}}}`,
			`{"statusUpdate":{"taskId":%q,"contextId":"c","status":{"state":"TASK_STATE_%s"}}}`,
		},
		{
			"message/stream", "tasks/cancel", `{"kind":"task","id":%q,"contextId":"c","status":{"state":"working"}}`,
			`{"kind":"artifact-update","taskId":%q,"contextId":"c","artifact":{"artifactId":"a","parts":[]}}`,
			`{"kind":"status-update","taskId":%q,"contextId":"c","status":{"state":"%s"},"final":true}`,
		},
	} {
		answer := func(id, form string, args ...any) string {
			if test.method == "message/stream" && len(args) > 1 {
				args[1] = strings.ToLower(args[1].(string))
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fmt.Sprintf(form, args...))
		}
		p := &peer{
			protocol: "a2a", framing: frame.Line, parts: 3,
			accepted: func(id string) string { return answer(id, test.task, "live") },
			part:     func(id string, _ int) string { return answer(id, test.piece, "live") },
			last:     func(id string) string { return answer(id, test.end, "live", "COMPLETED") },
			cancelled: func(id string, n int) []string {
				refused := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32002,"message":"no"}}`
				switch n {
				case 1:
					return []string{answer("7", test.piece, "live"), answer("7", test.end, "live", "CANCELED"), answer(id, test.task, "live")}
				case 2:
					return []string{refused, answer("7", test.piece, "live"), answer("7", test.end, "live", "COMPLETED")}
				case 3:
					return []string{answer("7", test.end, "live", "CANCELED"), answer("7", test.piece, "live"), refused}
				}
				return []string{answer("7", test.end, "live", "CANCELED"), refused}
			},
		}
		got := p.sweep(t, `c2u {"jsonrpc":"2.0","id":7,"method":"`+test.method+`","params":{"message":{"messageId":"m"}}}
u2c `+answer("7", test.task, "then")+`
u2c `+answer("7", test.piece, "then")+`
u2c `+answer("7", test.end, "then", "COMPLETED"), frame.Line, -1)
		want := `0 confirmed 0 true
1 confirmed 1 true
2 ignored 1 false
3 confirmed 0 true after-end !`
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.method, strings.Join(got, "\n"), want)
		}
	}
}

// A task of A2A without a stream is polled. It is not cancelled if it has ended when the
// message is answered, or if another message began it.
func TestSweepA2ATask(t *testing.T) {
	task := func(id, name, state string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"task":{"id":"` + name + `","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}}}}`
	}
	bare := func(id, state string) []string {
		return []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{"id":"live","contextId":"c","status":{"state":"TASK_STATE_` + state + `"}}}`}
	}
	const done = `c2u {"jsonrpc":"2.0","id":5,"method":"SendMessage","params":{"message":{"messageId":"m"}}}
u2c {"jsonrpc":"2.0","id":5,"result":{"task":{"id":"d","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}}
c2u {"jsonrpc":"2.0","id":6,"method":"GetTask","params":{"id":"e"}}
u2c {"jsonrpc":"2.0","id":6,"result":{"id":"e","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
	p := &peer{
		protocol: "a2a", framing: frame.Line,
		accepted:  func(id string) string { return task(id, "live", "WORKING") },
		polled:    func(id string) []string { return bare(id, "WORKING") },
		cancelled: func(id string, _ int) []string { return bare(id, "CANCELED") },
	}
	got := p.sweep(t, `c2u {"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"m"}}}
u2c `+task("7", "then", "WORKING"), frame.Line, 0)
	if want := "0 confirmed 0 true"; strings.Join(got, "\n") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	err := parse(t, done, "a2a", frame.Line).Scripts(frame.C2U)[0].Sweep(t.Context(), replay.Options{}, replay.Sweep{At: -1}, nil)
	if !errors.Is(err, replay.ErrNoRequest) {
		t.Error(err)
	}
}

// A call that is answered with a demand for input continues with its retry. The sweep then
// cancels the retry. After a cancel, there is no retry.
func TestSweepRetry(t *testing.T) {
	progress := func(id string, n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, id, n)
	}
	asks := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"input_required","requestState":"live","inputRequests":{"k":{"method":"roots/list"}}}}`
	}
	call := func(id int, more string) string {
		return fmt.Sprintf(`c2u {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"a":1}%s,"_meta":{"progressToken":%d,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}`, id, more, id)
	}
	first := call(1, "") + `
u2c {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0}}
u2c {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"then","inputRequests":{"k":{"method":"roots/list"}}}}`
	retry := "\n" + call(2, `,"inputResponses":{"k":{"roots":[]}},"requestState":"then"`) + `
u2c {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}`
	// Each request has one part. The peer asks for input after the first, and answers the retry
	// only if that is never cancelled.
	for _, test := range []struct {
		recording string
		at        int
		want      string
		named     string
	}{
		{first + retry, 2, "2 silent 0 false", "2"},
		{first + retry, 3, "3 it had ended", ""},
		{first, 2, "2 it asked for input, and the recording has none", ""},
	} {
		asked, named := 0, ""
		p := &peer{protocol: "mcp", framing: frame.Line, parts: 1, dials: 2, part: progress}
		p.last = func(id string) string {
			if asked++; asked == 1 {
				return asks(id)
			}
			if test.at < 3 {
				return ""
			}
			return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","content":[]}}`
		}
		p.cancelled = func(id string, _ int) []string {
			named = id
			return nil
		}
		got := p.sweep(t, test.recording, frame.Line, test.at)
		if strings.Join(got, "\n") != test.want || named != test.named {
			t.Errorf("%q, want %q; cancelled was %q", got, test.want, named)
		}
	}
}

func TestSweepNothing(t *testing.T) {
	for recording, want := range map[string]string{
		`c2u {"jsonrpc":"2.0","id":3,"method":"ping"}`: "answered in parts",
	} {
		s := parse(t, recording, "mcp", frame.Line)
		err := s.Scripts(frame.C2U)[0].Sweep(t.Context(), replay.Options{}, replay.Sweep{At: -1}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", recording, err)
		}
	}
	s := parse(t, `c2u {"correlation_id":"a","prompt":"x","model":"m"}`, "rlm", frame.Len32)
	err := s.Scripts(frame.C2U)[0].Sweep(t.Context(), replay.Options{}, replay.Sweep{At: -1, Request: 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "rlm has no message that cancels") {
		t.Error(err)
	}
}

// parse returns the recording that lines of a direction and JSON describe, a second apart.
func parse(t *testing.T, text, protocolName string, framing frame.Framing) *replay.Session {
	t.Helper()
	p, err := all.Named(protocolName)
	if err != nil {
		t.Fatal(err)
	}
	s := new(replay.Session)
	at := time.Unix(1, 0)
	for i, line := range strings.Split(text, "\n") {
		word, json, _ := strings.Cut(line, " ")
		dir, _ := frame.ParseDir(word)
		payload := []byte(json)
		if tc, ok := p.(protocol.Transcoder); ok {
			if payload, err = tc.AppendPayload(nil, payload); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := frame.Append(nil, framing, payload)
		if err != nil {
			t.Fatal(err)
		}
		f := frame.Frame{Raw: raw, Start: strings.Index(string(raw), string(payload)), Dir: dir}
		f.End = f.Start + len(payload)
		s.Add(replay.Record{Seq: int64(i + 1), Time: at, Frame: &f, Framing: framing, Protocol: p})
		at = at.Add(time.Second)
	}
	return s
}
