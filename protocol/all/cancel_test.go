package all_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A cancel that is made is understood as one, of the request it was made for.
func TestAppendCancel(t *testing.T) {
	requests := map[string]string{
		"mcp":    `{"jsonrpc":"2.0","id":"a%b","method":"tools/call","params":{}}`,
		"acp":    `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}`,
		"lsp":    `{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{}}`,
		"dap":    `{"seq":1,"type":"request","command":"evaluate","arguments":{}}`,
		"nexus":  `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"x","request_id":"r"}}`,
		"theory": `{"kind":"Request","control":{"run_id":"r","mode":"mock"},"inputs":{},"outputs":{}}`,
		"latis":  "\x0a\x01\x31\x52\x03\x0a\x01\x78",
	}
	for _, p := range all.List() {
		request, ok := requests[p.Name()]
		if !ok {
			if _, err := all.AppendCancel(nil, p, &protocol.Message{}, 1); err == nil {
				t.Errorf("%s: a cancel, and no request to try it with", p.Name())
			}
			continue
		}
		var opened, m protocol.Message
		if err := p.Parse([]byte(request), &opened); err != nil || opened.Phase != protocol.Open {
			t.Fatalf("%s: %v", p.Name(), err)
		}
		payload, err := all.AppendCancel(nil, p, &opened, 99)
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if err := p.Parse(payload, &m); err != nil || m.Phase != protocol.Cancel || m.Faults != 0 {
			t.Errorf("%s: %q is %v, faults %b, error %v", p.Name(), payload, m.Phase, m.Faults, err)
		}
		if s := string(m.Ref.Text); s != string(opened.ID.Text) && s != string(opened.Bind.Text) {
			t.Errorf("%s: %q names %q", p.Name(), payload, s)
		}
		if p.Name() != "mcp" {
			if _, err := all.AppendCancel(nil, p, &protocol.Message{Kind: []byte("x")}, 1); err == nil {
				t.Errorf("%s: a cancel of what has no name", p.Name())
			}
		}
	}
}
