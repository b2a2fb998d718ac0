package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
)

const (
	runOne = "0123456789abcdef0123456789abcdef"
	runTwo = "fedcba9876543210fedcba9876543210"
)

// A stage is where a run is played: what it publishes is a capture.
type stage struct {
	session capture.Session
	list    []capture.Record
	*observe.Publisher
}

func newStage() *stage {
	s := &stage{}
	s.Publisher = observe.NewPublisher(s, nil)
	return s
}

func (s *stage) Write(r *capture.Record) error {
	s.list = append(s.list, r.Clone())
	return nil
}

func (s *stage) Session() *capture.Session { return &s.session }

func (s *stage) Next(r *capture.Record) error {
	if len(s.list) == 0 {
		return io.EOF
	}
	*r, s.list = s.list[0], s.list[1:]
	return nil
}

// say publishes a message as a frame of len32.
func say(c *observe.Conn, dir frame.Dir, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	raw := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	c.Frame(dir, append(raw, text...), 4)
}

// request is a request to a model, and answer answers it.
func request(c *observe.Conn, path string) {
	say(c, frame.C2U, `{"correlation_id":%q,"model":"m","prompt":"p"}`, path)
}

func answer(c *observe.Conn, path string) {
	say(c, frame.U2C, `{"correlation_id":%q,"error":null,"results":[{"error":null,"chat_completion":{"root_model":"m","prompt":"p","response":"r"}}]}`, path)
}

// worker opens the connection to a worker, which loads its context.
func worker(s *stage, path string) *observe.Conn {
	c := s.Open("worker", "repl", "len32")
	c.Belongs(capture.Place{Run: path})
	say(c, frame.U2C, `{"kind":"ready","language":"python"}`)
	say(c, frame.C2U, `{"kind":"load_context","id":1,"path":"/c","type":"text"}`)
	say(c, frame.U2C, `{"kind":"load_context_result","id":1}`)
	return c
}

// execute begins a cell.
func execute(c *observe.Conn, path string, id int, code string) {
	c.Belongs(capture.Place{Run: path, Next: true})
	say(c, frame.C2U, `{"kind":"execute","id":%d,"code":%q}`, id, code)
}

// asks is a request of a worker, for the calls of those paths.
func asks(c *observe.Conn, kind string, id, cell int, prompt string, paths ...string) {
	say(c, frame.U2C, `{"kind":%q,"id":%d,"cell":%d,%s}`, kind, id, cell, prompt)
	for _, path := range paths {
		c.Belongs(capture.Place{Run: path, ID: json.RawMessage(fmt.Sprint(id))})
	}
}

// playRun plays two turns: a batch of which one call is cancelled at its provider, and a
// child run.
func playRun(s *stage) {
	root := s.Open("root", "rlm", "len32")
	w := worker(s, runOne)
	request(root, runOne+"/t1")
	answer(root, runOne+"/t1")
	execute(w, runOne+"/t1/c1", 2, "a = 1\nb = 2")
	asks(w, "llm_query_batched", 1, 2, `"prompts":["one","two"]`, runOne+"/t1/c1/q2", runOne+"/t1/c1/q1")
	request(root, runOne+"/t1/c1/q1")
	to := root.Tap().Provider(&broker.Call{ID: 7, Ref: runOne + "/t1/c1/q1"}, &broker.Hop{Provider: "p"})
	to.Sent("host/v1/chat/completions", []byte(`{"model":"m","messages":[]}`))
	request(root, runOne+"/t1/c1/q2")
	answer(root, runOne+"/t1/c1/q2")
	to.Ended(broker.ErrCancelled)
	say(root, frame.U2C, `{"correlation_id":%q,"error":"Cancelled","results":null}`, runOne+"/t1/c1/q1")
	say(w, frame.C2U, `{"kind":"llm_query_batched_result","id":1,"ok":true,"responses":["r","r"]}`)
	say(w, frame.U2C, `{"kind":"execute_result","id":2,"error":null}`)
	request(root, runOne+"/t2")
	answer(root, runOne+"/t2")
	execute(w, runOne+"/t2/c1", 3, "rlm_query('deep')")
	asks(w, "rlm_query", 2, 3, `"prompt":"deep"`, runOne+"/t2/c1/q1")
	child := worker(s, runOne+"/t2/c1/q1")
	request(root, runOne+"/t2/c1/q1/t1")
	answer(root, runOne+"/t2/c1/q1/t1")
	execute(child, runOne+"/t2/c1/q1/t1/c1", 2, "llm_query('inner')")
	asks(child, "llm_query", 1, 2, `"prompt":"inner"`, runOne+"/t2/c1/q1/t1/c1/q1")
	request(root, runOne+"/t2/c1/q1/t1/c1/q1")
}

func stored(t *testing.T, s *stage, o store.Options) *store.Store {
	t.Helper()
	kept := store.New(o)
	t.Cleanup(func() { kept.Close() })
	if err := kept.Take(t.Context(), decode.Input{Capture: s}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	return kept
}

// tree draws what a store lists by run.
func tree(s *store.Store, q store.IDsQuery) string {
	var b strings.Builder
	q.Group, q.N = store.GroupRun, 1000
	for _, x := range s.IDs(q).List {
		if x.Group != nil {
			fmt.Fprintf(&b, "%s, %d\n", x.Group.Name, x.Group.Total)
			continue
		}
		fmt.Fprintf(&b, "%s%s %s %s: %s %s\n", strings.Repeat("  ", x.Level+1), x.Place, x.Kind, x.Name, x.OutcomeName(), x.Asks)
	}
	return b.String()
}

// A run is a tree of what its exchanges and its connections say of themselves: cells stand
// below turns, calls below cells, children below calls, and each call ends where it does.
func TestRunIsTree(t *testing.T) {
	st := newStage()
	playRun(st)
	s := stored(t, st, store.Options{})
	want := `run 01234567, 15
   load_context : done /c
  t1 WireRequest m: done 
    t1/c1 execute : done a = 1
      t1/c1/q1 llm_query_batched : done ["one","two"]
        t1/c1/q1 WireRequest m: failed 
           chat/completions m: cancelled 
        t1/c1/q2 WireRequest m: done 
  t2 WireRequest m: done 
    t2/c1 execute : abandoned rlm_query('deep')
      t2/c1/q1 rlm_query : abandoned deep
         load_context : done /c
        t2/c1/q1/t1 WireRequest m: done 
          t2/c1/q1/t1/c1 execute : abandoned llm_query('inner')
            t2/c1/q1/t1/c1/q1 llm_query : abandoned inner
              t2/c1/q1/t1/c1/q1 WireRequest m: abandoned 
`
	got := tree(s, store.IDsQuery{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is listed is so with all that it stands below; what is folded has only its heading.
func TestRunIsFoldedAndFiltered(t *testing.T) {
	st := newStage()
	playRun(st)
	s := stored(t, st, store.Options{})
	list := s.IDs(store.IDsQuery{Group: store.GroupRun, N: 100}).List
	mark := map[string]uint32{}
	for _, x := range list {
		mark[x.Place] = x.Mark
	}
	cut := store.Folds{But: map[uint32]bool{mark["t1"]: true, mark["t2/c1"]: true}}
	want := "run 01234567, 15\n   load_context : done /c\n  t1 WireRequest m: done \n  t2 WireRequest m: done \n    t2/c1 execute : abandoned rlm_query('deep')\n"
	if got := tree(s, store.IDsQuery{Cut: cut}); got != want {
		t.Errorf("folded:\n%s", got)
	}
	below := store.Spot{Number: mark["t2/c1/q1/t1/c1"]}
	if got := s.IDs(store.IDsQuery{Group: store.GroupRun, N: 100, Cut: cut, At: below}); got.At.Number != mark["t2/c1"] {
		t.Errorf("what is folded away is found at %v, not at its cell %d", got.At, mark["t2/c1"])
	}
	if got := tree(s, store.IDsQuery{Folds: store.Folds{All: true}}); got != "run 01234567, 15\n" {
		t.Errorf("the run is folded:\n%s", got)
	}
	setFilter(t, s, "kind==chat/completions")
	want = "run 01234567, 5\n  t1 WireRequest m: done \n    t1/c1 execute : done a = 1\n      t1/c1/q1 llm_query_batched : done [\"one\",\"two\"]\n" +
		"        t1/c1/q1 WireRequest m: failed \n           chat/completions m: cancelled \n"
	if got := tree(s, store.IDsQuery{}); got != want {
		t.Errorf("filtered:\n%s", got)
	}
}

// Runs that go on side by side do not mix, and what belongs to none stands after them.
func TestRunsSideBySide(t *testing.T) {
	st := newStage()
	other := st.Open("other", "mcp", "line")
	other.Frame(frame.C2U, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), 0)
	a, b := st.Open("root", "rlm", "len32"), st.Open("root", "rlm", "len32")
	wa, wb := worker(st, runOne), worker(st, runTwo)
	request(a, runOne+"/t1")
	request(b, runTwo+"/t1")
	execute(wb, runTwo+"/t1/c1", 2, "two")
	execute(wa, runOne+"/t1/c1", 2, "one")
	request(a, runOne+"/t2/summary")
	request(a, runOne+"/t2")
	s := stored(t, st, store.Options{})
	want := `run 01234567, 5
   load_context : done /c
  t1 WireRequest m: abandoned 
    t1/c1 execute : abandoned one
  t2/summary WireRequest m: abandoned 
  t2 WireRequest m: abandoned 
run fedcba98, 3
   load_context : done /c
  t1 WireRequest m: abandoned 
    t1/c1 execute : abandoned two
no run, 1
   ping : abandoned 
`
	if diff := cmp.Diff(want, tree(s, store.IDsQuery{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Paths that no run has neither break the tree nor are they believed.
func TestRunPathsAreNotTrusted(t *testing.T) {
	st := newStage()
	root := st.Open("root", "rlm", "len32")
	for _, path := range []string{
		"t1", "/t1", runOne, runOne + "/", runOne + "//", runOne + "/q1", runOne + "/q1/q1/q1", runOne + "/c9/q1/t7/c1", runOne + "/t99999999999999999999",
		runOne + strings.Repeat("/t1/c1/q1", 1000), strings.ToUpper(runOne) + "/t1", runOne + "/t-1", runOne + "/💥",
	} {
		w := st.Open("worker", "repl", "len32")
		for _, p := range []capture.Place{{Run: path}, {Run: path, Next: true}, {Run: path, ID: json.RawMessage("1")}, {Run: path, ID: json.RawMessage(`{"a":[]}`)}} {
			w.Belongs(p)
		}
		request(root, path)
		execute(w, path, 1, "x")
		asks(w, "llm_query", 1, 1, `"prompt":"p"`, path)
	}
	s := stored(t, st, store.Options{})
	var n int64
	for _, x := range s.IDs(store.IDsQuery{Group: store.GroupRun, N: 1000}).List {
		if x.Group != nil {
			n += x.Group.Total
		}
	}
	if all := s.Overview().Exchanges; n != all {
		t.Errorf("%d of %d exchanges are in the tree", n, all)
	}
}

// A run of which the beginning was dropped is still a tree of what is left.
func TestRunIsCutOff(t *testing.T) {
	st := newStage()
	root := st.Open("root", "rlm", "len32")
	w := worker(st, runOne)
	for n := range 60_000 {
		path := fmt.Sprintf("%s/t%d", runOne, n/20_000+1)
		if n%20_000 == 0 {
			request(root, path)
			execute(w, path+"/c1", n+2, "x")
		}
		request(root, fmt.Sprintf("%s/c1/q%d", path, n%20_000+1))
	}
	s := stored(t, st, store.Options{Exchanges: 1})
	list := s.IDs(store.IDsQuery{Group: store.GroupRun, N: 100_000}).List
	if got := s.Overview(); got.Gone == 0 || len(list) != int(got.Exchanges-got.Gone)+1 {
		t.Errorf("%d rows of %d exchanges, of which %d are gone", len(list), got.Exchanges, got.Gone)
	}
	for _, x := range list[1:] {
		if x.Level > 2 {
			t.Fatalf("%s is at level %d", x.Place, x.Level)
		}
	}
}

// The run of an agent is a tree with a row for each turn and agent. Each row says what works in it, on
// which wire, when it waited, and how much of the critical path it is; a cancelled turn how far that went.
func TestAgentRun(t *testing.T) {
	opener := source.Opener{Getenv: func(string) string { return "" }}
	names := []string{"../test/testdata/runs/claude/model", "../test/testdata/runs/claude/mcp-lab", "../test/testdata/runs/claude/mcp-labweb"}
	for _, names := range [][]string{{"../test/testdata/runs/claude"}, names} {
		in, err := opener.Together(t.Context(), names, decode.Config{Resync: true}, func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		s := store.New(store.Options{})
		if err := s.Take(t.Context(), in.Input, decode.Config{Workers: 1, Resync: true}); err != nil {
			t.Fatal(err)
		}
		millis := func(list []store.Span) (sum int64) {
			for _, span := range list {
				sum += (span.To - span.From) / 1e6
			}
			return sum
		}
		var got strings.Builder
		for _, x := range s.IDs(store.IDsQuery{Group: store.GroupRun, N: 100}).List {
			switch {
			case x.Group == nil:
				fmt.Fprintf(&got, "%s%s on %s: %s, path %d, waits %d\n", strings.Repeat("  ", x.Level), x.Kind+" "+x.Name, x.Wire, x.Role, millis(x.Path), millis(x.Waits))
			case x.Group.Head == nil:
				fmt.Fprintf(&got, "%s\n", x.Group.Name)
			default:
				h := x.Group.Head
				fmt.Fprintf(&got, "%s%s: %s, waits %d", strings.Repeat("  ", x.Level), h.Name, h.Outcome, millis(h.Waits))
				for _, stop := range h.Stops {
					fmt.Fprintf(&got, ", %s on %s %s", stop.Name, stop.Wire, stop.Text)
				}
				got.WriteByte('\n')
			}
		}
		want := `turn 1: done, waits 304
  messages claude-opus-5-5 on model: model, path 1, waits 1
    general-purpose: done, waits 117
      messages claude-opus-5-5 on model: model, path 1, waits 1
        tools/call echo on lab: tool, path 1, waits 0
      messages claude-opus-5-5 on model: model, path 6, waits 6
  messages claude-opus-5-5 on model: model, path 0, waits 3
turn 2: done, waits 0
  messages claude-opus-5-5 on model: model, path 1, waits 1
turn 3: cancelled, waits 10, slow on lab cancelled
  messages claude-opus-5-5 on model: model, path 2, waits 1
    tools/call slow on lab: tool, path 3005, waits 0
other calls
  server/discover  on labweb: tool, path 0, waits 0
  server/discover  on lab: tool, path 0, waits 0
  initialize  on labweb: tool, path 0, waits 0
  tools/list  on labweb: tool, path 0, waits 0
  initialize  on lab: tool, path 0, waits 0
  tools/list  on lab: tool, path 0, waits 0
`
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if changes := s.Follow(new(store.Cursor), 0); len(changes.Heads) != 4 {
			t.Errorf("%d heads", len(changes.Heads))
		}
		in.Close()
		s.Close()
	}
}

// The prompt of an agent's driver heads its turn, also if it was read after the first call to a model: by the
// ids of tool calls, or else by its words.
func TestPromptHeadsTurn(t *testing.T) {
	played, err := os.ReadFile("../test/screenshot/turn.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	list := `turn 1: session/prompt cancelled; index cancelled after 200µs, answered 2.4s later, 6
  agent session/prompt  
    model chat/completions small exact
      tool tools/call read_file matched
      tool tools/call search matched
    model chat/completions small exact
      tool tools/call index matched
other calls, 4
  agent initialize  
  tool initialize  
  agent session/new  
  tool tools/list  
`
	for _, tt := range [][3]string{
		{"toolCallId", "toolCallId", list},
		{"toolCallId", "toolCall__", strings.ReplaceAll(list, "exact", "matched")},
	} {
		name := filepath.Join(t.TempDir(), "turn.pcapng")
		if err := os.WriteFile(name, bytes.ReplaceAll(played, []byte(tt[0]), []byte(tt[1])), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := (&source.Opener{}).Together(t.Context(), []string{name}, decode.Config{}, func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		in.Joins = true
		s := store.New(store.Options{})
		if err := s.Take(t.Context(), in.Input, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		got := treeOf(s, func(x *store.Exchange) string { return " " + x.Name + " " + x.Edge })
		if diff := cmp.Diff(tt[2], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt[1], diff)
		}
		in.Close()
		s.Close()
	}
}

// Turns of one call stand beside turns, in the order of time, and what is in no turn below a heading.
func TestTurnsOfOneCall(t *testing.T) {
	opener := source.Opener{Getenv: func(string) string { return "" }}
	in, err := opener.Together(t.Context(), []string{"fixture:api-anthropic-made", "fixture:mcp-cancel"}, decode.Config{}, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s := store.New(store.Options{})
	defer s.Close()
	if err := s.Take(t.Context(), in.Input, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	got := treeOf(s, func(*store.Exchange) string { return "" })
	want := "model messages\nmodel messages\nmodel messages\ncalls, 5\n  tool initialize\n  tool tools/call\n  tool tools/call\n  tool tools/call\n  tool ping\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// treeOf lists the tree of a run, with more about each exchange.
func treeOf(s *store.Store, more func(x *store.Exchange) string) string {
	var b strings.Builder
	for _, x := range s.IDs(store.IDsQuery{Group: store.GroupRun, N: 100}).List {
		if x.Group != nil {
			fmt.Fprintf(&b, "%s, %d\n", x.Group.Name, x.Group.Total)
		} else {
			fmt.Fprintf(&b, "%s%s %s%s\n", strings.Repeat("  ", x.Level), x.Role, x.Kind, more(&x))
		}
	}
	return b.String()
}
