package calls

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

// start is when the first frame of each test is read. The others follow at intervals of a
// millisecond.
var start = time.Unix(1_800_000_000, 0)

// redirect stands for a status that refuses the request before it.
const redirect = "307"

// feed feeds a tracker with MCP lines; those of the client begin with ">".
func feed(t *testing.T, log *Log, lines ...string) *session.Tracker {
	t.Helper()
	return feedOf(t, jsonrpc.MCP, log, lines...)
}

func feedOf(t *testing.T, p protocol.Protocol, log *Log, lines ...string) *session.Tracker {
	t.Helper()
	log.First = start
	tr := session.New(p, session.Options{Watcher: log})
	for i, line := range lines {
		text, asks := strings.CutPrefix(line, ">")
		var m protocol.Message
		if line == redirect {
			m = protocol.Message{Kind: []byte(redirect), Phase: protocol.Fail, Seq: -1}
			tr.Refuse(session.Frame{Seq: int64(i + 1), Time: start.Add(time.Duration(i) * time.Millisecond), Dir: frame.U2C}, &m, int64(i))
			continue
		}
		if err := p.Parse([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		f := session.Frame{
			Seq: int64(i + 1), Time: start.Add(time.Duration(i) * time.Millisecond),
			Dir: frame.U2C, Size: len(text), Payload: []byte(text),
		}
		if asks {
			f.Dir = frame.C2U
		}
		tr.Feed(f, &m)
	}
	return tr
}

func call(id int, tool string) string {
	return fmt.Sprintf(`>{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`, id, tool)
}
func result(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }
func cancel(id int, reason string) string {
	return fmt.Sprintf(`>{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"%s"}}`, id, reason)
}

// shown collects calls as "ID OUTCOME DURATION".
type shown []string

func (s *shown) show(c *Call) { *s = append(*s, fmt.Sprintf("%s %v %v", c.ID, c.Outcome, c.Duration)) }

func (s *shown) check(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*s, want) {
		t.Errorf("got  %q\nwant %q", *s, want)
	}
	*s = nil
}

// Calls in a file are listed in the order in which they began.
func TestOrderOfStart(t *testing.T) {
	var got shown
	log := &Log{Show: got.show}
	feed(t, log, call(1, "slow"), call(2, "quick"), result(2), call(3, "hangs"), result(1))
	got.check(t, "1 done 4ms", "2 done 1ms")
	log.Finish(start.Add(10 * time.Millisecond))
	got.check(t, "3 open 7ms")
}

// Live calls are listed as they end.
func TestLiveOrder(t *testing.T) {
	var got shown
	log := &Log{Show: got.show, Live: true}
	feed(t, log, call(1, "slow"), call(2, "quick"), result(2), result(1))
	got.check(t, "2 done 1ms", "1 done 3ms")
}

// A call that failed so that it may be repeated has the outcome of its repetition. Live, it has
// been shown by then, and so is the repetition.
func TestRepeated(t *testing.T) {
	var got shown
	lines := []string{call(1, "a"), redirect, call(1, "a"), result(1)}
	feed(t, &Log{Show: got.show}, lines...)
	got.check(t, "1 done 3ms")
	feed(t, &Log{Show: got.show, Live: true}, lines...)
	got.check(t, "1 failed 1ms", "1 done 1ms")
	log := &Log{Show: got.show}
	feed(t, log, lines[:2]...)
	got.check(t)
	log.Finish(start)
	got.check(t, "1 failed 1ms")
}

// A call that never ends does not make the others wait forever.
func TestWindow(t *testing.T) {
	var got shown
	log := &Log{Show: got.show, Window: 4}
	lines := []string{call(1, "hangs"), call(2, "hangs")}
	for id := 3; id <= 8; id++ {
		lines = append(lines, call(id, "quick"), result(id))
	}
	feed(t, log, lines...)
	if len(log.order) > 6 || len(log.calls) != len(log.order) {
		t.Errorf("%d calls are kept", len(log.order))
	}
	got.check(t, "3 done 1ms", "4 done 1ms")
	log.Finish(start)
	got.check(t, "1 open 0s", "2 open 0s", "5 done 1ms", "6 done 1ms", "7 done 1ms", "8 done 1ms")
}

// The duration of a cancelled call is the time until its caller gave up. If it was answered
// anyway, as a file shows, and not merely too late, it is the time until the answer.
func TestCancelled(t *testing.T) {
	lines := []string{
		call(1, "a"), call(2, "b"), call(3, "c"),
		cancel(1, "enough"), cancel(2, "no need"), cancel(3, "Request timed out"), result(2), result(3),
	}
	var got shown
	log := &Log{Show: got.show, Live: true}
	feed(t, log, lines...)
	got.check(t, "1 cancelled 3ms", "2 cancelled 3ms", "3 timed-out 3ms")

	log = &Log{Show: got.show}
	feed(t, log, lines...).End(0, start.Add(time.Second))
	got.check(t, "1 cancelled 3ms", "2 done 5ms", "3 timed-out 3ms")
}

// The duration of a withdrawn question ends with the withdrawal, even if it is answered later.
func TestWithdrawn(t *testing.T) {
	lines := []string{
		`>{"id":1,"method":"turn/start","params":{"threadId":"t","input":[]}}`, `{"id":1,"result":{"turn":{"id":"a","status":"inProgress"}}}`,
		`{"id":"x","method":"item/fileChange/requestApproval","params":{"turnId":"a"}}`,
		`{"id":"y","method":"item/fileChange/requestApproval","params":{"turnId":"a"}}`,
		`{"method":"serverRequest/resolved","params":{"requestId":"x"}}`, `>{"id":"x","result":{}}`, `>{"id":"y","result":{}}`,
		`{"method":"serverRequest/resolved","params":{"requestId":"y"}}`,
	}
	for _, live := range []bool{true, false} {
		var got shown
		log := &Log{Show: got.show, Live: live, Unfold: true}
		feedOf(t, jsonrpc.Codex, log, lines...)
		log.Finish(start.Add(10 * time.Millisecond))
		slices.Sort(got)
		got.check(t, `"x" cancelled 2ms`, `"y" done 3ms`, "1 open 10ms")
	}
}

// Cancelling one request of a batch does not affect the others.
func TestBatch(t *testing.T) {
	var got []string
	log := &Log{Show: func(c *Call) { got = append(got, fmt.Sprintf("%s %v %v %q", c.ID, c.Stopped, c.Class, c.Reason)) }}
	batch := `>[` + call(1, "a")[1:] + `,` + call(2, "b")[1:] + `]`
	feed(t, log, batch, cancel(2, "no need")).End(0, start)
	if want := []string{`1 false pending ""`, `2 true silent "no need"`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// build is a call that becomes the task k, which is polled twice, once too late, while another
// call runs.
var build = []string{
	call(1, "build"), `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"k","status":"working"}}`,
	poll(2), status(2, "working"), call(3, "quick"), result(3),
	poll(4), status(4, "completed"), call(5, "slow"), result(5), poll(6), status(6, "completed"),
}

func poll(id int) string {
	return fmt.Sprintf(`>{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":"k"}}`, id)
}

func status(id int, s string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"taskId":"k","status":"%s"}}`, id, s)
}

// An operation is one call, whatever belongs to it. If unfolded, its exchanges follow it, even
// while it is still running.
func TestOperations(t *testing.T) {
	for _, test := range []struct {
		unfold, live bool
		want         string
	}{
		{false, false, "1+2:7ms 3:1ms 5:1ms"},
		{false, true, "3:1ms 1+2:7ms 5:1ms"},
		{true, false, "1+2:7ms └2:1ms └4:1ms 3:1ms 5:1ms └6:1ms"},
		{true, true, "3:1ms 1+2:7ms └2:1ms └4:1ms 5:1ms └6:1ms"},
	} {
		var got []string
		log := &Log{Unfold: test.unfold, Live: test.live, Show: func(c *Call) {
			name := c.ID
			if c.Operation != 0 {
				name = "└" + name
			}
			if c.Exchanges > 0 {
				name += fmt.Sprintf("+%d", c.Exchanges)
			}
			got = append(got, fmt.Sprintf("%s:%v", name, c.Duration))
		}}
		feed(t, log, build...)
		log.Finish(start)
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("unfolded %t, live %t:\n got  %s\n want %s", test.unfold, test.live, got, test.want)
		}
		if len(log.calls)+len(log.joined) > 0 {
			t.Errorf("%d calls are kept, %d that belong to others", len(log.calls), len(log.joined))
		}
	}
}

// A task that is polled forever needs bounded memory, and so do its polls.
func TestPollsAreBounded(t *testing.T) {
	for _, live := range []bool{false, true} {
		lines := slices.Clone(build[:2])
		for id := range 100 {
			lines = append(lines, poll(id+10), status(id+10, "working"))
		}
		shown := 0
		log := &Log{Unfold: true, Live: live, Window: 8, Show: func(*Call) { shown++ }}
		feed(t, log, lines...)
		if len(log.order) > 10 || len(log.calls) > 10 || len(log.joined) > 10 {
			t.Errorf("%d, %d and %d are kept", len(log.order), len(log.calls), len(log.joined))
		}
		if log.Finish(start); shown != 101 {
			t.Errorf("%d are shown", shown)
		}
	}
}

// A wire that was not understood at first can deliver calls that began before others.
func TestLateEntries(t *testing.T) {
	var got shown
	log := &Log{Show: got.show}
	tr := session.New(jsonrpc.MCP, session.Options{Watcher: log})
	for _, seq := range []int64{5, 2} {
		var m protocol.Message
		text := call(int(seq), "t")[1:]
		if err := jsonrpc.MCP.Parse([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(session.Frame{Seq: seq, Conn: int(seq), Dir: frame.C2U, Size: len(text)}, &m)
	}
	log.Finish(time.Time{})
	got.check(t, "2 open 0s", "5 open 0s")
}

// CSV and NDJSON have the same content.
func TestFormats(t *testing.T) {
	list := some(t)
	object, sheet := printed(t, table.Output{Form: table.AsNDJSON}, false, list), printed(t, table.Output{Form: table.AsCSV}, false, list)
	rows, err := csv.NewReader(strings.NewReader(sheet)).ReadAll()
	if err != nil || len(rows) != len(list)+1 {
		t.Fatalf("%v\n%s", err, sheet)
	}
	for i, line := range strings.Split(strings.TrimSpace(object), "\n") {
		var record map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for k, key := range Keys {
			want := ""
			if value, ok := record[key]; ok {
				want = fmt.Sprint(value)
			}
			if got := rows[i+1][k]; got != want {
				t.Errorf("%s: %q in CSV, %q in NDJSON", key, got, want)
			}
			delete(record, key)
		}
		if len(record) > 0 {
			t.Errorf("keys that are not in Keys: %v", record)
		}
	}
	if got := rows[1][slices.Index(Keys, "name")]; got != "a,\"b\"\n\x1b[31m" {
		t.Errorf("%q", got)
	}
}

// printed returns what a list prints.
func printed(t *testing.T, o table.Output, live bool, list []*Call) string {
	t.Helper()
	var out bytes.Buffer
	o.To = &out
	l := NewList(o, Choice{}, live)
	for _, c := range list {
		l.Show(c)
	}
	if err := l.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/calls.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range Keys {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/calls.md does not tell of %s", key)
		}
	}
}

// some returns calls with everything that matters to a format.
func some(t *testing.T) (list []*Call) {
	t.Helper()
	log := &Log{Unfold: true, Show: func(c *Call) { list = append(list, c) }}
	feed(t, log,
		call(1, `a,\"b\"\n\u001b[31m`), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`,
		call(2, "slow"), cancel(2, "Request timed out"),
		`>{"jsonrpc":"2.0","id":"x","method":"ping"}`,
		fmt.Sprintf(`>{"jsonrpc":"2.0","id":"%s","method":"ping"}`, strings.Repeat("long", 100)), // is clipped
	)
	log.Finish(start.Add(time.Second))
	feed(t, log, // another session, with an exchange that belongs to an operation
		`>{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"more","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","id":8,"result":{"resultType":"input_required","requestState":"s"}}`,
		`>{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"more","arguments":{},"requestState":"s"}}`,
		result(9),
	)
	log.Finish(start.Add(time.Second))
	return list
}

// Conditions use the fields of NDJSON, and flags may stand alone.
func TestWhere(t *testing.T) {
	for expr, want := range map[string]string{
		"failed":                             "1 2",
		"failed and inferred":                "2",
		"failed!=true and id~x":              `"x"`,
		"outcome==tool-error":                "1",
		"cancelled":                          "2",
		"cancelled and failed and name~slow": "2",
		`id=="x"`:                            `"x"`,
		"duration_ms>=995 and frame<6":       `"x"`,
		"duration_ms<5 and duration_ms>0.5":  "1 2 8 9",
		"reason~timed and cancel==pending":   "2",
		"version==2026-07-28":                "8 9",
		"operation==1":                       "9",
		"exchanges==1":                       "8",
	} {
		where, err := query.Parse(expr, Fields)
		if err != nil {
			t.Error(err)
			continue
		}
		var ids []string
		list := &List{Choice: Choice{Where: where}}
		for _, c := range some(t) {
			if list.chooses(c) {
				ids = append(ids, c.ID)
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// The slowest calls are found without keeping all.
func TestSlowest(t *testing.T) {
	var out bytes.Buffer
	list := NewList(table.Output{To: &out, Form: table.AsNDJSON}, Choice{Slowest: 3}, false)
	for i := range int64(10_000) {
		list.Show(&Call{Frame: i, Start: start, Duration: time.Duration(i * 7919 % 10_007)})
		if len(list.slowest) > 3+65 {
			t.Fatalf("%d are kept", len(list.slowest))
		}
	}
	if err := list.Finish(); err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Fatalf("%v\n%s", err, &out)
	}
	if got := list.Summary(); got != "3 of 10000 calls" {
		t.Error(got)
	}
}

// A failed request that an agent has made for itself is no failure of a run, unless it is listed.
func TestOwnFailures(t *testing.T) {
	for unfolded, want := range map[bool]string{
		false: "2 calls (1 failed); 1 of the agent for itself (request ×1) are listed with --exchanges",
		true:  "2 exchanges (2 failed)",
	} {
		list := NewList(table.Output{To: io.Discard, Form: table.AsNDJSON}, Choice{}, false)
		list.Unfolded = unfolded
		for _, own := range []string{"", "request"} {
			list.Show(&Call{Outcome: session.Failed, Place: Place{Own: own}})
		}
		if got := list.Summary(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// On a terminal every line fits, whatever the names; elsewhere nothing is cut.
func TestTextFits(t *testing.T) {
	long := strings.Repeat("日本語", 40)
	calls := append(some(t), &Call{
		Kind: "resources/read", Name: long, ID: "7", Outcome: session.Done, Start: start,
		Duration: time.Hour, FirstPart: time.Hour, BytesOut: 1e12, BytesIn: 1e12, Offset: 1e6 * time.Second,
	}, &Call{Kind: "tools/call", Name: "t", Outcome: session.Cancelled, Reason: long})
	for _, live := range []bool{false, true} {
		for _, width := range []int{0, 40, 60, 80, 120, 200} {
			b := []byte(printed(t, table.Output{Form: table.AsText, Width: width, Style: &render.Style{}}, live, calls))
			if bytes.ContainsRune(b, '\x1b') {
				t.Errorf("an escape of the wire: %q", b)
			}
			if lines := bytes.Count(b, []byte("\n")); lines != len(calls)+1 {
				t.Errorf("%d lines:\n%s", lines, b)
			}
			if width == 0 {
				if bytes.Count(b, []byte(long)) != 2 {
					t.Errorf("a name is cut:\n%s", b)
				}
				continue
			}
			for line := range strings.Lines(string(b)) {
				if n := render.Cells([]byte(strings.TrimSuffix(line, "\n"))); n > width {
					t.Errorf("%d cells in %d: %s", n, width, line)
				}
			}
		}
	}
}

// A list that is printed as calls end has sizes, but not of what a program tells about itself.
func TestSizesAreLive(t *testing.T) {
	list := some(t)
	out := table.Output{Form: table.AsText, Style: &render.Style{}}
	for _, told := range []bool{false, true} {
		for _, c := range list {
			c.noWire = told
		}
		for _, live := range []bool{false, true} {
			if text := printed(t, out, live, list); strings.Contains(text, "bytes out") == told || strings.Contains(text, "bytes in") == told {
				t.Errorf("live %v, without bytes %v:\n%s", live, told, text)
			}
		}
	}
}
