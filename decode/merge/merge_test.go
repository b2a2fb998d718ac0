package merge_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/merge"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/table"
)

// A script is a capture on one line: steps with semicolons between them.
//
//	> MS call ID TEXT    the controller calls a tool, so many milliseconds after the beginning
//	> MS ping ID         it pings, and
//	> MS say TEXT        it sends a notification
//	< MS …               the unit does the same, or
//	< MS ok ID TEXT      answers
//	* MS                 the capture is running
//	#CONN                what follows is on that connection
var verbs = map[string]string{
	"call": `{"jsonrpc":"2.0","id":%1,"method":"tools/call","params":{"name":"t","arguments":{"a":"%2"}}}`,
	"ping": `{"jsonrpc":"2.0","id":%1,"method":"ping"}`,
	"say":  `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%1"}}`,
	"ok":   `{"jsonrpc":"2.0","id":%1,"result":{"a":"%2"}}`,
}

var began = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// script writes a capture, whose clock is ahead by some time, to a file.
func script(t testing.TB, name, text string, ahead time.Duration) string {
	t.Helper()
	var lines []byte
	conn := 1
	for i, step := range strings.Split(text, ";") {
		words := strings.Fields(step)
		if len(words) > 0 && words[0][0] == '#' {
			conn = int(words[0][1] - '0')
			words = words[1:]
		}
		if len(words) < 2 {
			continue
		}
		var ms float64
		if _, err := fmt.Sscan(words[1], &ms); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		r := ndjson.Record{Seq: int64(i + 1), Time: began.Add(ahead + time.Duration(ms*1e6)), Conn: conn}
		r.Dir = map[string]frame.Dir{">": frame.C2U, "<": frame.U2C}[words[0]]
		if words[0] == "*" {
			r.Kind, r.Summary, r.Raw = []byte(ndjson.Note), []byte("running"), []byte{}
		} else {
			form := verbs[words[2]]
			for i, arg := range append(words[3:], "") {
				form = strings.ReplaceAll(form, fmt.Sprintf("%%%d", i+1), arg)
			}
			r.Framing, r.Protocol, r.Raw = "line", "mcp", []byte(form+"\n")
		}
		lines = append(r.Append(lines), '\n')
	}
	file := filepath.Join(t.TempDir(), name+".ndjson")
	if err := os.WriteFile(file, lines, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func compare(t testing.TB, a, b string) (*merge.Report, error) {
	return merge.Compare(t.Context(), merge.Options{
		Names: [2]string{a, b}, Opener: &source.Opener{Getenv: func(string) string { return "" }}, Config: decode.Config{Wire: true},
		Delay: time.Second, Mask: func(text string) string { return text },
	})
}

// cases are two captures of the same connections, and what happened between them.
var cases = []struct {
	name, a, b string
	ahead      time.Duration // B's clock
	want       string
	clock      string
}{
	{
		name: "clean", a: "> 0 call 1 x; < 30 ok 1 y; > 40 say z", b: "> 10 call 1 x; < 20 ok 1 y; > 50 say z",
		clock: "Both clocks show the same time, ± 10ms",
	},
	{
		name: "clocks apart", a: "> 0 call 1 x; < 30 ok 1 y", b: "> 10 call 1 x; < 20 ok 1 y", ahead: 3 * time.Second,
		clock: "The clock of B is 3s ahead of that of A, ± 10ms",
	},
	{
		name: "behind", a: "> 0 call 1 x; < 30 ok 1 y", b: "> 10 call 1 x; < 20 ok 1 y", ahead: -time.Hour,
		clock: "The clock of B is 1h0m0s behind that of A, ± 10ms",
	},
	{
		name: "one way", a: "> 0 call 1 x; > 30 call 2 y", b: "> 10 call 1 x; > 35 call 2 y", ahead: 3 * time.Second,
		clock: "The offset of the clocks cannot be known, because only frames from A to B are at both ends: B is at most 3.005s ahead",
	},
	{
		name: "drift", a: "> 0 call 1 a; < 3 ok 1 a; > 100000 call 2 b; < 100003 ok 2 b; > 200000 call 3 c; < 200003 ok 3 c",
		b:     "> 1 call 1 a; < 2 ok 1 a; > 100011 call 2 b; < 100012 ok 2 b; > 200021 call 3 c; < 200022 ok 3 c",
		clock: "drift apart by 100.0 µs per second",
	},
	{
		name: "a clock is set", a: "> 0 call 1 a; < 3 ok 1 a; > 100 call 2 b; < 103 ok 2 b",
		b:     "> 1 call 1 a; < 2 ok 1 a; > 60101 call 2 b; < 60102 ok 2 b",
		clock: "No steady difference",
	},
	{
		name: "request lost", a: "> 0 call 1 x; > 5 call 2 y; > 9 call 3 z; < 30 ok 1 x", b: "> 1 call 1 x; > 10 call 3 z; < 20 ok 1 x",
		want: "lost-between 2/0: tools/call t 2 left A and never reached B",
	},
	{
		name: "answered between", a: "> 0 call 1 x; > 5 call 2 y; < 6 ok 2 y; < 30 ok 1 x", b: "> 1 call 1 x; < 20 ok 1 x; * 50",
		want: "lost-between 2/0: tools/call t 2 left A and never reached B; its answer came from between",
	},
	{
		name: "answer lost", a: "> 0 call 1 x; > 5 call 2 y; < 30 ok 1 x; * 40", b: "> 1 call 1 x; > 6 call 2 y; < 20 ok 1 x; < 21 ok 2 y",
		want: "lost-between 0/4: result 2 (frame 4 of B) left B and never reached A",
	},
	{
		name: "one of equal ones lost", a: "> 0 call 1 x; > 1000 say p; > 2000 say p; > 3000 say p; > 4000 call 2 y; < 4010 ok 2 y",
		b:    "> 1 call 1 x; > 1001 say p; > 3001 say p; > 4001 call 2 y; < 4005 ok 2 y",
		want: "lost-between 3/0: notifications/message left A and never reached B",
	},
	{
		name: "asked by the middle", a: "* -5; > 0 call 1 x; < 30 ok 1 x", b: "> 0.5 call 7 own; < 0.7 ok 7 own; > 1 call 1 x; < 20 ok 1 x",
		want: "changed-between 0/1: B got tools/call t 7 (frame 1 of B), which A never sent",
	},
	{
		name: "sent twice", a: "> 0 call 1 x; < 30 ok 1 x; * 40", b: "> 1 call 1 x; > 2 call 1 x; < 20 ok 1 x; < 21 ok 1 x",
		want: "changed-between 0/2: B got tools/call t 1 (frame 2 of B) again, which A sent only once\nlost-between 0/4: result 1 (frame 4 of B) left B and never reached A",
	},
	{
		name: "answered twice", a: "> 0 call 1 x; < 30 ok 1 x; < 31 ok 1 x; * 40", b: "> 1 call 1 x; < 20 ok 1 x; > 21 call 1 x; < 22 ok 1 x",
		want: "changed-between 0/3: B got tools/call t 1 (frame 3 of B) again, which A sent only once",
	},
	{
		name: "dropped and sent twice", a: "> 0 call 1 x; > 1 call 2 y; > 2 call 3 z; < 30 ok 3 x", b: "> 1 call 1 x; > 3 call 3 z; > 3 call 3 z; < 20 ok 3 x",
		want: "lost-between 2/0: tools/call t 2 left A and never reached B\nchanged-between 0/3: B got tools/call t 3 (frame 3 of B) again, which A sent only once",
	},
	{
		name: "changed", a: "> 0 call 1 x; < 30 ok 1 y", b: "> 1 call 1 other; < 20 ok 1 z; * 40",
		want: "changed-between 1/1: tools/call t 1 was changed between A and B: params.arguments.a \"x\" → \"other\"\nchanged-between 2/2: result 1 was changed between B and A: result.a \"z\" → \"y\"",
	},
	{
		name: "ids renamed", a: "> 0 call 1 x; > 1 call 2 x; < 30 ok 2 x; < 31 ok 1 x", b: "> 1 call 11 x; > 2 call 12 x; < 20 ok 12 x; < 21 ok 11 x",
	},
	{
		name: "ids renamed and changed", a: "> 0 call 1 x; > 1 call 2 y; > 2 call 3 z; < 30 ok 1 x", b: "> 1 call 11 x; > 2 call 12 other; > 3 call 13 z; < 20 ok 11 x",
		want: "changed-between 2/2: tools/call t 2 was changed between A and B: params.arguments.a \"y\" → \"other\"",
	},
	{
		name: "held", a: "> 0 call 1 x; < 30 ok 1 x; > 40 call 2 y; < 2000 ok 2 y", b: "> 1 call 1 x; < 20 ok 1 x; > 1941 call 2 y; < 1950 ok 2 y",
		want: "delayed-between 3/3: tools/call t 2 was held for at least 1.9s between A and B",
	},
	{
		name: "held back", a: "> 0 call 1 x; < 30 ok 1 x; > 40 call 2 y; < 2000 ok 2 y", b: "> 1 call 1 x; < 20 ok 1 x; > 41 call 2 y; < 45 ok 2 y",
		want: "delayed-between 4/4: result 2 was held for at least 1.945s between B and A",
	},
	{
		name: "the later capture begins late", a: "> 0 call 1 x; < 30 ok 1 x; > 5000 call 2 y; < 5030 ok 2 y", b: "> 5001 call 2 y; < 5020 ok 2 y",
	},
	{
		name: "the earlier capture ends early", a: "> 0 call 1 x; < 30 ok 1 x", b: "> 1 call 1 x; < 20 ok 1 x; > 5001 call 2 y; < 5020 ok 2 y",
	},
	{
		name: "connections in another order", a: "#1 > 0 call 1 x; #2 > 1 call 1 y; #1 < 30 ok 1 x; #2 < 31 ok 1 y",
		b: "#1 > 2 call 1 y; #2 > 3 call 1 x; #1 < 20 ok 1 y; #2 < 21 ok 1 x",
	},
	{
		name: "one connection for two", a: "#1 > 0 call 1 x; #2 > 1 call 1 y; #1 < 30 ok 1 x; #2 < 31 ok 1 y",
		b: "> 1 call 1 x; > 2 call 2 y; < 20 ok 1 x; < 21 ok 2 y",
	},
	{
		name: "a connection lost", a: "#1 > 0 call 1 x; #2 > 1 call 1 y; > 2 call 2 z; #1 < 30 ok 1 x", b: "> 1 call 1 x; < 20 ok 1 x",
		want: "lost-between 2/0: tools/call t 1 left A and never reached B, as nothing of its connection did: 2 frames",
	},
	{
		name: "reversed", a: "> 10 call 1 x; < 20 ok 1 y; * 50", b: "> 0 call 1 x; < 30 ok 1 y; > 40 say z",
		want: "lost-between 0/3: notifications/message left B and never reached A", clock: "Both clocks show the same time, ± 10ms",
	},
	{
		name: "asked by the unit", a: "> 0 call 1 x; < 9 call 1 q; > 10 ok 1 q; < 30 ok 1 x", b: "> 1 call 1 x; < 5 call 1 q; > 12 ok 1 q; < 20 ok 1 x",
	},
}

func TestAlign(t *testing.T) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			r, err := compare(t, script(t, "a", test.a, 0), script(t, "b", test.b, test.ahead))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				got = append(got, fmt.Sprintf("%s %d/%d: %s", f.Name, f.A, f.B, f.Text))
			}
			if text := strings.Join(got, "\n"); text != test.want {
				t.Errorf("found\n%s\nwant\n%s", text, test.want)
			}
			var text strings.Builder
			if err := r.Write(table.Output{To: &text, Form: table.AsText}); err != nil {
				t.Fatal(err)
			}
			if clock := strings.Split(text.String(), "\n")[2]; !strings.Contains(clock, test.clock) {
				t.Errorf("%s\nwant %s", clock, test.clock)
			}
		})
	}
}

// Captures of different connections have nothing to compare.
func TestNothingInCommon(t *testing.T) {
	for _, test := range [][2]string{{"> 0 call 1 x", "> 0 say y"}, {"> 0 say x", "< 0 say x"}} {
		if _, err := compare(t, script(t, "a", test[0], 0), script(t, "b", test[1], 0)); err != merge.ErrNothing {
			t.Errorf("%q: %v", test, err)
		}
	}
}

// Findings are doubted if hardly a frame is common, or no offset of the clocks fits.
func TestOtherConnections(t *testing.T) {
	const doubt = "; perhaps these are not the two ends of the same connections"
	for _, test := range [][3]string{
		{"> 0 call 1 x; > 5 call 2 y; < 30 ok 1 x", "> 1 call 1 x; < 20 ok 1 x", "1 lost-between"},
		{"> 0 call 1 a; < 3 ok 1 a; > 5 call 2 b; < 8 ok 2 b; > 10 call 3 c; < 13 ok 3 c", "> 1 call 1 a; < 2 ok 1 a; * 50", "2 lost-between"},
		{"> 0 call 1 a; < 3 ok 1 a; > 5 call 2 b; > 6 call 3 c; > 7 call 4 d; > 8 call 5 e", "> 1 call 1 a; < 2 ok 1 a; * 50", "4 lost-between" + doubt},
		{"> 0 call 1 a; < 3 ok 1 a; > 50 call 9 z; > 100 call 2 b; < 103 ok 2 b", "> 1 call 1 a; < 2 ok 1 a; > 60101 call 2 b; < 60102 ok 2 b", "1 lost-between" + doubt},
	} {
		r, err := compare(t, script(t, "a", test[0], 0), script(t, "b", test[1], 0))
		if err != nil || r.Summary() != test[2] {
			t.Errorf("%q: %q, %v", test, r.Summary(), err)
		}
	}
}

// Whatever the captures are, comparing them ends, and accounts for each frame once.
func FuzzAlign(f *testing.F) {
	for _, test := range cases {
		f.Add(test.a, test.b)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, text := range []string{a, b} {
			for _, step := range strings.Split(text, ";") {
				words := strings.Fields(step)
				if len(words) > 0 && words[0][0] == '#' {
					if len(words) == 1 || len(words[0]) < 2 {
						t.Skip()
					}
					words = words[1:]
				}
				var ms float64
				if len(words) > 0 && (len(words) < 2 || !slices.Contains([]string{">", "<", "*"}, words[0]) || words[0] != "*" && (len(words) < 3 || verbs[words[2]] == "")) {
					t.Skip()
				}
				if len(words) > 1 {
					if n, err := fmt.Sscan(words[1], &ms); n != 1 || err != nil || ms < -1e6 || ms > 1e6 {
						t.Skip()
					}
				}
			}
		}
		r, err := compare(t, script(t, "a", a, 0), script(t, "b", b, 0))
		if err != nil {
			t.Skip()
		}
		frames, told := 0, 0
		for _, n := range r.Frames() {
			frames += n
		}
		for _, f := range r.Findings {
			if f.A == 0 || f.B == 0 {
				told++
			}
		}
		if got := 2*r.Both + r.Uncovered + r.Own + told; got != frames {
			t.Errorf("%d frames, of which %d are accounted for", frames, got)
		}
		if err := r.Write(table.Output{To: io.Discard, Form: table.AsText}); err != nil {
			t.Error(err)
		}
	})
}

// In a view of the merged session, each finding is one of the call that it is about.
func TestFindingsOfCalls(t *testing.T) {
	for _, kind := range []string{"both.pcapng", "both.ndjson"} {
		r, err := compare(t,
			script(t, "a", "> 0 call 1 x; < 30 ok 1 x; > 40 call 2 lost; > 50 call 3 y; > 60 call 4 z; < 2000 ok 4 z; < 2010 ok 3 y", 0),
			script(t, "b", "> 10 call 1 x; < 20 ok 1 x; > 1960 call 3 y; > 1961 call 4 z; < 1970 ok 4 z; < 1980 ok 3 y", time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), kind)
		if err := r.Save(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		in, err := (&source.Opener{}).Session(t.Context(), out, decode.Config{Reframe: convert.Reframe(convert.EncodeConfig{})}, false)
		if err != nil {
			t.Fatal(err)
		}
		s := store.New(store.Options{})
		s.Begin(in.Input)
		if err := s.Read(t.Context(), in.Input, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		in.Close()
		var got []string
		for _, f := range s.Findings(0, 100).List {
			got = append(got, fmt.Sprintf("%s %v %d", f.Name, f.Frames, f.Mark))
		}
		want := "lost-between [3] 2; delayed-between [4] 3; delayed-between [5] 4"
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s\nwant %s", kind, text, want)
		}
		first := s.Detail(1)
		if first.Written.Sub(first.Time) != 10*time.Millisecond {
			t.Errorf("%s: from %v to %v", kind, first.Time, first.Written)
		}
	}
}
