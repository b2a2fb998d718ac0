package session_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A turn that begins in frame 3.
const (
	codexTurn = "> init 0; < result 0; > turn 1; < accept 1 a; "
	acpPrompt = "> init 0 1; < version 0 1; > prompt 1 s; "
)

// findings are sessions that break a rule, each paired with a similar one that breaks
// none.
var findings = []struct {
	name, protocol string
	broken, at     string // the script, and the frames that the finding is about
	well           string
}{
	{"orphan", "latis", "> prompt 1; < complete 2; < complete 1; end", "2", "> prompt 2; < complete 2; end"},
	{"orphan", "jsonrpc", "> call 1; < result 1.0; < result 1; end", "2", "> call 1.0; < result 1.0; end"},
	{"orphan", "mcp", `> call 1; < {"jsonrpc":"2.0","id":"1","result":{}}; < result 1; end`, "2", `> ping "1"; < result "1"; end`},
	{"orphan", "mcp", "> call 1; < progress 2; < result 1; end", "2", "> call 1; < progress 1; < result 1; end"},
	{"orphan", "mcp", "> call 0; > result 0; < result 0; end", "2", "> call 0; < ping 0; > result 0; < result 0; end"},
	{"orphan", "lsp", "> hover 1; < result 2; < result 1; end", "2", "< progress 9; > stop 9; > hover 1; < result 1; < progress 1; end"},
	{"orphan", "acp", "> prompt 1 s; < result 2; < stop 1 end_turn; end", "2", "< update s; > prompt 1 s; < stop 1 end_turn; < update s; > cancel q; end"},
	{"orphan", "dap", "> request 7; < response 1 1; < response 2 7; end", "2", "> request 7; < response 1 7; end"},
	{"orphan", "rlm", "> ask a; < answer b; < answer a; end", "2", "> ask a; < answer a; end"},
	{"orphan", "rlm", "> ask a; < answer a; < null; end", "3", "> ask a; < null; end"},
	{"orphan", "rlm", "> ask a; < answer a; < null; > ask b; < answer b; end", "3", "> ask a; < null; > ask b; < answer b; end"},
	{"orphan", "nexus", "> send 1 a; < result 1; < null; end", "3", "> send 1 a; < null; end"},
	{"orphan", "theory", "> run a; < ack a; < event b; < final a; end", "3", "> run a; < ack a; < token; < final a; end"},

	{"orphan", "bidi", "> do 1; < done 2; < done 1; end", "2", "> do 1; > do 2; < done 2; < event; < fails 1; end"},
	{"orphan", "cdp", "> run 1 a; < ran 2 a; < ran 1 a; end", "2", "> run 1 a; > run 1 b; < ran 1 b; < ran 1 a; end"},
	{"orphan", "cdp", "> run 1 a; < ran 1 b; < ran 1 a; end", "2", "> run 1 a; < nosuch 1; > browser 1; < result 1; end"},

	{"after-end", "cdp", "< attached a; < detached a; +300; > run 1 a; < nosuch 1; end", "2 3", "< attached a; < detached a; > run 1 a; < nosuch 1; end"},
	{"after-end", "cdp", "> run 1 a; < ran 1 a; < ran 1 a; end", "1 2 3", "< attached a; > run 1 a; < detached a; < ran 1 a; end"},
	{"after-end", "latis", "> prompt 1; < complete 1; < error 1; end", "1 2 3", "> prompt 1; < error 1; > prompt 1; < complete 1; end"},
	{"after-end", "latis", "> prompt 1; < complete 1; < chunk 1 0; end", "1 2 3", "> prompt 1; < chunk 1 0; < complete 1; end"},
	{"after-end", "mcp", "> call 1; < result 1; < error 1; end", "1 2 3", "> call 1; < error 1; end"},
	{"after-end", "theory", "> run a; < ack a; < final a; < token; end", "1 3 4", "> run a; < ack a; < token; < final a; end"},
	{"after-end", "latis", "> subscribe 1; > unsubscribe 2; < ack 2; < update 1; end", "1 3 4", "> subscribe 1; > get 3; < update 1; < update 3; < update 1; > unsubscribe 2; < ack 2; end"},

	{"after-end", "a2a", "> stream 1; < task 1 k COMPLETED; < chunk 1 k x; end", "1 2 3", "> stream 1; < task 1 k WORKING; < chunk 1 k x; < status 1 k COMPLETED; end"},
	{"after-end", "a2a", "> stream 1; < message 1; < message 1; end", "1 2 3", "> stream 1; < message 1; end"},
	{"after-end", "a2a", "> say 1; < task 1 k COMPLETED; > more 2 k; < task 2 k WORKING; < status 2 k COMPLETED; complete; end", "1 2 3 4", "> say 1; < task 1 k COMPLETED; > more 2 k; < error 2 -32004; > more 3 k; < task 3 j WORKING; < status 3 j COMPLETED; complete; end"},

	{"late-part", "mcp", "> call 1; < result 1; < progress 1; end", "1 2 3", "> call 1; < progress 1; < result 1; end"},

	{"duplicate-id", "bidi", "> do 1; > do 1; < done 1; < done 1; end", "1 2", "> do 1; < done 1; > do 1; < fails 1; end"},
	{"duplicate-id", "cdp", "> run 1 a; > run 1 a; < ran 1 a; < ran 1 a; end", "1 2", "> run 1 a; > run 1 b; > browser 1; < ran 1 b; < result 1; < ran 1 a; end"},
	{"duplicate-id", "latis", "> prompt 1; > prompt 1; < complete 1; < complete 1; end", "1 2", "> prompt 1; < complete 1; > prompt 1; < complete 1; end"},
	{"duplicate-id", "mcp", "> call 0; > call 0; < result 0; < result 0; end", "1 2", "> call 0; < ping 0; < result 0; > result 0; end"},
	{"duplicate-id", "theory", "> run a; < ack a; > run a; < ack a; < final a; < ack a; < final a; end", "1 3", "> run a; < ack a; < final a; #2; > run a; < ack a; < final a; end"},
	{"duplicate-id", "dap", "> request 1; > request 1; < response 1 1; < response 2 1; end", "1 2", "> request 1; > request 2; < response 1 2; < response 2 1; end"},

	{"sequence-gap", "latis", "> prompt 1; < chunk 1 0; < chunk 1 2; < chunk 1 3; < complete 1; end", "1 3", "> prompt 1; < chunk 1 0; < chunk 1 1; < complete 1; end"},
	{"sequence-gap", "latis", "> prompt 1; < chunk 1 1; < complete 1; end", "1 2", "> prompt 1; < complete 1; end"},
	{"sequence-repeat", "latis", "> prompt 1; < chunk 1 0; < chunk 1 0; < chunk 1 1; < complete 1; end", "1 3", "> prompt 1; > prompt 2; < chunk 1 0; < chunk 2 0; < error 2; < complete 1; end"},

	{"sequence-gap", "a2a", "> stream 1; < task 1 k WORKING; < append 1 k x; < status 1 k COMPLETED; end", "1 3", "> stream 1; < full 1 k WORKING; < append 1 k x; < status 1 k COMPLETED; end"},
	{"sequence-repeat", "a2a", "> stream 1; < task 1 k WORKING; < chunk 1 k x; < last 1 k x; < append 1 k x; < status 1 k COMPLETED; end", "1 5", "> stream 1; < task 1 k WORKING; < chunk 1 k x; < last 1 k x; < chunk 1 k x; < append 1 k x; < status 1 k COMPLETED; end"},
	{"other-operation", "a2a", "> stream 1; < task 1 k WORKING; < chunk 1 j x; < status 1 k COMPLETED; end", "1 3", "> stream 1; < task 1 k WORKING; #2; > stream 1; < task 1 j WORKING; < chunk 1 j x; < status 1 j COMPLETED; #1; < status 1 k COMPLETED; end"},
	{"other-operation", "a2a", "> stream 1; < task 1 k WORKING; < moved 1 k d; < status 1 k COMPLETED; end", "1 3", "> stream 1; < task 1 k WORKING; < moved 1 k c; < status 1 k COMPLETED; end"},
	{"unstated-version", "a2a", "> !http POST none - - - stream 1; < message 1; end", "1", "> stream 1; < message 1; #2; > !http POST none - - - old 1; < oldtask 1 k completed; end"},
	{"open-stream", "a2a", "#1/1; > stream 1; < task 1 k WORKING; < status 1 k COMPLETED; +2000; left", "1 3", "#1/1; > stream 1; < task 1 k WORKING; < status 1 k COMPLETED; +900; left; #2/1; > stream 1; < message 1; complete; +2000; left; #3/1; > stream 1; < message 1; +2000; end"},
	{"mixed-versions", "a2a", "> stream 1; < oldtask 1 k completed; end", "1 2", "> old 1; < oldtask 1 k completed; end"},
	{"missing-ack", "a2a", "> stream 1; < status 1 k WORKING; < status 1 k COMPLETED; end", "1 2", "> old 1; < oldstatus 1 k working false; < oldstatus 1 k completed true; > more 2 j; < status 2 j WORKING; < status 2 j COMPLETED; end"},
	{"missing-field", "a2a", "> old 1; < oldtask 1 k working; < oldstatus 1 k completed false; end", "3", "> old 1; < oldtask 1 k working; < oldstatus 1 k completed true; end"},
	{"unknown-step", "codex", codexTurn + "< says a i; < completed a completed; end", "3 5", codexTurn + "< started a i; < says a i; < says b j; < completed a completed; end"},
	{"unknown-step", "codex", codexTurn + "< started a i; < said a i; < says a i; < completed a completed; end", "3 7", codexTurn + "< started a i; < says a i; < said a i; < completed a completed; end"},
	{"unknown-step", "codex", codexTurn + "< started a i; #2; < says a j; #1; < says a k; < completed a completed; end", "3 7", "> turn 1; < accept 1 a; < says a j; < completed a completed; end"},
	{"unknown-step", "acp", acpPrompt + "< tool s tool_call_update c; < stop 1 end_turn; end", "3 4", acpPrompt + "< tool s tool_call c; < tool s tool_call_update c; < stop 1 end_turn; > prompt 2 s; < tool s tool_call_update c; < stop 2 end_turn; end"},
	{"unknown-step", "acp", acpPrompt + "< tool s tool_call c; < tool s tool_call_update d; < stop 1 end_turn; end", "3 5", "> init 0 2; < version 0 2; > prompt 1 s; < result 1; < tool s tool_call_update c; < idle s end_turn; end"},
	{"unknown-step", "acp", acpPrompt + "< tool s tool_call_update c; < touse 0 s c; > result 0; < tool s tool_call_update c; < stop 1 end_turn; end", "3 4", acpPrompt + "< touse 0 s c; > result 0; < tool s tool_call_update c; < stop 1 end_turn; end"},

	{"unknown-step", "claude", "> user; < block start 0 null; < block stop 0 null; < block delta 0 null; < result false completed; end", "1 4", "> user; < block start 0 null; < block delta 0 null; < block stop 0 null; < block start 0 null; < block delta 0 null; < result false completed; end"},
	{"unknown-step", "claude", "> user; < block delta 1 null; < result false completed; end", "1 2", `> user; < block delta 1 "t"; < result false completed; end`},

	{"unknown-step", "copilot", "> send 1; < result 1 true; < tool partial_result c; < event session.idle; end", "1 3", "> send 1; < result 1 true; < tool start c; < tool partial_result c; < tool complete c; < event session.idle; end"},
	{"wrong-side", "bidi", "> event; end", "1", "< event; > do 1; < done 1; end"},
	{"wrong-side", "cdp", "> detached a; end", "1", "> browser 1; < result 1; end"},
	{"wrong-side", "copilot", "> event session.idle; end", "1", "> send 1; < result 1 true; < event session.idle; end"},
	{"wrong-side", "latis", "< ping 1; > pong 1; end", "1; 2", "> ping 1; < pong 1; end"},
	{"wrong-side", "theory", "> run a; < ack a; > event a; < final a; end", "3", "> run a; < ack a; < final a; end"},

	{"unanswered", "bidi", "> do 1; end", "1", "> new 1; < begun 1 s; > do 2; > end 3; < done 3; end"},
	{"unanswered", "cdp", "< attached a; > run 1 a; end", "2", "< attached a; > run 1 a; < detached a; > browser 2; < throws 1 a; > close 3; < result 2; < result 3; end"},
	{"unanswered", "copilot", "> send 1; < result 1 true; end", "1", "> send 1; < result 1 true; < event session.error; < event session.idle; end"},
	{"unanswered", "copilot", "> send 1; < result 1 true; < asks r; < event session.idle; end", "3", "> send 1; < result 1 true; < asks r; < completed r; < event session.idle; end"},
	{"unanswered", "latis", "> prompt 1; < chunk 1 0; end", "1", "> subscribe 1; < update 1; > cancel 2 1; < cancelled 1; end"},
	{"unanswered", "mcp", "> call 1; end", "1", "> call 1; < error 1; end"},
	{"unanswered", "rlm", "> ask a; > ask a; < answer a; end", "2", "> ask a; > ask a; < answer a; < fail a; end"},
	{"unanswered", "nexus", "> send 1 a; > cancel 2 a; < cut 1; end", "2", "> send 1 a; > cancel 2 a; < cut 1; < ok 2; end"},
	{"unanswered", "dap", "> request 1; end", "1", "> request 1; < response 1 1; end"},
	{"died-with-open-requests", "mcp", "> call 1; > ping 2; < ping 7; > call 3; < result 2; > result 7; died", "1 4", "> call 1; < result 1; died"},
	{"died-with-open-requests", "latis", "> subscribe 1; > prompt 2; #2; > prompt 1; < complete 1; #1; died", "2", "> subscribe 1; > prompt 2; < update 1; < complete 2; died"},
	{"died-with-open-requests", "lsp", "> hover 1; died", "1", "> hover 1; < result 1; > exit; died"},
	{"not-started", "mcp", "unstarted; end", "", "> call 1; < result 1; end"},
	{"not-started", "codex", "unstarted; end", "", "end"},
	{"lost-between", "mcp", "> call 1; between lost-between; < result 1; end", "1", "> call 1; < result 1; end"},
	{"changed-between", "mcp", "> call 1; < result 1; between changed-between; end", "2", "> call 1; between orphan; < result 1; end"},
	{"delayed-between", "openai", "> ask; between delayed-between", "1", "> ask"},
	{"ignores-eof", "mcp", "> call 1; < result 1; < ping 7; lingers; > result 7; end", "3", "> call 1; lingers; < result 1; end"},
	{"ignores-eof", "mcp", "> call 1; > cancel 1; lingers; end", "2", "> call 1; < task 1 k; lingers; < tell k completed; end"},
	{"ignores-eof", "mcp", "> listen 1; #2; > call 1; #1; lingers; #2; < result 1; end", "1", "> call 1; < result 1; end; lingers"},
	{"no-final", "theory", "> run a; < ack a; < event a; end", "1", "> run a; < ack a; < event a; < final a; end"},

	{"request-timeout", "mcp", "> call 1; +5000; > giveup 1 timeout; end", "1 2", "> call 1; +5000; > giveup 1 bored; > call 2; < result 2; > giveup 2 timeout; end"},
	{"unknown-version", "acp", "> init 0 3; < version 0 3; end", "2", "> init 0 2; < version 0 2; end"},
	{"wrong-framing", "mcp", "> !header call 1; < !header result 1; > !header ping 2; < !header result 2; end", "1; 2", "> !line call 1; < !line result 1; > !len32 ping 2; < !len32 result 2; end"},
	{"wrong-framing", "mcp", "> !line call 1; < !line Content-Length: 40; < !line result 1; end", "2", "> !line call 1; < !line result 1; end"},
	{"wrong-framing", "cdp", "> !line browser 1; < !nul result 1; end", "1", "> !nul browser 1; < !nul result 1; end"},
	{"wrong-framing", "copilot", "> !line send 1; < !header result 1 true; < !header event session.idle; end", "1", "> !header send 1; < !header result 1 true; < !header event session.idle; end"},
	{"wrong-framing", "lsp", "> !line hover 1; < !header result 1; end", "1", "> !header hover 1; < !header result 1; end"},
	{"unknown-version", "mcp", "> begin 0 2027-01-01; < begun 0 2027-01-01; end", "2", "> begin 0 2027-01-01; < begun 0 2025-11-25; end"},
	{"unknown-version", "mcp", "> begin 0 2027-01-01; < begun 0 2027-01-01; < elicit 7; > result 7; end", "2", "> begin 0 2025-11-25; < begun 0 2025-11-25; < elicit 7; > result 7; end"},
	{"unknown-version", "mcp", "#1/1; > !http POST 2027-01-01 tools/list - - list 1; < result 1; #2/1; > !http POST 2027-01-01 tools/list - - list 2; < result 2; end", "2", "> list 1; < result 1; end"},
	{"unknown-version", "a2a", "> !http POST 2.0 - - - stream 1; < task 1 k COMPLETED; end", "2", "> !http POST 1.0 - - - stream 1; < task 1 k COMPLETED; end"},
	{"unknown-version", "mcp", "> !http POST 2027-01-01 tools/list - - list 1; < result 1; end", "2", "> !http POST 2027-01-01 tools/list - - list 1; < code 1 -32022; end"}, // refused

	// MCP 2026-07-28
	{"missing-field", "mcp", "> new 1 tools/call; < done 1; > list 2; < cached 2; end", "3; 3", "> new 1 tools/call; < done 1; > new 2 tools/list; < cached 2; end"},
	{"missing-field", "mcp", "> new 1 tools/call; < result 1; end", "1 2", "> new 1 tools/call; < done 1; end"},
	{"missing-field", "mcp", "> begin 0 2025-11-25; < begun 0 2025-11-25; > new 1 tools/call; < result 1; end", "3 4", "> begin 0 2025-11-25; < begun 0 2025-11-25; > call 1; < result 1; end"},
	{"missing-field", "mcp", "> new 1 tools/list; < done 1; end", "1 2", "> new 1 tools/list; < cached 1; end"},
	{"missing-field", "mcp", `> new 1 tools/call; < {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}; > new 2 tools/call; < done 2; end`, "1 2", "> new 1 tools/call; < type 1 input_required; > new 2 tools/call; < done 2; end"},
	{"missing-field", "mcp", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < unnamed; end`, "3", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < changed 1; end`},
	{"wrong-result", "mcp", "> new 1 tools/call; < type 1 odd; end", "1 2", "> new 1 tools/call; < type 1 complete; end"},
	{"wrong-result", "mcp", "> new 1 completion/complete; < type 1 input_required; end", "1 2", "> new 1 prompts/get; < type 1 input_required; end"},
	{"wrong-result", "mcp", "> new 1 tasks/get; < type 1 task; end", "1 2", "> new 1 tasks/get; < type 1 complete; end"},
	{"undeclared", "mcp", "> new 1 tools/call; < wants 1 k elicitation/create form; end", "1 2", `> able 1 {"elicitation":{}}; < wants 1 k elicitation/create form; end`},
	{"undeclared", "mcp", `> able 1 {"elicitation":{"form":{}}}; < wants 1 k elicitation/create url; end`, "1 2", `> able 1 {"elicitation":{"url":{}}}; < wants 1 k elicitation/create url; end`},
	{"undeclared", "mcp", "> new 1 tools/call; < wants 1 k sampling/createMessage x; end", "1 2", `> able 1 {"sampling":{}}; < wants 1 k sampling/createMessage x; end`},
	{"undeclared", "mcp", "> new 1 tools/call; < task 1 k; end", "1 2", `> able 1 {"extensions":{"io.modelcontextprotocol/tasks":{}}}; < task 1 k; end`},
	{"undeclared", "mcp", "> new 1 tools/call; < log; < done 1; end", "2", "> logged 1; < log; < done 1; end"},
	{"undeclared", "mcp", "> begin 0 2025-11-25; < serves 0 2025-11-25 tools; > ready; < log; end", "4", "> begin 0 2025-11-25; < serves 0 2025-11-25 logging; > ready; < log; end"},
	{"undeclared", "mcp", "> begin 0 2024-11-05; < serves 0 2024-11-05 tools; > ready; > call 1; < log; < result 1; end", "5", "> begin 0 2024-11-05; < begun 0 2024-11-05; > call 1; < log; < result 1; end"},
	{"wrong-version", "mcp", `> able 1 {"elicitation":{"url":{}}}; < visit 1 ,"elicitationId":"e"; end`, "1 2", `> able 1 {"elicitation":{"url":{}}}; < visit 1 ,"url":"u"; end`},
	{"undeclared", "mcp", `> has 0 2025-11-25 {"roots":{}}; < begun 0 2025-11-25; > ready; < sample 7 {}; > error 7; end`, "4", `> has 0 2025-11-25 {"roots":{},"sampling":{}}; < begun 0 2025-11-25; > ready; < sample 7 {}; > error 7; < roots 8; > error 8; end`},
	{"undeclared", "mcp", `> has 0 2024-11-05 {}; < begun 0 2024-11-05; > ready; < roots 7; > error 7; end`, "4", `< roots 7; > error 7; > has 0 2024-11-05 {}; < begun 0 2024-11-05; > ready; < ping 7; > result 7; end`},
	{"undeclared", "mcp", `> has 0 2025-06-18 {"sampling":{}}; < begun 0 2025-06-18; > ready; < elicit 7; > error 7; end`, "4", `> has 0 2025-06-18 {"elicitation":{"url":{}}}; < begun 0 2025-06-18; > ready; < elicit 7; > result 7; end`},
	{"undeclared", "mcp", `> has 0 2025-11-25 {"elicitation":{"url":{}}}; < begun 0 2025-11-25; > ready; < elicit 7; > error 7; end`, "4", `> has 0 2025-11-25 {"elicitation":{}}; < begun 0 2025-11-25; > ready; < elicit 7; > result 7; end`},
	{"undeclared", "mcp", `> has 0 2025-11-25 {"sampling":{}}; < begun 0 2025-11-25; > ready; < sample 7 {"tools":[]}; > error 7; end`, "4", `> has 0 2025-11-25 {"sampling":{"tools":{}}}; < begun 0 2025-11-25; > ready; < sample 7 {"tools":[]}; > result 7; end`},
	{"wrong-response", "mcp", "> begin 0 2025-11-25; < begun 0 2025-11-25; > ready; < !breaks wrong-response log; end", "4", "> begin 0 2025-11-25; < begun 0 2025-11-25; > ready; end"},
	{"ended-session", "mcp", "> !breaks ended-session call 1; < result 1; end", "1", "> call 1; < result 1; end"},
	{"undeclared", "mcp", `> subscribe 1 {"promptsListChanged":true}; < agreed 1 {"promptsListChanged":true}; < changed 1; end`, "1 3", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < changed 1; end`},
	{"undeclared", "mcp", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {}; < changed 1; end`, "1 3", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < changed 1; end`},
	{"missing-ack", "mcp", `> subscribe 1 {"toolsListChanged":true}; < changed 1; end`, "1 2", `> subscribe 1 {"toolsListChanged":true}; < error 1; end`},
	{"orphan", "mcp", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < changed 2; end`, "3", `> subscribe 1 {"toolsListChanged":true}; < agreed 1 {"toolsListChanged":true}; < changed 1; end`},
	{"wrong-version", "mcp", "> new 1 resources/subscribe; < error 1; end", "1", "> begin 0 2025-11-25; < begun 0 2025-11-25; > list 1; < result 1; end"},
	{"wrong-version", "mcp", "> new 1 initialize; < error 1; end", "1", "> new 1 server/discover; < error 1; > begin 2 2025-11-25; < begun 2 2025-11-25; end"},
	{"wrong-version", "mcp", "> new 1 tools/call; < elicit 7; < done 1", "2", "> begin 0 2025-11-25; < begun 0 2025-11-25; > call 1; < elicit 7; > result 7; < result 1; end"},
	{"wrong-version", "mcp", "> new 1 tools/call; < code 1 -32002; end", "1 2", "> new 1 tools/call; < code 1 -32602; end"},
	{"wrong-version", "mcp", "> new 1 tools/call; < code 1 -32050; end", "1 2", "> new 1 tools/call; < code 1 -32001; end"},
	{"wrong-version", "mcp", "> !http GET 2026-07-28 - - -; end", "1", "> !http GET 2025-11-25 - - -; end"},
	{"wrong-version", "mcp", "> !http DELETE 2026-07-28 - - -; end", "1", "> !http DELETE none - - -; end"},
	{"wrong-side", "mcp", `> new 1 tools/call; < {"jsonrpc":"2.0","id":7,"method":"x/y"}; < done 1`, "2", `> begin 0 2025-11-25; < begun 0 2025-11-25; < {"jsonrpc":"2.0","id":7,"method":"x/y"}; > result 7; end`},
	{"wrong-side", "mcp", "> new 1 tools/call; > result 1; < done 1; end", "2", "> new 1 tools/call; < done 1; end"},
	{"cancel-unknown", "mcp", "> new 1 tools/call; < !line cancel 1; < done 1; end", "2", "> subscribe 1 {}; < !line agreed 1 {}; < !line cancel 1; end"},
	{"wrong-retry", "mcp", "> new 1 tools/call; < type 1 input_required; > replies 2 k; < done 2; end", "1 3", "> able 1 {\"roots\":{}}; < wants 1 k roots/list x; > replies 2 k; < done 2; end"},
	{"wrong-retry", "mcp", "> able 1 {\"roots\":{}}; < wants 1 k roots/list x; > replies 2 j; < done 2; end", "1 3", "> able 1 {\"roots\":{}}; < wants 1 j roots/list x; > replies 2 j; < done 2; end"},
	{"wrong-retry", "mcp", "> !line tool 1 t x; < !line task 1 k; > !line poll 2 k; < !line needs 2 k a; > !line supply 3 k b; < !line result 3; > !line poll 4 k; < !line status 4 k completed; end", "1 5", "> !line tool 1 t x; < !line task 1 k; > !line poll 2 k; < !line needs 2 k a; < !line tells k b; > !line supply 3 k b; < !line result 3; > !line poll 4 k; < !line status 4 k completed; end"},
	{"wrong-retry", "mcp", "> !line tool 1 t x; < !line task 1 k; > !line supply 3 k b; < !line result 3; > !line poll 4 k; < !line status 4 k completed; end", "1 3", "> !line tool 1 t x; < !line task 1 k; > supply 3 k b; < !line result 3; > !line poll 4 k; < !line status 4 k completed; end"},
	{"wrong-retry", "mcp", "> tool 1 t x; < more 1 s; > again 1 t x s; < result 1; end", "1 3", "> tool 1 t x; < more 1 s; > again 2 t x s; < result 2; end"},
	{"wrong-retry", "mcp", "> tool 1 t x; < more 1 s; > again 2 t x r; < result 2; end", "1 3", "> tool 1 t x; < more 1 s; > again 2 t y r; < result 2; end"},
	{"after-end", "mcp", "> tool 1 t x; < task 1 k; > poll 2 k; < status 2 k completed; > poll 3 k; < status 3 k working; end", "1 4 6", "> tool 1 t x; < task 1 k; > poll 2 k; > poll 3 k; < status 2 k completed; < status 3 k working; > poll 4 k; < status 4 k completed; end"},
	{"after-end", "mcp", "> !line tool 1 t x; < !line task 1 k; < !line tell k failed; < !line tell k completed; end", "1 3 4", "> !line tool 1 t x; < !line task 1 k; < !line tell k failed; < !line tell k failed; end"},
	{"header-mismatch", "mcp", "> !http POST 2026-07-28 tools/call m - new 1 tools/call; < done 1; end", "1", "> !http POST 2026-07-28 tools/call n - new 1 tools/call; < done 1; end"},
	{"header-mismatch", "mcp", "> !http POST 2026-07-28 tools/list n - new 1 tools/call; < done 1; end", "1", "> !http POST 2026-07-28 tools/call =?base64?bg==?= - new 1 tools/call; < done 1; end"},
	{"header-mismatch", "mcp", "> !http POST 2025-11-25 tools/call n - new 1 tools/call; < done 1; end", "1", "> !http POST 2025-11-25 - - - call 1; < result 1; end"},
	{"header-mismatch", "mcp", "> !http POST none tools/call - - new 1 tools/call; < done 1; end", "1; 1", "> !http POST 2026-07-28 tools/call n - new 1 tools/call; < done 1; end"},

	// MCP up to 2025-11-25
	{"missing-request", "mcp", "> !line list 1; > !line begin 0 2025-11-25; < result 1; < begun 0 2025-11-25; > !line ready; end", "2 1", "> !line ping 1; > !line begin 0 2025-11-25; < result 1; < begun 0 2025-11-25; > !line ready; end"},
	{"missing-request", "mcp", "> !line begin 0 2025-11-25; < begun 0 2025-11-25; > !line list 1; < result 1; end", "1 3", "> !line begin 0 2025-11-25; < begun 0 2025-11-25; > !line ready; > !line list 1; < result 1; end"},
	{"cancel-forbidden", "mcp", "> begin 0 2025-11-25; > cancel 0; end", "1 2", "> begin 0 2025-11-25; < begun 0 2025-11-25; > list 1; > cancel 1; end"},
	{"cancel-forbidden", "mcp", "> call 1; < later 1 k; +300; > cancel 1; end", "1 3", "> call 1; < later 1 k; > cancel 1; end"},
	{"wrong-version", "mcp", `> begin 0 2025-06-18; < begun 0 2025-06-18; > [{"jsonrpc":"2.0","id":1,"method":"ping"}]; < result 1; end`, "3", `> begin 0 2025-03-26; < begun 0 2025-03-26; > [{"jsonrpc":"2.0","id":1,"method":"ping"}]; < result 1; end`},
	{"wrong-version", "mcp", "> begin 0 2025-03-26; < begun 0 2025-03-26; < elicit 7; > error 7; end", "3", "> begin 0 2025-06-18; < begun 0 2025-06-18; < elicit 7; > result 7; end"},
	{"header-mismatch", "mcp", "> begin 0 2025-06-18; < begun 0 2025-06-18; > !http POST none - - - list 1; < result 1; end", "3", "> begin 0 2025-03-26; < begun 0 2025-03-26; > !http POST none - - - list 1; < result 1; end"},
	{"header-mismatch", "mcp", "> !http POST 2025-06-18 - - lacks list 1; < result 1; end", "1", "> !http POST 2025-06-18 - - lacks begin 1 2025-06-18; < begun 1 2025-06-18; end"},
	{"line-separator", "mcp", "> !line separated 1; < !line result 1; end", "1", `> !line {"jsonrpc":"2.0","id":1,"method":"\u2028"}; < !line result 1; end`},

	{"missing-request", "theory", "> preempt; end", "1", "> run a; < ack a; > preempt; < stopped a; end"},
	{"missing-request", "codex", "> !line turn 1; < !line error 1; > !line init 2; < !line result 2; end", "1", "> !line init 2; < !line result 2; > !line turn 1; < !line error 1; end"},
	{"missing-request", "acp", "> !line prompt 1 s; < !line stop 1 end_turn; end", "1", "> prompt 1 s; < stop 1 end_turn; end"},
	{"missing-ack", "theory", "> run a; < event a; < final a; end", "1 2", "> run a; < ack a; < final a; end"},

	{"cancel-unknown", "latis", "> cancel 2 1; < error 2; end", "1", "> prompt 1; > cancel 2 1; < cancelled 1; end"},
	{"cancel-unknown", "mcp", `> call 1; > cancel "1"; < result 1; end`, "2", "> call 1; > cancel 1; end"},
	{"cancel-unknown", "mcp", "< ping 1; > cancel 1; > result 1; end", "2", "< ping 1; < cancel 1; end"},
	{"cancel-unknown", "nexus", "> cancel 1 a; < not 1; end", "1", "> send 1 a; #2; > cancel 1 a; < ok 1; #1; < cut 1; end"},
	{"cancel-unknown", "nexus", "> send 1 a; < result 1; > cancel 2 b; < not 2; end", "3", "> cancel 1 a; < ok 1; end"}, // it was sent elsewhere
	{"cancel-ignored", "latis", "> prompt 1; > cancel 2 1; +300; < complete 1; end", "1 2 3", "> prompt 1; > cancel 2 1; +200; < complete 1; end"},
	{"cancel-ignored", "latis", "> prompt 1; > cancel 2 1; < chunk 1 0; < complete 1; end", "1 2 4", "> prompt 1; > cancel 2 1; < chunk 1 0; < cancelled 1; < ack 2; end"},
	{"wrong-result", "acp", acpPrompt + "< offer 0 s yes; > choose 0 Yes; < stop 1 end_turn; end", "4 5", acpPrompt + "< offer 0 s yes; > choose 0 yes; < offer 1 s \\u0079es; > choose 1 yes; < ask 2 s; > choose 2 yes; < stop 1 end_turn; end"},
	{"cancel-ignored", "copilot", "> send 1; < result 1 true; > abort 2; < result 2 true; < event model.log; < event session.idle; end", "1 3 6", "> send 1; < result 1 true; > abort 2; < event model.log; < aborted; < result 2 true; end"},
	{"cancel-silent", "copilot", "> send 1; < result 1 true; > abort 2; < result 2 true; end", "1 3", "> send 1; < result 1 true; > abort 2; < result 2 true; < aborted; end"},
	{"cancel-ignored", "acp", acpPrompt + "< offer 0 s yes; > cancel s; > choose 0 yes; < stop 1 cancelled; end", "4 5 6", acpPrompt + "< offer 0 s yes; > cancel s; > refuse 0; < offer 1 s yes; > choose 1 yes; < stop 1 cancelled; end"},
	{"missing-field", "acp", "> init 0 2; < version 0 2; > prompt 1 s; < result 1; < says s; < idle s end_turn; end", "3 5", "> init 0 2; < version 0 2; > prompt 1 s; < result 1; < chunk s; < idle s end_turn; > init 2 1; < version 2 1; > prompt 3 s; < says s; < stop 3 end_turn; end"},
	{"cancel-ignored", "acp", "> prompt 1 s; > cancel s; < update s; < stop 1 end_turn; end", "1 2 4", "> prompt 1 s; > cancel s; < update s; < stop 1 cancelled; end"},
	{"cancel-silent", "latis", "> prompt 1; > cancel 2 1; < chunk 1 0; end", "1 2", "> prompt 1; > cancel 2 1; < cancelled 1; end"},
	{"cancel-silent", "lsp", "> hover 1; > cancel 1; end", "1 2", "> hover 1; > cancel 1; +999; < progress 1; < result 1; end"},
	{"cancel-silent", "dap", "> request 1; > cancel 2 1; < response 1 2; end", "1 2", "> request 1; > cancel 2 1; < response 1 2; < cancelled 2 1; end"},
	{"cancel-ignored", "nexus", "> send 1 a; > cancel 2 a; < ok 2; +999; < result 1; end", "1 2 4", "> send 1 a; > cancel 2 a; < ok 2; +999; < ok 1; end"},
	{"cancel-silent", "nexus", "> send 1 a; > cancel 2 a; < ok 2; end", "1 2", "> send 1 a; > cancel 2 a; < ok 2; < cut 1; end"},
	{"cancel-silent", "theory", "> run a; < ack a; > preempt; end", "1 3", "> run a; < ack a; > preempt; < stopped a; end"},
	{"late-result", "mcp", "> call 1; > cancel 1; +300; < result 1; end", "1 2 3", "> call 1; > cancel 1; < result 1; end"},
	{"late-result", "mcp", "> call 1; > cancel 1; < progress 1; < error 1; end", "1 2 4", "> call 1; > cancel 1; < progress 1; end"},

	{"result-count", "rlm", "> ask2 a; < answer a; end", "1 2", "> ask2 a; < fail a; end"},
	{"total-falls", "claude", "> user; < costs 0.5; > user; < costs 0.25; end", "4", "> user; < costs 0.5; > user; < costs 0.5; end"},
	{"total-falls", "codex", "> turn 1; < accept 1 a; < used a 9; < used a 8; < completed a completed; end", "4", "> turn 1; < accept 1 a; < used a 9; < completed a completed; < reverted; > turn 2; < accept 2 b; < used b 8; < completed b completed; end"},
	{"wrong-usage", "openai", "> ask; < !breaks wrong-usage answer; end", "1 2", "> ask; < answer; end"},
	{"open-step", "agui", "> run; < !breaks open-step finished; end", "1 2", "> run; < finished; end"},
	{"bad-arguments", "openai", "> ask; < !breaks bad-arguments answer; end", "1 2", "> ask; < answer; end"},
	{"unknown-tool-call", "openai", "> !breaks unknown-tool-call ask; < answer; end", "1", "> ask; < answer; end"},
	{"repeated-request", "openai", "> !breaks repeated-request ask; < answer; end", "1", "> ask; < answer; > ask; < answer; end"},
	{"both-answers", "mcp", `> call 1; < {"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}; end`, "2", `> call 1; < {"jsonrpc":"2.0","id":1,"result":{}}; end`},
	{"both-answers", "rlm", `> {"correlation_id":"a","prompt":"x","prompts":["y"]}; < fail a; end`, "1", "> ask a; < fail a; end"},
	{"no-answer", "mcp", `> call 1; < {"jsonrpc":"2.0","id":1}; end`, "2", `> call 1; < {"jsonrpc":"2.0","id":1,"result":null}; end`},
	{"unknown-kind", "theory", `> run a; < ack a; < {"kind":"Tokens"}; < final a; end`, "3", "> run a; < ack a; < token; < final a; end"},
	{"missing-field", "mcp", `> call 1; < {"jsonrpc":"2.0","method":"notifications/progress","params":{}}; < result 1; end`, "2", "> call 1; < progress 1; < result 1; end"},
	{"missing-field", "mcp", `> call 1; > {"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}; +999; < result 1; end`, "2", "> call 1; +999; < result 1; end"},
	{"unknown-field", "rlm", `> {"correlation_id":"a","prompt":"x","aa":1}; < fail a; end`, "1", "> ask a; < fail a; end"},
	{"bad-version", "mcp", `> {"jsonrpc":"1.0","id":1,"method":"ping"}; < result 1; end`, "1", "> ping 1; < result 1; end"},
	{"bad-params", "nexus", `> {"jsonrpc":"2.0","id":1,"method":"get_context","params":"x"}; < null; end`, "1", `> {"jsonrpc":"2.0","id":1,"method":"get_context","params":null}; < result 1; end`},
	{"bad-params", "nexus", `> {"jsonrpc":"2.0","id":1,"method":"send","params":["x"]}; < null; end`, "1", "> send 1 a; < null; end"},
	{"bad-params", "cdp", `> {"id":1,"method":"Browser.close","params":[]}; < result 1; end`, "1", "> close 1; < result 1; end"},
	{"bad-id", "cdp", `> {"id":"1","method":"Browser.close"}; < {"id":"1","result":{}}; end`, "1; 2", "> close 1; < result 1; end"},
	{"unknown-kind", "cdp", `> {"id":1,"method":"close"}; end`, "1", `< {"method":"Own.event"}; end`},
	{"bad-id", "mcp", `> {"jsonrpc":"2.0","id":1.5,"method":"ping"}; < {"jsonrpc":"2.0","id":1.5,"result":{}}; end`, "1; 2", "> ping 1; < result 1; end"},
	{"bad-id", "mcp", `> call 1; < {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}; < result 1; end`, "2", `> call 1; < {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}; end`},
	{"unsafe-id", "mcp", "> ping 9007199254740993; < result 9007199254740993; end", "1; 2", "> ping 9007199254740991; < result 9007199254740991; end"},
	{"duplicate-key", "mcp", `> {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}; < result 1; end`, "1", `> {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"b":2}}; < result 1; end`},
	{"lone-surrogate", "mcp", `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"\ud83d"}}}; < {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\uDE00!"}]}}; end`, "1; 2", `> {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud83d\uDE00 \\ud83d"}}; < result 1; end`},
	{"invalid-utf8", "mcp", "> {\"a\":\"\xff\"}; end", "1", "> ping 1; < result 1; end"},
	{"malformed", "mcp", `> {"jsonrpc":"2.0",; end`, "1", "> ping 1; < result 1; end"},
	{"malformed", "latis", "> \xff\xff; end", "1", "> ping 1; < pong 1; end"},
	{"stray-output", "mcp", "< 2026-11-20 09:00:00 INFO listening; end", "1", "> ping 1; < result 1; < !blank; end"},
	{"stray-output", "mcp", `< !line {"level":30,"msg":"listening"}; end`, "1", "> !line call 1; < !line result 1; end"},
	{"malformed", "mcp", "> 2026-11-20 09:00:00 INFO listening; end", "1", "> ping 1; < result 1; end"},
	{"stray-output", "copilot", "> !header send 1; < !gap; < !header result 1 true; < !header event session.idle; end", "2", "> !header send 1; < !header result 1 true; < !header event session.idle; end"},
	{"stray-output", "latis", "< !gap; end", "1", "< !blank; end"},
	{"stray-output", "latis", "< !gap; < !gap; > ping 1; < pong 1; end", "1", "< !blank; < !blank; end"},
	{"flawed-framing", "mcp", "> !flawed ping 1; < result 1; end", "1", "> ping 1; < result 1; end"},
	{"oversize", "rlm", "> !oversize; < null; end", "1", "> ask a; < fail a; end"},
	{"truncated", "latis", "> ping 1; < pong 1; < !truncated; end", "3", "> ping 1; < pong 1; end"},
}

// Each broken rule is found in its frames, and nowhere else.
func TestFindings(t *testing.T) {
	for _, test := range findings {
		var want []string
		for frames := range strings.SplitSeq(test.at, "; ") {
			want = append(want, test.name+" @ "+frames)
		}
		if got := found(play(t, test.protocol, test.broken, session.Options{})); got != strings.Join(want, "; ") {
			t.Errorf("%s: %s\n found %q rather than %q", test.protocol, test.broken, got, strings.Join(want, "; "))
		}
		if got := found(play(t, test.protocol, test.well, session.Options{})); got != "" {
			t.Errorf("%s: %s\n found %q, and nothing is wrong", test.protocol, test.well, got)
		}
	}
}

// maskedLines are findings about unreadable payloads whose mask says less about them.
var maskedLines = map[string]string{"stray-output @ 2": "wrong-framing @ 2", "malformed @ 1": "invalid-utf8 @ 1"}

// Nothing is found in an outline of a session that is not found in the session.
func TestFindingsInOutlines(t *testing.T) {
	for _, test := range findings {
		for _, script := range []string{test.broken, test.well} {
			whole := strings.Split(found(play(t, test.protocol, script, session.Options{})), "; ")
			tr := session.New(named(t, test.protocol), session.Options{})
			playOn(t, tr, test.protocol, script, func(f *session.Frame) {
				kept := outline(t, test.protocol, f.Payload)
				f.Masked, f.Payload = capture.IsOutlined(kept), kept
				f.Blank = f.Masked && named(t, test.protocol).Encoding() == protocol.Protobuf
			})
			for fd := range strings.SplitSeq(found(tr), "; ") {
				if fd != "" && !slices.Contains(whole, fd) && !slices.Contains(whole, maskedLines[fd]) {
					t.Errorf("%s: %s\n found %s", test.protocol, script, fd)
				}
			}
		}
	}
}

// outline returns what a record of metadata keeps of a payload.
func outline(t *testing.T, protocolName string, payload []byte) (kept []byte) {
	w := capture.Redact(writer(func(r *capture.Record) { kept = bytes.Clone(r.Payload()) }), &capture.Session{}, capture.Redaction{Outline: true})
	r := capture.Record{Protocol: protocolName, Frame: frame.Frame{Raw: payload, End: len(payload)}}
	if err := w.Write(&r); err != nil {
		t.Fatal(err)
	}
	return kept
}

type writer func(*capture.Record)

func (w writer) Write(r *capture.Record) error {
	w(r)
	return nil
}

// An unreadable message is answered once, also without an id, and even before its end is seen. A message
// skipped in pieces is one message, whatever comes in between.
func TestUnreadable(t *testing.T) {
	for script, want := range map[string]string{
		"> !oversize; < null; end":                                "oversize @ 1",
		"> !oversize; > !oversize; < null; end":                   "oversize @ 1",
		"> !oversize; > !oversize; < null; < null; end":           "oversize @ 1; orphan @ 4",
		"> !oversize; < answer a; end":                            "oversize @ 1",
		"> !oversize; < answer a; < answer b; end":                "oversize @ 1; orphan @ 3",
		"> ask a; < answer a; < null; > !truncated; end":          "truncated @ 4",
		"> ask a; < answer a; < null; < null; > !truncated; end":  "truncated @ 5; orphan @ 4",
		"> ask a; < answer a; < null; > ask b; < answer b; end":   "orphan @ 3",
		"> ask a; < answer a; < null; < !truncated; end":          "truncated @ 4; orphan @ 3",
		"> ask a; < answer a; > !truncated; end; > ask a; < null": "truncated @ 3",
	} {
		if got := found(play(t, "rlm", script, session.Options{})); got != want {
			t.Errorf("%s\n found %q rather than %q", script, got, want)
		}
	}
}

// found lists the findings with their frames.
func found(tr *session.Tracker) string {
	var all []string
	for f := range tr.Findings() {
		all = append(all, f.Name+" @ "+strings.Trim(fmt.Sprint(f.Frames), "[]"))
	}
	return strings.Join(all, "; ")
}

// Every finding has a session that shows it.
func TestEveryFindingIsShown(t *testing.T) {
	shown := make(map[string]bool)
	for _, test := range findings {
		shown[test.name] = true
	}
	for _, rule := range session.Findings {
		if !shown[rule.Name] {
			t.Errorf("no session shows %s", rule.Name)
		}
	}
}

// Stray output is shown, escaped and truncated.
func TestStrayOutputIsShown(t *testing.T) {
	for script, want := range map[string]string{
		"< \x1b[32mlistening":                `: "\x1b[32mlistening"`,
		"< INFO: " + strings.Repeat("日", 30): `: "INFO: ` + strings.Repeat("日", 24) + `"…`,
		`< !line {"level":30}`:               `this is JSON, but not a message of mcp: "{\"level\":30}"`,
		"< INFO: " + strings.Repeat("x", 99): `: "INFO: ` + strings.Repeat("x", 74) + `"…`,
	} {
		var got string
		for f := range play(t, "mcp", script, session.Options{}).Findings() {
			got += f.Name + " " + f.Message
		}
		if !strings.HasPrefix(got, "stray-output ") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}
