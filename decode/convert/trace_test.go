package convert_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// An event is what the tests ask of a trace event.
type event struct {
	Name, Cat, Ph string
	TS, Dur       float64
	PID, TID      int64
	Args          struct {
		Name, Outcome, Class string
	}
}

var origin = time.Unix(100, 0)

// A drawing is a timeline of one tracker of MCP.
type drawing struct {
	t       *testing.T
	tracker *session.Tracker
	line    convert.Timeline
	out     []byte
	seq     int64
}

func draw(t *testing.T) *drawing {
	return &drawing{
		t: t, tracker: session.New(jsonrpc.MCP, session.Options{}),
		line: convert.Timeline{Origin: origin},
	}
}

// feed feeds a message that was read so many milliseconds after the origin.
func (d *drawing) feed(ms int, dir frame.Dir, payload string) {
	d.t.Helper()
	var m protocol.Message
	check(d.t, jsonrpc.MCP.Parse([]byte(payload), &m))
	d.seq++
	d.tracker.Feed(session.Frame{Seq: d.seq, Time: origin.Add(time.Duration(ms) * time.Millisecond), Conn: 1, Dir: dir, Size: len(payload)}, &m)
	if d.seq%convert.EveryFrames == 0 {
		d.out = d.line.Append(d.out, d.tracker)
	}
}

// events ends the trace at a time and returns its events by their phase.
func (d *drawing) events(ms int) map[string][]event {
	d.t.Helper()
	end := origin.Add(time.Duration(ms) * time.Millisecond)
	d.out = d.line.AppendEnd(d.line.AppendRest(d.out, d.tracker, end))
	var trace struct{ TraceEvents []event }
	if err := json.Unmarshal(d.out, &trace); err != nil {
		d.t.Fatalf("%v\n%s", err, d.out)
	}
	by := map[string][]event{}
	for _, e := range trace.TraceEvents {
		by[e.Ph] = append(by[e.Ph], e)
	}
	return by
}

func call(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

func answer(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

func cancel(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
}

// Exchanges last from request to end, on tracks of their own: one that was
// cancelled and may not be answered up to the cancel, and one that is open up
// to the end of the session.
func TestTimeline(t *testing.T) {
	d := draw(t)
	d.feed(0, frame.C2U, call(1, "tools/list"))
	d.feed(1, frame.C2U, call(2, "tools/call"))
	d.feed(2, frame.U2C, call(1, "ping"))
	d.feed(5, frame.U2C, answer(1))
	d.feed(7, frame.C2U, cancel(2))
	d.feed(8, frame.C2U, cancel(9))
	by := d.events(10)

	type slice struct {
		name, outcome string
		track         int64
		from, to      float64
	}
	want := map[slice]bool{
		{"tools/list", "done", 1, 0, 5000}:         true,
		{"tools/call", "cancelled", 2, 1000, 7000}: true,
		{"ping", "open", 3, 2000, 10000}:           true,
	}
	for _, e := range by["X"] {
		s := slice{e.Name, e.Args.Outcome, e.TID, e.TS, e.TS + e.Dur}
		if !want[s] || e.PID != 1 || e.Cat != s.outcome {
			t.Errorf("unexpected slice %+v", e)
		}
		delete(want, s)
	}
	for s := range want {
		t.Errorf("missing slice %+v", s)
	}
	var cancels []string
	for _, e := range by["i"] {
		cancels = append(cancels, fmt.Sprintf("%s at %v on %d: %s", e.Name, e.TS, e.TID, e.Args.Class))
	}
	if got, want := fmt.Sprint(cancels), "[notifications/cancelled at 7000 on 2: pending notifications/cancelled at 8000 on 0: unknown-target]"; got != want {
		t.Errorf("the cancels are %s\nwant %s", got, want)
	}
	names := map[int64]string{}
	for _, e := range by["M"] {
		if e.Name == "thread_name" {
			names[e.TID] = e.Args.Name
		}
	}
	if got, want := fmt.Sprint(names), "map[0:no exchange 1:c2u 1 tools/list 2:c2u 2 tools/call 3:u2c 1 ping]"; got != want {
		t.Errorf("the tracks are %s\nwant %s", got, want)
	}
}

// Parts are within their exchange.
func TestTimelineParts(t *testing.T) {
	d := draw(t)
	d.feed(0, frame.C2U, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p"}}}`)
	for ms := 3; ms <= 5; ms++ {
		d.feed(ms, frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}`, ms))
	}
	d.feed(9, frame.U2C, answer(1))
	var got []string
	for _, e := range d.events(9)["X"] {
		got = append(got, fmt.Sprintf("%s %v+%v", e.Name, e.TS, e.Dur))
	}
	if got, want := fmt.Sprint(got), "[tools/call 0+9000 wait 0+3000 parts: 3 3000+2000]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A long session is drawn completely, though the tracker forgets most of it.
func TestTimelineIsComplete(t *testing.T) {
	const exchanges = 20_000
	d := draw(t)
	for id := range exchanges {
		d.feed(2*id, frame.C2U, call(id, "tools/call"))
		if id%3 == 0 {
			d.feed(2*id, frame.C2U, cancel(id))
		}
		d.feed(2*id+1, frame.U2C, answer(id))
	}
	by := d.events(2 * exchanges)
	tracks := map[int64]int{}
	for _, e := range by["X"] {
		tracks[e.TID]++
	}
	if len(by["X"]) != exchanges || len(tracks) != exchanges || d.line.Seen != exchanges {
		t.Errorf("%d slices on %d tracks, and %d seen, of %d exchanges", len(by["X"]), len(tracks), d.line.Seen, exchanges)
	}
	if got, want := len(by["i"]), (exchanges+2)/3; got != want {
		t.Errorf("%d of %d cancels", got, want)
	}
}

// Nothing happened, and the trace says so in JSON.
func TestTimelineOfNothing(t *testing.T) {
	if got := draw(t).events(0); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
