package tui_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/exp/teatest"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

func TestMain(m *testing.M) {
	// teatest waits for a signal in a goroutine that never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/charmbracelet/x/exp/teatest.NewTestModel.func2"))
}

// paced is a session that continues on a signal.
type paced struct {
	capture.Reader
	step chan struct{}
}

func (p *paced) Next(r *capture.Record) error {
	<-p.step
	return p.Reader.Next(r)
}

func (p *paced) Buffered() bool { return false }

// A running session: exchanges arrive, the view is changed and frozen, and the user quits.
func TestFlow(t *testing.T) {
	r, err := decode.OpenRecording(fixtures.Session("latis-cancel"), decode.Config{Resync: true})
	check(t, err)
	defer r.Close()
	s := store.New(store.Options{})
	defer s.Close()
	in := &paced{r, make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = s.Take(t.Context(), decode.Input{Capture: in}, decode.Config{Workers: 1, Resync: true})
	})
	tm := teatest.NewTestModel(t, tui.New(s, tui.Config{Name: "flow"}), teatest.WithInitialTermSize(120, 40))
	sees := func(text string) {
		t.Helper()
		teatest.WaitFor(t, tm.Output(), func(b []byte) bool { return bytes.Contains(b, []byte(text)) },
			teatest.WithDuration(30*time.Second), teatest.WithCheckInterval(10*time.Millisecond))
	}
	sees("waiting")
	in.step <- struct{}{}
	in.step <- struct{}{}
	sees("PROMPT_SEND")
	tm.Send(tea.KeyMsg{Type: tea.KeyTab})
	sees("analyze this")
	close(in.step)
	sees("RESPONSE_CANCELLED")
	reading.Wait()
	tm.Type("1")
	sees("cancelled")
	tm.Type("q")
	tm.WaitFinished(t, teatest.WithFinalTimeout(30*time.Second))
}

// The monitor ends with its context.
func TestRunEndsWithContext(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	keys, typing := io.Pipe()
	defer typing.Close()
	done := make(chan error)
	go func() { done <- tui.Run(ctx, s, tui.Config{Input: keys, Output: io.Discard}) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Changes requested before the monitor ended are saved.
func TestRunKeepsChanges(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keys, typing := io.Pipe()
	defer typing.Close()
	check(t, tui.Run(ctx, s, tui.Config{Filter: "kind==a", Input: keys, Output: io.Discard}))
	if kept := s.Notes().Filter; kept != "kind==a" {
		t.Errorf("the filter is %q", kept)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A selected row stays in place while others arrive above it, and a frozen view does not
// change.
func TestStill(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	n := 0
	in := decode.Input{Capture: &recorded{}}
	s.Begin(in)
	more := func(calls int) {
		t.Helper()
		list := &recorded{session: capture.Session{Framing: "line", Protocol: "mcp"}}
		for range calls {
			n++
			list.add(n, fmt.Sprintf(`{"jsonrpc":"2.0","id":"call-%d","method":"tools/call","params":{"name":"t"}}`, n))
		}
		err := s.Read(t.Context(), decode.Input{Capture: list}, decode.Config{Workers: 1})
		check(t, err)
	}
	lineOf := func(sc *screen, text string) int {
		for i, l := range strings.Split(sc.text(), "\n") {
			if strings.Contains(l, text+" ") {
				return i
			}
		}
		return -1
	}
	more(60)
	sc := newScreen(t, s, tui.Config{Name: "still"}, 100, 25)
	sc.press("jjjjj")
	at := lineOf(sc, "call-55")
	more(7)
	sc.send(sc.size)
	if now := lineOf(sc, "call-55"); at < 0 || now != at {
		t.Errorf("the selected row moved from line %d to %d:\n%s", at, now, sc.text())
	}
	sc.press("2G ")
	more(30)
	sc.press("G")
	sc.shows("frozen", "call-67")
	if lineOf(sc, "call-68") >= 0 {
		t.Errorf("what is frozen goes on:\n%s", sc.text())
	}
}

// A search wraps around the end of the list.
func TestSearchGoesAround(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "s"}, 120, 40)
	sc.press("2", "/", "initialize", "enter")
	sc.shows("found after starting again")
	sc.press("N", "enter")
	sc.shows("#3 →", "notifications/initialized")
	sc.press("esc", "n", "enter")
	sc.shows("#1 →")
	sc.press("esc", "/", "nowhere", "enter")
	sc.shows("no frame contains nowhere")
}

// A search shows its matches in the view of frames, from any view.
func TestSearchFromAnyView(t *testing.T) {
	for _, view := range []string{"1", "3", "4", "5"} {
		sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "s"}, 120, 40)
		sc.press(view, "/", "notifications/initialized", "enter")
		sc.shows("WHAT IT SAYS")
		sc.press("enter")
		sc.shows("#3 →", "notifications/initialized")
	}
}

// If only headings are shown, there is no time scale, and an action on an id says that it
// needs one.
func TestHeadingsAlone(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "s"}, 120, 40)
	sc.press("1", "b", "O")
	if text := sc.text(); strings.Contains(text, "╷") {
		t.Errorf("a scale of nothing:\n%s", text)
	}
	sc.press("a")
	sc.shows("select an exchange first")
}

// An ended session without exchanges does not say that one may come.
func TestNoExchange(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	sc := newScreen(t, s, tui.Config{Name: "s"}, 60, 15)
	sc.shows("no call yet")
	s.End(nil, false)
	sc.press("1")
	sc.shows("no call")
	if strings.Contains(sc.text(), "yet") {
		t.Errorf("it says that one may come:\n%s", sc.text())
	}
}

// If another session may follow an ended one, the title says that the monitor waits for it.
func TestNextIsWaitedFor(t *testing.T) {
	list := &recorded{session: capture.Session{Framing: "line", Protocol: "mcp"}}
	list.add(1, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	s := store.New(store.Options{})
	defer s.Close()
	if err := s.Take(t.Context(), decode.Input{Capture: list}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	for next, want := range map[bool]string{false: "■ ended", true: "○ ended, waiting"} {
		newScreen(t, s, tui.Config{Name: "live", Theme: "dark", Next: next}, 60, 15).shows(want)
	}
}

// recorded is a capture of frames in memory.
type recorded struct {
	session capture.Session
	list    []capture.Record
}

func (r *recorded) add(seq int, text string) {
	r.list = append(r.list, capture.Record{
		Seq: int64(seq), Time: time.Unix(1_800_000_000, int64(seq)*1e6),
		Frame: frame.Frame{Raw: []byte(text + "\n"), End: len(text), Conn: 1, Dir: frame.C2U},
	})
}

func (r *recorded) Session() *capture.Session { return &r.session }

func (r *recorded) Next(rec *capture.Record) error {
	if len(r.list) == 0 {
		return io.EOF
	}
	*rec, r.list = r.list[0], r.list[1:]
	return nil
}

// BenchmarkKey measures the time from a key to the drawn screen, in a session of a million
// frames.
func BenchmarkKey(b *testing.B) {
	list := &recorded{session: capture.Session{Framing: "line", Protocol: "mcp"}}
	in := decode.Input{Capture: list}
	s := store.New(store.Options{Spill: true})
	defer s.Close()
	s.Begin(in)
	for n := 1; n < 1_000_000; n += 100_000 {
		for i := n; i < n+100_000; i += 2 {
			list.add(i, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, i))
			list.add(i+1, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, i))
			list.list[len(list.list)-1].Dir = frame.U2C
		}
		if err := s.Read(b.Context(), in, decode.Config{Workers: 1}); err != nil {
			b.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, before, key, back string }{
		{"ids", "1", "0", ""},
		{"sort", "1", "s", ""}, // to the next order
		{"group", "1", "b", ""},
		{"frames", "1", "2", "1"},
		{"far", "2g", "G", "g"},
		{"stats", "1", "4", "1"},
		{"filter", "1fkind==result", "\r", "f\r"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			m := tui.New(s, tui.Config{Name: "bench", Color: true, Theme: "dark"})
			m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
			press := func(keys string) {
				for _, r := range keys {
					msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}
					if r == '\r' {
						msg = tea.KeyMsg{Type: tea.KeyEnter}
					}
					if _, cmd := m.Update(msg); cmd != nil {
						m.Update(cmd())
					}
				}
				_ = m.View()
			}
			press(tt.before)
			var worst time.Duration
			for b.Loop() {
				begun := time.Now()
				press(tt.key)
				worst = max(worst, time.Since(begun))
				if tt.back != "" {
					b.StopTimer()
					press(tt.back)
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}
