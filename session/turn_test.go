package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// spent lists operations in the order of their beginning: KIND NAME OUTCOME TOKENS, with a ? after an outcome
// that is a guess, then after + the number of each prompt that belongs to it.
func spent(tr *session.Tracker) string {
	list := slices.SortedStableFunc(tr.Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) })
	var lines []string
	joined := map[int64]string{}
	prompts := 0
	for _, e := range list {
		if e.Kind == "user" {
			prompts++
		}
		if e.Kind == "user" && e.Of != 0 {
			joined[e.Of] += fmt.Sprintf(" +%d", prompts)
		}
	}
	prompts = 0
	for _, e := range list {
		name := "turn " + e.Name
		switch e.Kind {
		case "user":
			prompts++
			name = fmt.Sprint(prompts)
		case "turn":
		default: // a request about the queue
			continue
		}
		outcome := e.Outcome.String()
		if e.Assumed {
			outcome += "?"
		}
		if e.Of == 0 {
			lines = append(lines, fmt.Sprintf("%s %s %d", strings.TrimSpace(name), outcome, e.Usage.Input)+joined[e.First])
		}
	}
	return strings.Join(lines, "; ")
}

// Results belong to their own prompts, whatever happens to the others. Prompts are numbered from 1.
func TestQueueOfPrompts(t *testing.T) {
	for _, test := range []struct{ about, script, want string }{
		{"one after the other", "> user; > user; < assistant; < used 100; < assistant; < used 200; end", "1 done 100; 2 done 200"},

		// Prompts that are dropped.
		{
			"an interrupt that cancels what waits", "> user; < assistant; > user; > prompt b; < life b queued; > user; > stopall i; < life b cancelled; < receipt i {\"still_queued\":[],\"cancelled\":[\"b\"]}; < aborted 100; > user; < used 300; end",
			"1 cancelled 100; 2 cancelled 0; 3 cancelled 0; 4 cancelled 0; 5 done 300",
		},
		{
			"and is refused", "> user; < assistant; > user; > stopall i; < {\"type\":\"control_response\",\"response\":{\"subtype\":\"error\",\"request_id\":\"i\",\"error\":\"no\"}}; < used 100; < used 200; end",
			"1 done 100; 2 done 200",
		},
		{
			"what was sent after the interrupt stays", "> prompt a; < life a started; > user; > stopall i; > user; < receipt i {\"still_queued\":[],\"cancelled\":[]}; < aborted 100; < used 300; end",
			"1 cancelled 100; 2 cancelled 0; 3 done 300",
		},
		{
			"an interrupt that cancels only the turn", "> user; < assistant; > user; > interrupt i; < receipt i {\"still_queued\":[]}; < aborted 100; < used 200; end",
			"1 cancelled 100; 2 done 200",
		},
		{
			"an answer that lists what waits", "> user; < assistant; > prompt b; > prompt c; > interrupt i; < receipt i {\"still_queued\":[\"c\"]}; < aborted 100; < used 300; end",
			"1 cancelled 100; 2 cancelled 0; 3 done 300",
		},
		{
			"a client without uuids in the list", "> user; < assistant; > user; > user; > stopall i; < success i; < aborted 100; > user; < used 300; end",
			"1 cancelled 100; 2 cancelled 0; 3 cancelled 0; 4 done 300",
		},
		{
			"a message is recalled", "> prompt a; < life a started; > prompt b; > prompt c; > recall r b; < life b cancelled; < receipt r {\"cancelled\":true}; < used 100; < used 300; end",
			"1 done 100; 2 cancelled 0; 3 done 300",
		},
		{
			"and no other message says so", "> prompt a; < assistant; > prompt b; > prompt c; > recall r b; < receipt r {\"cancelled\":true}; < used 100; < used 300; end",
			"1 done 100; 2 cancelled 0; 3 done 300",
		},
		{
			"too late", "> prompt a; < assistant; > recall r a; < receipt r {\"cancelled\":false}; +900; < answers 100 [\"a\"]; end",
			"1 done 100",
		},
		{
			"the session ends", "> prompt a; < life a started; > prompt b; < life b queued; > user; > leave e; < success e; < aborted 100; < life a cancelled; < life b discarded; end",
			"1 cancelled 100; 2 cancelled 0; 3 cancelled 0",
		},
		{"a prompt is refused", "> user; < assistant; > prompt b; < life b refused; > user; < used 100; < used 300; end", "1 done 100; 2 failed 0; 3 done 300"},
		{"a report that comes after the result", "> prompt a; < life a started; < aborted 100; < life a cancelled; > user; < used 200; end", "1 cancelled 100; 2 done 200"},
		{"or before it", "> prompt a; < life a started; < life a cancelled; < aborted 100; end", "1 cancelled 100"},

		// Prompts that are answered together.
		{"one result for several", "> user; < used 100; > prompt b; > prompt c; < answers 200 [\"b\",\"c\"]; > user; < used 400; end", "1 done 100; 2 done 200 +3; 4 done 400"},
		{"in another order", "> prompt a; > prompt b; > prompt c; < answers 300 [\"c\"]; < answers 100 [\"a\",\"b\"]; end", "1 done 100 +2; 3 done 300"},
		{"one of them has no uuid", "> user; < used 100; > user; > prompt c; < life c queued; < life c started; < assistant; < answers 300 [\"c\"]; +900; > user; < used 400; end", "1 done 100; 2 done? 0; 3 done 300; 4 done 400"},
		{"none of them has", "> user; > user; > user; < assistant; < used 100; < assistant; < used 200; +900; > user; < used 400; end", "1 done 100; 2 done 200; 3 done? 0; 4 done 400"},
		{"at the end", "> user; > user; > user; < assistant; < used 100; < init; < used 200; left", "1 done 100; 2 done 200; 3 done? 0"},
		{"that is not known to be one", "> user; > user; < assistant; < used 100; end", "1 done 100; 2 abandoned 0"},
		{"a turn has begun since", "> user; > user; < used 100; +900; < assistant; > user; < used 200; < used 300; end", "1 done 100; 2 done 200; 3 done 300"},
		{"a prompt is taken into the turn that runs", "> user; < assistant; > prompt b; < life b queued; < life b started; < life b completed; < answers 100 [\"b\"]; > user; < used 300; end", "1 done 100 +2; 3 done 300"},
		{"results that name nothing", "> prompt a; > prompt b; < life a completed; < used 100; < life b completed; end", "1 done 100 +2"},

		// Which one is meant.
		{"uuids come first", "> user; > prompt b; < answers 200 [\"b\"]; < used 100; end", "1 done 100; 2 done 200"},
		{"an old version does not repeat them", "> prompt a; > prompt b; < used 100; < used 200; end", "1 done 100; 2 done 200"},
		{"a uuid that nobody sent", "> user; < assistant; < answers 100 [\"z\"]; < answers 200 [\"y\"]; end", "1 done 100; turn done 200"},
		{"a prompt that is said to wait is not answered by another's result", "> prompt a; < life a queued; < assistant; < used 100; < life a started; < used 200; end", "1 done 200; turn done 100"},
		{"an id that is answered twice", "> prompt a; < answers 100 [\"a\"]; < answers 200 [\"a\"]; end", "1 done 100; turn done 200"},

		// Turns that nobody asked for.
		{"a task has ended", "> user; < used 100; < init; < assistant; < own false completed 600 task-notification; > user; < used 200; end", "1 done 100; turn task-notification done 600; 2 done 200"},
		{"while a prompt waits", "> user; < used 100; < init; > user; < assistant; < own false completed 600 task-notification; < used 200; end", "1 done 100; turn task-notification done 600; 2 done 200"},
		{"without saying so", "> user; < used 100; < assistant; > user; < used 600; < used 200; end", "1 done 100; turn done 600; 2 done 200"},
		{"a subagent works between turns", "> user; < used 100; < subagent; > user; < assistant; < used 200; end", "1 done 100; 2 done 200"},
		{"and takes prompts along", "> user; < used 100; < assistant; > prompt b; < life b started; < {\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s\",\"user_message_uuid\":\"b\",\"usage\":{\"input_tokens\":600},\"origin\":{\"kind\":\"task-notification\"}}; end", "1 done 100; turn task-notification done 600 +2"},
		{"the client asks for someone else", "> for channel; > user; < own false completed 100 channel; < used 200; end", "1 done 100; 2 done 200"},
		{"and for a person", "> for human; < own false completed 100 human; end", "1 done 100"},
		{"no prompt is on the wire", "< init; < assistant; < used 100; end", "turn done 100"},
		{"one is interrupted", "> user; < used 100; < assistant; > user; > interrupt i; < success i; < own true aborted_streaming 600 task-notification; +900; < used 200; end", "1 done 100; turn task-notification cancelled 600; 2 done 200"},
		{"which was taken for that of the prompt", "> user; < used 100; > user; < assistant; > interrupt i; < success i; < own true aborted_streaming 600 task-notification; +900; < used 200; end", "1 done 100; 2 done 200; turn task-notification cancelled 600"},
	} {
		tr := play(t, "claude", test.script, session.Options{})
		if got := spent(tr); got != test.want {
			t.Errorf("%s: %s\n got  %s\n want %s", test.about, test.script, got, test.want)
		}
		for f := range tr.Findings() {
			if f.Name != "unanswered" || !strings.Contains(test.want, "abandoned") {
				t.Errorf("%s: found %s: %s", test.about, f.Name, f.Message)
			}
		}
		total := int64(0)
		for e := range tr.Exchanges() {
			total += e.Usage.Input
		}
		if used := tr.Stats().Usage.Input; used != total {
			t.Errorf("%s: operations have %d tokens, and the session has %d", test.about, total, used)
		}
	}
}

// The usage of all models counts: that of a turn leaves out calls that were interrupted. It
// is a running total, which may have begun in an earlier session.
func TestUsageOfModels(t *testing.T) {
	for _, test := range []struct{ about, script, want, found string }{
		{"a cancelled turn", "> user; < models s 0 40 0.5; end", "41 1 2 $500000", ""},
		{"the total grows", "> user; < models s 40 40 0.5; > user; < models s 0 90 0.75; end", "40 0 0 $500000; 50 0 0 $250000", ""},
		{"an earlier session counted, too", "> user; < models s 40 900 9; > user; < models s 5 910 9.5; end", "40 0 0 $9000000; 10 0 0 $500000", ""},
		{"the usage since the last result", "> user; < since 40 60 0.25 900 9; > user; < since 0 7 0.5 907 9.5; end", "60 0 0 $250000; 7 0 0 $500000", ""},
		{"a conversation that begins again", "> user; < models s 40 40 0.5; > user; < cleared s; > user; < models s 9 9 0.125; end", "40 0 0 $500000; 9 0 0 $125000", ""},
		{"under another id", "> user; < models s 40 40 0.5; > user; < cleared r; > user; < models r 9 9 0.125; end", "40 0 0 $500000; 9 0 0 $125000", ""},
		{"a reset", `> user; < models s 40 40 0.5; < {"type":"conversation_reset","session_id":"s"}; > user; < models s 9 9 0.125; end`, "40 0 0 $500000; 9 0 0 $125000", ""},
		{"a total that falls", "> user; < models s 40 40 0.5; > user; < models s 9 9 0.125; end", "40 0 0 $500000", "total-falls"},
	} {
		tr := play(t, "claude", test.script, session.Options{})
		var used []string
		for e := range tr.Exchanges() {
			if u := e.Usage; u.Input > 0 {
				used = append(used, fmt.Sprintf("%d %d %d $%d", u.Input, u.Cached, u.Output, u.Cost))
			}
		}
		if got := strings.Join(used, "; "); got != test.want {
			t.Errorf("%s:\n got  %s\n want %s", test.about, got, test.want)
		}
		var found []string
		for f := range tr.Findings() {
			found = append(found, f.Name)
		}
		if got := strings.Join(found, " "); got != test.found {
			t.Errorf("%s: found %q, want %q", test.about, got, test.found)
		}
	}
}

// The usage of an agent of ACP is that of a turn or of its session so far. If it is not known which, a
// part of it may belong to the turn.
func TestUsageOfAgents(t *testing.T) {
	const (
		made    = "> new 1; < made 1 s; "
		turns   = "> prompt 2 s; < counts 2 209 9; > prompt 3 s; < counts 3 627 27; > prompt 4 s; < counts 4 627 27; > prompt 5 s; < counts 5 836 36; end"
		turns2  = "> prompt 2 s; < result 2; < counted s 209 9; > prompt 3 s; < result 3; < counted s 627 27; end"
		classic = "> init 0 1; < agent 0 1 %s %s; "
	)
	is := func(name, version string) string { return fmt.Sprintf(classic, name, version) }
	for _, tt := range []struct{ about, script, want string }{
		{"Copilot", is("copilot", "1.0.102") + made + turns, "200/9; 400/18; 200/9"},
		{"Copilot by its other name", is("GitHub-Copilot", "2") + made + turns, "200/9; 400/18; 200/9"},
		{"Copilot, in a session that goes on", is("copilot", "1.0.102") + "> prompt 1 s; < counts 1 950 50; > prompt 2 s; < counts 2 1005 55; end", "0+900/0+50; 50/5"},
		{"Claude Code", is("@agentclientprotocol/claude-agent-acp", "0.101.0") + made + turns, "200/9; 600/27; 600/27; 800/36"},
		{"Codex", is("@agentclientprotocol/codex-acp", "2.6.0") + made + turns, "200/9; 600/27; 600/27; 800/36"},
		{"Codex, before", is("@zed-industries/codex-acp", "1.6.2") + made + turns, "200/9; 400+200/18+9; 0+600/0+27; 200+600/9+27"},
		{"an agent that nobody knows", is("other", "1") + made + turns, "200/9; 400+200/18+9; 0+600/0+27; 200+600/9+27"},
		{"an agent without a name", "> init 0 1; < version 0 1; " + made + turns, "200/9; 400+200/18+9; 0+600/0+27; 200+600/9+27"},
		{"a number that falls", is("other", "1") + made + "> prompt 2 s; < counts 2 627 27; > prompt 3 s; < counts 3 209 9; > prompt 4 s; < counts 4 836 36; end", "600/27; 200/9; 800/36"},
		{"two sessions", is("copilot", "1") + made + "> new 2; < made 2 r; > prompt 3 s; < counts 3 209 9; > prompt 4 r; < counts 4 310 10; > prompt 5 s; < counts 5 627 27; end", "200/9; 300/10; 400/18"},
		{"version 2", "> init 0 2; < info 0 2 copilot; " + made + turns2, "200/9; 400/18"},
		{"version 2, an agent that nobody knows", "> init 0 2; < info 0 2 other; " + made + turns2, "200/9; 400+200/18+9"},
		{"Gemini", is("gemini-cli", "0.40.0") + made + "> prompt 2 s; < quota 2 200 9; > prompt 3 s; < quota 3 600 27; end", "200/9; 600/27"},
	} {
		var used []string
		for _, e := range slices.SortedFunc(play(t, "acp", tt.script, session.Options{}).Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) }) {
			if u := e.Usage; u != (protocol.Usage{}) {
				in, out := fmt.Sprint(u.Input), fmt.Sprint(u.Output)
				if u.Perhaps != (protocol.Tokens{}) {
					in, out = fmt.Sprintf("%s+%d", in, u.Perhaps.Input), fmt.Sprintf("%s+%d", out, u.Perhaps.Output)
				}
				used = append(used, in+"/"+out)
			}
		}
		if got := strings.Join(used, "; "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.about, got, tt.want)
		}
	}
}
