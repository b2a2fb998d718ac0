package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// A script is a session on one line: steps with semicolons between them.
//
//	> VERB ARGS   the controller sends what the verb stands for, or JSON
//	< VERB ARGS   the unit does
//	? VERB ARGS   somebody does, in a stream that does not tell who
//	+MS           that many milliseconds pass; between steps, 1 does
//	#CONN         what follows is on that connection
//	end           the connection ends
//
// Frames are numbered from 1.

// verbs are short names of messages, by protocol; %1 is the first argument.
var verbs = map[string]map[string]string{
	"latis": {
		"prompt":      `{"id":"%1","promptSend":{"content":"x"}}`,
		"cancel":      `{"id":"%1","promptCancel":{"targetId":"%2"}}`,
		"get":         `{"id":"%1","stateGet":{}}`,
		"subscribe":   `{"id":"%1","stateSubscribe":{}}`,
		"unsubscribe": `{"id":"%1","stateSubscribe":{"unsubscribe":true}}`,
		"ping":        `{"id":"%1","ping":{}}`,
		"chunk":       `{"id":"%1","responseChunk":{"requestId":"%1","sequence":%2}}`,
		"complete":    `{"id":"%1","responseComplete":{"requestId":"%1"}}`,
		"cancelled":   `{"id":"%1","responseCancelled":{"requestId":"%1"}}`,
		"update":      `{"id":"%1","stateUpdate":{}}`,
		"error":       `{"id":"%1","error":{"requestId":"%1","code":"X"}}`,
		"ack":         `{"id":"%1","ack":{"requestId":"%1"}}`,
		"pong":        `{"id":"%1","pong":{}}`,
	},
	"mcp": {
		"call":     `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"t%1"}}}`,
		"ping":     `{"jsonrpc":"2.0","id":%1,"method":"ping"}`,
		"cancel":   `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%1}}`,
		"progress": `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t%1","progress":1}}`,
		"result":   `{"jsonrpc":"2.0","id":%1,"result":{}}`,
		"error":    `{"jsonrpc":"2.0","id":%1,"error":{"code":-32000,"message":"m"}}`,
	},
	"acp": {
		"prompt": `{"jsonrpc":"2.0","id":%1,"method":"session/prompt","params":{"sessionId":"%2","prompt":[]}}`,
		"permit": `{"jsonrpc":"2.0","id":%1,"method":"session/request_permission","params":{}}`,
		"update": `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"plan"}}}`,
		"cancel": `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"%1"}}`,
		"stop":   `{"jsonrpc":"2.0","id":%1,"result":{"stopReason":"%2"}}`,
		"result": `{"jsonrpc":"2.0","id":%1,"result":{}}`,
	},
	"lsp": {
		"hover":    `{"jsonrpc":"2.0","id":%1,"method":"textDocument/hover","params":{"workDoneToken":"t%1"}}`,
		"cancel":   `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%1}}`,
		"progress": `{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t%1","value":{}}}`,
		"stop":     `{"jsonrpc":"2.0","method":"window/workDoneProgress/cancel","params":{"token":"t%1"}}`,
		"result":   `{"jsonrpc":"2.0","id":%1,"result":{}}`,
		"gone":     `{"jsonrpc":"2.0","id":%1,"error":{"code":-32800,"message":"cancelled"}}`,
	},
	"dap": {
		"request":   `{"seq":%1,"type":"request","command":"evaluate"}`,
		"cancel":    `{"seq":%1,"type":"request","command":"cancel","arguments":{"requestId":%2}}`,
		"response":  `{"seq":%1,"type":"response","request_seq":%2,"success":true,"command":"evaluate"}`,
		"cancelled": `{"seq":%1,"type":"response","request_seq":%2,"success":false,"command":"evaluate","message":"cancelled"}`,
	},
	"nexus": {
		"send":   `{"jsonrpc":"2.0","method":"send","params":{"content":"x","request_id":"%2"},"id":%1}`,
		"cancel": `{"jsonrpc":"2.0","method":"cancel","params":{"request_id":"%2"},"id":%1}`,
		"result": `{"jsonrpc":"2.0","id":%1,"result":{"content":"y"}}`,
		"cut":    `{"jsonrpc":"2.0","id":%1,"result":{"content":"y","cancelled":true}}`,
		"ok":     `{"jsonrpc":"2.0","id":%1,"result":{"cancelled":true}}`,
		"not":    `{"jsonrpc":"2.0","id":%1,"result":{"cancelled":false,"reason":"not_found_or_completed"}}`,
		"null":   `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`,
	},
	"rlm": {
		"ask":    `{"correlation_id":"%1","prompt":"x"}`,
		"ask2":   `{"correlation_id":"%1","prompts":["x","y"]}`,
		"answer": `{"correlation_id":"%1","error":null,"results":[{"error":"e","chat_completion":null}]}`,
		"fail":   `{"correlation_id":"%1","error":"e","results":null}`,
		"null":   `{"correlation_id":null,"error":"e","results":null}`,
	},
	"theory": {
		"run":     `{"kind":"Request","control":{"run_id":"%1","mode":"mock"},"inputs":{},"outputs":{}}`,
		"ack":     `{"kind":"Ack","control":{"run_id":"%1"}}`,
		"event":   `{"kind":"Event","control":{"run_id":"%1"},"data":{"phase":"started"}}`,
		"token":   `{"kind":"Token","content":{"text":"x"}}`,
		"final":   `{"kind":"Response","control":{"run_id":"%1","status":"success","cost_micro":0,"final":true},"outputs":{}}`,
		"stopped": `{"kind":"Response","control":{"run_id":"%1","status":"error","cost_micro":0,"final":true},"outputs":{},"error":{"code":"ERR_PREEMPTED","message":"m"}}`,
		"preempt": `{"kind":"control","content":{"op":"preempt"}}`,
	},
	"jsonrpc": {
		"call":   `{"jsonrpc":"2.0","id":%1,"method":"call"}`,
		"result": `{"jsonrpc":"2.0","id":%1,"result":{}}`,
		"null":   `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`,
	},
}

// faults are frames that carry no message, and one that is flawed.
var faults = map[string]session.Frame{
	"!oversize":  {Gap: true, Fault: &frame.Error{Err: frame.ErrTooLarge}},
	"!truncated": {Gap: true, Fault: &frame.Error{Err: frame.ErrTruncated}},
	"!gap":       {Gap: true, Fault: &frame.Error{Err: frame.ErrMalformed}},
	"!blank":     {Gap: true},
}

// began is when scripts begin.
var began = time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)

// play feeds a script to a tracker.
func play(t testing.TB, protocolName, script string, o session.Options) *session.Tracker {
	t.Helper()
	p, err := all.Named(protocolName)
	if err != nil {
		t.Fatal(err)
	}
	tr := session.New(p, o)
	f := session.Frame{Time: began, Conn: 1}
	for step := range strings.SplitSeq(script, ";") {
		words := strings.Fields(step)
		switch {
		case len(words) == 0:
		case words[0][0] == '+':
			var ms time.Duration
			scan(t, words[0][1:], &ms)
			f.Time = f.Time.Add(ms * time.Millisecond)
		case words[0][0] == '#':
			scan(t, words[0][1:], &f.Conn)
		case words[0] == "end":
			tr.End(f.Conn, f.Time)
		default:
			f.Seq++
			f.Time = f.Time.Add(time.Millisecond)
			f.Dir = map[string]frame.Dir{">": frame.C2U, "<": frame.U2C}[words[0]]
			send(t, tr, p, f, words[1:])
		}
	}
	return tr
}

func scan(t testing.TB, text string, v any) {
	t.Helper()
	if _, err := fmt.Sscan(text, v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// send feeds the message that words stand for.
func send(t testing.TB, tr *session.Tracker, p protocol.Protocol, f session.Frame, words []string) {
	t.Helper()
	if fault, ok := faults[words[0]]; ok {
		f.Gap, f.Fault = fault.Gap, fault.Fault
		tr.Feed(f, nil)
		return
	}
	if words[0] == "!flawed" {
		f.Fault = fmt.Errorf("the line ends in CRLF")
		words = words[1:]
	}
	f.Payload = payload(t, p, words)
	f.Size = len(f.Payload)
	var m protocol.Message
	if err := p.Parse(f.Payload, &m); err != nil {
		f.Fault = err
		tr.Feed(f, nil)
		return
	}
	tr.Feed(f, &m)
}

// payload returns the bytes that words stand for: those of a verb, or the
// words themselves.
func payload(t testing.TB, p protocol.Protocol, words []string) []byte {
	t.Helper()
	text := strings.Join(words, " ")
	if form, ok := verbs[p.Name()][words[0]]; ok {
		text = form
		for i, arg := range words[1:] {
			text = strings.ReplaceAll(text, fmt.Sprintf("%%%d", i+1), arg)
		}
	}
	coder, ok := p.(protocol.Transcoder)
	if !ok || !strings.HasPrefix(text, "{") {
		return []byte(text)
	}
	b, err := coder.AppendPayload(nil, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}
