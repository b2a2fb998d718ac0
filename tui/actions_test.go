package tui_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// wired is a wire that records the actions on it.
type wired struct {
	done    []string
	refuses string
}

func (w *wired) Refuses() string { return w.refuses }

func (w *wired) note(format string, args ...any) error {
	w.done = append(w.done, fmt.Sprintf(format, args...))
	return nil
}

func (w *wired) Cancel(conn int, id string) error      { return w.note("cancel %d %s", conn, id) }
func (w *wired) Resend(seq int64) error                { return w.note("resend %d", seq) }
func (w *wired) Hold(where string) error               { return w.note("hold %s", where) }
func (w *wired) Release(held int64) error              { return w.note("release %d", held) }
func (w *wired) Drop(int64) error                      { return errors.New("it has gone") }
func (w *wired) Edit(held int64, payload []byte) error { return w.note("edit %d %s", held, payload) }

// An action on a wire needs two confirmations.
func TestActions(t *testing.T) {
	s := inFlight(t, "mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`)
	w := &wired{}
	sc := newScreen(t, s, tui.Config{Name: "live", Wire: w}, 120, 40)
	sc.press("X", "n")
	sc.shows("nothing was done")
	sc.press("X", "y", "n")
	sc.shows("nothing was done")
	sc.press("X", "y")
	sc.shows("Really cancel")
	sc.press("y")
	sc.shows("done: cancel")
	sc.press("R", "y", "y", "H", "kind==ping", "enter", "y", "y")
	sc.press("u") // no frame waits
	s.Hold(store.Held{Number: 7, Payload: []byte(`{"a":1}`)})
	s.Alter()
	sc.press("g")
	sc.shows("1 held", `{"a":1}`, "altered")
	s.Hold(store.Held{Number: 8, Payload: []byte(`{"a":3}`)})
	s.Hold(store.Held{Number: 9, Payload: []byte(`{"a":4}`)})
	sc.press("e", "backspace", ",\"b\":2}", "enter", "y", "y")
	sc.shows("done: change frame 7", "2 held", `{"a":3}`)
	sc.press("u", "y", "y", "D") // each acts on the frame that is waiting then
	sc.shows("drop frame 9")
	sc.press("y", "y")
	sc.shows("it has gone")
	want := `cancel 1 7; resend 1; hold kind==ping; edit 7 {"a":1,"b":2}; release 8`
	if got := strings.Join(w.done, "; "); got != want {
		t.Errorf("what was done: %s\nwant: %s", got, want)
	}
}

// The list of frames says how to reach the exchange of a frame.
func TestActionsInFrames(t *testing.T) {
	w := &wired{}
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "live", Wire: w}, 120, 40)
	for _, key := range []string{"X", "R", "a"} {
		sc.press("2", "g", key)
		sc.shows("open the frame first (enter)")
	}
	sc.press("enter", "R", "y", "y")
	if want := []string{"resend 1"}; !slices.Equal(w.done, want) {
		t.Errorf("what was done: %v, want %v", w.done, want)
	}
}

// For a wire that accepts no commands, the monitor says so at once and asks no question.
func TestActionsRefused(t *testing.T) {
	w := &wired{refuses: "read-only"}
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "live", Wire: w}, 120, 40)
	for _, key := range []string{"X", "R", "H"} {
		sc.press("g", key)
		sc.shows("read-only")
	}
	if sc.press("y", "y"); len(w.done) > 0 {
		t.Errorf("what was done: %s", w.done)
	}
}

// The question before an action is legible on every terminal.
func TestConfirmGolden(t *testing.T) {
	s := kept(t, "mcp-cancel")
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "live", Wire: &wired{}}, size.width, size.height)
		sc.press("R", "y")
		golden(t, "confirm-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// A held frame waits above the keys, and is edited there. What runs and what was recorded is chosen from a list.
func TestLiveGolden(t *testing.T) {
	choices := []store.Choice{
		{Name: "files", About: "mcp, npx -y my-server, 12 calls, since 3m", Input: "tap:files"},
		{Name: "run:0c54d2", About: "claude, 9m14s, 48 calls, 2 failed", Input: "run:0c54d2"},
		{Name: "3f9a1c", About: "weather, mcp, 6s, 4 calls", Input: "3f9a1c"},
	}
	for _, size := range sizes {
		s := inFlight(t, "mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`)
		sc := newScreen(t, s, tui.Config{Name: "live", Wire: &wired{}}, size.width, size.height)
		s.Hold(store.Held{Number: 7, Payload: []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`)})
		s.Alter()
		sc.press("g")
		golden(t, "held-"+size.name, sc.text())
		sc.press("e")
		golden(t, "edit-"+size.name, sc.text())
		view := tui.PickView(choices, size.width, size.height)
		golden(t, "pick-"+size.name, ansi.Strip(view)+"\n")
	}
}

// Every view works in a session without frames.
func TestEmpty(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "empty"}, size.width, size.height)
		for _, key := range []string{"1", "2", "3", "4", "5", "?"} {
			sc.press(key, "j", "G")
			fits(t, sc.model.View(), size.width, size.height)
		}
	}
}

// The note about a peer that does not read is shown in the view of peers.
func TestNoteOnPeer(t *testing.T) {
	s := kept(t, "mcp-cancel")
	note := capture.Record{Kind: capture.Note, Text: []byte("unit has not read its stdin for 31s; 4096 bytes wait")}
	note.Conn = 1
	s.Event(&note)
	sc := newScreen(t, s, tui.Config{Name: "stall"}, 200, 20)
	sc.press("5")
	sc.shows("▲", " unit has not read its stdin for 31s; 4096 bytes wait")
}

// Copies go to the terminal's clipboard, and writes to a file.
func TestCopyAndWrite(t *testing.T) {
	var clipboard bytes.Buffer
	var name string
	var frames int
	write := func(to string, r *store.Records) error { name, frames = to, r.Len(); return nil }
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "c", Clipboard: &clipboard, Write: write}, 120, 40)
	sc.press("j", "w", "out.pcapng", "enter")
	sc.shows("wrote", "out.pcapng")
	if name != "out.pcapng" || frames != 5 {
		t.Errorf("it wrote %d frames to %q", frames, name)
	}
	for turns, want := range map[int]int{1: 1, 2: 18, 3: 5} {
		sc.press("w")
		for range turns {
			sc.press("tab")
		}
		if sc.press("all.ndjson", "enter"); frames != want {
			t.Errorf("after %d turns it wrote %d frames", turns, frames)
		}
	}
	sc.press("f", "kind==result", "enter", "2", "w", "tab", "tab")
	sc.shows("write the 4 frames that match")
	if sc.press("matches", "enter"); frames != 4 || name != "matches" {
		t.Errorf("it wrote %d frames to %q", frames, name)
	}
	sc.press("x", "1", "j")
	sc.press("enter", "y")
	text, ok := strings.CutPrefix(clipboard.String(), "\x1b]52;c;")
	payload, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, "\a"))
	if !ok || err != nil || !strings.Contains(string(payload), `"tools/call"`) {
		t.Errorf("it copied %q, %v", clipboard.String(), err)
	}
}

// Bookmarks are visible, and the filter can select them.
func TestBookmarks(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "b"}, 120, 40)
	sc.press("2", "g", "jj", "m")
	sc.shows("◆")
	sc.press("f", "bookmarks", "enter")
	sc.shows("1 of 18 frames")
	sc.press("m", "x")
	if strings.Contains(sc.text(), "◆") {
		t.Errorf("the bookmark is still there:\n%s", sc.text())
	}
}

// A payload folds, line by line and as a whole.
func TestFold(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "f"}, 120, 40)
	sc.press("2", "g", "enter", "v")
	sc.shows(`"name": "example-client"`)
	sc.press("o")
	if strings.Contains(sc.text(), `"name": "example-client"`) {
		t.Errorf("it is not folded:\n%s", sc.text())
	}
	sc.press("o", "O")
	sc.shows(`"params"`)
	if strings.Contains(sc.text(), `"name": "example-client"`) {
		t.Errorf("it is not folded:\n%s", sc.text())
	}
	sc.press("O")
	sc.shows(`"name": "example-client"`)
}

// Themes differ only in colour. Without colour, nothing is lost.
func TestThemes(t *testing.T) {
	s := kept(t, "mcp-cancel")
	dark := newScreen(t, s, tui.Config{Name: "t", Theme: "dark", Color: true}, 120, 40)
	plain := newScreen(t, s, tui.Config{Name: "t", Theme: "dark"}, 120, 40)
	before := dark.model.View()
	dark.press("T")
	if dark.model.View() == before {
		t.Error("the light theme is the dark one")
	}
	if dark.text() != plain.text() {
		t.Errorf("colour changes the text:\n%s\n%s", dark.text(), plain.text())
	}
	if strings.Contains(plain.model.View(), "\x1b[3") || strings.Contains(plain.model.View(), "\x1b[38;") {
		t.Errorf("there is colour: %q", plain.model.View())
	}
}

// The mouse chooses views and rows, opens the selection, and scrolls.
func TestMouse(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 120, 40)
	click := func(x, y int) {
		sc.send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
		sc.send(sc.size)
	}
	click(14, 1)
	sc.shows("WHAT IT SAYS")
	sc.press("g")
	click(5, 6) // the third frame
	click(5, 6)
	sc.shows("#3 ")
	sc.press("esc", "1")
	sc.send(tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress})
	sc.send(sc.size)
	sc.shows("── index · tools/call · 1")
	sc.press("4")
	lines := strings.Split(sc.text(), "\n")
	ping := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, " ping ") })
	click(5, ping)
	click(5, ping)
	sc.shows("filter kind==ping")
	sc.press("x", "5")
	click(5, 3) // the only connection, which is already selected
	sc.shows("filter conn==1", "WHAT IT SAYS")
}

// The mouse can be left to the terminal, for selecting text, and taken back.
func TestMouseOff(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 120, 40)
	for _, tt := range []struct {
		want tea.Msg
		says string
	}{{tea.DisableMouse(), "the mouse now selects text"}, {tea.EnableMouseCellMotion(), "the mouse controls the monitor again"}} {
		_, cmd := sc.model.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'M'}})
		if cmd == nil || cmd() != tt.want {
			t.Errorf("%s: that is not done", tt.says)
		}
		sc.shows(tt.says)
	}
}

// If the names of the views have no room for their keys, all of them can still be clicked.
func TestNarrow(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 40, 10)
	fits(t, sc.model.View(), 40, 10)
	tabs := strings.Split(sc.text(), "\n")[1]
	for _, name := range []string{"Frames", "Findings", "Stats", "Peers"} {
		if !strings.Contains(tabs, name) {
			t.Fatalf("there is no %s in %q", name, tabs)
		}
	}
	sc.send(tea.MouseMsg{X: strings.Index(tabs, "Peers"), Y: 1, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	sc.shows("standard error and events")
}

// A large frame is read in the background: its header is shown at once. Keys for its lines
// wait for them, and keys that leave it do not.
func TestLargeFrameDelaysNoKey(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 120, 40)
	sc.press("2", "g")
	_, cmd := sc.model.Update(named["enter"])
	cmds, ok := cmd().(tea.BatchMsg)
	if !ok || len(cmds) != 2 {
		t.Fatalf("the frame is opened by %T", cmd())
	}
	sc.run(cmds[0]) // cmds[1] reads it
	sc.shows("#1 → initialize")
	if strings.Contains(sc.text(), "example-client") {
		t.Errorf("the frame was read already:\n%s", sc.text())
	}
	sc.press("v", "v", "v", "o")
	sc.run(cmds[1])
	sc.shows("▸{ … }")
	sc.press("o")
	sc.shows(`"name": "example-client"`)
	for key, want := range map[string]string{"esc": "WHAT IT SAYS", "4": "exchanges", "tab": "FINDINGS"} {
		sc.press("2", "g")
		_, cmd := sc.model.Update(named["enter"])
		sc.run(cmd().(tea.BatchMsg)[0])
		sc.press(key)
		sc.shows(want)
		sc.run(cmd().(tea.BatchMsg)[1]) // the result is no longer needed
		sc.shows(want)
	}
}

// A search in a frame wraps around.
func TestSearchInFrame(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 120, 40)
	sc.press("2", "g", "enter", "G", "/", "PROTOCOLversion", "enter", "o")
	sc.shows(`"protocolVersion"`)
	sc.press("/", "nowhere", "enter")
	sc.shows("no line contains nowhere")
}

// Two compared frames can be scrolled and searched like one, to the last line.
func TestCompareScrollsAndSearches(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 60, 15)
	sc.press("2", "g", "d", "3", "enter", "G")
	sc.shows("\n }                             }\n esc back")
	sc.press("g", "/", `"version"`, "enter")
	sc.shows(`"version": "1.0.0"`)
	sc.press("/", "INITIALIZED", "enter")
	sc.shows("#1 initialize                 #3", "≠   \"method\"")
	sc.press("/", "nowhere", "enter")
	sc.shows("no line contains nowhere")
}

// A key never waits for the store, which may be busy. A command applies the change.
func TestMarksAreSetByCommands(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "m"}, 120, 40)
	for _, keys := range [][]string{{"1", "g"}, {"1", "g", "a", "note"}, {"2", "g"}, {"2", "g", "enter"}} {
		sc.press(keys...)
		key := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'m'}}
		if keys[len(keys)-1] == "note" {
			key = named["enter"]
		}
		before := sc.store.Version()
		_, cmd := sc.model.Update(key)
		if sc.store.Version() != before {
			t.Errorf("%s: the key has changed the store", keys)
		}
		if sc.run(cmd); sc.store.Version() == before {
			t.Errorf("%s: nothing is marked", keys)
		}
	}
}

// The user chooses one of several sessions, or none.
func TestPick(t *testing.T) {
	choices := []store.Choice{{Name: "first-1", About: "5s", Input: "tap:1"}, {Name: "second-2", About: "6s", Input: "tap:2"}}
	still := func(ctx context.Context) []store.Choice { <-ctx.Done(); return nil }
	for keys, want := range map[string]string{"\r": "tap:1", "j\r": "tap:2", "jjk\r": "tap:1", "q": ""} {
		got, err := tui.Pick(t.Context(), choices, still, tui.Config{Input: strings.NewReader(keys), Output: io.Discard})
		if err != nil || got != want {
			t.Errorf("%q chooses %q, %v; want %q", keys, got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keys, typing := io.Pipe()
	defer typing.Close()
	if got, err := tui.Pick(ctx, choices, still, tui.Config{Input: keys, Output: io.Discard}); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	waits := []store.Choice{{Input: store.Await}, {Input: "3f9a1c"}}
	starts := func(context.Context) []store.Choice { return choices[:1] }
	if got, err := tui.Pick(t.Context(), waits, starts, tui.Config{Input: keys, Output: io.Discard}); got != store.Await || err != nil {
		t.Errorf("a session has started: %q, %v", got, err)
	}
}

// inFlight returns a store with requests that nobody has answered yet.
func inFlight(t *testing.T, protocol string, requests ...string) *store.Store {
	t.Helper()
	s := store.New(store.Options{})
	t.Cleanup(func() { s.Close() })
	s.Begin(decode.Input{Capture: &recorded{}})
	list := &recorded{session: capture.Session{Framing: "line", Protocol: protocol}}
	for i, text := range requests {
		list.add(i+1, text)
	}
	check(t, s.Read(t.Context(), decode.Input{Capture: list}, decode.Config{Workers: 1}))
	return s
}

// A cancel is offered only if the wire accepts one and the protocol has one for the call.
func TestCancelIsOffered(t *testing.T) {
	call, ended := inFlight(t, "mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`), kept(t, "mcp-cancel")
	for _, tt := range []struct {
		store   *store.Store
		wire    tui.Wire
		refusal string
	}{
		{call, nil, "read-only"},
		{call, &wired{refuses: "read-only"}, "read-only"},
		{call, &wired{}, ""},
		{ended, &wired{}, "no cancel: it has ended"},
		{inFlight(t, "mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`), &wired{}, "no cancel: mcp forbids to cancel initialize"},
		{inFlight(t, "jsonrpc", `{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}`), &wired{}, "no cancel: jsonrpc has no message that cancels a request"},
	} {
		sc := newScreen(t, tt.store, tui.Config{Name: "live", Wire: tt.wire}, 200, 40)
		if got := strings.Contains(sc.text(), "X send a cancel"); got != (tt.refusal == "") {
			t.Errorf("%v: a cancel is offered: %v, want %v", tt.wire, got, tt.refusal == "")
		}
		sc.press("X")
		if tt.refusal == "" {
			sc.shows("this changes live traffic")
		} else {
			sc.shows(tt.refusal)
		}
	}
}

// A call is copied as a command that sends it, without secrets, and R sends it to a server that
// the user names, which is remembered.
func TestCallIsSentAgain(t *testing.T) {
	const key = "sk-proj-0123456789abcdef0123"
	var out strings.Builder
	var ran [][]string
	speaks := tui.Config{Name: "s", Clipboard: &out, Speaks: []string{"mcp"}, Repeat: func(args []string) (string, error) {
		if ran = append(ran, args); len(ran) == 2 {
			return "", errors.New("nobody listens there")
		}
		return `{"content":[]}`, nil
	}}
	s := said(t, "mcp", `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"it's","arguments":{"api_key":"`+key+`"}}}`+"\n"+`< {"jsonrpc":"2.0","id":1,"result":{}}`)
	sc := newScreen(t, s, speaks, 120, 40)
	sc.press("y", "R", "node server.js", "enter")
	sc.shows(`tools/call answers: {"content":[]}`)
	sc.press("R")
	sc.shows("send tools/call to node server.js")
	sc.press("enter")
	sc.shows("nobody listens there")
	sc.press("enter", "R", "enter") // in the detail, too
	params := `{"name":"it's","arguments":{"api_key":"[redacted]"}}`
	if want := []string{"send", "mcp", "tools/call", params, "--", "node", "server.js"}; len(ran) != 3 || !slices.Equal(ran[2], want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
	if got, want := pasted(out.String()), `wirectl send mcp tools/call '{"name":"it'\''s","arguments":{"api_key":"[redacted]"}}' ENDPOINT`; len(got) != 1 || got[0] != want {
		t.Errorf("copied %q, want %q", got, want)
	}
	if n := s.Notes(); n.Server != "node server.js" {
		t.Errorf("the notes keep %q", n.Server)
	}
	out.Reset()
	sc = newScreen(t, kept(t, "api-anthropic-made"), speaks, 120, 40)
	sc.press("y", "R")
	if got := pasted(out.String()); len(got) != 1 || !strings.HasPrefix(got[0], "curl -X POST http") || strings.Contains(got[0], "sk-mock") || !strings.Contains(got[0], "authorization: [redacted]") {
		t.Errorf("copied %q", got)
	}
	sc.shows("wirectl send has no anthropic messages")
}
