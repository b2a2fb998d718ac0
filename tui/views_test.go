package tui_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// views are the keys for each view.
var views = map[string][]string{
	"ids": {"j"}, "unfolded": {"O"}, "groups": {"b", "j"}, "frames": {"2", "g"}, "last frames": {"2"}, "findings": {"3"}, "stats": {"4", "j"}, "peers": {"5"},
	"detail": {"2", "g", "enter"}, "bytes": {"2", "g", "enter", "v", "v"}, "answer": {"enter", "l"}, "compare": {"d"}, "jq": {"enter", "|", ".", "enter"}, "help": {"?"},
	"filter": {"f", "kind~e"}, "filtered": {"f", "kind~e", "enter"}, "search": {"/", "result"}, "confirm": {"X"},
}

// Every view of every session fits the screen, cuts no kind of a frame, and has only colours
// that can be read.
func TestEveryView(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out thousands of pictures: CI runs the race detector with it, and the whole test without")
	}
	for _, name := range fixtures.Sessions() {
		s := kept(t, name)
		for _, size := range append(sizes, size{"40x10", 40, 10}) {
			for _, theme := range tui.Themes {
				if theme == "light" && size.width != 120 {
					continue // it differs only in its colours
				}
				for view, keys := range views {
					sc := newScreen(t, s, tui.Config{Name: name, Theme: theme, Color: true, Wire: &wired{}}, size.width, size.height)
					sc.press(keys...)
					fits(t, sc.model.View(), size.width, size.height)
					tui.CheckContrast(t, theme, sc.model.View())
					if size.width >= 80 {
						hasWholeKinds(t, s, sc.text())
					}
					if t.Failed() {
						t.Fatalf("%s of %s, %s, %s:\n%s", view, name, size.name, theme, sc.text())
					}
				}
			}
		}
	}
}

// frameRow is a row of a list with a frame's number and what follows its direction.
var frameRow = regexp.MustCompile(`[ #](\d+)(?: +[\d.]+)? [→←] (.*)`)

// hasWholeKinds fails if the kind of a frame is cut, though it is shorter than the row, or if
// its end is missing.
func hasWholeKinds(t *testing.T, s *store.Store, screen string) {
	t.Helper()
	for _, row := range frameRow.FindAllStringSubmatch(screen, -1) {
		seq, _ := strconv.ParseInt(row[1], 10, 64)
		f := s.Outline(seq)
		if f == nil || strings.HasPrefix(row[2], f.Kind) {
			continue
		}
		if kept := f.Kind[max(0, len(f.Kind)-20):]; len(f.Kind) < 80-22 || !strings.Contains(row[2], kept) {
			t.Errorf("%s is cut: %s", f.Kind, row[0])
		}
	}
}

// All names are whole in the lists: of exchanges, of connections, and in the figures.
func TestNamesAreWhole(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		s := kept(t, name)
		names := map[string][]string{"1": nil, "4": nil, "5": nil}
		for _, x := range s.IDs(store.IDsQuery{N: 1000}).List {
			names["1"] = append(names["1"], cmp.Or(x.Name, x.Kind))
		}
		st := s.Stats()
		for _, n := range st.Names {
			names["4"] = append(names["4"], n.Name)
		}
		for _, k := range st.Kinds {
			names["4"] = append(names["4"], k.Name)
		}
		for _, p := range s.Peers(0).Peers {
			names["5"] = append(names["5"], p.Label)
		}
		for _, size := range sizes {
			for view, want := range names {
				sc := newScreen(t, s, tui.Config{Name: name}, size.width, size.height)
				sc.press(view, "g")
				shown := ""
				for range len(want)/9 + 1 { // at 80x24 the tables of the figures have 10 rows
					shown += sc.text()
					sc.press("pgdown")
				}
				shown += sc.text()
				for _, n := range want {
					n = render.Safe(n)
					if w := ansi.StringWidth(n); w <= 43 && !strings.Contains(shown, n) || w > 43 && !strings.Contains(shown, n[len(n)-20:]) {
						t.Errorf("%s at %s: %s is cut:\n%s", name, size.name, n, shown)
					}
				}
			}
		}
	}
}

// The detail of a frame shows its kind whole, on lines of its own if it must, and the selected
// line of its payload.
func TestDetailIsWhole(t *testing.T) {
	method, text := strings.Repeat("a/long-name/", 12)+"end", strings.Repeat("word ", 40)+"the end"
	s := streamed(t, `{"jsonrpc":"2.0","method":"`+method+`","params":{"text":"`+text+`","more":"`+text+`"}}`+"\n")
	sc := newScreen(t, s, tui.Config{Name: "s"}, 80, 24)
	flat := func() string { return strings.Join(strings.Fields(sc.text()), "") }
	sc.press("2")
	sc.shows("…", "long-name/end")
	sc.press("enter", "v")
	if !strings.Contains(flat(), method) || !strings.Contains(flat(), strings.ReplaceAll(text, " ", "")) {
		t.Errorf("the kind or the payload is cut:\n%s", sc.text())
	}
	lines := streamed(t, `{"jsonrpc":"2.0","method":"m","params":{"text":"one\ntwo \\n\nthree"}}`+"\n")
	sc = newScreen(t, lines, tui.Config{Name: "s"}, 80, 24)
	sc.press("2", "enter", "v", "jjj")
	if got := regexp.MustCompile(`"text": "one\\n *\n *two \\\\n\\n *\n *three" *\n`).FindString(sc.text()); got == "" {
		t.Errorf("a text is not in its lines:\n%s", sc.text())
	}
	sc = newScreen(t, s, tui.Config{Name: "s"}, 80, 10)
	sc.press("2", "enter", "v", "jjjj")
	if sc.shows("word"); !strings.Contains(flat(), "theend") {
		t.Errorf("the selected line is cut:\n%s", sc.text())
	}
	fits(t, sc.model.View(), 80, 10)
}

// Beside the list is the beginning of a payload, however large it is, and how much is left
// out.
func TestLargePayload(t *testing.T) {
	s := streamed(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"text":"`+strings.Repeat("x", 200_000)+`"}}}`+"\n")
	for _, keys := range []string{"1", "2"} {
		sc := newScreen(t, s, tui.Config{Name: "s"}, 200, 50)
		sc.press(keys)
		sc.shows(`"name": "echo"`, `"text": "xxx`, "xxx…", "… 19", "k bytes more")
	}
	sc := newScreen(t, s, tui.Config{Name: "s"}, 120, 40) // below a list with free rows
	sc.shows(`"name": "echo"`, "… 19", "k bytes more")
}

// Connections have the names of their programs, and a number only to tell them apart.
func TestConnectionNames(t *testing.T) {
	for fixture, want := range map[string][]string{
		"mcp-everything":  {"@modelcontextprotocol/server-everything ", "connection 1: node node_modules/@modelcontextprotocol/server-everything/dist/index.js"},
		"codex-interrupt": {"codex app-server ", "/bin/codex app-server"}, "claude-interrupt": {"claude ", "--permission-prompt-tool=stdio"},
		"mcp26-ts-http": {"127.0.0.1:18101 (1) ", "127.0.0.1:18101 (6) "}, "mcp-cancel": {"connection 1 "},
	} {
		s := kept(t, fixture)
		for _, size := range sizes {
			sc := newScreen(t, s, tui.Config{Name: fixture}, size.width, size.height)
			sc.press("5")
			flat := strings.Join(strings.Fields(sc.text()), " ")
			for _, text := range want {
				if !strings.Contains(flat, text) {
					t.Errorf("%s lacks %q:\n%s", fixture, text, sc.text())
				}
			}
		}
	}
	sc := newScreen(t, kept(t, "mcp26-ts-http"), tui.Config{}, 120, 40)
	sc.shows("127.0.0.1:18101 (4) ")
	sc.press("enter")
	sc.shows("127.0.0.1:18101 (4) · ")
	sc.press("esc", "b", "b")
	sc.shows("▾ 127.0.0.1:18101 (1) ")
}

// Columns are straight, however long the names are.
func TestColumnsAreStraight(t *testing.T) {
	var text strings.Builder
	for n := 1; n <= 70; n++ {
		call := strings.Repeat("n", n)
		fmt.Fprintf(&text, `> {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`+"\n", n, call)
		fmt.Fprintf(&text, `< {"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`+"\n", n)
	}
	s := said(t, "mcp", text.String())
	for width := 60; width <= 200; width += 10 {
		straight := 0
		sc := newScreen(t, s, tui.Config{Name: "s"}, width, 75)
		for _, row := range strings.Split(sc.text(), "\n") {
			before, _, head := strings.Cut(row, "OUTCOME")
			if !head {
				before, _, _ = strings.Cut(row, "● done")
			}
			if at := ansi.StringWidth(before); head {
				straight = at
			} else if before != row && at != straight {
				t.Fatalf("%d cells wide:\n%s", width, sc.text())
			}
		}
	}
}

// A connection has one number in all views: of frames, calls and connections.
func TestConnectionsHaveOneNumber(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		s := kept(t, name)
		known := map[int]bool{}
		for _, p := range s.Peers(0).Peers {
			known[p.Conn] = true
		}
		for _, x := range s.IDs(store.IDsQuery{N: 10_000}).List {
			if f := s.Outline(x.First); f == nil || f.Conn != x.Conn || !known[x.Conn] {
				t.Errorf("%s: call %s is of connection %d, its first frame of %v; there are %v", name, x.ID, x.Conn, f, known)
			}
		}
	}
}

// However long a name is, the id next to it is there.
func TestLongNameLeavesTheID(t *testing.T) {
	s := store.New(store.Options{})
	defer s.Close()
	stream := `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"` + strings.Repeat("n", 200) + `"}}` + "\n"
	if err := s.Take(t.Context(), decode.Input{Stream: strings.NewReader(stream)}, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 120, 200} {
		sc := newScreen(t, s, tui.Config{Name: "s"}, width, 12)
		if row := regexp.MustCompile(`n…n+ 42 `); !row.MatchString(sc.text()) {
			t.Errorf("at width %d:\n%s", width, sc.text())
		}
	}
}
