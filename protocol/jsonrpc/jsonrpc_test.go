package jsonrpc_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	call      = `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"},"_meta":{"progressToken":"p-6"}}}`
	progress  = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"total":8,"progressToken":"p-6"}}`
	cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6,"reason":"user pressed esc"}}`
	result    = `{"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"text","text":"hi"}],"cancelled":false}}`
	failed    = `{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"no such tool"}}`
	prompt    = `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"go"}]}}`
	update    = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{}}}}`
	stopped   = `{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}`
	hover     = `{"jsonrpc":"2.0","id":4,"method":"textDocument/hover","params":{"workDoneToken":"w","partialResultToken":"q"}}`
	aborted   = `{"jsonrpc":"2.0","error":{"code":-32800,"message":"JSON RPC cancelled"},"id":4}`
)

func TestVectors(t *testing.T) {
	for _, p := range []protocol.Protocol{jsonrpc.MCP, jsonrpc.ACP, jsonrpc.LSP, jsonrpc.DAP} {
		t.Run(p.Name(), func(t *testing.T) { prototest.Vectors(t, p) })
	}
}

// What a message is, and which rules of JSON-RPC 2.0 it breaks, whatever its
// method means.
func TestPlain(t *testing.T) {
	prototest.Cases(t, jsonrpc.Plain, []prototest.Case{
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, `m open id=1`},
		{`{"jsonrpc":"2.0","id":"a\u00fc","method":"m"}`, `m open id="a\u00fc"`},
		{`{"jsonrpc":"2.0","id":1.0,"method":"m"}`, `m open id=1.0`},
		{`{"jsonrpc":"2.0","method":"m"}`, `m note`},
		{`{"jsonrpc":"2.0","method":"m","id":null}`, `m note`},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, `result close id=1`},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`, `error fail label=-32700`},
		{" {\r\n\"id\" : 1 ,\"jsonrpc\":\"2.0\",\"method\":\"m\" } ", `m open id=1`},

		{`{"id":1,"method":"m"}`, `m open id=1 faults=bad-version`},
		{`{"jsonrpc":"1.0","id":1,"method":"m"}`, `m open id=1 faults=bad-version`},
		{`{"jsonrpc":2.0,"id":1,"method":"m"}`, `m open id=1 faults=bad-version`},
		{`{"jsonrpc":"2.0","id":[4],"method":"m"}`, `m open id=[4] faults=bad-id`},
		{`{"jsonrpc":"2.0","id":true,"method":"m"}`, `m open id=true faults=bad-id`},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, `m open id=9007199254740993 faults=unsafe-integer`},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":7}`, `m open id=1 faults=bad-params`},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, `m open id=1 faults=bad-params`},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"b":1,"b":2}}}`, `m open id=1 faults=duplicate-key`},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}`, `error fail id=1 label=1 faults=both-answers`},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":null}`, `result close id=1 faults=both-answers`},
		{`{"jsonrpc":"2.0","id":1,"error":null}`, `error fail id=1 faults=no-answer`},
		{`{"jsonrpc":"2.0","id":1}`, `result close id=1 faults=no-answer`},
		{`{"jsonrpc":"2.0","id":null,"result":1}`, `result close faults=bad-id`},
		{`{"jsonrpc":"2.0","result":1}`, `result close faults=missing-field`},

		{`{"jsonrpc":"2.0"}`, `unknown note faults=unknown-kind`},
		{`{"jsonrpc":"2.0","id":3,"params":{}}`, `unknown note faults=unknown-kind`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, `unknown note faults=unknown-kind`},
		{`{}`, `unknown note faults=unknown-kind`},
		{`"method"`, `unknown note faults=unknown-kind`},
		{`null`, `unknown note faults=unknown-kind`},
	})
}

func TestMCP(t *testing.T) {
	prototest.Cases(t, jsonrpc.MCP, []prototest.Case{
		{call, `tools/call open from=c2u id=6 bind="p-6" bind-space=progress label=echo`},
		{progress, `notifications/progress part ref="p-6" ref-space=progress`},
		{cancelled, `notifications/cancelled cancel ref=6 ref-space=id reason=user pressed esc`},
		{result, `result close id=6`},
		{failed, `error fail id=6 label=-32602`},
		{`{"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{}}`, `sampling/createMessage open from=u2c id=0`},
		{`{"jsonrpc":"2.0","id":7,"method":"no/such/method"}`, `no/such/method open id=7`},

		// The members that another protocol cancels by mean nothing here.
		{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":6}}`, `$/cancelRequest note`},
		{`{"jsonrpc":"2.0","id":6,"result":{"stopReason":"cancelled"}}`, `result close id=6`},

		{`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `notifications/cancelled cancel faults=missing-field`},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`, `notifications/cancelled cancel faults=missing-field`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `ping open id=1.5 faults=bad-id`},
		{`{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, `ping open id=1e3 faults=bad-id`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `ping note faults=bad-id`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `ping open id=1 faults=bad-params`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, `ping open id=1 faults=bad-params`},
	})
}

func TestACP(t *testing.T) {
	prototest.Cases(t, jsonrpc.ACP, []prototest.Case{
		{prompt, `session/prompt open from=c2u id=2 bind="s1" bind-space=session`},
		{update, `session/update part from=u2c ref="s1" ref-space=session label=agent_message_chunk`},
		{`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`, `session/cancel cancel from=c2u ref="s1" ref-space=session`},
		{stopped, `result cancelled id=2`},
		{`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}`, `result close id=2`},
		{`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1"}}`, `session/request_permission open from=u2c id=0 ref="s1" ref-space=session does=open of="s1" of-space=session`},
	})
}

func TestLSP(t *testing.T) {
	prototest.Cases(t, jsonrpc.LSP, []prototest.Case{
		{hover, `textDocument/hover open from=c2u id=4 bind="w" bind-space=progress`},
		{`{"jsonrpc":"2.0","id":4,"method":"x","params":{"partialResultToken":7}}`, `x open id=4 bind=7 bind-space=progress`},
		{`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"w","value":{}}}`, `$/progress part ref="w" ref-space=progress`},
		{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":4}}`, `$/cancelRequest cancel ref=4 ref-space=id`},
		{`{"jsonrpc":"2.0","method":"window/workDoneProgress/cancel","params":{"token":"w"}}`, `window/workDoneProgress/cancel cancel from=c2u ref="w" ref-space=progress`},
		{aborted, `error cancelled id=4 label=-32800`},
		{`{"jsonrpc":"2.0","id":4,"error":{"code":-32801,"message":"content modified"}}`, `error fail id=4 label=-32801`},
	})
}

func TestDAP(t *testing.T) {
	prototest.Cases(t, jsonrpc.DAP, []prototest.Case{
		{`{"seq":5,"type":"request","command":"evaluate","arguments":{"expression":"x"}}`, `evaluate open from=c2u id=5`},
		{`{"seq":9,"type":"response","request_seq":5,"success":true,"command":"evaluate","body":{}}`, `evaluate close from=u2c id=9 ref=5 ref-space=id`},
		{`{"seq":9,"type":"response","request_seq":5,"success":false,"command":"evaluate","message":"boom"}`, `evaluate fail from=u2c id=9 ref=5 ref-space=id`},
		{`{"seq":9,"type":"response","request_seq":5,"success":false,"command":"evaluate","message":"cancelled"}`, `evaluate cancelled from=u2c id=9 ref=5 ref-space=id`},
		{`{"seq":6,"type":"request","command":"cancel","arguments":{"requestId":5}}`, `cancel cancel from=c2u id=6 ref=5 ref-space=id`},
		{`{"seq":6,"type":"request","command":"cancel","arguments":{"progressId":"p"}}`, `cancel cancel from=c2u id=6 ref="p" ref-space=progress`},
		{`{"seq":6,"type":"request","command":"cancel"}`, `cancel cancel from=c2u id=6 faults=missing-field`},
		{`{"seq":7,"type":"event","event":"output","body":{"category":"stdout","output":"hi"}}`, `output note from=u2c label=stdout`},
		{`{"seq":1,"type":"request","command":"runInTerminal"}`, `runInTerminal open from=u2c id=1`},
		{`{"seq":2,"type":"response","request_seq":1,"success":true,"command":"runInTerminal"}`, `runInTerminal close from=c2u id=2 ref=1 ref-space=id`},

		{`{"type":"request","command":"threads"}`, `threads open from=c2u faults=missing-field`},
		{`{"seq":"1","type":"request","command":"threads"}`, `threads open from=c2u id="1" faults=bad-id`},
		{`{"seq":1.5,"type":"event","event":"stopped"}`, `stopped note from=u2c faults=bad-id`},
		{`{"seq":2,"type":"response","success":true,"command":"threads"}`, `threads close from=u2c id=2 faults=missing-field`},
		{`{"seq":2,"type":"response","request_seq":1,"command":"threads"}`, `threads close from=u2c id=2 ref=1 ref-space=id faults=missing-field`},
		{`{"seq":2,"type":"event"}`, `unknown note from=u2c faults=unknown-kind,missing-field`},
		{`{"seq":2,"type":"gesture"}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
}

func TestText(t *testing.T) {
	prototest.Texts(t, jsonrpc.MCP, map[string]string{
		cancelled: `{"requestId":6,"reason":"user pressed esc"}`,
		failed:    `"no such tool"`,
		stopped:   `{"stopReason":"cancelled"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`: `{"code":1}`,
	})
}

// A text that is not JSON leaves what came before the fault, and no fault of
// which only its end could tell.
func TestMalformed(t *testing.T) {
	for payload, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",`: `tools/call open from=c2u id=1 label=echo`,
		`{"id":1,"method":"ping",}`: `ping open id=1`,
		`[{"jsonrpc":"2.0","id":1}`: `batch note count=1`,
		`{`:                         `unknown note faults=unknown-kind`,
		``:                          `unknown note faults=unknown-kind`,
	} {
		var m protocol.Message
		if err := jsonrpc.MCP.Parse([]byte(payload), &m); err == nil || prototest.Say(&m) != want {
			t.Errorf("%s\nsays %s, %v\nwant %s", payload, prototest.Say(&m), err, want)
		}
	}
}

func TestKnows(t *testing.T) {
	if !jsonrpc.LSP.Knows([]byte("initialized")) || jsonrpc.MCP.Knows([]byte("initialized")) {
		t.Error("initialized is a method of LSP and not of MCP")
	}
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, jsonrpc.MCP, call, progress, cancelled, result, failed)
	prototest.AnyOrder(t, jsonrpc.ACP, prompt, update, stopped)
	prototest.AnyOrder(t, jsonrpc.LSP, hover, aborted)
	prototest.AnyOrder(t, jsonrpc.DAP, `{"seq":9,"type":"response","request_seq":5,"success":false,"command":"evaluate","message":"cancelled"}`)
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, jsonrpc.MCP, call, progress, cancelled, result, failed, `[`+call+`,`+progress+`]`)
	prototest.NoAllocs(t, jsonrpc.ACP, prompt, update, stopped)
	prototest.NoAllocs(t, jsonrpc.LSP, hover, aborted)
	prototest.NoAllocs(t, jsonrpc.DAP, `{"seq":6,"type":"request","command":"cancel","arguments":{"requestId":5}}`)
}

func FuzzPlain(f *testing.F) { prototest.Fuzz(f, jsonrpc.Plain, jsonscan.WellFormed) }
func FuzzMCP(f *testing.F)   { prototest.Fuzz(f, jsonrpc.MCP, jsonscan.WellFormed) }
func FuzzACP(f *testing.F)   { prototest.Fuzz(f, jsonrpc.ACP, jsonscan.WellFormed) }
func FuzzLSP(f *testing.F)   { prototest.Fuzz(f, jsonrpc.LSP, jsonscan.WellFormed) }
func FuzzDAP(f *testing.F)   { prototest.Fuzz(f, jsonrpc.DAP, jsonscan.WellFormed) }

func BenchmarkParse(b *testing.B) {
	prototest.Bench(b, jsonrpc.MCP, map[string]string{
		"request-100B": `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}`,
		"progress":     progress,
		"request-4KiB": `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":{"message":"` + prototest.Prose(4000) + `"}}}`,
		"result-4KiB":  `{"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"text","text":"` + prototest.Prose(4000) + `"}]}}`,
	})
}
