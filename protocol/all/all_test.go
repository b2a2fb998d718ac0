package all_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// Every protocol is found under its name, and no name is given twice.
func TestNamed(t *testing.T) {
	list := names(all.List())
	for i, p := range all.List() {
		if got, err := all.Named(p.Name()); err != nil || got != p || !all.Has(p) || all.Of(p).About == "" {
			t.Errorf("%s is not found: %v", p.Name(), err)
		}
		if slices.Index(list, p.Name()) != i {
			t.Errorf("two protocols are named %s", p.Name())
		}
	}
	if _, err := all.Named("lattis"); err == nil || err.Error() != `unknown protocol "lattis" (did you mean latis?)` {
		t.Errorf("%v", err)
	}
}

// Every protocol with messages of its own has vectors that show them.
func TestVectors(t *testing.T) {
	general := []protocol.Protocol{jsonrpc.Plain, opaque.JSON, protobuf.Schemaless{}, opaque.Bytes}
	for _, p := range all.List() {
		if !slices.Contains(general, p) && !slices.Contains(fixtures.VectorDirs(), p.Name()) {
			t.Errorf("there are no vectors of %s", p.Name())
		}
	}
}

func TestLimit(t *testing.T) {
	if n := all.Limit(rlm.Protocol); n != 10_000_000 {
		t.Errorf("rlm is limited to %d bytes", n)
	}
	if n := all.Limit(latis.Protocol); n != 16<<20 {
		t.Errorf("latis is limited to %d bytes", n)
	}
}

func TestRecognize(t *testing.T) {
	for payload, want := range map[string]protocol.Protocol{
		`{"prompt":"hi","correlation_id":"a"}`:                   rlm.Protocol,
		`{"method":"Target.targetCreated","params":{}}`:          cdp.Spec.Protocol,
		`{"id":1,"method":"Browser.getVersion","sessionId":"s"}`: cdp.Spec.Protocol,
		`{"id":1,"method":"Arith.multiply","params":[1,2]}`:      opaque.JSON,
		`{"id":1,"method":"Arith.Multiply","params":{}}`:         opaque.JSON,
		`{"id":1,"result":{},"sessionId":"s"}`:                   opaque.JSON,
		`{"jsonrpc":"2.0","id":1,"method":"Browser.getVersion"}`: jsonrpc.Plain,
		`{"correlation_id":"1","error":null,"results":[]}`:       rlm.Protocol,
		`{"kind":"Ack","control":{"run_id":"r"}}`:                theory.Protocol,
		`{"seq":1,"type":"event","event":"stopped"}`:             jsonrpc.DAP,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                   jsonrpc.Plain,
		`[{"jsonrpc":"2.0","method":"m"}]`:                       jsonrpc.Plain,
		`{"jsonrpc":"1.0","id":1,"method":"m"}`:                  jsonrpc.Plain,
		"\x0a\x012\x62\x00":                                      latis.Protocol,
		"\x08\x01":                                               protobuf.Schemaless{},
		`7`:                                                      opaque.JSON,
		`[[]]`:                                                   opaque.JSON,
		`{"id":1,"method":"m"}`:                                  opaque.JSON,
		"\xff":                                                   opaque.Bytes,
		"":                                                       opaque.Bytes,
	} {
		if p, why := all.Recognize([]byte(payload)); p != want || why == "" {
			t.Errorf("%q is %s (%s), want %s", payload, p.Name(), why, want.Name())
		}
	}
}

// refiner returns the refiner of a stream that begins with the line.
func refiner(t *testing.T, line string) *all.Refiner {
	t.Helper()
	var g all.Guess
	if !g.Detect([]byte(line+"\n"), false) {
		t.Fatalf("cannot tell what %s is", line)
	}
	return g.Refiner()
}

// The first method that only one protocol has decides, at the top level alone,
// also inside of a batch.
func TestRefine(t *testing.T) {
	for payload, want := range map[string]protocol.Protocol{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`:                                             jsonrpc.MCP,
		`{"id":1,"params":{"method":"session/new"},"method":"session/prompt","jsonrpc":"2.0"}`:       jsonrpc.ACP,
		`{"jsonrpc":"2.0","method":"initialized","params":{}}`:                                       jsonrpc.LSP,
		`{"jsonrpc":"2.0","id":1,"method":"get_tokens"}`:                                             nexus.Protocol,
		`{"jsonrpc":"2.0","id":0,"method":"connect","params":{"supportedTaskKinds":[]}}`:             jsonrpc.Copilot,
		`{"jsonrpc":"2.0","id":0,"method":"connect","params":{}}`:                                    jsonrpc.Plain,
		`{"jsonrpc":"2.0","method":"session.event","params":{"event":{}}}`:                           jsonrpc.Copilot,
		`{"jsonrpc":"2.0","method":"session.event","params":{}}`:                                     jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{}}}`:                    jsonrpc.A2A,
		`{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi"}}`:                         nexus.Protocol,
		`{"jsonrpc":"2.0","id":1,"method":"send","params":{"recipient":["+4"],"message":"hi"}}`:      jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                   jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{}}`:                             jsonrpc.A2A,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"k"}}`:                          jsonrpc.A2A,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"k"}}`:                      jsonrpc.MCP,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}`:                                 jsonrpc.Plain,
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/progress"}]`: jsonrpc.MCP,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`:                                             jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"shutdown"}`:                                               jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"no/such"}`:                                                jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}`:                                  jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"result":"\"method\": \"tools/list\""}`:                             jsonrpc.Plain,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"`:                                              jsonrpc.Plain,
	} {
		p, why, done := refiner(t, `{"jsonrpc":"2.0","id":0,"method":"initialize"}`).Refine([]byte(payload))
		if p != want || done != (want != jsonrpc.Plain) || done != (why != "") {
			t.Errorf("%s is %s (%s), done is %v; want %s", payload, p.Name(), why, done, want.Name())
		}
	}
}

// The first request or notification may tell the dialect, or that there is none.
func TestFirst(t *testing.T) {
	for payload, want := range map[string]string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`: "mcp true",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`:      "? true",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"1.0"}}`:                          "? true",
		`{"jsonrpc":"2.0","id":0,"method":"initialize"}`:                                                             "? true",
		`{"jsonrpc":"2.0","method":"shutdown"}`:                                                                      "? true",
		`{"jsonrpc":"2.0","id":1,"method":"add","params":["2025-06-18"]}`:                                            "jsonrpc true",
		`[{"jsonrpc":"2.0","id":1,"method":"add"}]`:                                                                  "jsonrpc true",
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                                       "? false",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`:                                                  "? false",
		`{"jsonrpc":"2.0"}`: "? false",
		`{"jsonrpc":`:       "? false",
		`[]`:                "? false",
	} {
		p, asks := all.First([]byte(payload))
		name := "?"
		if p != nil {
			name = p.Name()
		}
		if got := fmt.Sprintf("%s %v", name, asks); got != want {
			t.Errorf("%s tells %s, not %s", payload, got, want)
		}
	}
}

// Nothing is left to learn of a protocol that is not a family.
func TestNoRefiner(t *testing.T) {
	if refiner(t, `{"prompt":"hi","correlation_id":"a"}`) != nil {
		t.Error("there is a refiner for rlm")
	}
}

// JSON stays JSON until a message comes that only one protocol has.
func TestRefineJSON(t *testing.T) {
	for _, tt := range []struct {
		first, next string
		want        protocol.Protocol
	}{
		{`{"prompt":"hi","unknown":1}`, `{"correlation_id":"a","prompt":"hi"}`, rlm.Protocol},
		{`{"prompt":"hi","unknown":1}`, `{"prompt":"hi"}`, opaque.JSON},
		{`{"kind":"Request","inputs":{}}`, `{"kind":"Response","control":{"run_id":"r","status":"success"}}`, theory.Protocol},
		{`{"level":30,"msg":"ready"}`, `{"jsonrpc":"2.0","id":1,"method":"x"}`, jsonrpc.Plain},
		{`{"level":30,"msg":"ready"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, jsonrpc.MCP},
		{`{"level":30,"msg":"ready"}`, "\x0a\x012\x62\x00", opaque.JSON},
	} {
		r := refiner(t, tt.first)
		_, _, _ = r.Refine([]byte(tt.first)) // as streams do
		if p, _, _ := r.Refine([]byte(tt.next)); p != tt.want {
			t.Errorf("%s and then %s are %s, want %s", tt.first, tt.next, p.Name(), tt.want.Name())
		}
	}
}

// A line of text in front does not keep the protocol from being recognized.
func TestRefineAfterText(t *testing.T) {
	r := refiner(t, "[INFO] listening")
	if p, _, done := r.Refine([]byte("[INFO] listening")); p != opaque.JSON || done {
		t.Fatalf("text is %s, done is %v", p.Name(), done)
	}
	if p, _, done := r.Refine([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize"}`)); p != jsonrpc.Plain || done {
		t.Fatalf("initialize is %s, done is %v", p.Name(), done)
	}
	if p, _, done := r.Refine([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); p != jsonrpc.MCP || !done {
		t.Fatalf("tools/list is %s, done is %v", p.Name(), done)
	}
}

// A payload that holds no method costs no more than looking for one.
func TestRefineAllocs(t *testing.T) {
	r := refiner(t, `{"jsonrpc":"2.0","id":0,"method":"initialize"}`)
	payload := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	if n := testing.AllocsPerRun(100, func() { r.Refine(payload) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Wherever the payload of a vector is cut, it is plausible up to there.
func TestPlausible(t *testing.T) {
	for _, p := range all.List() {
		if !slices.Contains(fixtures.VectorDirs(), p.Name()) {
			continue
		}
		vectors, err := fixtures.Vectors(p.Name())
		if err != nil {
			t.Fatal(err)
		}
		plausible := all.Plausible(p)
		for _, v := range vectors {
			if v.Expect != fixtures.Message || v.Header["kind"] == "unknown" {
				continue
			}
			for n := 1; n < len(v.Bytes); n++ {
				if !plausible(v.Bytes[:n], false) {
					t.Errorf("%s: %q is not plausible", v.Name, v.Bytes[:n])
				}
			}
			if !plausible(v.Bytes, true) {
				t.Errorf("%s: %q is not plausible", v.Name, v.Bytes)
			}
		}
	}
}

func TestNotPlausible(t *testing.T) {
	for _, tt := range []struct {
		protocol protocol.Protocol
		payload  string
		whole    bool
	}{
		{jsonrpc.MCP, "[INFO] listening", false},
		{jsonrpc.MCP, "7", true},
		{jsonrpc.MCP, `{"a":`, true},
		{jsonrpc.MCP, `{"a"}`, false},
		{opaque.JSON, "x", false},
		{latis.Protocol, "process started", false},
		{latis.Protocol, "\x0a\x012\x62", true},
		{latis.Protocol, "\x0a\x012\x2a", false}, // field 5
		{latis.Protocol, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", false},
		{protobuf.Schemaless{}, "\x07", false},
	} {
		if all.Plausible(tt.protocol)([]byte(tt.payload), tt.whole) {
			t.Errorf("%q is taken for %s", tt.payload, tt.protocol.Name())
		}
	}
}

// A record of NDJSON has its payload on one line, which every JSON protocol
// must tell.
func TestMultiline(t *testing.T) {
	for _, p := range all.List() {
		if p.Encoding() != protocol.JSON {
			continue
		}
		for payload, want := range map[string]bool{
			`{"jsonrpc":"2.0","id":1,"result":{}}`:   false,
			`{"a": "b\n"}`:                           false,
			"{\n}":                                   true,
			"{\"a\":\r1}":                            true,
			"{\"jsonrpc\":\"2.0\",\"params\":[\n1]}": true,
			"[{\"kind\":\n\"Ack\"}]":                 true,
			"{\"seq\":1,\"arguments\":{\"x\":\n1}}":  true,
		} {
			var m protocol.Message
			if err := p.Parse([]byte(payload), &m); err == nil && m.Multiline != want {
				t.Errorf("%s: %q: multiline is %v", p.Name(), payload, m.Multiline)
			}
		}
	}
}

// A client names itself in its initialize, or in each request.
func TestClientName(t *testing.T) {
	for _, tt := range []struct{ protocol, payload, want string }{
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"title":"Desk","name":"desk","version":"1"}}}`, "desk"},
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/clientInfo":{"name":"d\u00e9sk"}}}}`, "désk"},
		{"acp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"zed"}}}`, "zed"},
		{"lsp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1,"clientInfo":{"name":"vim"},"rootUri":null}}`, "vim"},
		{"codex", `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"codex_vscode"}}}`, "codex_vscode"},
		{"dap", `{"seq":1,"type":"request","command":"initialize","arguments":{"clientName":"VS Code","clientID":"vscode"}}`, "VS Code"},
		{"dap", `{"seq":1,"type":"request","command":"initialize","arguments":{"clientID":"vscode"}}`, "vscode"},
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"t","clientInfo":{"name":"no"}}}`, ""},
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":5,"_meta":[1]}}`, ""},
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":7}}}`, ""},
		{"mcp", `{"jsonrpc":"2.0","id":0,"result":{"clientInfo":{"name":"no"}}}`, ""},
		{"mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":"`, ""},
	} {
		p, err := all.Named(tt.protocol)
		if err != nil {
			t.Fatal(err)
		}
		var m protocol.Message
		_ = p.Parse([]byte(tt.payload), &m)
		if got := all.ClientName(&m); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.payload, got, tt.want)
		}
	}
}
