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
//	#CONN         what follows is on that connection, or with #CONN/STREAM on a stream of it
//	end           the connection ends
//	over          the session ends
//	left          the same, and the controller has ended it
//	died          the same, and the unit has
//	unstarted     the unit did not start
//	lingers       the input of the unit has ended, and it keeps running in silence
//	between NAME  the last frame was recorded at two ends, and that was found
//	complete      the answer to what was asked on it is complete
//
// Frames are numbered from 1.

// meta26 is what every request of MCP 2026-07-28 has.
const meta26 = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// verbs are short names of messages, by protocol; %1 is the first argument.
var verbs = map[string]map[string]string{
	"openai": {
		"ask":    `{"model":"m","messages":[]}`,
		"answer": `{"object":"chat.completion","model":"m","choices":[]}`,
	},
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
		"call":      `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"t%1"}}}`,
		"ping":      `{"jsonrpc":"2.0","id":%1,"method":"ping"}`,
		"giveup":    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%1,"reason":"%2"}}`,
		"separated": "{\"jsonrpc\":\"2.0\",\"id\":%1,\"method\":\"a\u2028b\"}",
		"tool":      `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"%2","arguments":{"a":"%3"}}}`,
		"again":     `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"%2","requestState":"%4","arguments":{"a":"%3"}}}`,
		"more":      `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"input_required","requestState":"%2"}}`,
		"task":      `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"task","taskId":"%2","status":"working"}}`,
		"poll":      `{"jsonrpc":"2.0","id":%1,"method":"tasks/get","params":{"taskId":"%2"}}`,
		"status":    `{"jsonrpc":"2.0","id":%1,"result":{"taskId":"%2","status":"%3"}}`,
		"tell":      `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"%1","status":"%2"}}`,
		"heard":     `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"%2","status":"%3","_meta":{"io.modelcontextprotocol/subscriptionId":%1}}}`,
		"stop":      `{"jsonrpc":"2.0","id":%1,"method":"tasks/cancel","params":{"taskId":"%2"}}`,
		"listen":    `{"jsonrpc":"2.0","id":%1,"method":"subscriptions/listen","params":{}}`,
		"changed":   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%1}}}`,
		"unwell":    `{"jsonrpc":"2.0","id":%1,"result":{"content":[],"isError":true}}`,
		"new":       `{"jsonrpc":"2.0","id":%1,"method":"%2","params":{"name":"n",` + meta26 + `}}`,
		"able":      `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%2}}}`,
		"logged":    `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"}}}`,
		"subscribe": `{"jsonrpc":"2.0","id":%1,"method":"subscriptions/listen","params":{"notifications":%2,` + meta26 + `}}`,
		"agreed":    `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%1},"notifications":%2}}`,
		"log":       `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`,
		"unnamed":   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"done":      `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"complete"}}`,
		"type":      `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"%2","requestState":"s"}}`,
		"cached":    `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private"}}`,
		"wants":     `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"input_required","inputRequests":{"%2":{"method":"%3","params":{"mode":"%4"}}}}}`,
		"replies":   `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"n","inputResponses":{"%2":{}},` + meta26 + `}}`,
		"code":      `{"jsonrpc":"2.0","id":%1,"error":{"code":%2,"message":"m"}}`,
		"begin":     `{"jsonrpc":"2.0","id":%1,"method":"initialize","params":{"protocolVersion":"%2"}}`,
		"needs":     `{"jsonrpc":"2.0","id":%1,"result":{"taskId":"%2","status":"input_required","inputRequests":{"%3":{"method":"roots/list"}}}}`,
		"tells":     `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"%1","status":"input_required","inputRequests":{"%2":{"method":"roots/list"}}}}`,
		"supply":    `{"jsonrpc":"2.0","id":%1,"method":"tasks/update","params":{"taskId":"%2","inputResponses":{"%3":{}}}}`,
		"serves":    `{"jsonrpc":"2.0","id":%1,"result":{"protocolVersion":"%2","capabilities":{"%3":{}}}}`,
		"visit":     `{"jsonrpc":"2.0","id":%1,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url"%2}}}}}`,
		"begun":     `{"jsonrpc":"2.0","id":%1,"result":{"protocolVersion":"%2"}}`,
		"has":       `{"jsonrpc":"2.0","id":%1,"method":"initialize","params":{"protocolVersion":"%2","capabilities":%3}}`,
		"sample":    `{"jsonrpc":"2.0","id":%1,"method":"sampling/createMessage","params":%2}`,
		"roots":     `{"jsonrpc":"2.0","id":%1,"method":"roots/list"}`,
		"ready":     `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"list":      `{"jsonrpc":"2.0","id":%1,"method":"tools/list"}`,
		"elicit":    `{"jsonrpc":"2.0","id":%1,"method":"elicitation/create","params":{}}`,
		"later":     `{"jsonrpc":"2.0","id":%1,"result":{"task":{"taskId":"%2","status":"working"}}}`,
		"await":     `{"jsonrpc":"2.0","id":%1,"method":"tasks/result","params":{"taskId":"%2"}}`,
		"cancel":    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%1}}`,
		"progress":  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t%1","progress":1}}`,
		"result":    `{"jsonrpc":"2.0","id":%1,"result":{}}`,
		"error":     `{"jsonrpc":"2.0","id":%1,"error":{"code":-32000,"message":"m"}}`,
	},
	"acp": {
		"prompt":   `{"jsonrpc":"2.0","id":%1,"method":"session/prompt","params":{"sessionId":"%2","prompt":[]}}`,
		"permit":   `{"jsonrpc":"2.0","id":%1,"method":"session/request_permission","params":{}}`,
		"update":   `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"plan"}}}`,
		"cancel":   `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"%1"}}`,
		"stop":     `{"jsonrpc":"2.0","id":%1,"result":{"stopReason":"%2"}}`,
		"version":  `{"jsonrpc":"2.0","id":%1,"result":{"protocolVersion":%2}}`,
		"init":     `{"jsonrpc":"2.0","id":%1,"method":"initialize","params":{"protocolVersion":%2}}`,
		"idle":     `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"%2"}}}`,
		"ask":      `{"jsonrpc":"2.0","id":%1,"method":"session/request_permission","params":{"sessionId":"%2"}}`,
		"tool":     `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"%2","toolCallId":"%3"}}}`,
		"offer":    `{"jsonrpc":"2.0","id":%1,"method":"session/request_permission","params":{"sessionId":"%2","options":[{"optionId":"%3"},{"optionId":"no"}]}}`,
		"choose":   `{"jsonrpc":"2.0","id":%1,"result":{"outcome":{"outcome":"selected","optionId":"%2"}}}`,
		"refuse":   `{"jsonrpc":"2.0","id":%1,"result":{"outcome":{"outcome":"cancelled"}}}`,
		"says":     `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`,
		"chunk":    `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"x"}}}}`,
		"touse":    `{"jsonrpc":"2.0","id":%1,"method":"session/request_permission","params":{"sessionId":"%2","toolCall":{"toolCallId":"%3"}}}`,
		"agent":    `{"jsonrpc":"2.0","id":%1,"result":{"protocolVersion":%2,"agentInfo":{"name":"%3","version":"%4"}}}`,
		"info":     `{"jsonrpc":"2.0","id":%1,"result":{"protocolVersion":%2,"info":{"name":"%3","version":"1"}}}`,
		"new":      `{"jsonrpc":"2.0","id":%1,"method":"session/new","params":{}}`,
		"made":     `{"jsonrpc":"2.0","id":%1,"result":{"sessionId":"%2"}}`,
		"counts":   `{"jsonrpc":"2.0","id":%1,"result":{"stopReason":"end_turn","usage":{"outputTokens":%3,"totalTokens":%2}}}`,
		"counted":  `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","usage":{"outputTokens":%3,"totalTokens":%2}}}}`,
		"quota":    `{"jsonrpc":"2.0","id":%1,"result":{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":%2,"output_tokens":%3},"model_usage":[{"model":"m","token_count":{"input_tokens":1,"output_tokens":1}}]}}}}`,
		"withdraw": `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%1}}`,
		"result":   `{"jsonrpc":"2.0","id":%1,"result":{}}`,
	},
	"agui": {
		"run":      `{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[]}`,
		"finished": `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
	},
	"pi": {
		"prompt":  `{"id":"%1","type":"prompt","message":"x"}`,
		"say":     `{"type":"prompt","message":"x"}`,
		"command": `{"type":"%1"}`,
		"named":   `{"id":"%1","type":"%2","message":"x"}`,
		"ok":      `{"id":"%1","type":"response","command":"%2","success":true}`,
		"fine":    `{"type":"response","command":"%1","success":true}`,
		"no":      `{"id":"%1","type":"response","command":"%2","success":false,"error":"no"}`,
		"spent":   `{"type":"message_end","message":{"role":"assistant","usage":{"input":%1,"output":0,"cacheRead":0,"cacheWrite":0}}}`,
		"word":    `{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"x"}}`,
		"event":   `{"type":"%1"}`,
		"agent":   `{"type":"agent_end","messages":[{"role":"assistant","stopReason":"%1"}]}`,
		"gaveup":  `{"type":"auto_retry_end","success":false,"finalError":"%1"}`,
		"full":    `{"type":"compaction_end","reason":"overflow","willRetry":%1}`,
		"tool":    `{"type":"tool_execution_%1","toolCallId":"c","toolName":"bash"}`,
		"ask":     `{"type":"extension_ui_request","id":"%1","method":"confirm","title":"t"}`,
		"yes":     `{"type":"extension_ui_response","id":"%1","confirmed":true}`,
	},
	"codex": {
		"turn":      `{"id":%1,"method":"turn/start","params":{"threadId":"t","input":[]}}`,
		"accept":    `{"id":%1,"result":{"turn":{"id":"%2","status":"inProgress"}}}`,
		"delta":     `{"method":"item/agentMessage/delta","params":{"turnId":"%1","delta":"x"}}`,
		"interrupt": `{"id":%1,"method":"turn/interrupt","params":{"turnId":"%2"}}`,
		"steer":     `{"id":%1,"method":"turn/steer","params":{"expectedTurnId":"%2"}}`,
		"approve":   `{"id":%1,"method":"item/fileChange/requestApproval","params":{"turnId":"%2"}}`,
		"resolved":  `{"method":"serverRequest/resolved","params":{"requestId":%1}}`,
		"used":      `{"method":"thread/tokenUsage/updated","params":{"threadId":"t","turnId":"%1","tokenUsage":{"total":{"inputTokens":%2},"last":{"inputTokens":1}}}}`,
		"init":      `{"id":%1,"method":"initialize","params":{"clientInfo":{"name":"n"}}}`,
		"started":   `{"method":"item/started","params":{"turnId":"%1","item":{"type":"agentMessage","id":"%2"}}}`,
		"says":      `{"method":"item/agentMessage/delta","params":{"turnId":"%1","itemId":"%2","delta":"x"}}`,
		"said":      `{"method":"item/completed","params":{"turnId":"%1","item":{"type":"agentMessage","id":"%2"}}}`,
		"reverted":  `{"method":"thread/reverted","params":{"threadId":"t"}}`,
		"completed": `{"method":"turn/completed","params":{"turn":{"id":"%1","status":"%2"}}}`,
		"begins":    `{"method":"turn/started","params":{"threadId":"%1","turn":{"id":"%2","rootTurnId":"%3","status":"inProgress"}}}`,
		"compact":   `{"id":%1,"method":"thread/compact/start","params":{"threadId":"%2"}}`,
		"shell":     `{"id":%1,"method":"thread/shellCommand","params":{"threadId":"t","command":"ls"}}`,
		"review":    `{"id":%1,"method":"review/start","params":{"threadId":"t","target":{"type":"uncommittedChanges"}}}`,
		"result":    `{"id":%1,"result":{}}`,
		"error":     `{"error":{"code":-32600,"message":"m"},"id":%1}`,
	},
	"copilot": {
		"send":      `{"jsonrpc":"2.0","id":%1,"method":"session.send","params":{"sessionId":"s","prompt":"x"}}`,
		"abort":     `{"jsonrpc":"2.0","id":%1,"method":"session.abort","params":{"sessionId":"s"}}`,
		"answer":    `{"jsonrpc":"2.0","id":%1,"method":"session.permissions.handlePendingPermissionRequest","params":{"sessionId":"s","requestId":"%2","result":{"kind":"reject"}}}`,
		"hook":      `{"jsonrpc":"2.0","id":%1,"method":"hooks.invoke","params":{"sessionId":"s","hookType":"preToolUse"}}`,
		"result":    `{"jsonrpc":"2.0","id":%1,"result":{"success":%2}}`,
		"asks":      `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"permission.requested","data":{"requestId":"%1"}}}}`,
		"completed": `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"permission.completed","data":{"requestId":"%1"}}}}`,
		"tool":      `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"tool.execution_%1","data":{"toolCallId":"%2"}}}}`,
		"event":     `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"%1","data":{}}}}`,
		"named":     `{"jsonrpc":"2.0","id":%1,"result":{"messageId":"%2"}}`,
		"taken":     `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"user.message","data":{"content":"x","messageId":"%1"}}}}`,
		"usage":     `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"assistant.usage","data":{"inputTokens":%1}}}}`,
		"aborted":   `{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"session.idle","data":{"aborted":true}}}}`,
	},
	"cdp": {
		"run":      `{"id":%1,"method":"Runtime.evaluate","sessionId":"%2"}`,
		"ran":      `{"id":%1,"result":{},"sessionId":"%2"}`,
		"browser":  `{"id":%1,"method":"Browser.getVersion"}`,
		"result":   `{"id":%1,"result":{}}`,
		"nosuch":   `{"id":%1,"error":{"code":-32001,"message":"Session with given id not found."}}`,
		"throws":   `{"id":%1,"result":{"exceptionDetails":{"text":"Uncaught"}},"sessionId":"%2"}`,
		"attached": `{"method":"Target.attachedToTarget","params":{"sessionId":"%1"}}`,
		"detached": `{"method":"Target.detachedFromTarget","params":{"sessionId":"%1"}}`,
		"close":    `{"id":%1,"method":"Browser.close"}`,
	},
	"bidi": {
		"do":    `{"id":%1,"method":"browsingContext.navigate","params":{"context":"c","url":"u"}}`,
		"done":  `{"type":"success","id":%1,"result":{}}`,
		"fails": `{"type":"error","id":%1,"error":"no such frame","message":"m"}`,
		"event": `{"type":"event","method":"browsingContext.load","params":{"context":"c"}}`,
		"new":   `{"id":%1,"method":"session.new","params":{"capabilities":{}}}`,
		"begun": `{"type":"success","id":%1,"result":{"sessionId":"%2","capabilities":{}}}`,
		"end":   `{"id":%1,"method":"session.end","params":{}}`,
	},
	"a2a": {
		"say":       `{"jsonrpc":"2.0","id":%1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","parts":[]}}}`,
		"stream":    `{"jsonrpc":"2.0","id":%1,"method":"SendStreamingMessage","params":{"message":{"role":"ROLE_USER","parts":[]}}}`,
		"more":      `{"jsonrpc":"2.0","id":%1,"method":"SendStreamingMessage","params":{"message":{"taskId":"%2","parts":[]}}}`,
		"subscribe": `{"jsonrpc":"2.0","id":%1,"method":"SubscribeToTask","params":{"id":"%2"}}`,
		"get":       `{"jsonrpc":"2.0","id":%1,"method":"GetTask","params":{"id":"%2"}}`,
		"cancel":    `{"jsonrpc":"2.0","id":%1,"method":"CancelTask","params":{"id":"%2"}}`,
		"old":       `{"jsonrpc":"2.0","id":%1,"method":"message/stream","params":{"message":{"kind":"message","parts":[]}}}`,
		"message":   `{"jsonrpc":"2.0","id":%1,"result":{"message":{"role":"ROLE_AGENT","parts":[]}}}`,
		"task":      `{"jsonrpc":"2.0","id":%1,"result":{"task":{"id":"%2","contextId":"c","status":{"state":"TASK_STATE_%3"}}}}`,
		"bare":      `{"jsonrpc":"2.0","id":%1,"result":{"id":"%2","contextId":"c","status":{"state":"TASK_STATE_%3"}}}`,
		"full":      `{"jsonrpc":"2.0","id":%1,"result":{"task":{"id":"%2","status":{"state":"TASK_STATE_%3"},"artifacts":[{"artifactId":"x"}]}}}`,
		"status":    `{"jsonrpc":"2.0","id":%1,"result":{"statusUpdate":{"taskId":"%2","contextId":"c","status":{"state":"TASK_STATE_%3"}}}}`,
		"moved":     `{"jsonrpc":"2.0","id":%1,"result":{"statusUpdate":{"taskId":"%2","contextId":"%3","status":{"state":"TASK_STATE_WORKING"}}}}`,
		"chunk":     `{"jsonrpc":"2.0","id":%1,"result":{"artifactUpdate":{"taskId":"%2","contextId":"c","artifact":{"artifactId":"%3"}}}}`,
		"append":    `{"jsonrpc":"2.0","id":%1,"result":{"artifactUpdate":{"taskId":"%2","contextId":"c","artifact":{"artifactId":"%3"},"append":true}}}`,
		"last":      `{"jsonrpc":"2.0","id":%1,"result":{"artifactUpdate":{"taskId":"%2","contextId":"c","artifact":{"artifactId":"%3"},"append":true,"lastChunk":true}}}`,
		"oldtask":   `{"jsonrpc":"2.0","id":%1,"result":{"kind":"task","id":"%2","contextId":"c","status":{"state":"%3"}}}`,
		"oldstatus": `{"jsonrpc":"2.0","id":%1,"result":{"kind":"status-update","taskId":"%2","contextId":"c","status":{"state":"%3"},"final":%4}}`,
		"error":     `{"jsonrpc":"2.0","id":%1,"error":{"code":%2,"message":"m"}}`,
	},
	"claude": {
		"user":      `{"type":"user","message":{"role":"user","content":"x"}}`,
		"assistant": `{"type":"assistant","message":{"content":[]},"session_id":"s","uuid":"u"}`,
		"subagent":  `{"type":"assistant","message":{"content":[]},"parent_tool_use_id":"toolu_1","session_id":"s","uuid":"u"}`,
		"init":      `{"type":"system","subtype":"init","session_id":"s"}`,
		"prompt":    `{"type":"user","message":{"role":"user","content":"x"},"uuid":"%1"}`,
		"for":       `{"type":"user","message":{"role":"user","content":"x"},"origin":{"kind":"%1"}}`,
		"life":      `{"type":"command_lifecycle","command_uuid":"%1","state":"%2","session_id":"s"}`,
		"used":      `{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","session_id":"s","usage":{"input_tokens":%1}}`,
		"aborted":   `{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","session_id":"s","usage":{"input_tokens":%1}}`,
		"broken":    `{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s"}`,
		"answers":   `{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","session_id":"s","usage":{"input_tokens":%1},"user_message_uuids":%2}`,
		"own":       `{"type":"result","subtype":"success","is_error":%1,"terminal_reason":"%2","session_id":"s","usage":{"input_tokens":%3},"origin":{"kind":"%4"}}`,
		"stopall":   `{"type":"control_request","request_id":"%1","request":{"subtype":"interrupt","cancel_queued":true}}`,
		"receipt":   `{"type":"control_response","response":{"subtype":"success","request_id":"%1","response":%2}}`,
		"recall":    `{"type":"control_request","request_id":"%1","request":{"subtype":"cancel_async_message","message_uuid":"%2"}}`,
		"leave":     `{"type":"control_request","request_id":"%1","request":{"subtype":"end_session"}}`,
		"models":    `{"type":"result","subtype":"success","is_error":false,"session_id":"%1","usage":{"input_tokens":%2},"modelUsage":{"m":{"inputTokens":%3,"cacheReadInputTokens":1},"n":{"outputTokens":2}},"total_cost_usd":%4}`,
		"since":     `{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{"input_tokens":%1},"model_usage_since_last_result":{"m":{"inputTokens":%2,"costUSD":%3}},"modelUsage":{"m":{"inputTokens":%4}},"total_cost_usd":%5}`,
		"cleared":   `{"type":"result","subtype":"success","is_error":false,"session_id":"%1","local_command":"clear","usage":{"input_tokens":0},"modelUsage":{},"total_cost_usd":0}`,
		"result":    `{"type":"result","subtype":"success","is_error":%1,"terminal_reason":"%2","session_id":"s"}`,
		"block":     `{"type":"stream_event","event":{"type":"content_block_%1","index":%2},"session_id":"s","parent_tool_use_id":%3}`,
		"costs":     `{"type":"result","subtype":"success","is_error":false,"total_cost_usd":%1,"session_id":"s"}`,
		"ask":       `{"type":"control_request","request_id":"%1","request":{"subtype":"can_use_tool","tool_name":"Bash"}}`,
		"interrupt": `{"type":"control_request","request_id":"%1","request":{"subtype":"interrupt"}}`,
		"success":   `{"type":"control_response","response":{"subtype":"success","request_id":"%1"}}`,
		"withdraw":  `{"type":"control_cancel_request","request_id":"%1"}`,
	},
	"lsp": {
		"exit":     `{"jsonrpc":"2.0","method":"exit"}`,
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

// faults are frames without a message, and one with a flawed message.
var faults = map[string]session.Frame{
	"!oversize":  {Gap: true, Fault: &frame.Error{Err: frame.ErrTooLarge}},
	"!truncated": {Gap: true, Fault: &frame.Error{Err: frame.ErrTruncated}},
	"!gap":       {Gap: true, Fault: &frame.Error{Err: frame.ErrMalformed}},
	"!blank":     {Gap: true},
}

// framings are the framings of a plain stream, by the word that sets one for a message.
var framings = map[string]frame.Framing{"!line": frame.Line, "!header": frame.Header, "!len32": frame.Len32, "!nul": frame.Nul}

// began is when scripts begin.
var began = time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)

// named returns the protocol of that name.
func named(t testing.TB, name string) protocol.Protocol {
	t.Helper()
	p, err := all.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// play feeds a script to a tracker.
func play(t testing.TB, protocolName, script string, o session.Options) *session.Tracker {
	t.Helper()
	tr := session.New(named(t, protocolName), o)
	playOn(t, tr, protocolName, script)
	return tr
}

// playOn feeds a script to a tracker that may have seen others. The edits change each frame
// that has a payload.
func playOn(t testing.TB, tr *session.Tracker, protocolName, script string, edits ...func(*session.Frame)) {
	t.Helper()
	p := named(t, protocolName)
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
			conn, stream, _ := strings.Cut(words[0][1:], "/")
			scan(t, conn, &f.Conn)
			if f.Stream = 0; stream != "" {
				scan(t, stream, &f.Stream)
			}
		case words[0] == "over":
			tr.Abandon(f.Time)
		case words[0] == "end":
			tr.End(f.Conn, f.Time)
		case words[0] == "left":
			tr.EndBy(f.Conn, session.Ending{First: frame.C2U}, f.Time)
		case words[0] == "died":
			tr.EndBy(f.Conn, session.Ending{First: frame.U2C, Died: true, How: "exited with status 3", Stderr: []string{"boom"}}, f.Time)
		case words[0] == "unstarted":
			tr.Unstarted(f.Conn, "command not found", f.Time)
		case words[0] == "lingers":
			tr.Linger(f.Conn, "the unit keeps running")
		case words[0] == "between":
			tr.Between(words[1], f.Conn, f.Seq, "it was")
		case words[0] == "complete":
			tr.EndResponse(session.Response{Conn: f.Conn, Stream: f.Stream, At: f.Time, How: "200"})
		default:
			f.Seq++
			f.Time = f.Time.Add(time.Millisecond)
			f.Dir = map[string]frame.Dir{">": frame.C2U, "<": frame.U2C}[words[0]]
			send(t, tr, p, f, words[1:], edits...)
		}
	}
}

func scan(t testing.TB, text string, v any) {
	t.Helper()
	if _, err := fmt.Sscan(text, v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// send feeds the message that words describe.
func send(t testing.TB, tr *session.Tracker, p protocol.Protocol, f session.Frame, words []string, edits ...func(*session.Frame)) {
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
	if words[0] == "!breaks" { // FINDING, found by the reader of the carrier
		f.Broken = []protocol.Broken{{Finding: words[1], How: "x"}}
		words = words[2:]
	}
	if words[0] == "!http" { // VERB VERSION METHOD NAME SESSIONLESS; - means none
		field := func(i int) string { return strings.Trim(words[i], "-") }
		f.Stated = &protocol.Stated{Verb: words[1], Version: strings.Replace(words[2], "none", "", 1), Method: field(3), Name: field(4), Sessionless: words[5] == "lacks"}
		f.Version = f.Stated.Version
		words = words[6:]
		if len(words) == 0 {
			tr.Judge(f)
			return
		}
	}
	if framing, ok := framings[words[0]]; ok {
		f.Framing, words = framing, words[1:]
	}
	f.Payload = payload(t, p, words)
	for _, edit := range edits {
		edit(&f)
	}
	f.Size = len(f.Payload)
	var m protocol.Message
	if err := p.Parse(f.Payload, &m); err != nil {
		f.Fault = err
		tr.Feed(f, nil)
		return
	}
	tr.Feed(f, &m)
}

// payload returns the bytes that words describe: those of a verb, or the words themselves.
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
