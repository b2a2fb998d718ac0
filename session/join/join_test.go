package join

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// call makes a call from a line: wire, kind, name, start and end in milliseconds, and links.
func call(t *testing.T, line string) *calls.Call {
	t.Helper()
	words := strings.Fields(line)
	var start, end int
	if _, err := fmt.Sscan(words[3]+" "+words[4], &start, &end); err != nil {
		t.Fatal(err)
	}
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	c := &calls.Call{Wire: words[0], Kind: words[1], Name: words[2], Frame: int64(start + 1), Start: at(start), Duration: at(end).Sub(at(start)), Outcome: session.Done}
	switch c.Protocol = "mcp"; words[1] {
	case "messages":
		c.Protocol, c.Model = "anthropic", words[2]
	case "command", "agent", "shell":
		c.Protocol = processes
	case "session/prompt":
		c.Protocol = "acp"
	}
	for _, word := range words[5:] {
		what, text, _ := strings.Cut(word, "=")
		switch what {
		case "calls":
			id, tool, _ := strings.Cut(text, ":")
			tool, arguments, _ := strings.Cut(tool, ":")
			c.Links = append(c.Links, protocol.Link{As: protocol.Calls, Text: id, Tool: tool, Arguments: protocol.HashOfArguments([]byte(arguments))})
		case "returns":
			id, tool, _ := strings.Cut(text, ":")
			c.Links = append(c.Links, protocol.Link{As: protocol.Returns, Text: id, Tool: tool})
		case "failed": // what was returned last
			c.Links[len(c.Links)-1].Ended = protocol.Fail
		case "prompts":
			c.Links = append(c.Links, protocol.Link{As: protocol.Prompts})
		case "is":
			c.Links = append(c.Links, protocol.Link{As: protocol.CarriesOut, Text: text})
		case "with":
			c.Links = append(c.Links, protocol.Link{As: protocol.WithArguments, Arguments: protocol.HashOfArguments([]byte(text))})
		case "agent":
			c.Links = append(c.Links, protocol.Link{As: protocol.OfAgent, Text: text})
		case "trace":
			c.Links = append(c.Links, protocol.Link{As: protocol.OfTrace, Text: fmt.Sprintf("00-%032s-00f067aa0ba902b7-01", text)})
		case "turn":
			c.Links = append(c.Links, protocol.Link{As: protocol.OfTurn, Text: text})
		case "spawned":
			agent, of, _ := strings.Cut(text, ":")
			c.Links = append(c.Links, protocol.Link{As: protocol.Spawned, Text: agent, Of: of})
		case "own":
			c.Links = append(c.Links, protocol.Link{As: protocol.ForItself, Text: text})
		case "asks":
			c.Links = append(c.Links, protocol.Link{As: protocol.Asks, Arguments: protocol.HashOfArguments([]byte(`"` + text + `"`))})
		case "reports":
			c.Links = append(c.Links, protocol.Link{As: protocol.Reports, Text: text})
		case "open":
			c.Outcome = session.Open
		case "cancelled":
			var ms int
			_, _ = fmt.Sscan(text, &ms)
			c.Asked, c.Stopped, c.Outcome = at(ms), true, session.Cancelled
		}
	}
	return c
}

func TestTree(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"by the id of the tool call": {
			`model messages opus 0 10 turn=a calls=t1:mcp__lab__echo:{"x":1}
			lab tools/call echo 12 20 is=t1
			model messages opus 25 30 turn=a returns=t1`,
			`turn 1
			└ opus
			  └ echo exact
			└ opus`,
		},
		"by tool and arguments, however they are written": {
			`model messages gpt 0 10 calls=c1:lab-echo:{"x":1,"y":2}
			lab tools/call echo 12 20 with={"y":2,"x":1}
			model messages gpt 25 30 returns=c1`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt`,
		},
		"a server whose wire has another name, and none with a wire of its own": {
			`model messages gpt 0 10 calls=c1:mcp_lab_echo:{} calls=c2:web_echo:{}
			lab tools/call echo 12 20 with={}
			model messages gpt 25 30 returns=c1 returns=c2 calls=c3:lab_echo:{}
			127.0.0.1:80 tools/call echo 40 50 with={}
			model messages gpt 60 70 returns=c3 calls=c4:web_echo:{}
			127.0.0.1:80 tools/call echo 72 75 with={}
			model messages gpt 80 90 returns=c4`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt
			└ gpt
			  └ echo matched
			└ gpt
			echo`,
		},
		"the user goes on after a cancel": {
			`model messages gpt 0 10 calls=c1:lab-echo:{}
			lab tools/call echo 12 20 with={} cancelled=20
			model messages gpt 25 30 returns=c1 prompts calls=c2:lab-echo:{}
			lab tools/call echo 32 40 with={}
			model messages gpt 45 50 returns=c1 returns=c2`,
			`turn 1 (echo cancelled)
			└ gpt
			  └ echo matched
			turn 2
			└ gpt
			  └ echo matched
			└ gpt`,
		},
		"the user goes on after a cancel that the server was never told of": {
			`model messages gpt 0 10 calls=:mcp_lab_echo:{}
			lab tools/call echo 12 90 with={}
			model messages gpt 25 30 returns=:mcp_lab_echo failed prompts`,
			`turn 1 (echo was given up)
			└ gpt
			  └ echo matched
			gpt`,
		},
		"the answer comes after the user has given up, and before the next prompt": {
			`model messages gpt 0 10 calls=c1:mcp_lab_echo:{}
			lab tools/call echo 12 20 with={}
			model messages gpt 25 30 returns=c1 failed prompts`,
			`turn 1 (echo was given up)
			└ gpt
			  └ echo matched
			gpt`,
		},
		"the agent does not take the answer": {
			`model messages gpt 0 10 calls=c1:mcp_lab_echo:{}
			lab tools/call echo 12 20 with={}
			model messages gpt 25 30 returns=c1 failed`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt`,
		},
		"the user says something while a tool works": {
			`model messages gpt 0 10 calls=c1:lab-echo:{}
			lab tools/call echo 12 20 with={}
			model messages gpt 25 30 returns=c1 prompts`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt`,
		},
		"the agent goes on after a timeout": {
			`model messages gpt 0 10 calls=c1:lab-echo:{}
			lab tools/call echo 12 20 with={} cancelled=20
			model messages gpt 25 30 returns=c1`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt`,
		},
		"a server whose name ends another one": {
			`model messages gpt 0 10 calls=c1:mcp_collab_echo:{} calls=c2:mcp_lab_echo:{"x":1}
			lab tools/call echo 12 20 with={}
			lab tools/call echo 13 20 with={"x":1}
			model messages gpt 25 30 returns=c1 returns=c2`,
			`turn 1
			└ gpt
			  └ echo matched
			└ gpt
			echo`,
		},
		"without ids, not after its result": {
			`model messages flash 0 10 calls=:mcp_lab_echo:{}
			lab tools/call echo 12 20 with={}
			model messages flash 25 30 returns=:mcp_lab_echo
			lab tools/call echo 40 50 with={}`,
			`turn 1
			└ flash
			  └ echo matched
			└ flash
			echo`,
		},
		"not with other arguments, and not after its result": {
			`model messages gpt 0 10 calls=c1:lab_echo:{"x":1}
			lab tools/call echo 12 20 with={"x":2}
			model messages gpt 25 30 returns=c1
			lab tools/call echo 40 50 with={"x":1}`,
			`turn 1
			└ gpt
			└ gpt
			echo
			echo`,
		},
		"equal calls of two agents at once stay apart": {
			`model messages gpt 0 10 agent=a calls=c1:lab_echo:{}
			model messages gpt 1 10 agent=b calls=c2:lab_echo:{}
			lab tools/call echo 12 20 with={}`,
			`gpt
			gpt
			echo`,
		},
		"but not if each is in the trace of its agent": {
			`model messages gpt 0 10 agent=a trace=1 calls=c1:lab_echo:{}
			model messages gpt 1 10 agent=b trace=2 calls=c2:lab_echo:{}
			lab tools/call echo 12 20 with={} trace=2`,
			`gpt
			turn 1
			└ gpt
			  └ echo exact`,
		},
		"a call of another trace, or of none that is known": {
			`model messages gpt 0 10 trace=1 calls=c1:lab_echo:{} calls=c2:lab_echo:{"a":1}
			lab tools/call echo 12 20 with={} trace=2
			lab tools/call echo 12 20 with={"a":1}`,
			`turn 1
			└ gpt
			  └ echo matched
			echo`,
		},
		"an agent below the tool call that has started it": {
			`model messages opus 0 10 turn=a calls=t1:Agent:{}
			model messages opus 12 20 turn=a agent=x calls=t2:mcp__lab__echo:{}
			lab tools/call echo 21 22 is=t2
			model messages opus 25 30 turn=a returns=t1 spawned=x:t1`,
			`turn 1
			└ opus
			  └ agent exact
			    └ opus exact
			      └ echo exact
			└ opus`,
		},
		"an agent whose ids of tool calls are also those of its parent": {
			`model messages opus 0 10 turn=a calls=t1:Agent:{}
			model messages opus 12 20 turn=a agent=x calls=t1:mcp__lab__echo:{}
			lab tools/call echo 21 22 is=t1
			model messages opus 23 24 turn=a agent=x returns=t1
			model messages opus 25 30 turn=a returns=t1 spawned=x:t1`,
			`turn 1
			└ opus
			  └ agent exact
			    └ opus exact
			      └ echo exact
			    └ opus exact
			└ opus`,
		},
		"a command in the time of one tool call": {
			`model messages opus 0 10 calls=t1:Bash:{}
			shell command ls 12 20
			model messages opus 25 30 returns=t1
			shell command make 40 50`,
			`turn 1
			└ opus
			  └ ls by time
			└ opus
			make`,
		},
		"how far a cancel went": {
			`model messages opus 0 10 turn=a calls=t1:mcp__lab__slow:{} calls=t2:Agent:{}
			lab tools/call slow 12 900 is=t1 cancelled=500
			model messages opus 14 576 turn=a agent=x cancelled=576
			model messages opus 600 640 turn=b spawned=x:t2`,
			`turn 1 (slow cancelled; opus cancelled after 76ms)
			└ opus
			  └ slow exact
			  └ agent exact
			    └ opus exact
			turn 2
			└ opus`,
		},
		"a prompt heads its turn, by the id of a tool call in it": {
			`agent session/prompt p1 0 60 reports=t1
			model messages opus 5 10 asks=other calls=t1:mcp__lab__echo:{}
			lab tools/call echo 12 20 with={}
			model messages opus 25 30 returns=t1`,
			`turn 1
			└ p1
			  └ opus exact
			    └ echo matched
			  └ opus exact`,
		},
		"by the id of the turn, after its answer": {
			`agent session/prompt p1 0 1 turn=a open
			model messages opus 5 10 turn=a`,
			`turn 1
			└ p1
			  └ opus exact`,
		},
		"by its text, of two at once": {
			`agent session/prompt p1 0 60 asks=why
			agent session/prompt p2 1 60 asks=how
			model messages opus 5 10 asks=how
			model messages opus 6 10 asks=what`,
			`p1
			turn 1
			└ p2
			  └ opus matched
			opus`,
		},
		"by time, of one alone, and all calls in it": {
			`agent session/prompt p1 0 60
			model messages opus 5 10
			model messages haiku 20 30
			model messages opus 70 80`,
			`turn 1
			└ p1
			  └ opus by time
			  └ haiku by time
			opus`,
		},
		"two prompts at once with one text, or none, are not told apart": {
			`agent session/prompt p1 0 60 asks=why
			agent session/prompt p2 1 60 asks=why
			model messages opus 5 10 asks=why
			model messages opus 12 15`,
			`p1
			p2
			opus
			opus`,
		},
		"the answer to a prompt says how its turn ended": {
			`agent session/prompt p1 0 60 reports=t1 cancelled=30
			model messages opus 5 10 calls=t1:mcp__lab__slow:{}
			lab tools/call slow 12 900 is=t1
			agent session/prompt p2 1000 1060
			model messages opus 1005 1010 calls=t2:mcp__lab__slow:{}
			lab tools/call slow 1012 1050 is=t2 cancelled=1040`,
			`turn 1 (p1 cancelled; slow went on for 870ms)
			└ p1
			  └ opus exact
			    └ slow exact
			turn 2
			└ p2
			  └ opus by time
			    └ slow exact`,
		},
		"what an agent does for itself comes last": {
			`model messages opus 0 10 turn=a own=title
			model messages opus 1 10 turn=a`,
			`turn 1
			└ opus
			opus (title)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*calls.Call
			for line := range strings.SplitSeq(c.calls, "\n") {
				list = append(list, call(t, line))
			}
			var got []string
			for _, c := range Tree(list, nil, true) {
				text := c.Name
				if d := c.Place.Depth; d > 0 {
					text = strings.Repeat("  ", d-1) + "└ " + c.Name
				}
				if c.Place.Depth > 1 {
					text += " " + c.Place.Edge.String()
				}
				if c.Place.Turn && c.Reason != "" {
					text += " (" + c.Reason + ")"
				}
				if c.Place.Own != "" {
					text += " (" + c.Place.Own + ")"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(strings.ReplaceAll(c.want, "\t", ""), strings.Join(got, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Times between two steps are of no call.
func TestCriticalPath(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"one call after the other": {
			`model messages opus 0 10 turn=a calls=t1:x:{}
			lab tools/call x 12 20 is=t1
			model messages opus 25 30 turn=a returns=t1`,
			"opus 0-10, x 12-20, opus 25-30",
		},
		"of two tools at once, the slower one": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:y:{}
			lab tools/call x 12 90 is=t1
			lab tools/call y 12 40 is=t2
			model messages opus 95 99 turn=a returns=t1 returns=t2`,
			"opus 0-10, x 12-90, opus 95-99",
		},
		"of two tools in turn, both": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:y:{}
			lab tools/call x 12 50 is=t1
			lab tools/call y 51 90 is=t2
			model messages opus 95 99 turn=a returns=t1 returns=t2`,
			"opus 0-10, x 12-50, y 51-90, opus 95-99",
		},
		"a tool that begins before the model has ended": {
			`model messages opus 0 40 turn=a calls=t1:x:{}
			lab tools/call x 12 90 is=t1
			model messages opus 95 99 turn=a returns=t1`,
			"opus 0-12, x 12-90, opus 95-99",
		},
		"what a tool starts takes a part of its time": {
			`model messages opus 0 10 turn=a calls=t1:x:{}
			lab tools/call x 12 90 is=t1
			shell command make 20 60 is=t1
			model messages opus 95 99 turn=a returns=t1`,
			"opus 0-10, x 12-90, opus 95-99", // both are of the model's call
		},
		"through an agent, and back to what has started it": {
			`model messages opus 0 10 turn=a calls=t1:Agent:{}
			model messages haiku 12 20 turn=a agent=x calls=t2:y:{}
			lab tools/call y 21 70 is=t2
			model messages sonnet 15 18 turn=a
			model messages haiku 75 80 turn=a agent=x returns=t2
			model messages opus 85 90 turn=a returns=t1 spawned=x:t1`,
			"opus 0-10, haiku 12-20, y 21-70, haiku 75-80, opus 85-90",
		},
		"an agent that outlasts the model": {
			`model messages opus 0 10 turn=a calls=t1:Agent:{}
			model messages haiku 12 20 turn=a agent=x calls=t2:y:{}
			model messages opus 15 18 turn=a returns=t1 spawned=x:t1
			model messages haiku 75 80 turn=a agent=x returns=t2`,
			"opus 0-10, haiku 12-20, haiku 75-80",
		},
		"what goes on, but no command": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:Bash:{}
			lab tools/call x 12 13 is=t1 open
			shell shell server 14 20 is=t2 open
			lab ping ping 90 100`,
			"opus 0-10, x 12-100",
		},
		"each turn by itself, and a call that is one": {
			`model messages opus 0 10 turn=a calls=t1:x:{}
			lab tools/call x 12 20 is=t1
			model messages gpt 50 60
			lab tools/list list 70 80`,
			"opus 0-10, x 12-20, gpt 50-60",
		},
		"a prompt is no part of it": {
			`agent session/prompt p1 0 60
			model messages opus 5 10 calls=t1:x:{}
			lab tools/call x 12 20 is=t1
			model messages opus 25 90 returns=t1`,
			"opus 5-10, x 12-20, opus 25-90",
		},
		"all at the same time": {
			`model messages opus 5 5 turn=a calls=t1:x:{}
			model messages opus 5 5 turn=a calls=t2:x:{} returns=t1
			lab tools/call x 5 5 is=t1
			lab tools/call x 5 5 is=t2
			model messages opus 5 5 turn=a returns=t2`,
			"opus 5-5, x 5-5, opus 5-5, x 5-5, opus 5-5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*calls.Call
			for line := range strings.SplitSeq(c.calls, "\n") {
				list = append(list, call(t, line))
			}
			var got []string
			for _, s := range CriticalPath(Tree(list, nil, true)) {
				got = append(got, fmt.Sprintf("%s %d-%d", s.Call.Name, s.From.UnixMilli(), s.To.UnixMilli()))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// The calls within the time of the one that made them are parts of it.
func TestCriticalPathWithin(t *testing.T) {
	var tree []*calls.Call
	for depth, line := range []string{"model messages opus 0 100", "lab tools/call x 10 90", "lab sampling y 20 50", "lab sampling z 15 30"} {
		c := call(t, line)
		c.Place.Depth = min(depth, 2)
		tree = append(tree, c)
	}
	var got string
	for _, s := range CriticalPath(tree) {
		got += fmt.Sprintf("%s %d-%d, ", s.Call.Name, s.From.UnixMilli(), s.To.UnixMilli())
	}
	if want := "opus 0-10, x 10-20, y 20-50, x 50-90, opus 90-100, "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"a tool went on after its turn was cancelled": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:y:{}
			lab tools/call x 12 900 is=t1 cancelled=500
			lab tools/call y 13 9500 is=t2`,
			"cancel-lost 14 y on lab went on for 9s after x on lab was cancelled",
		},
		"a tool went on although the model was told that it failed": {
			`model messages opus 0 10 calls=t1:lab_x:{}
			lab tools/call x 12 9500 with={}
			model messages opus 500 600 returns=t1 failed`,
			"cancel-lost 13 x on lab went on for 9s after the model was told that it failed",
		},
		"it failed": {
			`model messages opus 0 10 calls=t1:lab_x:{}
			lab tools/call x 12 400 with={}
			model messages opus 9500 9600 returns=t1 failed`, "",
		},
		"it ended soon": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:y:{}
			lab tools/call x 12 900 is=t1 cancelled=500
			lab tools/call y 13 1400 is=t2`, "",
		},
		"the turn went on after one cancel": {
			`model messages opus 0 10 turn=a calls=t1:x:{} calls=t2:y:{}
			lab tools/call x 12 900 is=t1 cancelled=500
			lab tools/call y 13 9500 is=t2
			model messages opus 9600 9700 turn=a returns=t1 returns=t2`, "",
		},
		"a command ended long after its agent": {
			`processes agent claude 0 1000
			processes shell make 500 4000
			processes shell ls 600 1100`,
			"outlived-run 501 make on processes ended 3s after claude on processes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*calls.Call
			for line := range strings.SplitSeq(c.calls, "\n") {
				list = append(list, call(t, line))
			}
			var got []string
			for _, f := range Findings(Tree(list, nil, true)) {
				got = append(got, fmt.Sprint(f.Name, " ", f.Frames[0], " ", f.Message))
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// What an agent asks for itself does not count, such as a request on the host of a model that asks none.
func TestCounts(t *testing.T) {
	for line, want := range map[string]bool{
		"model messages opus 0 10":           true,
		"model messages opus 0 10 own=title": false,
		"lab tools/call echo 12 20 with={}":  true,
	} {
		if got := Counts(call(t, line)); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
	if Counts(&calls.Call{Protocol: "anthropic", Kind: "models"}) || Counts(&calls.Call{Protocol: "http"}) {
		t.Error("requests that ask no model count")
	}
}

func TestIsTool(t *testing.T) {
	for _, c := range []struct {
		name, server, tool string
		want               bool
	}{
		{"mcp__my_lab__get-sum", "my lab", "get-sum", true},
		{"lab-echo", "lab", "echo", true},
		{"mcp_lab_echo", "lab", "echo", true},
		{"echo", "lab", "echo", true},
		{"lab_echo", "", "echo", true},
		{"other_echo", "lab", "echo", false},
		{"reecho", "", "echo", false},
		{"lab_echo", "lab", "cho", false},
	} {
		if got := IsTool(c.name, c.server, c.tool); got != c.want {
			t.Errorf("IsTool(%q, %q, %q) = %v", c.name, c.server, c.tool, got)
		}
	}
}

// A turn is not done while a tool that its last call has called has no answer. A command may go on by itself.
func TestTurnWaits(t *testing.T) {
	for last, want := range map[string]session.Outcome{
		"lab tools/call wait 12 20 is=t1 open": session.Open,
		"lab tools/call wait 12 20 is=t1":      session.Done,
		"shell shell server 12 20 is=t1 open":  session.Done,
	} {
		list := Tree([]*calls.Call{call(t, "model messages opus 0 10 turn=a calls=t1:mcp__lab__wait:{}"), call(t, last)}, nil, false)
		if got := list[0]; !got.Place.Turn || got.Outcome != want {
			t.Errorf("%s: the turn is %s, and not %s", last, got.Outcome, want)
		}
	}
}

func TestRoleOf(t *testing.T) {
	for want, list := range map[Role][]calls.Call{
		Model:   {{Protocol: "anthropic", Kind: "messages", Model: "opus"}},
		Tool:    {{Protocol: "mcp", Kind: "tools/call", Name: "echo"}, {Protocol: "mcp", Kind: "initialize"}, {Protocol: "agent-log", Kind: "call", Name: "Bash"}},
		Process: {{Protocol: processes, Kind: "shell", Name: "ls"}},
		Agent:   {{Protocol: processes, Kind: "agent"}, {Place: calls.Place{Turn: true}}, {Protocol: "acp", Kind: "session/prompt", Wire: agentWire}},
		User:    {{Protocol: "acp", Kind: "session/request_permission", Wire: agentWire}, {Protocol: "mcp", Kind: "elicitation/create"}},
		NoRole:  {{Protocol: "agent-log", Kind: "prompt"}, {Protocol: "lsp", Kind: "initialize"}, {Protocol: "anthropic", Kind: "models"}, {Protocol: "nothing"}},
	} {
		for i := range list {
			if got := RoleOf(&list[i]); got != want {
				t.Errorf("%s %s is %q, and not %q", list[i].Protocol, list[i].Kind, got, want)
			}
		}
	}
}
