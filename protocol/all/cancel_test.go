package all_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// A cancel that is made is understood as one, of the request it was made for.
func TestAppendCancel(t *testing.T) {
	requests := map[string]string{
		"mcp":     `{"jsonrpc":"2.0","id":"a%b","method":"tools/call","params":{}}`,
		"acp":     `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}`,
		"lsp":     `{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}`,
		"dap":     `{"seq":1,"type":"request","command":"evaluate","arguments":{}}`,
		"nexus":   `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"x","request_id":"r"}}`,
		"theory":  `{"kind":"Request","control":{"run_id":"r","mode":"mock"},"inputs":{},"outputs":{}}`,
		"codex":   `{"id":1,"method":"turn/start","params":{"threadId":"th","input":[]}}`,
		"copilot": `{"jsonrpc":"2.0","id":1,"method":"session.send","params":{"sessionId":"s","prompt":"x"}}`,
		"claude":  `{"type":"user","message":{"role":"user","content":"x"}}`,
		"latis":   "\x0a\x01\x31\x52\x03\x0a\x01\x78",
	}
	for _, p := range all.List() {
		request, ok := requests[p.Name()]
		if !ok {
			if _, err := all.Of(p).AppendCancel(nil, &protocol.Target{Opened: &protocol.Message{}}, 1); err == nil {
				t.Errorf("%s: a cancel, and no request to try it with", p.Name())
			}
			continue
		}
		var opened, m protocol.Message
		if err := p.Parse([]byte(request), &opened); err != nil || opened.Phase != protocol.Open {
			t.Fatalf("%s: %v", p.Name(), err)
		}
		target := &protocol.Target{Opened: &opened, Payload: []byte(request)}
		if p.Name() == "codex" {
			target.Name = protocol.Token{Space: protocol.SpaceTurn, Text: []byte(`"tu"`)}
		}
		payload, err := all.Of(p).AppendCancel(nil, target, 99)
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if err := p.Parse(payload, &m); err != nil || m.Phase != protocol.Cancel || m.Faults != 0 {
			t.Errorf("%s: %q is %v, faults %b, error %v", p.Name(), payload, m.Phase, m.Faults, err)
		}
		if s := string(m.Ref.Text); s != string(opened.ID.Text) && s != string(opened.Bind.Text) && s != string(target.Name.Text) {
			t.Errorf("%s: %q names %q", p.Name(), payload, s)
		}
		if p.Name() != "mcp" {
			if _, err := all.Of(p).AppendCancel(nil, &protocol.Target{Opened: &protocol.Message{Kind: []byte("x")}}, 1); err == nil {
				t.Errorf("%s: a cancel of what has no name", p.Name())
			}
		}
	}
}

// A turn of Codex is named with its thread, and a task is cancelled and asked for in the
// words of its client, without the progress token.
func TestAppendCancelOfOperation(t *testing.T) {
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"x":{}}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1,` + meta + `}}}`
	task := protocol.Token{Space: protocol.SpaceTask, Text: []byte(`"k"`)}
	turn := protocol.Token{Space: protocol.SpaceTurn, Text: []byte(`"tu"`)}
	for _, test := range []struct {
		p             protocol.Protocol
		request       string
		name          protocol.Token
		cancel, query string
	}{
		{
			jsonrpc.Codex, `{"id":1,"method":"turn/start","params":{"threadId":"th","input":[]}}`, turn,
			`{"method":"turn/interrupt","id":9,"params":{"threadId":"th","turnId":"tu"}}`, "",
		},
		{jsonrpc.Codex, `{"id":1,"method":"turn/start","params":{}}`, turn, "turn/start has no id that a cancel could name", ""},
		{jsonrpc.Codex, `{"id":1,"method":"turn/start","params":{"threadId":"th"}}`, protocol.Token{}, "turn/start has no id that a cancel could name", ""},
		{
			jsonrpc.MCP, call, task,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/cancel","params":{"taskId":"k","_meta":{` + meta + `}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":"k","_meta":{` + meta + `}}}`,
		},
		{
			jsonrpc.MCP, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, task,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/cancel","params":{"taskId":"k"}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":"k"}}`,
		},
		{
			jsonrpc.A2A, `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"tenant":"t","message":{}}}`, task,
			`{"jsonrpc":"2.0","id":9,"method":"CancelTask","params":{"id":"k","tenant":"t"}}`, "",
		},
		{
			jsonrpc.A2A, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{}}}`, task,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/cancel","params":{"id":"k"}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"id":"k"}}`,
		},
		{
			jsonrpc.A2A, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{}}}`,
			protocol.Token{},
			"the answer to SendMessage names no task, and only tasks are cancelled", "",
		},
		{claude.Spec.Protocol, `{"type":"user","message":{"role":"user","content":"hi"}}`, protocol.Token{}, `{"type":"control_request","request_id":"9","request":{"subtype":"interrupt"}}`, ""},
		{claude.Spec.Protocol, `{"type":"control_request","request_id":"q","request":{"subtype":"hook_callback"}}`, protocol.Token{}, `{"type":"control_cancel_request","request_id":"q"}`, ""},
		{jsonrpc.MCP, call, protocol.Token{}, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, ""},
	} {
		var opened protocol.Message
		if err := test.p.Parse([]byte(test.request), &opened); err != nil {
			t.Fatal(err)
		}
		target := &protocol.Target{Opened: &opened, Payload: []byte(test.request), Name: test.name}
		got, err := all.Of(test.p).AppendCancel(nil, target, 9)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != test.cancel {
			t.Errorf("%s: the cancel is\n%s, want\n%s", test.request, got, test.cancel)
		}
		if got, _ := all.Of(test.p).AppendPoll(nil, target, 9); string(got) != test.query {
			t.Errorf("%s: it is asked for by\n%s, want\n%s", test.request, got, test.query)
		}
	}
}
