package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A unit may leave after its controller did or told it to, and with exchanges that need no
// answer. Its own requests are then only unanswered. Any other open exchange has failed,
// whether or not there is a finding.
func TestWhoMayLeave(t *testing.T) {
	for _, test := range []struct{ protocol, script, want, outcomes string }{
		{"mcp", "> call 1; left", "unanswered @ 1", "abandoned"},
		{"mcp", "> call 1; end", "unanswered @ 1", "abandoned"},
		{"mcp", "> call 1; < ping 1; died", "unanswered @ 2; died-with-open-requests @ 1", "died abandoned"},
		{"mcp", "> call 1; < result 1; > call 2; died", "died-with-open-requests @ 3", "done died"},
		{"mcp", "> call 1; > cancel 1; died", "", "cancelled"},
		{"mcp", "> !line tool 1 t x; < !line more 1 s; died", "", "abandoned"},
		{"lsp", "> hover 1; < result 1; lingers; left", "", "done"},
		{"lsp", "> hover 1; > exit; died", "unanswered @ 1", "abandoned"},
		{"lsp", "> hover 1; > cancel 1; died", "cancel-silent @ 1 2", "died"},
		{"latis", "> subscribe 1; < update 1; died", "", "abandoned"},
		{"codex", "> turn 1; < accept 1 a; < delta a; died", "died-with-open-requests @ 1", "died"},
		{"codex", "> turn 1; < accept 1 a; < delta a; left", "", "open"},
		{"theory", "> run a; < ack a; died", "no-final @ 1", "died"},
	} {
		for _, oneWay := range []bool{false, true} {
			tr := play(t, test.protocol, test.script, session.Options{OneWay: oneWay})
			if got := found(tr); got != test.want && !oneWay {
				t.Errorf("%s: %s\n found %q rather than %q", test.protocol, test.script, got, test.want)
			}
			var outcomes []string
			for e := range tr.Exchanges() {
				outcomes = append(outcomes, e.Outcome.String())
			}
			if got := strings.Join(outcomes, " "); got != test.outcomes {
				t.Errorf("%s: %s\n ends as %q rather than %q", test.protocol, test.script, got, test.outcomes)
			}
		}
	}
	if got := found(play(t, "mcp", "> call 1; died", session.Options{OneWay: true})); got != "" {
		t.Errorf("found %q though one direction is missing", got)
	}
}

// A program for one prompt begins its turn by itself, and dies in it like any other.
func TestDeathInOwnTurn(t *testing.T) {
	for name, payload := range map[string]string{
		"codex-exec": `{"type":"turn.started"}`,
		"claude":     `{"type":"assistant","message":{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]},"session_id":"s"}`,
	} {
		tr, m := session.New(named(t, name), session.Options{}), protocol.Message{}
		if err := named(t, name).Parse([]byte(payload), &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(session.Frame{Seq: 1, Time: began, Conn: 1, Dir: frame.U2C, Payload: []byte(payload)}, &m)
		tr.EndBy(1, session.Ending{First: frame.U2C, Died: true, How: "ended with status 1"}, began)
		if got := found(tr); got != "died-with-open-requests @ 1" {
			t.Errorf("%s: found %q", name, got)
		}
		for e := range tr.Exchanges() {
			if e.Outcome != session.Died {
				t.Errorf("%s: %s", name, e.Outcome)
			}
		}
	}
}

// One finding names the calls, how the unit ended and its last output.
func TestDeathIsToldOnce(t *testing.T) {
	for script, want := range map[string]string{
		"> call 1; died":               `the unit exited with status 3 while a request was open: tools/call t (id 1); its last lines on standard error: "boom"`,
		"> call 1; > ping \"a\"; died": `the unit exited with status 3 while 2 requests were open: tools/call t (id 1), ping (id "a"); its last lines on standard error: "boom"`,
		strings.Repeat("> ping 1; ", 10) + "died": `the unit exited with status 3 while 10 requests were open: ` +
			strings.Repeat("ping (id 1), ", 7) + `ping (id 1) and 2 more; its last lines on standard error: "boom"`,
	} {
		var got []string
		for f := range play(t, "mcp", script, session.Options{}).Findings() {
			if f.Name == "died-with-open-requests" {
				got = append(got, f.Message)
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s\n got  %q\n want %q", script, got, want)
		}
	}
}

// After messages are lost, nothing is reported as missing: neither requests for later answers
// nor answers to earlier requests.
func TestForget(t *testing.T) {
	for _, test := range []struct{ protocol, before, after string }{
		{"mcp", "> call 1; > ping 2; < result 2", "< result 1; < result 2; < progress 1; < result 9; > cancel 1; > ping 1; < result 1; > ping 5; died"},
		{"theory", "> run a; < ack a", "< event a; < final a; #2; > preempt; end"},
		{"lsp", "> hover 1; > cancel 1", "< progress 1; end"},
		{"latis", "> prompt 1; < chunk 1 0", "< chunk 1 7; < complete 1; > prompt 1; < chunk 1 0; < complete 1; end"},
		{"rlm", "> ask a; < answer a; < null", "> ask b; < answer b; end"},
	} {
		tr := play(t, test.protocol, test.before, session.Options{})
		tr.Forget()
		playOn(t, tr, test.protocol, test.after)
		if got := found(tr); got != "" {
			t.Errorf("%s: %s, and behind a gap: %s\n found %q", test.protocol, test.before, test.after, got)
		}
	}
}

// An exchange without an answer is reported once, and one that goes on or has no end never.
func TestOverdue(t *testing.T) {
	for _, test := range []struct{ protocol, script, want string }{
		{"mcp", "> call 1; > ping 2; < result 2; > call 3; +9000; < progress 3; +999; < ping 7", "tools/call t (id 1)"},
		{"mcp", "+6000; > call 1; +20", ""},
		{"latis", "> subscribe 1; > prompt 2; +9000", "PROMPT_SEND (id 2)"},
	} {
		tr := play(t, test.protocol, test.script, session.Options{})
		var got []string
		for range 2 {
			for e := range tr.Overdue(began.Add(5 * time.Second)) {
				got = append(got, e.Title())
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %s\n named %q rather than %q", test.protocol, test.script, got, test.want)
		}
	}
}
