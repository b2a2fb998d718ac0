package pi_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/pi"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	prompt   = `{"id":"r","type":"prompt","message":"hi"}`
	accepted = `{"id":"r","type":"response","command":"prompt","success":true}`
	abort    = `{"id":"a","type":"abort"}`
	update   = `{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"The","partial":{"role":"assistant","model":"m","stopReason":"stop"}}}`
	message  = `{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"The"}],"model":"m","usage":{"input":5,"output":2,"cacheRead":3,"cacheWrite":1,"cost":{"input":0.1,"total":0.25}},"stopReason":"stop"}}`
	end      = `{"type":"agent_end","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[],"stopReason":"aborted","errorMessage":"no"}]}`
	confirm  = `{"type":"extension_ui_request","id":"u","method":"confirm","title":"Run?","timeout":3000}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, pi.Spec.Protocol)
	prototest.Cases(t, pi.Spec.Protocol, []prototest.Case{
		{prompt, `prompt open from=c2u id="r" bind=prompt bind-space=kind`},
		{`{"type":"get_state"}`, `get_state open from=c2u bind=get_state bind-space=kind`},
		{`{"type":"prompt"}`, `prompt open from=c2u bind=prompt bind-space=kind faults=missing-field`},
		{`{"type":"steer","message":"x"}`, `steer open from=c2u bind=steer bind-space=kind does=open of-space=session`},
		{abort, `abort cancel from=c2u id="a" ref-space=session bind=abort bind-space=kind`},
		{`{"type":"abort_bash"}`, `abort_bash cancel from=c2u ref=bash ref-space=kind bind=abort_bash bind-space=kind`},
		{`{"id":"n","type":"news"}`, `news open from=c2u id="n" bind=news bind-space=kind`},

		{accepted, `response close from=u2c id="r" bind-space=session label=prompt`},
		{`{"type":"response","command":"get_state","success":true,"data":{}}`, `response close from=u2c ref=get_state ref-space=kind label=get_state`},
		{`{"type":"response","command":"news","success":false,"error":"no"}`, `response fail from=u2c ref=news ref-space=kind label=news`},
		{`{"type":"response","command":"parse","success":false,"error":"no"}`, `response fail from=u2c label=parse`},
		{`{"id":"b","type":"response","command":"bash","success":true,"data":{"cancelled":true}}`, `response cancelled from=u2c id="b" label=bash`},
		{`{"id":"b","type":"response"}`, `response close from=u2c id="b" faults=missing-field`},

		{`{"type":"agent_start"}`, `agent_start part from=u2c ref-space=session empty=true`},
		{update, `message_update part from=u2c ref-space=session label=text_delta`},
		{message, `message_end part from=u2c ref-space=session model=m stop-reason=stop empty=true usage={9 3 2}`},
		{end, `agent_end part from=u2c ref-space=session does=cancelled of-space=session stop-reason=aborted empty=true`},
		{`{"type":"agent_end","messages":[{"role":"assistant","stopReason":"error"}]}`, `agent_end part from=u2c ref-space=session does=fail of-space=session stop-reason=error empty=true`},
		{`{"type":"agent_end","messages":[]}`, `agent_end part from=u2c ref-space=session does=close of-space=session empty=true`},
		{`{"type":"auto_retry_start","attempt":1}`, `auto_retry_start part from=u2c ref-space=session does=open of-space=session empty=true`},
		{`{"type":"auto_retry_end","success":false,"finalError":"Retry cancelled"}`, `auto_retry_end part from=u2c ref-space=session does=cancelled of-space=session empty=true`},
		{`{"type":"auto_retry_end","success":true}`, `auto_retry_end part from=u2c ref-space=session empty=true`},
		{`{"type":"compaction_end","reason":"overflow","willRetry":true}`, `compaction_end part from=u2c ref-space=session label=overflow does=open of-space=session empty=true`},

		{confirm, `extension_ui_request open from=u2c id="u" label=confirm does=open of-space=session`},
		{`{"type":"extension_ui_request","id":"u","method":"notify"}`, `extension_ui_request note from=u2c label=notify`},
		{`{"type":"extension_ui_response","id":"u","confirmed":true}`, `extension_ui_response close from=c2u id="u"`},
		{`{"type":"extension_ui_response","id":"u","cancelled":true}`, `extension_ui_response close from=c2u id="u" label=cancelled`},

		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
		{`{"seq":1,"type":"response","command":"x","success":true}`, `unknown note faults=unknown-kind`}, // of DAP
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, pi.Spec.Protocol, prompt, accepted, abort, end, confirm)
	prototest.NoAllocs(t, pi.Spec.Protocol, prompt, accepted, abort, update, message, end, confirm)
}

// A summary shows the text that a message has for people, not the start of the message.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		prompt:                           `: "hi"`,
		update:                           `text_delta: "The"`,
		message:                          `: "The"`,
		end:                              `: "no"`,
		confirm:                          `confirm: "Run?"`,
		`{"type":"bash","command":"ls"}`: `: "ls"`,
		`{"type":"response","command":"x","success":false,"error":"no"}`:                            `x: "no"`,
		`{"type":"tool_execution_start","toolCallId":"c","toolName":"bash","args":{"a":1}}`:         `bash: {"a":1}`,
		`{"type":"message_end","message":{"content":[{"type":"toolCall","id":"c","name":"bash"}]}}`: `bash: `,
	} {
		var m protocol.Message
		if err := pi.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, pi.Spec.Protocol, jsonscan.WellFormed) }
