package relay_test

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/relay"
)

// latisFrame is the frame of a message.
func latisFrame(t *testing.T, json string) string {
	t.Helper()
	payload, err := latis.Protocol.AppendPayload(nil, []byte(json))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := frame.Append(nil, frame.Len32, payload)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// asked starts a relay whose gate executes commands of a viewer. The gate finds the frame as
// number 1.
func asked(t *testing.T, framing frame.Framing, p protocol.Protocol, found string) (*running, func(tap.Command), *memory) {
	t.Helper()
	told := &memory{}
	header := map[frame.Framing]int{frame.Len32: 4}[framing]
	g := relay.NewGate(relay.GateConfig{Sink: told.sink(), Find: func(int64) (capture.Record, bool) {
		return capture.Record{Seq: 1, Frame: frame.Frame{
			Raw: []byte(found), Start: header, End: len(strings.TrimSuffix(found, "\n")), Dir: frame.C2U,
		}}, true
	}})
	return start(t, relay.Config{Gate: g, Framing: framing, Protocol: p}), func(c tap.Command) {
		t.Helper()
		if _, err := g.Control(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}, told
}

// The controller does not receive the answer to a cancel that it did not send. It receives the
// end of its own request. The capture has both.
func TestGateKeepsAnswersToCancels(t *testing.T) {
	ask := latisFrame(t, `{"id":"p","promptSend":{"content":"hi"}}`)
	end := latisFrame(t, `{"id":"p","responseCancelled":{"requestId":"p"}}`)
	r, control, told := asked(t, frame.Len32, latis.Protocol, ask)
	say(t, r.controller, ask)
	hear(t, r.unit, ask)
	control(tap.Command{Do: tap.Cancel, ID: json.RawMessage(`"p"`)})
	hear(t, r.unit, latisFrame(t, `{"id":"2000000001","promptCancel":{"targetId":"p"}}`))
	ack := latisFrame(t, `{"id":"2000000001","ack":{}}`)
	say(t, r.unit, ack+end)
	hear(t, r.controller, end)
	r.controller.Close()
	r.unit.Close()
	<-r.done
	if raw := string(r.raw(frame.U2C)); !strings.Contains(raw, ack) || !strings.Contains(raw, end) {
		t.Errorf("the session has %q", raw)
	}
	if got := told.said(2)[1]; got != "not forwarded to the controller, which did not ask: u2c ACK 2000000001" {
		t.Error(got)
	}
}

// A frame that is sent again opens another exchange. Only the capture gets its answers, up to
// the end. It can be cancelled like any other.
func TestGateResends(t *testing.T) {
	ask := latisFrame(t, `{"id":"p","promptSend":{"content":"hi"}}`)
	r, control, _ := asked(t, frame.Len32, latis.Protocol, ask)
	say(t, r.controller, ask)
	hear(t, r.unit, ask)
	control(tap.Command{Do: tap.Resend, Seq: 1})
	hear(t, r.unit, latisFrame(t, `{"id":"p~1","promptSend":{"content":"hi"}}`))
	control(tap.Command{Do: tap.Cancel, ID: json.RawMessage(`"p~1"`)})
	hear(t, r.unit, latisFrame(t, `{"id":"2000000002","promptCancel":{"targetId":"p~1"}}`))
	chunk := latisFrame(t, `{"id":"p","responseChunk":{"requestId":"p","content":"ho"}}`)
	say(t, r.unit, latisFrame(t, `{"id":"p~1","responseChunk":{"requestId":"p~1","content":"ho"}}`)+
		latisFrame(t, `{"id":"2000000002","ack":{}}`)+
		latisFrame(t, `{"id":"p~1","responseCancelled":{"requestId":"p~1"}}`)+chunk)
	hear(t, r.controller, chunk)
}

// The same holds for JSON, where progress has another token, and for injected requests.
func TestGateKeepsAnswersOfOwnRequests(t *testing.T) {
	r, control, _ := asked(t, frame.Line, jsonrpc.MCP, call(7))
	unit := bufio.NewReader(r.unit)
	say(t, r.controller, call(7))
	line(t, unit, call(7))
	control(tap.Command{Do: tap.Resend, Seq: 1})
	line(t, unit, `{"jsonrpc":"2.0","id":2000000001,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p7~1"}}}`+"\n")
	control(tap.Command{Do: tap.Inject, To: "unit", Payload: json.RawMessage(`{"jsonrpc":"2.0","id":"me","method":"ping"}`)})
	line(t, unit, `{"jsonrpc":"2.0","id":"me","method":"ping"}`+"\n")
	say(t, r.unit, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p7~1","progress":1}}`+"\n"+
		`{"jsonrpc":"2.0","id":2000000001,"result":{}}`+"\n"+
		`{"jsonrpc":"2.0","id":"me","result":{}}`+"\n"+
		`{"jsonrpc":"2.0","id":"me","result":{"once":"more"}}`+"\n")
	hear(t, r.controller, `{"jsonrpc":"2.0","id":"me","result":{"once":"more"}}`+"\n")
}

// What a bridge has recorded are the bodies of HTTP on connections of its own: it is sent again
// as a line, and commands for these connections are for the one that is relayed.
func TestGateOfBridge(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	head := "POST / HTTP/1.1\r\n\r\n"
	g := relay.NewGate(relay.GateConfig{Bridged: true, Find: func(int64) (capture.Record, bool) {
		f := frame.Frame{Raw: []byte(head + note), Start: len(head), End: len(head + note), Dir: frame.C2U, Conn: 7, Meta: &frame.Meta{Framing: frame.HTTP}}
		return capture.Record{Seq: 1, Frame: f}, true
	}})
	r := start(t, relay.Config{Gate: g, Framing: frame.Line, Protocol: jsonrpc.MCP})
	unit := bufio.NewReader(r.unit)
	say(t, r.controller, call(1))
	line(t, unit, call(1))
	for _, c := range []tap.Command{{Do: tap.Resend, Seq: 1}, {Do: tap.Cancel, Conn: 7, ID: json.RawMessage("1")}} {
		if _, err := g.Control(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	line(t, unit, note+"\n")
	if got, err := unit.ReadString('\n'); err != nil || !strings.Contains(got, `"requestId":1`) {
		t.Errorf("%q, %v", got, err)
	}
}

// A request without an id is not resent, because its answer would be mistaken for another.
func TestGateRefusesToResend(t *testing.T) {
	found := `{"prompt":"hi"}`
	g := relay.NewGate(relay.GateConfig{Find: func(int64) (capture.Record, bool) {
		return capture.Record{Seq: 1, Frame: frame.Frame{Raw: []byte(found), End: len(found), Dir: frame.C2U}}, true
	}})
	r := start(t, relay.Config{Gate: g, Framing: frame.Line, Protocol: rlm.Protocol})
	say(t, r.controller, found+"\n")
	hear(t, r.unit, found+"\n")
	_, err := g.Control(t.Context(), tap.Command{Do: tap.Resend, Seq: 1})
	if err == nil || !strings.Contains(err.Error(), "frame 1 is a request without an id") {
		t.Error(err)
	}
}

// A turn can be cancelled from the answer that accepts it until it ends.
func TestGateCancelsTurns(t *testing.T) {
	const (
		begin     = `{"method":"turn/start","id":7,"params":{"threadId":"t","input":[]}}` + "\n"
		accept    = `{"id":7,"result":{"turn":{"id":"a"}}}` + "\n"
		completed = `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"a","status":"interrupted"}}}` + "\n"

		initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}` + "\n"
		agreed     = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}` + "\n"
		prompt     = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"
		accepted   = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
		idle       = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle"}}}` + "\n"

		user   = `{"type":"user","message":{"role":"user","content":"hi"}}` + "\n"
		result = `{"type":"result","subtype":"success","is_error":false,"session_id":"s"}` + "\n"
	)
	for _, test := range []struct {
		protocol protocol.Protocol
		begin    []string // requests and answers, alternating
		id       string
		cancel   string
		answer   string // to the cancel; "" if it has none
		end      string
		again    bool // another cancel could be sent after the end
	}{
		{jsonrpc.Codex, []string{begin, accept}, "7", `{"method":"turn/interrupt","id":2000000001,"params":{"threadId":"t","turnId":"a"}}`, `{"id":2000000001,"result":{}}` + "\n", completed, false},
		{jsonrpc.ACP, []string{initialize, agreed, prompt, accepted}, "1", `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`, "", idle, false},
		{claude.Spec.Protocol, []string{user}, `""`, `{"type":"control_request","request_id":"2000000001","request":{"subtype":"interrupt"}}`, `{"type":"control_response","response":{"subtype":"success","request_id":"2000000001"}}` + "\n", result, true},
	} {
		told := &memory{}
		g := relay.NewGate(relay.GateConfig{Sink: told.sink()})
		r := start(t, relay.Config{Gate: g, Framing: frame.Line, Protocol: test.protocol})
		for i, line := range test.begin {
			from, to := r.controller, r.unit
			if i%2 == 1 {
				from, to = to, from
			}
			say(t, from, line)
			hear(t, to, line)
		}
		cancel := tap.Command{Do: tap.Cancel, ID: json.RawMessage(test.id)}
		if _, err := g.Control(t.Context(), cancel); err != nil {
			t.Fatalf("%s: %v", test.protocol.Name(), err)
		}
		hear(t, r.unit, test.cancel+"\n")
		say(t, r.unit, test.answer+test.end)
		hear(t, r.controller, test.end)
		if _, err := g.Control(t.Context(), cancel); (err == nil) != test.again {
			t.Errorf("%s: after the end: %v", test.protocol.Name(), err)
		}
		r.controller.Close()
		r.unit.Close()
		<-r.done
	}
}
