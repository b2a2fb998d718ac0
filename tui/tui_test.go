package tui_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// update reports whether to rewrite the golden views. teatest defines the flag.
func update() bool { return flag.Lookup("update").Value.String() == "true" }

// kept returns a store with a recorded session.
func kept(t testing.TB, name string) *store.Store {
	t.Helper()
	r, err := decode.OpenRecording(fixtures.Session(name), decode.Config{Resync: true})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(store.Options{})
	t.Cleanup(func() { r.Close(); s.Close() })
	in := decode.Input{Capture: r}
	cfg := decode.Config{Workers: 1, Resync: true}
	if err := s.Take(t.Context(), in, cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// A screen is a monitor without a terminal, driven by messages.
type screen struct {
	testing.TB
	model tea.Model
	store *store.Store
	size  tea.WindowSizeMsg
}

func newScreen(t testing.TB, s *store.Store, c tui.Config, width, height int) *screen {
	t.Helper()
	sc := &screen{t, tui.New(s, c), s, tea.WindowSizeMsg{Width: width, Height: height}}
	sc.send(sc.size)
	return sc
}

// send passes a message to the model, and then the results of its commands, but does not
// wait for slow ones.
func (s *screen) send(msg tea.Msg) {
	s.Helper()
	model, cmd := s.model.Update(msg)
	s.model = model
	s.run(cmd)
}

func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
	default:
		s.send(msg)
	}
}

// press types keys: each a name, or a text. A search has found its match when press
// returns.
func (s *screen) press(keys ...string) {
	s.Helper()
	for _, k := range keys {
		msg, ok := named[k]
		if !ok {
			for _, r := range k {
				s.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
			}
			continue
		}
		s.send(msg)
	}
	for s.store.Search(time.Second) {
	}
	s.send(s.size)
}

var named = map[string]tea.KeyMsg{
	"enter": {Type: tea.KeyEnter}, "esc": {Type: tea.KeyEsc}, "tab": {Type: tea.KeyTab}, "shift+tab": {Type: tea.KeyShiftTab},
	"up": {Type: tea.KeyUp}, "down": {Type: tea.KeyDown}, "left": {Type: tea.KeyLeft}, "right": {Type: tea.KeyRight},
	"pgdown": {Type: tea.KeyPgDown}, "pgup": {Type: tea.KeyPgUp}, "backspace": {Type: tea.KeyBackspace},
}

// text returns the visible text, without trailing blanks.
func (s *screen) text() string {
	var b strings.Builder
	for line := range strings.Lines(ansi.Strip(s.model.View())) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// shows fails unless the screen has all of these texts.
func (s *screen) shows(texts ...string) {
	s.Helper()
	got := s.text()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			s.Errorf("the screen lacks %q:\n%s", text, got)
		}
	}
}

type size struct {
	name          string
	width, height int
}

var sizes = []size{{"80x24", 80, 24}, {"120x40", 120, 40}, {"200x50", 200, 50}}

// The views of recorded sessions, at three sizes. Every line fits.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		name, fixture string
		keys          []string
	}{
		{"ids", "mcp-cancel", nil},
		{"ids-latis", "latis-cancel", nil},
		{"ids-groups", "mcp-everything", []string{"b", "j", "j", "o"}},
		{"ids-errors", "nexus-errors", nil},
		{"call", "mcp-everything", []string{"jjjjjjjjj", "enter", "O", "j"}},
		{"call-jq", "mcp-everything", []string{"jjjjjjjjj", "enter", "|", ".params // .result", "enter"}},
		{"call-model", "api-anthropic-made", []string{"jj", "enter"}},
		{"frames", "mcp-cancel", []string{"2", "g"}},
		{"detail", "mcp-cancel", []string{"2", "g", "down", "down", "enter"}},
		{"jq", "mcp-cancel", []string{"2", "g", "enter", "|", ".params.clientInfo", "enter", "right"}},
		{"compare", "mcp-everything", []string{"jjjjjjjjj", "d"}},
		{"compare-two", "mcp-cancel", []string{"2", "g", "d", "3", "enter"}},
		{"marks", "mcp-cancel", []string{"a", "look here", "enter", "2", "g", "m"}},
		{"findings", "nexus-errors", []string{"3"}},
		{"stats", "mcp-everything", []string{"4"}},
		{"peers", "mcp-everything", []string{"5"}},
		{"help", "mcp-cancel", []string{"?"}},
		{"filter", "mcp-everything", []string{"f", "kind~tools", "enter"}},
		{"filter-names", "mcp-everything", []string{"f", "name==g"}},
		{"filter-wrong", "mcp-everything", []string{"f", "kind~", "enter"}},
		{"filter-nothing", "mcp-everything", []string{"f", "kind~nosuch", "enter"}},
		{"search", "mcp-everything", []string{"2", "g", "/", "get-sum", "enter"}},
		{"zoom", "mcp-everything", []string{"+", "+"}},
		{"in-flight", "mcp-cancel", []string{"c"}},
		{"finding", "nexus-errors", []string{"3", "j", "enter"}},
		{"peer", "mcp-everything", []string{"5", "enter"}},
		{"hex", "mcp-cancel", []string{"2", "g", "enter", "v", "v"}},
		{"write", "mcp-cancel", []string{"2", "g", "enter", "w"}},
		{"repeat", "mcp-cancel", []string{"j", "R"}},
		{"refused", "mcp-cancel", []string{"j", "X"}},
	} {
		s := kept(t, tt.fixture)
		for _, size := range sizes {
			t.Run(tt.name+"-"+size.name, func(t *testing.T) {
				sc := newScreen(t, s, asOpened(tt.fixture), size.width, size.height)
				sc.press(tt.keys...)
				golden(t, tt.name+"-"+size.name, sc.text())
				fits(t, sc.model.View(), size.width, size.height)
			})
		}
	}
}

// asOpened is how the command opens an ended session.
func asOpened(name string) tui.Config {
	return tui.Config{
		Name: name, Sort: store.ByArrival, Speaks: []string{"mcp", "nexus"}, Repeat: func([]string) (string, error) { return "{}", nil },
		Write: func(string, *store.Records) error { return nil },
	}
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if update() {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

// fits fails unless a screen has as many lines as the terminal, and none is wider.
func fits(t *testing.T, view string, width, height int) {
	t.Helper()
	lines := strings.Split(view, "\n")
	if len(lines) != height {
		t.Errorf("%d lines on a terminal of %d", len(lines), height)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n > width {
			t.Errorf("line %d takes %d cells of %d: %q", i, n, width, l)
		}
	}
}

// Typed keys do what the help line says.
func TestKeys(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "mcp-cancel"}, 120, 40)
	sc.shows("late result", "crossed", "Calls 5 ")
	sc.press("tab")
	sc.shows("WHAT IT SAYS", "notifications/cancelled")
	sc.press("g", "enter")
	sc.shows("#1 → initialize", `"protocolVersion"`)
	sc.press("|", ".params.clientInfo.name", "enter")
	sc.shows(" wirectl")
	sc.press("esc", "esc", "3")
	sc.shows("late-result")
	sc.press("enter")
	sc.shows("Discard the result", "result")
	sc.press("esc", "f", "kind==pin", "tab", "enter")
	sc.shows("filter kind==ping")
	sc.press("2")
	sc.shows("1 of 18 frames")
	sc.press("x")
	sc.press("f", "nonsense", "enter")
	sc.shows("unknown filter", "filter nonsense")
	for range "nonsense" {
		sc.press("backspace")
	}
	sc.press("kind==ping", "enter")
	sc.shows("1 of 18 frames")
	sc.press("x", "1", "c")
	sc.shows("nothing is in flight (c shows")
	sc.press("c", "X")
	sc.shows("read-only")
	sc.press("a", "look here", "enter")
	sc.shows("look here")
}

// Words that views offer turn on and off by a key or the mouse, and are terms of the filter.
func TestChips(t *testing.T) {
	s := kept(t, "mcp-everything")
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "s"}, size.width, size.height)
		sc.shows(" E failed  S slow  C cancelled  L model  t tool")
		sc.press("E")
		sc.shows("filter failed · 3 of 25 calls", "✖ failed")
		sc.press("t")
		sc.shows("filter failed and tool · ")
		sc.press("L")
		sc.shows("filter failed and model · 0 of 25 calls")
		sc.press("L", "E")
		sc.shows("25 Calls"[2:], "E failed")
		click := func(word string) {
			t.Helper()
			line := strings.Split(sc.text(), "\n")[2]
			sc.send(tea.MouseMsg{X: ansi.StringWidth(line[:strings.Index(line, word)]), Y: 2, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
			sc.send(sc.size)
		}
		click("tool")
		sc.shows("filter tool · ")
		click("slow")
		sc.shows("filter tool and slow · 3 of 25 calls")
		sc.press("2")
		sc.shows("82 frames")
		sc.press("f", "tab", "esc", "x", "f", "name==get-str", "tab", "enter")
		sc.shows("name==get-structured-content · ")
	}
}

// A call is opened with its answer, which comes later if it is in flight. What is copied is what
// the cursor is in.
func TestCall(t *testing.T) {
	var out strings.Builder
	s := said(t, "mcp", `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`+"\n"+`< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool: echo"}}`+"\n")
	for _, size := range sizes {
		out.Reset()
		sc := newScreen(t, s, tui.Config{Name: "s", Clipboard: &out}, size.width, size.height)
		sc.shows("-32602 no such")
		sc.press("enter")
		sc.shows("answer · #2 error", `"method": "tools/call"`, `"code": -32602`)
		sc.press("y", "G", "y")
		if got := pasted(out.String()); len(got) != 2 || !strings.Contains(got[0], "tools/call") || !strings.Contains(got[1], "no such tool") {
			t.Errorf("copied %q", got)
		}
		sc.press("g", "o")
		sc.shows("▸{ … }", `"code": -32602`)
		sc.press("|", ".error.message // .method", "enter")
		sc.shows("jq .error.message", `"no such tool: echo"`, `"tools/call"`)
		sc.press("/", "such", "enter")
		sc.press("esc")
		sc.shows("OUTCOME")
		sc = newScreen(t, s, tui.Config{Name: "s"}, size.width, size.height)
		sc.press("enter", "|", ".error | keys", "enter") // the request has none
		sc.shows("(jq: ", `"message"`)
		sc.press("|", " | empty", "enter")
		sc.shows("(jq: ", "(no result)")
	}
}

// pasted returns the texts that were copied through a terminal.
func pasted(sequences string) (list []string) {
	for _, one := range strings.Split(sequences, "\a") {
		if text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "\x1b]52;c;")); err == nil && len(text) > 0 {
			list = append(list, string(text))
		}
	}
	return list
}

// Groups fold one by one and all at once, by keys and by the mouse. If only exchanges in
// flight are shown, the headings still count all.
func TestGroups(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "mcp-cancel"}, 120, 40)
	lacks := func(text string) {
		t.Helper()
		if strings.Contains(sc.text(), text) {
			t.Errorf("the screen has %q:\n%s", text, sc.text())
		}
	}
	sc.press("b")
	sc.shows("grouped by kind", "▾ tools/call", "3 calls", "▾ initialize")
	sc.press("O")
	sc.shows("▸ tools/call", "▸ initialize", "3 calls")
	lacks("crossed")
	sc.press("j", "j", "enter")
	sc.shows("▾ ping")
	sc.press("O", "c")
	lacks("● done")
	sc.shows("▾ ping", "1 call")
	sc.press("c", "g", "b")
	sc.shows("▾ connection 1", "5 calls", "crossed")
	click := func(y int) {
		sc.send(tea.MouseMsg{X: 4, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
		sc.send(sc.size)
	}
	click(5) // the exchange below the heading
	sc.press("o")
	lacks("crossed")
	click(4)
	sc.shows("▾ connection 1", "crossed")
	sc.press("j", "b", "b", "s")
	sc.shows("late result", "slowest first")
}

// Keys that are typed faster than they are read arrive as one message.
func TestKeysTypedAtOnce(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "mcp-cancel"}, 120, 40)
	sc.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("2gfkind==ping")})
	sc.press("enter")
	sc.shows("WHAT IT SAYS", "1 of 18 frames")
}

// Pasted text goes to the current input line, joined into one line. It never counts as
// keys.
func TestPaste(t *testing.T) {
	sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Name: "mcp-cancel"}, 120, 40)
	paste := func(text string) { sc.send(tea.KeyMsg{Type: tea.KeyRunes, Paste: true, Runes: []rune(text)}) }
	before := sc.text()
	paste("2?q")
	sc.shows("open an input line before pasting")
	if sc.press("esc"); sc.text() != before {
		t.Errorf("a paste has done something:\n%s", sc.text())
	}
	sc.press("f")
	paste("kind==ping\r\nand \x1b")
	sc.press("size>0")
	sc.shows("filter kind==ping and size>0")
	sc.press("enter")
	sc.shows("1 of 5 calls")
}

// Lines keep their places, whatever text is on the wire.
func TestHostileText(t *testing.T) {
	for _, id := range []string{
		"\x1b[2J\x1b[31mred", "日本語の識別子日本語の識別子", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "e\u0301\u0302\u0303", "\u202eabc\u202c", "a\tb\rc\nd", "\x00\x7f\u0085", "שלום עולם",
	} {
		quoted, _ := json.Marshal(id)
		s := streamed(t, `{"jsonrpc":"2.0","id":`+string(quoted)+`,"method":"tools/call","params":{"name":`+string(quoted)+`}}`+"\n")
		for _, keys := range [][]string{{"1"}, {"2"}, {"2", "enter"}, {"3"}, {"4"}, {"5"}} {
			for _, size := range sizes {
				sc := newScreen(t, s, tui.Config{Name: id}, size.width, size.height)
				sc.press(keys...)
				fits(t, sc.model.View(), size.width, size.height)
				if text := ansi.Strip(sc.model.View()); strings.ContainsAny(text, "\x1b\r\t\x00\u202e") {
					t.Errorf("%q: control characters reach the terminal: %q", id, text)
				}
			}
		}
	}
}

// streamed returns a store with the bytes of one direction.
func streamed(t testing.TB, text string) *store.Store {
	t.Helper()
	s := store.New(store.Options{})
	t.Cleanup(func() { s.Close() })
	in := decode.Input{Stream: strings.NewReader(text)}
	cfg := decode.Config{Workers: 1, Resync: true}
	if err := s.Take(t.Context(), in, cfg); err != nil {
		t.Fatal(err)
	}
	return s
}
