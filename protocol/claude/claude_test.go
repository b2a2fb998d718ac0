package claude_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	prompt    = `{"type":"user","message":{"role":"user","content":"hi"},"parent_tool_use_id":null,"session_id":""}`
	assistant = `{"type":"assistant","message":{"id":"msg_1","content":[]},"session_id":"s","uuid":"u"}`
	result    = `{"duration_api_ms":3,"subtype":"success","is_error":false,"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2},"total_cost_usd":0.048083999999999995,"session_id":"s","type":"result"}`
	ask       = `{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}`
	interrupt = `{"request_id":"i","type":"control_request","request":{"subtype":"interrupt"}}`
	withdraw  = `{"type":"control_cancel_request","request_id":"q"}`
)

func TestVectors(t *testing.T) { prototest.Vectors(t, claude.Spec.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, claude.Spec.Protocol, []prototest.Case{
		{prompt, `user open from=c2u`},
		{`{"type":"user","message":{"role":"user","content":[]},"session_id":"s"}`, `user part from=u2c ref-space=turn`},
		{assistant, `assistant part from=u2c ref-space=turn queue=part`},
		{`{"type":"stream_event","event":{"type":"message_stop"},"session_id":"s"}`, `stream_event part from=u2c ref-space=turn label=message_stop queue=part`},
		{`{"type":"system","subtype":"init","session_id":"s"}`, `system/init part from=u2c ref-space=turn queue=open`},
		{`{"type":"system","subtype":"news","session_id":"s"}`, `system/news part from=u2c ref-space=turn`},
		{`{"type":"news","session_id":"s"}`, `news part from=u2c ref-space=turn`},
		{`{"type":"keep_alive"}`, `keep_alive note`},

		{result, `result/success close from=u2c ref-space=turn usage={17 4 2} cost=48084`},
		{`{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error"}`, `result/success fail from=u2c ref-space=turn label=api_error`},
		{`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"}`, `result/error_during_execution cancelled from=u2c ref-space=turn label=aborted_tools`},
		{`{"type":"result","subtype":"success","is_error":false,"origin":{"kind":"task-notification"}}`, `result/success close from=u2c ref-space=turn own=task-notification`},
		{`{"type":"result","subtype":"success","is_error":false,"user_message_uuid":"b","user_message_uuids":["a","b"],"origin":{"kind":"human"}}`, `result/success close from=u2c ref-space=turn names=["a","b"]`},
		{`{"type":"result","subtype":"success","is_error":false,"user_message_uuid":"b"}`, `result/success close from=u2c ref-space=turn names="b"`},
		{`{"type":"result","subtype":"success","is_error":false,"local_command":"clear","session_id":"s"}`, `result/success close from=u2c ref-space=turn`},

		{`{"type":"user","message":{"role":"user","content":"hi"},"uuid":"a","origin":{"kind":"channel","server":"x"}}`, `user open from=c2u bind="a" bind-space=turn own=channel`},
		{`{"type":"assistant","message":{"content":[]},"parent_tool_use_id":"t","session_id":"s"}`, `assistant part from=u2c ref-space=turn`},
		{`{"type":"command_lifecycle","command_uuid":"a","state":"queued","uuid":"u","session_id":"s"}`, `command_lifecycle part from=u2c ref="a" ref-space=turn empty=true queue=open queue-of="a"`},
		{`{"type":"command_lifecycle","command_uuid":"a","state":"started","uuid":"u","session_id":"s"}`, `command_lifecycle part from=u2c ref="a" ref-space=turn empty=true queue=part queue-of="a"`},
		{`{"type":"command_lifecycle","command_uuid":"a","state":"discarded","uuid":"u","session_id":"s"}`, `command_lifecycle part from=u2c ref="a" ref-space=turn empty=true queue=cancelled queue-of="a"`},
		{`{"type":"control_request","request_id":"c","request":{"subtype":"interrupt","cancel_queued":true}}`, `control_request/interrupt cancel from=c2u id="c" ref-space=turn empties=true`},
		{`{"type":"control_request","request_id":"c","request":{"subtype":"cancel_async_message","message_uuid":"a"}}`, `control_request/cancel_async_message cancel from=c2u id="c" ref="a" ref-space=turn`},
		{`{"type":"control_request","request_id":"c","request":{"subtype":"end_session"}}`, `control_request/end_session open from=c2u id="c" empties=true`},
		{`{"type":"control_request","request_id":"c","request":{"subtype":"get_session_cost"}}`, `control_request/get_session_cost open id="c"`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"c","response":{"still_queued":["a"],"cancelled":["b"]}}}`, `control_response/success close id="c" names=["a"]`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"c","response":{"cancelled":true,"message_uuid":"a"}}}`, `control_response/success close id="c" queue=cancelled`},
		{`{"type":"conversation_reset","new_conversation_id":"n","user_message_uuid":"u","session_id":"s"}`, `conversation_reset note from=u2c`},

		{ask, `control_request/can_use_tool open from=u2c id="q" label=Bash does=open of-space=turn`},
		{interrupt, `control_request/interrupt cancel from=c2u id="i" ref-space=turn`},
		{withdraw, `control_cancel_request cancel ref="q" ref-space=id`},
		{`{"type":"control_request","request_id":"m","request":{"subtype":"mcp_message","message":{"method":"tools/call"}}}`, `control_request/mcp_message open id="m" label=tools/call does=open of-space=turn`},
		{`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","input":{"hook_event_name":"Stop"}}}`, `control_request/hook_callback open from=u2c id="h" label=Stop does=open of-space=turn`},
		{`{"type":"control_request","request_id":"n","request":{"subtype":"news"}}`, `control_request/news open id="n"`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"q"}}`, `control_response/success close id="q"`},
		{`{"type":"control_response","response":{"subtype":"error","request_id":"q","error":"no"}}`, `control_response/error fail id="q"`},

		{`{"type":"control_request","request":{"subtype":"initialize"}}`, `control_request/initialize open faults=missing-field`},
		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
		{`{"type":1}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		prompt: `: "hi"`,
		ask:    `Bash: {"command":"ls"}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`:                                                               `: "hi"`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"done"}]},"session_id":"s"}`:                                                `tool_result: "done"`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{"a":1}},{"type":"text","text":"x"}]},"session_id":"s"}`:     `Write: {"a":1}`,
		`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"}]},"session_id":"s"}`:                                               `thinking: "hm"`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}},"session_id":"s"}`:                        `content_block_delta: "x"`,
		`{"type":"system","subtype":"session_state_changed","state":"idle","session_id":"s"}`:                                                             `: "idle"`,
		`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","input":{"session_id":"s","hook_event_name":"Stop"}}}`:           `Stop: `,
		`{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_input":{"a":1}}}}`: `PreToolUse: {"a":1}`,
		`{"type":"control_request","request_id":"m","request":{"subtype":"mcp_message","message":{"method":"tools/call","params":{"name":"n"}}}}`:         `tools/call: {"name":"n"}`,
		`{"type":"control_request","request_id":"m","request":{"subtype":"set_model","model":"x"}}`:                                                       `: "x"`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"behavior":"deny","message":"no"}}}`:                     `deny: {"behavior":"deny","message":"no"}`,
		`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","session_id":"s"}`:                         `aborted_tools: `,
		`{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"done","session_id":"s"}`:                           `: "done"`,
	} {
		var m protocol.Message
		if err := claude.Spec.Protocol.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, claude.Spec.Protocol, prompt, assistant, result, ask, interrupt, withdraw)
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, claude.Spec.Protocol, prompt, assistant, ask, interrupt, withdraw)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, claude.Spec.Protocol, jsonscan.WellFormed) }

// Messages of MCP travel in control requests, and in the answers to them.
func TestNestedIn(t *testing.T) {
	for payload, want := range map[string]string{
		`{"type":"control_request","request_id":"a","request":{"subtype":"mcp_message","server_name":"s","message":{"method":"ping","id":2}}}`: `"a" s {"method":"ping","id":2} asks`,
		`{"request":{"message":{"method":"n"},"server_name":"s","subtype":"mcp_message"},"request_id":"a","type":"control_request"}`:           `"a" s {"method":"n"}`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"mcp_response":{"id":2,"result":{}}}}}`:       `"a" answer {"id":2,"result":{}}`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"a"}}`:                                                        `"a" answer`,
		`{"type":"control_request","request_id":"a","request":{"subtype":"mcp_message","server_name":"s","message":{"id":2,"result":{}}}}`:     `"a" s {"id":2,"result":{}}`,
		`{"type":"control_request","request_id":"a","request":{"subtype":"x","message":{"id":2}}}`:                                             "",
		`{"type":"user","message":{"role":"user","id":1}}`:                                                                                     "",
	} {
		n := claude.Spec.Nested([]byte(payload))
		got := ""
		if n != nil {
			words := []string{string(n.Request)}
			if n.Answer {
				words = append(words, "answer")
			}
			if n.Server != nil {
				words = append(words, string(n.Server))
			}
			if n.Message != nil {
				words = append(words, string(n.Message))
			}
			if n.Asks {
				words = append(words, "asks")
			}
			got = strings.Join(words, " ")
		}
		if got != want {
			t.Errorf("%s\n got  %s\n want %s", payload, got, want)
		}
	}
}
