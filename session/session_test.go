package session_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// exchanges lists a tracker's exchanges as KIND ID OUTCOME PARTS, the history first.
func exchanges(tr *session.Tracker) string {
	var lines []string
	for e := range tr.Exchanges() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", e.Kind, e.ID.Text, e.Outcome, e.Parts))
	}
	return strings.Join(lines, "; ")
}

// Answers find their exchange by whatever name the protocol uses.
func TestExchanges(t *testing.T) {
	for _, test := range []struct{ name, protocol, script, want string }{
		{"both sides number from 0", "mcp", "> call 0; < ping 0; < progress 0; > result 0; < error 0", "ping 0 done 0; tools/call 0 failed 1"},
		{"answers overtake each other", "mcp", "> call 1; > call 2; < result 2; < result 1", "tools/call 2 done 0; tools/call 1 done 0"},
		{"equal ids are answered in order", "rlm", "> ask a; > ask2 a; < fail a", `WireRequest "a" failed 0; WireRequest "a" open 0`},
		{"no id answers what waits for longest", "rlm", "> ask a; > ask b; < null", `WireRequest "a" failed 0; WireRequest "b" open 0`},
		{"updates name the session", "acp", "> prompt 1 s; < update s; < update s; < stop 1 end_turn; > prompt 2 s; < update s", "session/prompt 1 done 2; session/prompt 2 open 1"},
		{"a subscription lasts", "latis", "> subscribe 1; < update 1; < update 1; > get 2; < update 2", "STATE_GET 2 done 0; STATE_SUBSCRIBE 1 open 2"},
		{"an unsubscribe ends all subscriptions", "latis", "> subscribe 1; > subscribe 2; > unsubscribe 3; < ack 3", "STATE_SUBSCRIBE 3 done 0; STATE_SUBSCRIBE 1 done 0; STATE_SUBSCRIBE 2 done 0"},
		{"an acknowledgement is not part", "theory", "> run a; < ack a; < event a; < token; < final a", `Request "a" done 2`},
		{"connections have ids of their own", "mcp", "> call 1; #2; > call 1; < result 1; end; #1; end", "tools/call 1 done 0; tools/call 1 abandoned 0"},
		{"a cancel that has an id opens its own", "dap", "> request 1; > cancel 2 1; < cancelled 1 1; < response 2 2", "evaluate 1 cancelled 0; cancel 2 done 0"},
		{"a batch is its messages", "jsonrpc", `> [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]; < [{"jsonrpc":"2.0","id":2,"result":1},{"jsonrpc":"2.0","id":1,"result":1}]`, "b 2 done 0; a 1 done 0"},
		{"a stream that does not tell directions", "mcp", "? call 1; ? ping 7; ? result 7; ? progress 1; ? result 1", "ping 7 done 0; tools/call 1 done 1"},
		{"an error without an id is for what could not be read", "jsonrpc", "> {; > call 1; < null; < result 1", "call 1 done 0"},
		{"an error with a null id refuses a batch as a whole", "acp", `> prompt 7 s; > [{"jsonrpc":"2.0","id":1,"method":"session/list"},{"jsonrpc":"2.0","id":2,"method":"no/such"}]; < {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}; < stop 7 end_turn`, "session/list 1 failed 0; no/such 2 failed 0; session/prompt 7 done 0"},
		{"one batch after the other", "jsonrpc", `> [{"jsonrpc":"2.0","id":1,"method":"a"}]; > [{"jsonrpc":"2.0","id":2,"method":"b"}]; < null`, "a 1 failed 0; b 2 open 0"},
		{"a batch with an answer is not refused", "jsonrpc", `> [1,{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]; < result 2; < null; < result 1`, "b 2 done 0; a 1 done 0"},
		{"an error with a null id that says something else answers nothing", "mcp", `> call 1; < {"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}; < result 1`, "tools/call 1 done 0"},
		{"nor does it refuse a batch", "jsonrpc", `> [{"jsonrpc":"2.0","id":1,"method":"a"}]; < {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}`, "a 1 open 0"},
		{"an error without an id is for a batch that is refused", "nexus", "> [1]; > send 1 a; < null; < result 1", "send 1 done 0"},
	} {
		if got := exchanges(play(t, test.protocol, test.script, session.Options{})); got != test.want {
			t.Errorf("%s: %s\n got  %q\n want %q", test.name, test.script, got, test.want)
		}
	}
}

// A failing tool still gives a successful answer. A client that cancels gives a reason.
func TestOutcomes(t *testing.T) {
	for _, test := range []struct{ protocol, script, want string }{
		{"mcp", "> call 1; < unwell 1", "tools/call t (id 1) tool-error failed"},
		{"lsp", `> hover 1; < {"jsonrpc":"2.0","id":1,"result":{"isError":true}}`, "textDocument/hover (id 1) done"},
		{"mcp", `> call 1; < {"jsonrpc":"2.0","id":1,"result":{"isError":false}}`, "tools/call t (id 1) done"},
		{"mcp", "> call 1; < error 1", "tools/call t (id 1) failed failed"},
		{"mcp", "> call 1; > cancel 1", "tools/call t (id 1) cancelled"},
		{"mcp", "> call 1; > giveup 1 bored", "tools/call t (id 1) cancelled: bored"},
		{"mcp", `> call 1; > giveup 1 McpError:_MCP_error_-32001:_Request\u0020timed\u0020out`, "tools/call t (id 1) timed-out failed: McpError:_MCP_error_-32001:_Request timed out"},
		{"mcp", "> call 1; > giveup 1 McpError:_MCP_error_-32001:_user_pressed_esc", "tools/call t (id 1) cancelled: McpError:_MCP_error_-32001:_user_pressed_esc"},
		{"mcp", `> call 1; > giveup 1 \u0054imeoutError()`, "tools/call t (id 1) timed-out failed: TimeoutError()"},
		{"mcp", "> call 1; < result 1; > giveup 1 timeout", "tools/call t (id 1) done"},
		{"mcp", `> {"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"\u001b[2J"}}; end`, `tools/call "\x1b[2J" (id "x") abandoned`},
		{"rlm", `> {"correlation_id":"a","prompt":"x","model":"gpt"}; < answer a`, `WireRequest gpt (id "a") done`},
	} {
		for e := range play(t, test.protocol, test.script, session.Options{}).Exchanges() {
			got := e.Title() + " " + e.Outcome.String()
			if e.Outcome.Failed() {
				got += " failed"
			}
			if e.Reason != "" {
				got += ": " + e.Reason
			}
			if got != test.want {
				t.Errorf("%s: %s\n got  %q\n want %q", test.protocol, test.script, got, test.want)
			}
		}
	}
}

// Exchanges are also counted by name.
func TestNames(t *testing.T) {
	call := func(id, tool string) string {
		return `> {"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}; `
	}
	tr := play(t, "mcp", call("1", "a")+call("2", "b")+call("3", "a")+"+9; < unwell 1; < result 2; > ping 4", session.Options{})
	k := tr.Stats().Kinds[0]
	if len(k.Names) != 2 || k.Names[0].Name != "a" || k.Names[1].Name != "b" {
		t.Fatalf("%+v", k.Names)
	}
	a := k.Names[0]
	if a.Outcomes != [...]int64{session.Open: 1, session.ToolError: 1, session.Abandoned: 0} || a.Frames != 2 || a.Answered == 0 || a.Latency.Max != 12*time.Millisecond {
		t.Errorf("%+v", a)
	}
}

// Exchanges keep their names even if there are too many to count.
func TestMoreNamesThanAreCounted(t *testing.T) {
	var script strings.Builder
	for id := range 1002 {
		fmt.Fprintf(&script, `> {"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":"file:%[1]d"}}; `, id)
	}
	tr := play(t, "mcp", script.String(), session.Options{})
	if n := len(tr.Stats().Kinds[0].Names); n != 1000 {
		t.Errorf("%d names are counted", n)
	}
	for e := range tr.Exchanges() {
		if want := "file:" + string(e.ID.Text); e.Name != want {
			t.Fatalf("%q, want %q", e.Name, want)
		}
	}
}

// The class of a cancel is the first that applies.
func TestCancelClasses(t *testing.T) {
	for _, test := range []struct{ protocol, script, want string }{
		{"latis", "> cancel 2 1", "unknown-target +0"},
		{"latis", "> prompt 1; > cancel 2 1", "pending +0"},
		{"latis", "> prompt 1; > cancel 2 1; +900; < cancelled 1", "confirmed +0"},
		{"latis", "> prompt 1; > cancel 2 1; < chunk 1 0; < chunk 1 1; < cancelled 1", "confirmed +2"},
		{"latis", "> prompt 1; < complete 1; +900; > cancel 2 1", "crossed +0"},
		{"latis", "> prompt 1; > cancel 2 1; +249; < complete 1", "crossed +0"},
		{"latis", "> prompt 1; > cancel 2 1; +250; < complete 1", "ignored +0"},
		{"latis", "> prompt 1; > cancel 2 1; < chunk 1 0; < complete 1", "ignored +1"},
		{"latis", "> prompt 1; > cancel 2 1; > cancel 3 1; < cancelled 1", "confirmed +0"},
		{"latis", "> prompt 1; > cancel 2 1; < ack 2; end", "silent +0"},
		{"mcp", "> call 1; > cancel 1; < progress 1; +9999; < progress 1; end", "silent +2"},
		{"mcp", "> call 1; > cancel 1; +249; < error 1", "crossed +0"},
		{"mcp", "> call 1; > cancel 1; +250; < error 1", "late-result +0"},
		{"lsp", "> hover 1; > cancel 1; < gone 1", "confirmed +0"},
		{"lsp", "> hover 1; > cancel 1; +999; < result 1", "ignored +0"},
		{"acp", "> prompt 1 s; > cancel s; < update s; < stop 1 cancelled", "confirmed +1"},
		{"dap", "> request 1; > cancel 2 1; < cancelled 1 1", "confirmed +0"},
		{"nexus", "> send 1 a; > cancel 2 a; < ok 2; < cut 1", "confirmed +0"},
		{"nexus", "> send 1 a; > cancel 2 a; < ok 2; +999; < ok 1", "confirmed +0"},
		{"nexus", "> send 1 a; > cancel 2 a; < ok 2; +999; < result 1", "ignored +0"},
		{"theory", "> run a; < ack a; > preempt; < event a; < stopped a", "confirmed +1"},
	} {
		var got []string
		for c := range play(t, test.protocol, test.script, session.Options{}).Cancels() {
			got = append(got, fmt.Sprintf("%s +%d", c.Class, c.Parts))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: %s\n got %q rather than %q", test.protocol, test.script, got, test.want)
		}
	}
}

// The ledger shows the cost of a cancel: what arrived after it, and for how long.
func TestLedger(t *testing.T) {
	tr := play(t, "latis", "> prompt 1; < chunk 1 0; > cancel 2 1; +40; < chunk 1 1; > cancel 3 1; +60; < cancelled 1", session.Options{})
	for c := range tr.Cancels() {
		if c.Seq != 3 || c.TargetSeq != 1 || c.TargetKind != "PROMPT_SEND" || string(c.Target.Text) != "1" {
			t.Errorf("asked by frame %d for %s %s of frame %d", c.Seq, c.TargetKind, c.Target.Text, c.TargetSeq)
		}
		if c.Repeats != 1 || c.Parts != 1 || c.Bytes == 0 || c.Last != 103*time.Millisecond || c.Confirmed.Sub(c.Asked) != c.Last {
			t.Errorf("%d repeats, %d parts, %d bytes, the last after %v, confirmed at %v", c.Repeats, c.Parts, c.Bytes, c.Last, c.Confirmed)
		}
	}
}

// An exchange shows how its answer was streamed.
func TestAnatomy(t *testing.T) {
	tr := play(t, "latis", "> prompt 1; +99; < chunk 1 0; +9; < chunk 1 1; +9; < chunk 1 2; +199; < chunk 1 3; +49; < complete 1", session.Options{})
	for e := range tr.Exchanges() {
		if e.TimeToFirstPart() != 100*time.Millisecond || e.Latency() != 370*time.Millisecond || e.Gap(1) != 200*time.Millisecond {
			t.Errorf("first part after %v, end after %v, largest gap %v", e.TimeToFirstPart(), e.Latency(), e.Gap(1))
		}
		if p50 := e.Gap(0.5); p50 < 10*time.Millisecond || p50 > 12*time.Millisecond {
			t.Errorf("median gap %v", p50)
		}
		if e.First != 1 || e.Last != 6 || len(e.Frames) != 6 || e.BytesOut == 0 || e.BytesIn <= e.BytesOut {
			t.Errorf("frames %d to %d, %v; %d bytes out and %d in", e.First, e.Last, e.Frames, e.BytesOut, e.BytesIn)
		}
	}
}

// A large frame delays only the frames of other exchanges that follow immediately.
func TestHeadOfLineBlocking(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 100_000) + `"}`
	for script, want := range map[string]string{
		"> call 1; > call 2; > call 3; < progress 2; +400; < " + big + "; < result 2; < result 3": "1 0s 401ms 0; 2 401ms 0s 5; 3 401ms 0s 5",
		"> call 1; > call 2; < progress 2; +400; < " + big + "; +10; < result 2":                  "1 0s 0s 0; 2 0s 0s 0",
		"> call 1; < progress 1; +400; > call 2; < " + big + "; < result 2":                       "1 0s 0s 0; 2 0s 0s 0",
	} {
		var got []string
		for e := range play(t, "mcp", script, session.Options{}).Exchanges() {
			got = append(got, fmt.Sprintf("%s %v %v %d", e.ID.Text, e.HeldBack, e.Holding, e.HeldBy))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%q rather than %q", got, want)
		}
	}
}

// Frames are counted by kind, and exchanges by the kind that opens them.
func TestStats(t *testing.T) {
	tr := play(t, "latis", "> prompt 1; +9; < chunk 1 0; +9; < chunk 1 1; < complete 1; > prompt 2; < error 2; > prompt 3; > cancel 4 3; < cancelled 3; > prompt 5; < complete 9", session.Options{})
	s := tr.Stats()
	if s.Frames != 11 || s.Opened != 5 || s.InFlight != 1 || s.Cancels[session.Confirmed] != 1 || s.Findings["orphan"] != 1 {
		t.Errorf("%+v", s)
	}
	k := s.Kinds[0]
	if k.Name != "PROMPT_SEND" || k.Frames != 4 || k.Outcomes != [...]int64{session.Open: 1, session.Done: 1, session.Failed: 1, session.Cancelled: 1, session.Abandoned: 0} || k.Cancels[session.Confirmed] != 1 {
		t.Errorf("%+v", k)
	}
	if k.Latency.Count != 3 || k.Latency.Max != 21*time.Millisecond || k.Parts != 2 || k.PartsPerSecond() != 100 {
		t.Errorf("%d latencies up to %v, %d parts, %v parts/s", k.Latency.Count, k.Latency.Max, k.Parts, k.PartsPerSecond())
	}
}

// With only one direction, nothing is reported as missing.
func TestOneWay(t *testing.T) {
	for _, script := range []string{"< result 1; < progress 2; < result 2; end", "> call 1; > call 2; end"} {
		if got := found(play(t, "mcp", script, session.Options{OneWay: true})); got != "" {
			t.Errorf("%s: found %q", script, got)
		}
	}
}

// The history is bounded, and counting continues beyond it.
func TestBounds(t *testing.T) {
	o := session.Options{History: 4, InFlight: 8}
	p, _ := all.Named("mcp")
	tr := session.New(p, o)
	for i := range 1000 {
		id := fmt.Sprint(i)
		send(t, tr, p, session.Frame{Seq: int64(i), Conn: i % 20, Dir: frame.C2U}, []string{"call", id})
		send(t, tr, p, session.Frame{Seq: int64(i), Conn: i % 20, Dir: frame.C2U}, []string{"cancel", id})
		send(t, tr, p, session.Frame{Seq: int64(i), Conn: i % 20, Dir: frame.C2U}, []string{"ping", `"` + strings.Repeat("x", 1000) + id + `"`})
		send(t, tr, p, session.Frame{Seq: int64(i), Conn: i % 20, Dir: frame.U2C}, []string{`{"jsonrpc":"2.0"}`})
	}
	kept, cancels, findings := slices.Collect(tr.Exchanges()), slices.Collect(tr.Cancels()), slices.Collect(tr.Findings())
	if len(kept) > 12 || len(cancels) != 4 || len(findings) != 4 {
		t.Errorf("%d exchanges, %d cancels and %d findings are kept", len(kept), len(cancels), len(findings))
	}
	if s := tr.Stats(); s.Opened != 2000 || s.Findings["unknown-kind"] != 1000 || s.Forgotten == 0 {
		t.Errorf("%+v", s)
	}
}

// A long-lived stream is kept as long as it is in use, whatever comes and goes beside it.
func TestLastingScope(t *testing.T) {
	p, _ := all.Named("mcp")
	tr := session.New(p, session.Options{InFlight: 4})
	say := func(stream int, dir frame.Dir, words ...string) {
		send(t, tr, p, session.Frame{Conn: 1, Stream: stream, Dir: dir}, words)
	}
	say(1, frame.C2U, "call", "1")
	for i := range 20 {
		say(i+2, frame.C2U, "call", "1")
		say(i+2, frame.U2C, "result", "1")
		say(1, frame.U2C, "progress", "1")
	}
	say(1, frame.U2C, "result", "1")
	if s := tr.Stats(); s.InFlight > 0 || s.Forgotten > 0 || len(s.Findings) > 0 {
		t.Errorf("%+v", s)
	}
}

// A peer that never answers, repeats one id or makes up kinds does not use more memory over
// time.
func TestMemoryIsBounded(t *testing.T) {
	p, _ := all.Named("jsonrpc")
	tr := session.New(p, session.Options{})
	feed := func(n int) uint64 {
		for i := range n {
			send(t, tr, p, session.Frame{Dir: frame.C2U}, []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m%d"}`, i%3*i, i)})
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	full := feed(70_000)
	if more := feed(70_000); more > full+full/10 {
		t.Errorf("%d bytes grew to %d", full, more)
	}
	if full > 100<<20 {
		t.Errorf("%d bytes", full)
	}
}

// The median of two is the shorter one: half of them do not exceed it.
func TestQuantileOfFew(t *testing.T) {
	var h session.Histogram
	h.Add(30 * time.Millisecond)
	h.Add(2 * time.Second)
	if got := h.Quantile(0.5); got < 26*time.Millisecond || got > 34*time.Millisecond {
		t.Errorf("the median is %v, want 30ms within an eighth", got)
	}
	if got := h.Quantile(0.9); got < 1750*time.Millisecond {
		t.Errorf("p90 is %v, want 2s within an eighth", got)
	}
	if h.Quantile(0) != h.Min || h.Quantile(1) != h.Max {
		t.Errorf("from %v to %v, want from %v to %v", h.Quantile(0), h.Quantile(1), h.Min, h.Max)
	}
}

// In some protocols the requester may hang up while waiting; the responder may not.
func TestHangUp(t *testing.T) {
	for _, test := range []struct {
		protocol, script string
		first            frame.Dir
		want             session.Severity
	}{
		{"rlm", "> ask a", frame.C2U, session.Note},
		{"rlm", "> ask a", frame.DirUnknown, session.Note},
		{"rlm", "> ask a", frame.U2C, session.Error},
		{"nexus", "> send 1 a", frame.C2U, session.Note},
		{"nexus", "> send 1 a", frame.U2C, session.Error},
		{"latis", "> prompt 1", frame.C2U, session.Error},
	} {
		tr := play(t, test.protocol, test.script, session.Options{})
		tr.EndBy(1, session.Ending{First: test.first}, began)
		for f := range tr.Findings() {
			if f.Name != "unanswered" || f.Severity != test.want {
				t.Errorf("%s ended by %v: %s %v rather than %v", test.protocol, test.first, f.Name, f.Severity, test.want)
			}
		}
		for e := range tr.Exchanges() {
			if e.Outcome != session.Abandoned {
				t.Errorf("%s ended by %v: the outcome is %v", test.protocol, test.first, e.Outcome)
			}
		}
	}
}

// A failure that only says that the peer lacks what a client may look for is a probe. Nothing has failed.
func TestProbes(t *testing.T) {
	const (
		old     = "> begin 0 2025-11-25; < serves 0 2025-11-25 tools; > ready; "
		lists   = `> {"jsonrpc":"2.0","id":1,"method":"prompts/list"}; `
		tools   = "> list 1; "
		looks   = `> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta26 + `}}; `
		looks25 = `> {"jsonrpc":"2.0","id":1,"method":"server/discover"}; `
		extends = `> {"jsonrpc":"2.0","id":1,"method":"%s"}; < {"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}; end`
	)
	for _, tt := range []struct {
		about, protocol, script string
		want                    session.Outcome
	}{
		{"an older server", "mcp", looks + "< code 1 -32601; end", session.Probe},
		{"without the version", "mcp", looks25 + "< code 1 -32601; end", session.Probe},
		{"which knows no such message", "mcp", looks + "< code 1 -32602; end", session.Probe},
		{"which has not begun a session", "mcp", looks + "< code 1 -32000; end", session.Probe},
		{"a server of other versions", "mcp", looks + "< code 1 -32022; end", session.Probe},
		{"a server that does not work", "mcp", looks + "< code 1 -32603; end", session.Failed},
		{"a server that has it", "mcp", looks + "< cached 1; end", session.Done},
		{"a list that the server has not declared", "mcp", old + lists + "< code 1 -32601; end", session.Probe},
		{"a list that it has declared", "mcp", old + tools + "< code 1 -32601; end", session.Failed},
		{"a list that it cannot give", "mcp", old + lists + "< code 1 -32603; end", session.Failed},
		{"a list of a server that has declared nothing yet", "mcp", lists + "< code 1 -32601; end", session.Failed},
		{"a tool that there is not", "mcp", "> call 1; < code 1 -32601; end", session.Failed},
		{"an extension of LSP", "lsp", fmt.Sprintf(extends, "$/x", -32601), session.Probe},
		{"which fails", "lsp", fmt.Sprintf(extends, "$/x", -32603), session.Failed},
		{"a request of LSP", "lsp", fmt.Sprintf(extends, "textDocument/hover", -32601), session.Failed},
		{"an extension of ACP", "acp", fmt.Sprintf(extends, "_x/y", -32601), session.Probe},
		{"a method of JSON-RPC itself", "jsonrpc", fmt.Sprintf(extends, "rpc.discover", -32601), session.Probe},
		{"another", "jsonrpc", fmt.Sprintf(extends, "add", -32601), session.Failed},
	} {
		tr := play(t, tt.protocol, tt.script, session.Options{})
		for e := range tr.Exchanges() {
			if e.Kind != "initialize" && e.Outcome != tt.want {
				t.Errorf("%s: %s is %v, want %v", tt.about, e.Title(), e.Outcome, tt.want)
			}
		}
	}
}
