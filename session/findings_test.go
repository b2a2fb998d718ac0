package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/session"
)

// findings are sessions that break a rule, each beside one that is like it and
// breaks none.
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

	{"after-end", "latis", "> prompt 1; < complete 1; < error 1; end", "1 2 3", "> prompt 1; < error 1; > prompt 1; < complete 1; end"},
	{"after-end", "latis", "> prompt 1; < complete 1; < chunk 1 0; end", "1 2 3", "> prompt 1; < chunk 1 0; < complete 1; end"},
	{"after-end", "mcp", "> call 1; < result 1; < error 1; end", "1 2 3", "> call 1; < error 1; end"},
	{"after-end", "theory", "> run a; < ack a; < final a; < token; end", "1 3 4", "> run a; < ack a; < token; < final a; end"},
	{"after-end", "latis", "> subscribe 1; > unsubscribe 2; < ack 2; < update 1; end", "1 3 4", "> subscribe 1; > get 3; < update 1; < update 3; < update 1; > unsubscribe 2; < ack 2; end"},

	{"late-part", "mcp", "> call 1; < result 1; < progress 1; end", "1 2 3", "> call 1; < progress 1; < result 1; end"},

	{"duplicate-id", "latis", "> prompt 1; > prompt 1; < complete 1; < complete 1; end", "1 2", "> prompt 1; < complete 1; > prompt 1; < complete 1; end"},
	{"duplicate-id", "mcp", "> call 0; > call 0; < result 0; < result 0; end", "1 2", "> call 0; < ping 0; < result 0; > result 0; end"},
	{"duplicate-id", "theory", "> run a; < ack a; > run a; < ack a; < final a; < ack a; < final a; end", "1 3", "> run a; < ack a; < final a; #2; > run a; < ack a; < final a; end"},
	{"duplicate-id", "dap", "> request 1; > request 1; < response 1 1; < response 2 1; end", "1 2", "> request 1; > request 2; < response 1 2; < response 2 1; end"},

	{"sequence-gap", "latis", "> prompt 1; < chunk 1 0; < chunk 1 2; < chunk 1 3; < complete 1; end", "1 3", "> prompt 1; < chunk 1 0; < chunk 1 1; < complete 1; end"},
	{"sequence-gap", "latis", "> prompt 1; < chunk 1 1; < complete 1; end", "1 2", "> prompt 1; < complete 1; end"},
	{"sequence-repeat", "latis", "> prompt 1; < chunk 1 0; < chunk 1 0; < chunk 1 1; < complete 1; end", "1 3", "> prompt 1; > prompt 2; < chunk 1 0; < chunk 2 0; < error 2; < complete 1; end"},

	{"wrong-side", "latis", "< ping 1; > pong 1; end", "1; 2", "> ping 1; < pong 1; end"},
	{"wrong-side", "theory", "> run a; < ack a; > event a; < final a; end", "3", "> run a; < ack a; < final a; end"},

	{"unanswered", "latis", "> prompt 1; < chunk 1 0; end", "1", "> subscribe 1; < update 1; > cancel 2 1; < cancelled 1; end"},
	{"unanswered", "mcp", "> call 1; end", "1", "> call 1; < error 1; end"},
	{"unanswered", "rlm", "> ask a; > ask a; < answer a; end", "2", "> ask a; > ask a; < answer a; < fail a; end"},
	{"unanswered", "nexus", "> send 1 a; > cancel 2 a; < cut 1; end", "2", "> send 1 a; > cancel 2 a; < cut 1; < ok 2; end"},
	{"unanswered", "dap", "> request 1; end", "1", "> request 1; < response 1 1; end"},
	{"no-final", "theory", "> run a; < ack a; < event a; end", "1", "> run a; < ack a; < event a; < final a; end"},

	{"missing-request", "theory", "> preempt; end", "1", "> run a; < ack a; > preempt; < stopped a; end"},
	{"missing-ack", "theory", "> run a; < event a; < final a; end", "1 2", "> run a; < ack a; < final a; end"},

	{"cancel-unknown", "latis", "> cancel 2 1; < error 2; end", "1", "> prompt 1; > cancel 2 1; < cancelled 1; end"},
	{"cancel-unknown", "mcp", `> call 1; > cancel "1"; < result 1; end`, "2", "> call 1; > cancel 1; end"},
	{"cancel-unknown", "mcp", "< ping 1; > cancel 1; > result 1; end", "2", "< ping 1; < cancel 1; end"},
	{"cancel-unknown", "nexus", "> cancel 1 a; < not 1; end", "1", "> send 1 a; #2; > cancel 1 a; < ok 1; #1; < cut 1; end"},
	{"cancel-unknown", "nexus", "> send 1 a; < result 1; > cancel 2 b; < not 2; end", "3", "> cancel 1 a; < ok 1; end"}, // it was sent elsewhere
	{"cancel-ignored", "latis", "> prompt 1; > cancel 2 1; +300; < complete 1; end", "1 2 3", "> prompt 1; > cancel 2 1; +200; < complete 1; end"},
	{"cancel-ignored", "latis", "> prompt 1; > cancel 2 1; < chunk 1 0; < complete 1; end", "1 2 4", "> prompt 1; > cancel 2 1; < chunk 1 0; < cancelled 1; < ack 2; end"},
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
	{"bad-id", "mcp", `> {"jsonrpc":"2.0","id":1.5,"method":"ping"}; < {"jsonrpc":"2.0","id":1.5,"result":{}}; end`, "1; 2", "> ping 1; < result 1; end"},
	{"unsafe-id", "mcp", "> ping 9007199254740993; < result 9007199254740993; end", "1; 2", "> ping 9007199254740991; < result 9007199254740991; end"},
	{"duplicate-key", "mcp", `> {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}; < result 1; end`, "1", `> {"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"b":2}}; < result 1; end`},
	{"invalid-utf8", "mcp", "> {\"a\":\"\xff\"}; end", "1", "> ping 1; < result 1; end"},
	{"malformed", "mcp", `> {"jsonrpc":"2.0",; end`, "1", "> ping 1; < result 1; end"},
	{"malformed", "latis", "> \xff\xff; end", "1", "> ping 1; < pong 1; end"},
	{"stray-output", "mcp", "< 2026-11-20 09:00:00 INFO listening; end", "1", "> ping 1; < result 1; < !blank; end"},
	{"stray-output", "latis", "< !gap; end", "1", "< !blank; end"},
	{"stray-output", "latis", "< !gap; < !gap; > ping 1; < pong 1; end", "1", "< !blank; < !blank; end"},
	{"flawed-framing", "mcp", "> !flawed ping 1; < result 1; end", "1", "> ping 1; < result 1; end"},
	{"oversize", "rlm", "> !oversize; < null; end", "1", "> ask a; < fail a; end"},
	{"truncated", "latis", "> ping 1; < pong 1; < !truncated; end", "3", "> ping 1; < pong 1; end"},
}

// Each rule is found broken where it is, and only there.
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

// What could not be read is answered without an id, also before its end is seen, and
// once. What is passed over in pieces is one message, whatever comes between.
func TestUnreadable(t *testing.T) {
	for script, want := range map[string]string{
		"> !oversize; < null; end":                                "oversize @ 1",
		"> !oversize; > !oversize; < null; end":                   "oversize @ 1",
		"> !oversize; > !oversize; < null; < null; end":           "oversize @ 1; orphan @ 4",
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

// found lists the findings and the frames that they are about.
func found(tr *session.Tracker) string {
	var all []string
	for f := range tr.Findings() {
		all = append(all, f.Name+" @ "+strings.Trim(fmt.Sprint(f.Frames), "[]"))
	}
	return strings.Join(all, "; ")
}

// Every name has a session that shows it.
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
