package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// fixture returns a store that has taken in a session.
func fixture(t testing.TB, name string) *store.Store {
	t.Helper()
	return filled(t, store.Options{}, decode.Input{Capture: recorded(t, name)})
}

// recorded opens the recording of a fixture until the test ends.
func recorded(t testing.TB, name string) *recording.Reader {
	t.Helper()
	r, err := decode.OpenRecording(fixtures.Session(name), decode.Config{Resync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func filled(t testing.TB, o store.Options, in decode.Input) *store.Store {
	t.Helper()
	s := store.New(o)
	t.Cleanup(func() { s.Close() })
	take(t, s, in)
	return s
}

func take(t testing.TB, s *store.Store, in decode.Input) {
	t.Helper()
	cfg := decode.Config{Workers: 2, Resync: true}
	if err := s.Take(t.Context(), in, cfg); err != nil {
		t.Fatal(err)
	}
}

// calls returns a capture of MCP calls, several in flight, each with parts and
// a result: n frames, one a microsecond.
func calls(t testing.TB, n int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, capture.Session{Framing: "line", Protocol: "mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(seq int, dir frame.Dir, text string) {
		r := capture.Record{Seq: int64(seq), Time: time.Unix(1_800_000_000, int64(seq)*1e3)}
		r.Frame = frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: dir}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		id := i / 4
		switch i % 4 {
		case 0:
			write(i+1, frame.C2U, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"q":"weather"},"_meta":{"progressToken":%d}}}`, id, id))
		case 1, 2:
			write(i+1, frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, id, i))
		case 3:
			write(i+1, frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"sunny"}]}}`, id))
		}
	}
	return file.Bytes()
}

func open(t testing.TB, file []byte) decode.Input {
	t.Helper()
	in, err := decode.Open(bytes.NewReader(file), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The ledger of the recorded session holds a cancel that was obeyed; its row
// says so, with the frames that belong to it.
func TestRowOfCancelled(t *testing.T) {
	s := fixture(t, "latis-cancel")
	var found bool
	ids := s.IDs(store.IDsQuery{Sort: store.ByArrival, N: 100})
	for _, x := range ids.List {
		t.Logf("%+v %s", x, x.OutcomeName())
		if !x.Cancelled {
			continue
		}
		found = true
		if x.Asked < x.Opened || x.Cancel <= x.First {
			t.Errorf("exchange %s was cancelled before it was opened: %+v", x.ID, x)
		}
		d := s.Detail(x.First)
		if d == nil || len(d.Ledger) < 2 || d.Exchange.Mark != x.Mark {
			t.Errorf("the first frame of %s has no ledger: %+v", x.ID, d)
		}
	}
	if !found {
		t.Error("no exchange is cancelled")
	}
}

// Exchanges in flight come first, then those that are over, the newest first:
// the position of each one leads back to it.
func TestNaturalOrder(t *testing.T) {
	s := filled(t, store.Options{}, open(t, calls(t, 403)))
	all := s.IDs(store.IDsQuery{N: 1000})
	if all.Total != 101 || all.List[0].Outcome != session.Abandoned {
		t.Fatalf("%d exchanges, the first %v", all.Total, all.List[0].Outcome)
	}
	for i, x := range all.List {
		at := store.Spot{Number: x.Mark}
		got := s.IDs(store.IDsQuery{At: at, N: 10})
		if got.Index != i || got.At != at {
			t.Fatalf("exchange %d is at %d, want %d", x.Mark, got.Index, i)
		}
	}
}

// Groups count all that is in them, and list what is not folded away.
func TestGroups(t *testing.T) {
	s := filled(t, store.Options{}, open(t, calls(t, 403)))
	q := store.IDsQuery{Group: store.GroupKind, N: 1000}
	all := s.IDs(q)
	if g := all.List[0].Group; all.Total != 102 || g == nil || g.Name != "tools/call" || g.Total != 101 || g.Failed != 0 {
		t.Fatalf("%d lines, the first %+v", all.Total, g)
	}
	q.At = store.Spot{Number: all.List[50].Mark}
	if got := s.IDs(q); got.Index != 50 || got.List[50].Within != all.List[0].Group.Number {
		t.Errorf("it is at %d", got.Index)
	}
	q.Folds.Turn(all.List[0].Group.Number)
	folded := s.IDs(q)
	if folded.Total != 1 || !folded.At.Heading || folded.List[0].Group.Total != 101 {
		t.Errorf("folded: %+v", folded)
	}
	q.Folds.All = true // but for that one
	if got := s.IDs(q); got.Total != 102 {
		t.Errorf("%d lines", got.Total)
	}
}

// However many frames an exchange has, its ledger is short: the first, the last,
// and those around the one that is looked at.
func TestLedgerOfLongExchange(t *testing.T) {
	var text bytes.Buffer
	text.WriteString(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}` + "\n")
	for i := range 30_000 {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`+"\n", i)
	}
	s := filled(t, store.Options{}, decode.Input{Stream: &text})
	d := s.Detail(9_000)
	seen := map[int64]bool{}
	for _, e := range d.Ledger {
		seen[e.Seq] = true
	}
	for _, seq := range []int64{1, 8_950, 9_000, 9_050, 29_990, 30_001} {
		if !seen[seq] {
			t.Errorf("frame %d is not among the %d", seq, len(d.Ledger))
		}
	}
	if len(d.Ledger) > 1000 {
		t.Errorf("%d frames", len(d.Ledger))
	}
}

// What does not fit is dropped and counted: the index, the rows, the bytes.
func TestBounds(t *testing.T) {
	s := filled(t, store.Options{Frames: 8 << 10, Exchanges: 4 << 10, Bytes: 1 << 20}, open(t, calls(t, 40_000)))
	o := s.Overview()
	if o.Frames != 40_000 || o.Dropped == 0 || o.Dropped > 40_000 || o.Gone == 0 {
		t.Fatalf("%+v", o)
	}
	page := s.Frames(0, 10)
	if first := page.List[0]; first.Seq != o.Dropped+1 {
		t.Errorf("the list begins with frame %d after %d were dropped", first.Seq, o.Dropped)
	}
	if kept := s.Frames(39_000, 1); kept.List[0].Seq != 39_001 || kept.First != o.Dropped {
		t.Errorf("the frame at index 39000 is %d, and the list begins at index %d", kept.List[0].Seq, kept.First)
	}
	last := s.Frames(page.Total, 1).List[0]
	if last.Seq != 40_000 || last.ID != "9999" {
		t.Errorf("last: %+v", last)
	}
}

// Bytes that do not fit in memory are read from the temporary file.
func TestSpill(t *testing.T) {
	s := filled(t, store.Options{Bytes: 64 << 10, Spill: true}, open(t, calls(t, 6_000)))
	for seq := int64(1); seq <= 6_000; seq += 97 {
		d := s.Detail(seq)
		if d.Err != "" || !bytes.HasPrefix(d.Payload, []byte(`{"jsonrpc":"2.0",`)) || d.Payload[len(d.Payload)-1] != '}' {
			t.Fatalf("frame %d: %q %s", seq, d.Payload, d.Err)
		}
	}
}

// Of a capture that can be returned to nothing is kept: frames are read again
// where they lie, and where that has changed it is said.
func TestReadAgain(t *testing.T) {
	file := calls(t, 6_000)
	s := store.New(store.Options{})
	defer s.Close()
	s.ReadAgain(pcapng.NewRandom(bytes.NewReader(file), 0))
	take(t, s, open(t, bytes.Clone(file)))
	for _, seq := range []int64{1, 5_999, 6_000, 3_000, 2_999, 7} {
		if d := s.Detail(seq); d.Err != "" || !bytes.Contains(d.Payload, fmt.Appendf(nil, ":%d", (seq-1)/4)) {
			t.Errorf("frame %d: %q %s", seq, d.Payload, d.Err)
		}
	}
	clear(file)
	if d := s.Detail(2_000); !strings.Contains(d.Err, "no longer there") {
		t.Errorf("%q %s", d.Payload, d.Err)
	}
}

// A chip is a term of the filter, and one that contradicts it replaces it.
func TestTurn(t *testing.T) {
	for _, tt := range []struct{ filter, word, want string }{
		{"", "failed", "failed"},
		{"failed", "failed", ""},
		{"failed", "slow", "failed and slow"},
		{"kind==a and slow", "slow", "kind==a"},
		{"tool and failed", "model", "failed and model"},
		{"~failed", "failed", "failed"},
		{`kind=="a and failed"`, "failed", `kind=="a and failed" and failed`},
	} {
		if got := store.Turn(tt.filter, tt.word); got != tt.want {
			t.Errorf("%q with %s: %q, want %q", tt.filter, tt.word, got, tt.want)
		}
	}
}

// A filter finds the same frames whether it was set before they came or after.
func TestFilter(t *testing.T) {
	file := calls(t, 800)
	for _, tt := range []struct {
		filter string
		want   int64
	}{
		{"kind==tools/call", 200},
		{"id==7", 2},
		{"kind==result and id>=190", 10},
		{"~sunny", 200},
		{"findings", 0},
		{"open", 0},
	} {
		f, err := store.ParseFilter(tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		after := filled(t, store.Options{}, open(t, file))
		after.SetFilter(f)
		for after.Search(time.Second) {
		}
		before := store.New(store.Options{})
		before.SetFilter(f)
		take(t, before, open(t, file))
		for before.Search(time.Second) {
		}
		for _, s := range []*store.Store{after, before} {
			if o := s.Overview(); o.Matches != tt.want || s.Frames(0, 5000).Total != tt.want {
				t.Errorf("%s: %d matches, want %d", tt.filter, o.Matches, tt.want)
			}
		}
		if a, b := after.IDs(store.IDsQuery{N: 1}).Total, before.IDs(store.IDsQuery{N: 1}).Total; a != b {
			t.Errorf("%s: %d exchanges match later, %d as they came", tt.filter, a, b)
		} else if n := after.Overview().Calls; int(n) != a || before.Overview().Calls != n {
			t.Errorf("%s: %d and %d exchanges are counted of %d", tt.filter, n, before.Overview().Calls, a)
		}
	}
	for _, text := range []string{"kind==", "open and", "open and and late", `kind=="a and id==1`} {
		if _, err := store.ParseFilter(text); err == nil {
			t.Errorf("%q is taken for a filter", text)
		}
	}
}

// Whatever is typed is a filter or is refused.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{"open and and late", `kind=="a and b" and late`, "~ and ", `id=="\"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := store.ParseFilter(text)
		if blank := strings.TrimSpace(text) == ""; (filter == nil) != (err != nil || blank) {
			t.Errorf("%q: %v and %v", text, filter, err)
		}
	})
}

func BenchmarkTake(b *testing.B) {
	const n = 1_000_000
	file := calls(b, n)
	b.ResetTimer()
	for b.Loop() {
		s := store.New(store.Options{Spill: true})
		s.ReadAgain(pcapng.NewRandom(bytes.NewReader(file), 0))
		take(b, s, open(b, file))
		s.Close()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// Every frame of every recorded session can be read again, with the same
// meaning as when it came.
func TestEverySessionIsReadAgain(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		t.Run(name, func(t *testing.T) {
			s := fixture(t, name)
			o := s.Overview()
			if o.Frames == 0 {
				t.Fatal("no frames")
			}
			for _, f := range s.Frames(0, int(o.Frames)).List {
				d := s.Detail(f.Seq)
				if d == nil || d.Err != "" || d.Kind != f.Kind {
					t.Fatalf("frame %d: %+v", f.Seq, d)
				}
				if !f.Bad && strings.HasPrefix(f.Fault, "not ") {
					t.Errorf("frame %d is a %s, and when it is read again: %s", f.Seq, f.Kind, f.Fault)
				}
			}
		})
	}
}

// A frame of a gRPC call that is read again has the id of its call, which is in
// none of its bytes.
func TestCallIsReadAgain(t *testing.T) {
	s := fixture(t, "grpc-cancellation")
	for _, f := range s.Frames(0, 9).List {
		if got := f.ID + f.Ref; got != "1" && f.Kind != "goaway" {
			t.Errorf("frame %d, a %s, is of the call %q", f.Seq, f.Kind, got)
		}
	}
}

// What the user made of a session is there again when it is read another time.
func TestNotes(t *testing.T) {
	s := fixture(t, "mcp-cancel")
	first := s.IDs(store.IDsQuery{N: 1}).List[0]
	s.Note(first.Mark, "look")
	s.Bookmark(3)
	s.Bookmark(5)
	s.Bookmark(5)
	text, err := json.Marshal(s.Notes())
	if err != nil {
		t.Fatal(err)
	}
	n, err := store.ParseNotes(text)
	if err != nil || n.Empty() {
		t.Fatal(n, err)
	}
	again := store.New(store.Options{})
	defer again.Close()
	again.Restore(n)
	take(t, again, decode.Input{Capture: recorded(t, "mcp-cancel")})
	if got := again.IDs(store.IDsQuery{N: 1}).List[0].Note; got != "look" {
		t.Errorf("the note is %q", got)
	}
	list := again.Frames(0, 100).List
	if !list[2].Bookmark || list[4].Bookmark {
		t.Error("the bookmarks are others")
	}
	again.Note(first.Mark, "")
	again.Bookmark(3)
	if n = again.Notes(); !n.Empty() {
		t.Errorf("%+v is left", n)
	}
	if _, err := store.ParseNotes([]byte(`{"filter":"nonsense"}`)); err == nil {
		t.Error("it takes a filter that is none")
	}
}

// A frame that waits is read and written as its protocol spells it.
func TestHeld(t *testing.T) {
	s := fixture(t, "latis-cancel")
	payload, err := latis.Protocol.AppendPayload(nil, []byte(`{"id":"9","stateGet":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Hold(store.Held{Number: 1, Payload: payload})
	h := s.Overview().Held[0]
	if same, err := h.Edited(h.Text); err != nil || !bytes.Equal(same, payload) {
		t.Errorf("%q: %q, %v", h.Text, same, err)
	}
	changed, err := h.Edited(strings.Replace(h.Text, `"9"`, `"8"`, 1))
	if err != nil || bytes.Equal(changed, payload) || len(changed) != len(payload) {
		t.Errorf("%q, %v", changed, err)
	}
	if _, err := h.Edited("{"); err == nil {
		t.Error("it takes what is not JSON")
	}
	s.Let(1)
	s.Hold(store.Held{Number: 2, Payload: []byte{0xff, 0}})
	if h = s.Overview().Held[0]; h.Text != "ff00" {
		t.Errorf("%q", h.Text)
	}
	if b, err := h.Edited("ff 01"); err != nil || !bytes.Equal(b, []byte{0xff, 1}) {
		t.Errorf("%q, %v", b, err)
	}
}

// A connection is named by its program and what that does, not by the way to it.
func TestShortName(t *testing.T) {
	for command, want := range map[string]string{
		"node node_modules/@scope/server/dist/index.js --port 1":              "@scope/server",
		`C:\node\node.exe C:\x\node_modules\server\cli.mjs`:                   "server",
		"npx -y @scope/server /data":                                          "@scope/server /data",
		"uv run server.py":                                                    "server.py",
		"-- python3 -m mcp_server_git --repository .":                         "mcp_server_git",
		"/opt/node_modules/@openai/codex-linux/bin/codex app-server --listen": "codex app-server",
		"sh -c ./run.sh": "run.sh", "node": "node", "stdio": "stdio", "": "", "--": "",
		"127.0.0.1:80": "127.0.0.1:80", "http://127.0.0.1/mcp": "http://127.0.0.1/mcp", "tcp host:1": "tcp host:1",
	} {
		if got := store.ShortName(command); got != want {
			t.Errorf("%q is %q, want %q", command, got, want)
		}
	}
}
