package tui_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// keysOf returns the keys of a text: names of keys, or letters, separated by blanks.
func keysOf(text string) (keys []tea.Msg) {
	for _, word := range strings.Fields(text) {
		if k, ok := named[word]; ok {
			keys = append(keys, k)
			continue
		}
		for _, r := range word {
			keys = append(keys, tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
		}
	}
	return keys
}

// joined returns keys as a terminal reads them that are typed at once: letters in one message.
func joined(keys []tea.Msg) (out []tea.Msg) {
	for _, msg := range keys {
		k := msg.(tea.KeyMsg)
		if n := len(out); n > 0 && k.Type == tea.KeyRunes {
			if last := out[n-1].(tea.KeyMsg); last.Type == tea.KeyRunes {
				out[n-1] = tea.KeyMsg{Type: tea.KeyRunes, Runes: slices.Concat(last.Runes, k.Runes)}
				continue
			}
		}
		out = append(out, msg)
	}
	return out
}

// burst types so many keys at once, and runs no command before they are typed.
func (s *screen) burst(keys []tea.Msg, at int) {
	settle := func() {
		for s.store.Search(time.Second) {
		}
		s.send(s.size)
	}
	for some := range slices.Chunk(keys, at) {
		var cmds []tea.Cmd
		for _, k := range some {
			model, cmd := s.model.Update(k)
			s.model, cmds = model, append(cmds, cmd)
		}
		for _, cmd := range cmds {
			s.run(cmd)
		}
		if at == 1 {
			settle()
		}
	}
	settle()
}

// Keys that are typed faster than the screen is drawn do the same as keys that are typed
// slowly: each acts on the row that the keys before it selected, in every view.
func TestBurst(t *testing.T) {
	moves := []string{
		"", "j j", "G", "G k", "pgdown k", "j j k", "s j j", "b j j", "b O j", "j o j", "c c j", "j enter esc j",
		"/ result enter n", "G N", "f kind~tools enter j", "f kind==ping enter x j", "tab j shift+tab j", "space j", "F k",
	}
	actions := []string{
		"enter", "enter right", "X y y", "R y y", "a text enter", "m", "m j m", "w file enter", "w tab file enter", "d", "d 3 enter",
		"enter y", "enter X y y", "enter R y y", "enter j j o", "enter O j j j o", "enter w file enter", "enter d", "enter | .method enter j",
		"enter / method enter m", "o", "enter enter", "u y y", "e enter y y u y y", "D y y u y y",
	}
	type outcome struct{ screen, done string }
	for name, open := range map[string]func() *store.Store{"session": func() *store.Store { return kept(t, "mcp-everything") }, "run": func() *store.Store { return recordedRun(t) }} {
		for view := 1; view <= 5; view++ {
			t.Run(fmt.Sprintf("%s-%d", name, view), func(t *testing.T) {
				for j, move := range moves {
					for i, action := range actions {
						if (i+j+view)%16 > 0 { // all pairs take minutes
							continue
						}
						size := sizes[i%len(sizes)]
						keys := keysOf(fmt.Sprint(view, " ", move, " ", action))
						do := func(keys []tea.Msg, at int) outcome {
							s := open()
							for n := range 3 {
								s.Hold(store.Held{Number: int64(n), Payload: []byte(`{}`)})
							}
							w, clipboard := &wired{}, &bytes.Buffer{}
							write := func(to string, r *store.Records) error { return w.note("write %d to %s", r.Len(), to) }
							sc := newScreen(t, s, tui.Config{Name: name, Wire: w, Clipboard: clipboard, Write: write}, size.width, size.height)
							sc.burst(keys, at)
							for s.Stats().Stale { // as the next picture would find it
								runtime.Gosched()
							}
							sc.press("z") // no key: only the answer to the last one goes
							kept := s.Notes()
							return outcome{sc.text(), fmt.Sprint(w.done, kept, clipboard)}
						}
						want := do(keys, 1)
						for how, got := range map[string]outcome{"two": do(keys, 2), "one message": do(joined(keys), len(keys))} {
							if got.done != want.done || got.screen != want.screen {
								t.Fatalf("%d, %s, %s; %s at once:\n%s\n%s\nwant:\n%s\n%s", view, move, action, how, got.done, got.screen, want.done, want.screen)
							}
						}
					}
				}
			})
		}
	}
}

// A feed adds frames to a store while it is shown.
type feed struct {
	*store.Store
	t     testing.TB
	n     int64 // frames so far
	calls int
}

func (f *feed) add(conn int, dir frame.Dir, texts ...string) {
	f.t.Helper()
	list := &recorded{session: capture.Session{Framing: "line", Protocol: "mcp"}}
	for _, text := range texts {
		f.n++
		list.add(int(f.n), text)
		last := &list.list[len(list.list)-1]
		last.Conn, last.Dir = conn, dir
	}
	check(f.t, f.Read(f.t.Context(), decode.Input{Capture: list}, decode.Config{Workers: 1}))
}

// call adds calls, which stay open.
func (f *feed) call(n int) {
	f.t.Helper()
	var texts []string
	for range n {
		f.calls++
		texts = append(texts, fmt.Sprintf(`{"jsonrpc":"2.0","id":"call-%d","method":"tools/call","params":{"name":"t"}}`, f.calls))
	}
	f.add(1, frame.C2U, texts...)
}

// more adds some of everything: calls, one of which is answered, broken rules, a connection,
// and a kind of message that becomes the most frequent one.
func (f *feed) more() {
	f.t.Helper()
	f.call(3)
	f.add(1, frame.U2C, fmt.Sprintf(`{"jsonrpc":"2.0","id":"call-%d","result":{"content":[]}}`, f.calls-5))
	f.add(1, frame.U2C, slices.Repeat([]string{`{"jsonrpc":"2.0","id":"unknown","result":{}}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, 40)...)
	f.add(f.calls, frame.C2U, fmt.Sprintf(`{"jsonrpc":"2.0","id":"ping-%d","method":"ping"}`, f.calls))
}

// The selection stays on the same row while frames arrive between the keys, whether the screen
// shows them already or not.
func TestBurstWhileFramesArrive(t *testing.T) {
	for _, tt := range []struct{ selects, acts, done, shows string }{
		{"j j", "R y y", `resend 58`, ""},
		{"j j k", "R y y", "resend 59", ""},
		{"j k", "X y y", `cancel 1 "call-60"`, ""}, // the first row is not followed if it was chosen
		{"G k", "X y y", `cancel 1 "call-2"`, ""},
		{"pgdown", "X y y", `cancel 1 "call-48"`, ""},
		{"b j j j", "R y y", `resend 58`, ""},
		{"s s s s s j j", "X y y", `cancel 1 "call-3"`, ""},
		{"j j", "a text enter", "notes map[58:text]", ""},
		{"j j enter", "R y y", `resend 58`, "#58 → tools/call"},
		{"2 g j j", "m", "bookmarks [3]", ""},
		{"2 G k", "m", "bookmarks [59]", ""},
		{"2 g k j", "w file enter", "write 1 to file", ""},
		{"2 G k j", "enter X y y", `cancel 1 "call-60"`, "#60 → tools/call"}, // nor is the last
		{"2 / call-7 enter", "enter", "", "#7 → tools/call"},
		{"2 / call-1 enter n", "m", "bookmarks [10]", ""},
		{"3 j", "enter", "", "#62 ← result"},
		{"4 G", "enter", "filter kind==tools/call", ""},
		{"5 G", "enter", "filter conn==1", ""},
	} {
		for _, refreshed := range []bool{false, true} {
			f := &feed{Store: store.New(store.Options{}), t: t}
			f.Begin(decode.Input{Capture: &recorded{}})
			f.call(60)
			if tt.selects[0] == '3' || tt.selects[0] == '2' && strings.Contains(tt.selects, "x") {
				f.add(1, frame.U2C, slices.Repeat([]string{`{"jsonrpc":"2.0","id":"unknown","result":{}}`}, 3)...)
			}
			w := &wired{}
			write := func(to string, r *store.Records) error { return w.note("write %d to %s", r.Len(), to) }
			sc := newScreen(t, f.Store, tui.Config{Name: "arrive", Wire: w, Write: write}, 100, 25)
			sc.burst(keysOf(tt.selects), 1<<20)
			for _, k := range keysOf(tt.acts) {
				f.more()
				if refreshed {
					sc.send(sc.size)
				}
				model, cmd := sc.model.Update(k)
				sc.model = model
				f.more()
				sc.run(cmd)
			}
			n := f.Notes()
			if got := fmt.Sprint(w.done, " filter ", n.Filter, " bookmarks ", n.Bookmarks, " notes ", n.Exchanges); !strings.Contains(got, tt.done) {
				t.Errorf("%s, %s, refreshed: %v: %s, want %s\n%s", tt.selects, tt.acts, refreshed, got, tt.done, sc.text())
			}
			sc.shows(tt.shows)
			f.Close()
		}
	}
}

// The selection stays on the same frame, and the same finding, when older ones are dropped.
func TestSelectionWhileFramesAreDropped(t *testing.T) {
	f := &feed{Store: store.New(store.Options{Frames: 1}), t: t}
	defer f.Close()
	f.Begin(decode.Input{Capture: &recorded{}})
	wrong := func(n int) {
		f.add(1, frame.U2C, slices.Repeat([]string{`{"jsonrpc":"2.0","id":"unknown","result":{}}`}, n)...)
	}
	for _, filter := range []string{"", "f dir==u2c enter"} {
		wrong(21_000)
		sc := newScreen(t, f.Store, tui.Config{Name: "drop"}, 100, 25)
		sc.burst(keysOf(filter+" 3 G k 2 G k k"), 1)
		last := f.n
		wrong(4500)
		sc.burst(keysOf("enter"), 1)
		sc.shows(fmt.Sprintf("#%s ←", thousands(last-2)))
		sc.burst(keysOf("esc 3 enter"), 1)
		sc.shows(fmt.Sprintf("#%s ←", thousands(last-1)))
	}
}

func thousands(n int64) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
