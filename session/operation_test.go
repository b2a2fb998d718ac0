package session_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// operations lists a tracker's operations in the order of their beginning: KIND ID OUTCOME
// PARTS, then after + the ids of the exchanges that belong to each.
func operations(tr *session.Tracker) string {
	list := slices.SortedFunc(tr.Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) })
	var lines []string
	at := map[int64]int{}
	for _, e := range list {
		if e.Of != 0 {
			mark := "+"
			if e.Guessed {
				mark = "?"
			}
			lines[at[e.Of]] += fmt.Sprintf(" %s%s", mark, e.ID.Text)
			continue
		}
		at[e.First] = len(lines)
		line := fmt.Sprintf("%s %s %s %d", e.Kind, e.ID.Text, e.Outcome, e.Parts)
		if e.Kind == "turn" && e.Usage.Input > 0 {
			line += fmt.Sprintf(" [%d]", e.Usage.Input)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// An operation goes on after an answer that only accepts it, and ends with a later message.
func TestOperations(t *testing.T) {
	const one, two = "> init 0 1; < version 0 1; ", "> init 0 2; < version 0 2; "
	for _, test := range []struct{ about, protocol, script, want, found string }{
		{
			"the answer ends a turn of version 1", "acp", one + "> prompt 1 s; < update s; < ask 0 s; > result 0; < stop 1 end_turn; < update s; end",
			"initialize 0 done 0; session/prompt 1 done 1 +0", "",
		},
		{
			"the agent is idle at the end of a turn of version 2", "acp", two + "> prompt 1 s; < update s; < result 1; < ask 0 s; > result 0; < update s; < idle s end_turn; < update s; end",
			"initialize 0 done 0; session/prompt 1 done 3 +0", "",
		},
		{
			"it is idle before it answers", "acp", two + "> prompt 1 s; < idle s end_turn; < result 1; end",
			"initialize 0 done 0; session/prompt 1 done 1", "",
		},
		{
			"an error ends it", "acp", two + `> prompt 1 s; < {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}; end`,
			"initialize 0 done 0; session/prompt 1 failed 0", "",
		},
		{
			"two answers are one too many", "acp", two + "> prompt 1 s; < result 1; < result 1; < idle s end_turn; end",
			"initialize 0 done 0; session/prompt 1 done 1", "after-end",
		},
		{
			"a turn is cancelled", "acp", two + "> prompt 1 s; < result 1; > cancel s; < update s; < idle s cancelled; end",
			"initialize 0 done 0; session/prompt 1 cancelled 2", "",
		},
		{
			"a cancel is ignored", "acp", two + "> prompt 1 s; < result 1; > cancel s; < update s; +900; < idle s end_turn; end",
			"initialize 0 done 0; session/prompt 1 done 2", "cancel-ignored",
		},
		{
			"what was accepted cannot be withdrawn", "acp", two + "> prompt 1 s; < result 1; > withdraw 1; < idle s end_turn; end",
			"initialize 0 done 0; session/prompt 1 done 1", "",
		},
		{
			"the connection ends in a turn", "acp", two + "> prompt 1 s; < result 1; end",
			"initialize 0 done 0; session/prompt 1 abandoned 0", "unanswered",
		},
		{
			"more is accepted for a turn that has just ended", "codex", "> turn 1; < accept 1 a; > turn 2; < completed a completed; < accept 2 a; > turn 3; < accept 3 b; < completed b completed; end",
			"turn/start 1 done 0 +2; turn/start 3 done 0", "",
		},
		{
			"turn follows turn", "acp", two + "> prompt 1 s; < result 1; < idle s end_turn; > prompt 2 s; < update s; < result 2; < idle s end_turn; end",
			"initialize 0 done 0; session/prompt 1 done 1; session/prompt 2 done 2", "",
		},
		{
			"a version that is not known is judged as the newest", "acp", "> init 0 3; < version 0 3; > prompt 1 s; < result 1; < idle s end_turn; end",
			"initialize 0 done 0; session/prompt 1 done 1", "unknown-version",
		},

		{"a compaction lasts until its turn ends", "codex", "> compact 1 t; < result 1; < begins t a a; < delta a; < completed a completed; end", "thread/compact/start 1 done 2", ""},
		{"its turn begins before the answer", "codex", "> compact 1 t; < begins t a a; < delta a; < result 1; < completed a failed; end", "thread/compact/start 1 failed 2", ""},
		{"it is refused", "codex", "> compact 1 t; < error 1; < begins t a a; < completed a completed; end", `thread/compact/start 1 failed 0; turn "a" done 1`, ""},
		{"it is interrupted", "codex", "> compact 1 t; < result 1; < begins t a a; > interrupt 2 a; < result 2; < completed a interrupted; end", "thread/compact/start 1 cancelled 1 +2", ""},
		{"a turn of another thread", "codex", "> compact 1 t; < result 1; < begins u b b; < begins t a a; < completed b completed; < completed a completed; end", `thread/compact/start 1 done 1; turn "b" done 1`, ""},
		{"a turn that nobody requested", "codex", "> turn 1; < accept 1 a; < begins t a a; < completed a completed; < begins t b b; < delta b; < approve 0 b; > result 0; < completed b completed; end", `turn/start 1 done 1; turn "b" done 2 +0`, ""},
		{"and it never ends", "codex", "< begins t b b; < delta b; end; over", `turn "b" abandoned 2`, ""},
		{"two connections hear of it", "codex", "< begins t b b; #2; < begins t b b; < completed b completed; #1; < completed b completed; end", `turn "b" done 2`, ""},
		{"a turn that begins before it is accepted", "codex", "> turn 1; < begins t a a; < accept 1 a; < completed a completed; end", "turn/start 1 done 1", ""},
		{"a review has a turn inside", "codex", "> review 1; < accept 1 a; < begins t b a; < completed a completed; end", "review/start 1 done 0", ""},
		{"a command of the shell has a turn", "codex", "> shell 1; < result 1; < begins t a a; < completed a completed; end", "thread/shellCommand 1 done 1", ""},
		{"or joins the one that runs", "codex", "> turn 1; < accept 1 a; < begins t a a; > shell 2; < result 2; < completed a completed; end", "turn/start 1 done 1 +2", ""},

		{"a retry continues the operation", "mcp", "> tool 1 t x; < more 1 s; > again 2 t x s; < result 2; end", "tools/call 1 done 0 +2", ""},
		{"a retry that fails", "mcp", "> tool 1 t x; < more 1 s; > again 2 t x s; < unwell 2; end", "tools/call 1 tool-error 0 +2", ""},
		{"two rounds", "mcp", "> tool 1 t x; < more 1 s; > again 2 t x s; < more 2 r; > again 3 t x r; < result 3; end", "tools/call 1 done 0 +2 +3", ""},
		{"other arguments are no retry", "mcp", "> tool 1 t x; < more 1 s; > again 2 t y s; < result 2", "tools/call 1 open 0; tools/call 2 done 0", ""},
		{"two that are equal", "mcp", "> tool 1 t x; > tool 2 t x; < more 1 s; < more 2 s; > again 3 t x s; < result 3", "tools/call 1 done 0 ?3; tools/call 2 open 0", ""},
		{"a retry is cancelled", "mcp", "> tool 1 t x; < more 1 s; > again 2 t x s; > cancel 2", "tools/call 1 cancelled 0 +2", ""},
		{"a task ends when it is asked for", "mcp", "> tool 1 t x; < task 1 k; > poll 2 k; < status 2 k working; > poll 3 k; < status 3 k completed; > poll 4 k; < status 4 k completed", "tools/call 1 done 1 +2 +3 +4", ""},
		{"retries that differ in what they answer", "mcp", "> able 1 {\"roots\":{}}; > able 2 {\"roots\":{}}; < wants 1 a roots/list x; < wants 2 b roots/list x; > replies 3 b; > replies 4 a; < done 3; < done 4; end", "tools/call 1 done 0 +4; tools/call 2 done 0 +3", ""},
		{"nobody retries", "mcp", "> !line tool 1 t x; < !line more 1 s; end", "tools/call 1 abandoned 0", ""},
		{"nobody retries on another connection", "mcp", "> tool 1 t x; < more 1 s; end; #2; > again 2 t x s; < more 2 r; end; over", "tools/call 1 abandoned 0 +2", ""},
		{"a call is repeated when its headers are right", "mcp", "> new 1 tools/call; < code 1 -32020; > new 2 tools/list; < cached 2; > new 3 tools/call; < done 3; > new 4 tools/call; < done 4; end", "tools/call 1 done 0 ?3; tools/list 2 done 0; tools/call 4 done 0", ""},
		{"a call that is repeated goes on", "mcp", "> new 1 tools/call; < code 1 -32020; > new 3 tools/call; < type 3 input_required; > replies 5 k", "tools/call 1 failed 0; tools/call 3 open 0; tools/call 5 open 0", "wrong-retry"},
		{"a state that looks like the code of an error", "mcp", `> new 1 tools/call; < {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":-32020}}; > new 2 tools/call; < done 2`, "tools/call 1 open 0; tools/call 2 done 0", ""},
		{"another error is not repeated", "mcp", "> new 1 tools/call; < code 1 -32602; > new 3 tools/call; < done 3; end", "tools/call 1 failed 0; tools/call 3 done 0", ""},
		{"a result of a task of 2025-11-25", "mcp", "> tool 1 t x; < later 1 k; > await 2 k; < unwell 2; end", "tools/call 1 tool-error 0 +2", ""},
		{"nobody waits for it any longer", "mcp", "> tool 1 t x; < later 1 k; > await 2 k; > cancel 2; > await 3 k; < result 3; end", "tools/call 1 done 0 +2 +3", ""},
		{"a task that had ended", "mcp", "> tool 1 t x; < later 1 k; > poll 2 k; < status 2 k completed; > await 3 k; < unwell 3; end", "tools/call 1 done 0 +2 +3", ""},
		{"a subscription tells of tasks", "mcp", "> listen 0; > tool 1 t x; < task 1 k; < heard 0 k completed; end", "subscriptions/listen 0 abandoned 1; tools/call 1 done 0", ""},
		{"a task ends by itself", "mcp", "> tool 1 t x; < task 1 k; < tell k working; < tell k failed", "tools/call 1 failed 1", ""},
		{"a task is cancelled", "mcp", "> tool 1 t x; < task 1 k; > stop 2 k; < result 2; < tell k cancelled", "tools/call 1 cancelled 0 +2", ""},
		{"a server ends a subscription", "mcp", "> listen 1; < changed 1; < cancel 1; end", "subscriptions/listen 1 done 1", ""},
		{"and answers it", "mcp", "> listen 1; < cancel 1; < result 1; end", "subscriptions/listen 1 done 0", ""},

		{
			"a turn of copilot asks, and is answered", "copilot", "> send 1; < event assistant.message; < result 1 true; < hook 1; > result 1 true; < asks r; > answer 2 r; < completed r; < result 2 true; < event session.idle; < event session.usage_info; end",
			`session.send 1 done 3 +1 +"r" +2`, "",
		},
		{
			"an abort withdraws what was asked", "copilot", "> send 1; < result 1 true; < asks r; > abort 2; < completed r; < aborted; < result 2 true; end",
			`session.send 1 cancelled 2 +"r" +2`, "",
		},
		{
			"what fails ends as failed, unless it is aborted", "copilot", "> send 1; < result 1 true; < event session.error; < event session.idle; > send 2; < result 2 true; < event session.error; > abort 3; < result 3 true; < aborted; > send 4; < result 4 true; < event session.idle; end",
			"session.send 1 failed 2; session.send 2 cancelled 2 +3; session.send 4 done 1", "",
		},
		{
			"more is sent to a turn", "copilot", "> send 1; < result 1 true; > send 2; < result 2 true; < event session.idle; > send 3; < result 3 true; < event session.idle; end",
			"session.send 1 done 1 +2; session.send 3 done 1", "",
		},
		{
			"a turn of copilot that nobody has asked for", "copilot", "> send 1; < result 1 true; < event assistant.turn_start; < event assistant.turn_end; < event assistant.turn_start; < event session.idle; < event system.notification; < event assistant.turn_start; < usage 600; < event session.idle; > send 2; < event assistant.turn_start; < result 2 true; < event session.idle; end",
			"session.send 1 done 4; turn  done 3 [600]; session.send 2 done 2", "",
		},
		{
			"an abort drops what waits", "copilot", "> send 1; < named 1 a; < taken a; < event assistant.turn_start; > send 2; < named 2 b; > send 3; < named 3 c; < taken b; > abort 4; < aborted; < result 4 true; > send 5; < named 5 d; < taken d; < event session.idle; end",
			"session.send 1 cancelled 4 +2 +4; session.send 3 cancelled 0; session.send 5 done 2", "",
		},
		{"an abort comes before the answer to what waits", "copilot", "> send 1; < named 1 a; < taken a; > send 2; > abort 3; < aborted; < result 3 true; < named 2 b; end", "session.send 1 cancelled 2 +3; session.send 2 cancelled 0", ""},
		{"an older runtime gives no ids", "copilot", `> send 1; < result 1 true; < event user.message; > send 2; < result 2 true; > send 3; < result 3 true; < event user.message; > abort 4; < aborted; < result 4 true; end`, "session.send 1 cancelled 3 +2 +4; session.send 3 cancelled 0", ""},
		{"what waits is taken", "copilot", "> send 1; < named 1 a; < taken a; > send 2; < named 2 b; < taken b; < event session.idle; end", "session.send 1 done 3 +2", ""},
		{"a subagent of copilot is no turn", "copilot", `> send 1; < result 1 true; < event session.idle; < {"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":"assistant.turn_start","agentId":"x","data":{}}}}; end`, "session.send 1 done 1", ""},
		{"an answer that is no success", "copilot", "> send 1; < result 1 false; > answer 2 r; < result 2 false; end", "session.send 1 failed 0; session.permissions.handlePendingPermissionRequest 2 failed 0", ""},
		{
			"a command ends with its session, also one with an id that others have", "cdp", "> run 1 a; > run 1 b; > browser 1; < detached a; < result 1; < throws 1 b; end",
			"Runtime.evaluate 1 abandoned 0; Runtime.evaluate 1 tool-error 0; Browser.getVersion 1 done 0", "",
		},
		{"a command that was answered after all", "cdp", "> run 1 a; < detached a; < ran 1 a; end", "Runtime.evaluate 1 done 0", ""},
		{"a session that there is not", "cdp", "> run 1 a; < nosuch 1; end", "Runtime.evaluate 1 failed 0", ""},
		{"a turn of codex", "codex", "> turn 1; < accept 1 a; < delta a; < approve 1 a; > result 1; < resolved 1; < completed a completed; < delta a; end", "turn/start 1 done 1 +1", ""},
		{"a turn that fails", "codex", "> turn 1; < accept 1 a; < completed a failed; end", "turn/start 1 failed 0", ""},
		{"a turn that was not begun", "codex", "> turn 1; < error 1; end", "turn/start 1 failed 0", ""},
		{
			"an interrupt withdraws questions", "codex", "> turn 1; < accept 1 a; < approve 0 a; > interrupt 2 a; < result 2; < completed a interrupted; < resolved 0; > result 0; end",
			"turn/start 1 cancelled 0 +0 +2", "",
		},
		{"more of a turn", "codex", "> turn 1; < accept 1 a; > steer 2 a; < result 2; > turn 3; < accept 3 a; < completed a completed; end", "turn/start 1 done 0 +2 +3", ""},
		{"an interrupt that is ignored", "codex", "> turn 1; < accept 1 a; > interrupt 2 a; < result 2; < delta a; +900; < completed a completed; end", "turn/start 1 done 1 +2", "cancel-ignored"},

		{
			"one side tells of turns", "codex-exec", `< {"type":"turn.started"}; < {"type":"item.completed","item":{}}; < {"type":"turn.completed"}; < {"type":"turn.started"}; < {"type":"turn.failed"}; end`,
			"turn.started  done 1; turn.started  failed 0", "",
		},
		{"a task of a2a", "a2a", "> stream 1; < task 1 k SUBMITTED; < status 1 k WORKING; < chunk 1 k x; < last 1 k x; < status 1 k COMPLETED; complete; end", "SendStreamingMessage 1 done 3", ""},
		{"a message is not a task", "a2a", "> stream 1; < message 1; complete; > say 2; < message 2; end", "SendStreamingMessage 1 done 0; SendMessage 2 done 0", ""},
		{
			"a task that fails at once", "a2a", "> stream 1; < task 1 k FAILED; complete; > say 2; < task 2 j REJECTED; #2; > get 3 j; < bare 3 j REJECTED; > cancel 4 j; < error 4 -32002; end",
			"SendStreamingMessage 1 failed 0; SendMessage 2 failed 0 +3 +4", "",
		},
		{
			"input is given on another connection", "a2a", "> stream 1; < task 1 k SUBMITTED; < status 1 k INPUT_REQUIRED; complete; end; #2; > more 2 k; < status 2 k WORKING; < chunk 2 k x; < status 2 k COMPLETED; complete; end",
			"SendStreamingMessage 1 done 3 +2", "",
		},
		{
			"two streams of a task have the same parts", "a2a", "> stream 1; < task 1 k WORKING; < chunk 1 k x; #2; > subscribe 2 k; < full 2 k WORKING; < append 2 k x; #1; < append 1 k x; < last 1 k x; #2; < last 2 k x; < status 2 k COMPLETED; complete; #1; < status 1 k COMPLETED; complete; end; #2; end",
			"SendStreamingMessage 1 done 3 +2", "",
		},
		{
			"a stream is behind when the task ends on another", "a2a", "> stream 1; < task 1 k WORKING; #2; > subscribe 2 k; < task 2 k WORKING; < chunk 2 k x; < status 2 k CANCELED; complete; #1; < chunk 1 k x; < status 1 k CANCELED; complete; end; #2; end",
			"SendStreamingMessage 1 cancelled 1 +2", "",
		},
		{
			"a stream that is left does not end the task", "a2a", "> stream 1; < task 1 k WORKING; < chunk 1 k x; left; #2; > get 2 k; < bare 2 k WORKING; > subscribe 3 k; < full 3 k WORKING; < append 3 k x; < status 3 k COMPLETED; complete; end",
			"SendStreamingMessage 1 done 2 +2 +3", "",
		},
		{
			"a subscription that is left is not a request without an answer", "a2a", "> stream 1; < task 1 k WORKING; #2; > subscribe 2 k; < task 2 k WORKING; left; #1; < status 1 k COMPLETED; complete; end",
			"SendStreamingMessage 1 done 0 +2", "",
		},
		{"the task was not seen to begin", "a2a", "> subscribe 1 k; < full 1 k WORKING; < append 1 k x; #2; > cancel 2 k; < bare 2 k CANCELED; #1; < status 1 k CANCELED; complete; end; #2; end", "SubscribeToTask 1 cancelled 1 +2", ""},
		{"the answer to a cancel comes first", "a2a", "> stream 1; < task 1 k WORKING; #2; > cancel 2 k; < bare 2 k CANCELED; #1; < status 1 k CANCELED; complete; #2; > cancel 3 k; < bare 3 k CANCELED; > get 4 k; < bare 4 k CANCELED; end; #1; end", "SendStreamingMessage 1 cancelled 0 +2 +3 +4", ""},
		{"a cancel that is refused", "a2a", "> stream 1; < task 1 k WORKING; #2; > cancel 2 k; < error 2 -32002; #1; < chunk 1 k x; < status 1 k COMPLETED; complete; end; #2; end", "SendStreamingMessage 1 done 1 +2", ""},
		{"a cancel of what there is not", "a2a", "> cancel 1 k; < error 1 -32001; > cancel 2 j; < bare 2 j CANCELED; end", "CancelTask 1 failed 0; CancelTask 2 done 0", ""},
		{"a request about a task that was not seen", "a2a", "> get 1 k; < bare 1 k WORKING; end", "GetTask 1 done 0", ""},
		{"the server ends the connection", "a2a", "> stream 1; end", "SendStreamingMessage 1 abandoned 0", "unanswered"},
		{"a task of version 0.3", "a2a", "> old 1; < oldtask 1 k submitted; < oldstatus 1 k working false; < oldstatus 1 k completed true; complete; end", "message/stream 1 done 1", ""},

		{"a prompt of pi", "pi", "> prompt a; < ok a prompt; < event agent_start; < word; < ask u; > yes u; < word; < agent stop; end", `prompt "a" done 2 +"u"`, ""},
		{"commands without ids", "pi", "> say; < fine prompt; > command get_state; < word; < fine get_state; > command abort; < agent aborted; < fine abort; > say; < fine prompt; < agent stop; end", "prompt  cancelled 1 +; get_state  done 0; prompt  done 0", ""},
		{"more for an agent that runs", "pi", "> prompt a; < ok a prompt; > named b steer; < ok b steer; > prompt c; < ok c prompt; > prompt d; < no d prompt; < agent stop; end", `prompt "a" done 0 +"b" +"c"; prompt "d" failed 0`, ""},
		{"pi tries again", "pi", "> prompt a; < ok a prompt; < agent error; < event auto_retry_start; < event agent_start; < word; < agent stop; end", `prompt "a" done 1`, ""},
		{"pi tries again in vain", "pi", "> prompt a; < ok a prompt; < agent error; < event auto_retry_start; < agent error; < gaveup overloaded; end", `prompt "a" failed 0`, ""},
		{"pi does not try again", "pi", "> prompt a; < ok a prompt; < agent error; > prompt b; < ok b prompt; < agent error; end", `prompt "a" failed 0; prompt "b" failed 0`, ""},
		{"a retry of pi is aborted while it waits", "pi", `> prompt a; < ok a prompt; < agent error; < event auto_retry_start; > named b abort; < {"type":"auto_retry_end","success":false,"finalError":"Retry cancelled"}; < ok b abort; end`, `prompt "a" cancelled 0 +"b"`, ""},
		{"pi compacts before it tries again", "pi", "> prompt a; < ok a prompt; < agent error; < event compaction_start; < full true; < word; < agent stop; > prompt b; < ok b prompt; < agent error; < event compaction_start; < full false; end", `prompt "a" done 1; prompt "b" failed 0`, ""},
		{"an agent of pi that runs by itself", "pi", "> prompt a; < ok a prompt; < event agent_start; < word; < agent stop; < event agent_start; < word; < spent 600; < agent stop; > prompt b; < ok b prompt; < event agent_start; < word; < agent stop; end", `prompt "a" done 1; turn  done 1 [600]; prompt "b" done 1`, ""},
		{"and is joined, and aborted", "pi", "< event agent_start; < word; > prompt a; < ok a prompt; > named b abort; < agent aborted; < ok b abort; end", `turn  cancelled 1 +"a" +"b"`, ""},
		{"an agent of pi that starts before the answer", "pi", "> prompt a; < event agent_start; < ok a prompt; < word; < agent stop; > say; < event agent_start; < fine prompt; < word; < agent stop; end", `prompt "a" done 1; prompt  done 1`, ""},
		{"an agent of pi that starts again", "pi", "> prompt a; < ok a prompt; < event agent_start; < agent error; < event auto_retry_start; < event agent_start; < word; < agent stop; end", `prompt "a" done 1`, ""},
		{"an abort of nothing", "pi", "> named a abort; < ok a abort; end", `abort "a" done 0`, ""},
		{"an abort that is ignored", "pi", "> prompt a; < ok a prompt; > named b abort; +900; < agent stop; < ok b abort; end", `prompt "a" done 0 +"b"`, "cancel-ignored"},
		{"an abort without an end", "pi", "> prompt a; < ok a prompt; > named b abort; < ok b abort; end", `prompt "a" abandoned 0 +"b"`, "cancel-silent"},
		{"a call that has not begun", "pi", "> prompt a; < ok a prompt; < tool start; < tool update; < tool end; < tool update; < agent stop; end", `prompt "a" done 4`, "unknown-step"},
		{"a question without an answer, and an answer to nothing", "pi", "> prompt a; < ok a prompt; < ask u; < agent stop; < ok z prompt; end", `prompt "a" done 0 +"u"`, "orphan"},
		{
			"turns of claude are answered in order", "claude", "> user; > user; < assistant; < ask q; > success q; < result false completed; < result true api_error; end",
			`user  done 1 +"q"; user  failed 0`, "",
		},
		{"older versions do not say that a turn was interrupted", "claude", "> user; < assistant; > interrupt i; < success i; +900; < broken; > user; < broken; end", "user  cancelled 1 +\"i\"; user  failed 0", ""},
		{
			"an interrupt withdraws a question that is answered late", "claude", "> user; < ask q; > interrupt i; < withdraw q; < success i; < result true aborted_tools; > success q; end",
			`user  cancelled 0 +"q" +"i"`, "",
		},
		{"an interrupt of nothing", "claude", "> interrupt i; < success i; end", `control_request/interrupt "i" done 0`, ""},
		{"an answer to nothing", "claude", "> user; < success q; < result false completed; > withdraw z; end", "user  done 0", "orphan cancel-unknown"},
	} {
		tr := play(t, test.protocol, test.script, session.Options{})
		if got := operations(tr); got != test.want {
			t.Errorf("%s: %s\n got  %q\n want %q", test.about, test.script, got, test.want)
		}
		var found []string
		for f := range tr.Findings() {
			found = append(found, f.Name)
		}
		if got := strings.Join(found, " "); got != test.found {
			t.Errorf("%s: %s\n found %q, want %q", test.about, test.script, got, test.found)
		}
	}
}

// Operations that never end need no more memory as a session goes on.
func TestEndlessOperationsAreBounded(t *testing.T) {
	for name, script := range map[string]string{
		"codex":  "> turn %d; < accept %d t%d; < started t%d i%d; < used t%d %d",
		"acp":    "> prompt %d s%d; < result %d; < chunk s%d",
		"claude": `> {"type":"user","uuid":"u%d","message":{"role":"user","content":"x"}}`,
		"a2a":    "> stream %d; < task %d k%d WORKING; < chunk %d k%d x%d",
		"mcp":    `> able 1%d {"extensions":{"io.modelcontextprotocol/tasks":{}}}; < task 1%d k%d; > new 2%d tools/call; < type 2%d input_required; > subscribe 3%d {"toolsListChanged":true}; < agreed 3%d {"toolsListChanged":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := all.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			tr := session.New(p, session.Options{History: 64, InFlight: 64})
			if name == "acp" {
				feedScript(t, tr, p, "> init 0 2; < version 0 2")
			}
			if name == "codex" {
				for i := range 1 << 14 { // fills the table of steps
					feedScript(t, tr, p, fmt.Sprintf("< started t i%d", -i))
				}
			}
			next := 1
			feed := func() uint64 {
				for range 3000 {
					next++
					feedScript(t, tr, p, strings.ReplaceAll(script, "%d", fmt.Sprint(next)))
				}
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			feed()
			full := feed()
			if more := feed(); more > full+256<<10 {
				t.Errorf("%d bytes grew to %d", full, more)
			}
			if s := tr.Stats(); s.Forgotten == 0 || s.InFlight > 64 {
				t.Errorf("%d are in flight and %d forgotten", s.InFlight, s.Forgotten)
			}
		})
	}
}

// feedScript feeds a tracker with the messages of a script.
func feedScript(t *testing.T, tr *session.Tracker, p protocol.Protocol, script string) {
	t.Helper()
	for part := range strings.SplitSeq(script, "; ") {
		dir := frame.C2U
		if part[0] == '<' {
			dir = frame.U2C
		}
		send(t, tr, p, session.Frame{Conn: 1, Dir: dir}, strings.Fields(part[2:]))
	}
}
