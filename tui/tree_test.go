package tui_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// recordedRun is a run of wirectl rlm whose models are scripts, except for one at a broker
// that answers after two seconds. A viewer interrupted one of its calls, and --cell-timeout
// a loop.
func recordedRun(t *testing.T) *store.Store {
	t.Helper()
	f, err := os.Open("testdata/run.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcapng.NewReader(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(store.Options{})
	t.Cleanup(func() { f.Close(); s.Close() })
	if err := s.Take(t.Context(), decode.Input{Capture: r}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	return s
}

// lacks fails if the screen has one of these texts.
func (s *screen) lacks(texts ...string) {
	s.Helper()
	got := s.text()
	for _, text := range texts {
		if strings.Contains(got, text) {
			s.Errorf("the screen has %q:\n%s", text, got)
		}
	}
}

// A run is shown as a tree, at any size of the terminal.
func TestRunGolden(t *testing.T) {
	s := recordedRun(t)
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "tap:rlm", Theme: "dark", Color: true}, size.width, size.height)
		sc.press("jjj")
		golden(t, "run-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// A run is never upside down: whatever the order of calls, each is listed after those that
// were there before it at its level.
func TestRunIsInTheOrderOfTime(t *testing.T) {
	for _, s := range []*store.Store{recordedRun(t), kept(t, "mcp-everything")} {
		want := s.IDs(store.IDsQuery{Group: store.GroupRun, Sort: store.ByArrival, N: 1000}).List
		last := map[int]int64{}
		for _, x := range want {
			if x.Group != nil {
				clear(last)
				continue
			}
			if last[x.Level] > x.Opened {
				t.Errorf("%s %s is listed after one that began later", x.Place, x.Kind)
			}
			for level := range last {
				if level > x.Level {
					delete(last, level)
				}
			}
			last[x.Level] = x.Opened
		}
		for by := store.ByTime; by != store.ByArrival; by = by.Next() {
			got := s.IDs(store.IDsQuery{Group: store.GroupRun, Sort: by, N: 1000}).List
			if fmt.Sprint(marks(got)) != fmt.Sprint(marks(want)) {
				t.Errorf("%v first: %v, want %v", by, marks(got), marks(want))
			}
		}
	}
	sc := newScreen(t, recordedRun(t), tui.Config{}, 120, 46)
	before := sc.text()
	sc.press("s")
	sc.shows("the oldest stay first")
	sc.press("esc")
	if sc.text() != before {
		t.Errorf("s has turned the run:\n%s", sc.text())
	}
}

func marks(list []store.Exchange) (marks []uint32) {
	for i := range list {
		marks = append(marks, list[i].Mark)
	}
	return marks
}

// Keys fold the tree, and b leaves it.
func TestRunKeys(t *testing.T) {
	sc := newScreen(t, recordedRun(t), tui.Config{}, 120, 46)
	sc.press("jjjj", "o") // the batch
	sc.shows("▸ q1 llm_query_batched")
	sc.lacks("q2 small")
	sc.press("j", "o") // the next turn
	sc.shows("▸ t2 large")
	sc.lacks("execute report", "c2 execute")
	sc.press("O") // unfolds folded rows, or else folds all
	sc.shows("c2 execute", "q2 small")
	sc.press("O")
	sc.lacks("c1 execute")
	sc.press("O")
	sc.press("g", "o")
	sc.shows("▸ run ")
	sc.lacks("t1 large")
	sc.press("o", "b")
	sc.shows("t1/c1/q1", "in flight first")
}

// X asks once, names the part it interrupts, and sends its path to the tap.
func TestRunIsInterrupted(t *testing.T) {
	s := recordedRun(t)
	run := s.IDs(store.IDsQuery{Group: store.GroupRun, N: 1}).List[0].Group.Run
	w := &wired{}
	sc := newScreen(t, s, tui.Config{Wire: w}, 120, 46)
	sc.press("X")
	sc.shows("interrupt run " + run[:8] + "? y/n")
	sc.press("y", "jjj", "X")
	sc.shows("interrupt t1/c1? y/n")
	sc.press("n", "X", "y")
	if want := `cancel 0 "` + run + `" | cancel 0 "` + run + `/t1/c1"`; strings.Join(w.done, " | ") != want {
		t.Errorf("did %q, want %s", w.done, want)
	}
}

// agentRun is a recorded run of an agent.
func agentRun(t *testing.T, name string) *store.Store {
	t.Helper()
	opener := source.Opener{Getenv: func(string) string { return "" }}
	in, err := opener.Session(t.Context(), "../test/testdata/runs/"+name, decode.Config{Resync: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(store.Options{})
	t.Cleanup(func() { in.Close(); s.Close() })
	if err := s.Take(t.Context(), in.Input, decode.Config{Workers: 1, Resync: true}); err != nil {
		t.Fatal(err)
	}
	return s
}

// A run of an agent is a tree over all its wires: turns, models, the tools that these call, and the
// agents that those start.
func TestAgentRunGolden(t *testing.T) {
	s := agentRun(t, "claude")
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "run:c1a0de", Theme: "dark", Color: true}, size.width, size.height)
		sc.press("G")
		golden(t, "agent-run-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
		sc.press("g", "p", "jjjjjjjjj") // the cancelled turn
		golden(t, "agent-path-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// The turn that was cancelled tells how far that went, and the lit path leads through what went on.
func TestAgentCancelGolden(t *testing.T) {
	s := agentRun(t, "cancel-made")
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "run:ca11ce"}, size.width, size.height)
		sc.press("g", "p")
		golden(t, "agent-cancel-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// The turn of wirectl demo: what the editor asks heads it. Its captions are above the keys.
func TestPromptGolden(t *testing.T) {
	var opener source.Opener
	in, err := opener.Together(t.Context(), []string{"../test/screenshot/turn.pcapng"}, decode.Config{}, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	in.Joins = true
	s := store.New(store.Options{})
	t.Cleanup(func() { in.Close(); s.Close() })
	if err := s.Take(t.Context(), in.Input, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	s.Notice("This is a caption.")
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "demo", Captions: true}, size.width, size.height)
		golden(t, "prompt-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// Every row of a run can be selected, folded and lit on any screen, with colours that can be read.
func TestAgentRunFits(t *testing.T) {
	for _, name := range []string{"claude", "codex", "cancel-made"} {
		s := agentRun(t, name)
		for _, size := range append(sizes, size{"40x10", 40, 10}) {
			for _, theme := range tui.Themes {
				sc := newScreen(t, s, tui.Config{Name: name, Theme: theme, Color: true}, size.width, size.height)
				for _, keys := range []string{"g", "p", "joo", "jo", "jo", "jojo", "jo", "p", "O", "O", "c", "c", "+hl0"} {
					sc.press(keys)
					fits(t, sc.model.View(), size.width, size.height)
					tui.CheckContrast(t, theme, sc.model.View())
				}
			}
		}
	}
}

// An agent is folded as a turn is, and a filter keeps what its matches stand below.
func TestAgentRunKeys(t *testing.T) {
	sc := newScreen(t, agentRun(t, "cancel-made"), tui.Config{}, 120, 40)
	sc.press("g", "jjjjj")
	sc.shows("▾ explorer 1 call", "claude-opus-5-5 messages")
	sc.press("o")
	sc.shows("▸ explorer 1 call")
	sc.lacks("claude-opus-5-5 messages")
	sc.press("g", "o")
	sc.shows("▸ turn 1", "▾ turn 2")
	sc.lacks("explorer", "search tools/call")
	sc.press("o", "p")
	sc.shows("PATH", "19.3s")
	sc.press("p", "f", "kind==messages and cancelled", "enter")
	sc.shows("▾ turn 1", "▸ explorer")
	sc.lacks("search tools/call", "turn 2", "PATH")
}
