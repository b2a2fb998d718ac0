package hub_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

// talk writes frames of MCP. Lines that begin with < are from the unit.
func (f *feed) talk(lines ...string) {
	for _, line := range lines {
		dir := frame.C2U
		if text, ok := strings.CutPrefix(line, "<"); ok {
			dir, line = frame.U2C, text
		}
		raw := []byte(line + "\n")
		f.frames++
		r := capture.Record{
			Kind: capture.Frame, Seq: f.frames, Time: time.Now(), Protocol: "mcp", Framing: "line",
			Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Dir: dir, Conn: 1},
		}
		var w capture.Writer = f.tap
		if sink := f.sender.Sink(); sink != nil {
			w = sink
		}
		check(f.t, w.Write(&r))
	}
}

// call returns a tool call and its answer.
func call(id int, tool, text, answer string) []string {
	return []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, tool, text),
		fmt.Sprintf(`<{"jsonrpc":"2.0","id":%d,%s}`, id, answer),
	}
}

const (
	well = `"result":{"content":[]}`
	ill  = `"error":{"code":-32603,"message":"Connection refused: caf\u00e9\ndown"}`
)

// viewer connects to a hub as a reader does.
func viewer(t *testing.T, h *server.Hub) *hub.Conn {
	t.Helper()
	a, err := hub.ParseAddress(h.URL())
	check(t, err)
	c, err := hub.Dial(a)
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

// search returns the ids of the sessions that match a query.
func search(t *testing.T, h *server.Hub, q hub.Query) (ids []string) {
	t.Helper()
	list, behind, err := viewer(t, h).Search(t.Context(), q)
	check(t, err)
	if behind > 0 {
		t.Errorf("the index is %d messages behind", behind)
	}
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	return ids
}

// finds checks which of two sessions match the conditions.
func finds(t *testing.T, h *server.Hub, first, second string) {
	t.Helper()
	both := second + " " + first // the newest first
	for where, want := range map[string]string{
		"tool==search":                          first,
		"tool~sear":                             first,
		"tool!=search":                          second,
		"outcome==failed":                       first,
		"outcome==done":                         both,
		"failures>0":                            first,
		"failures==0 and calls==1":              second,
		"calls>=1":                              both,
		"finding==orphan":                       second,
		"findings==0":                           first,
		"finding!=orphan":                       first,
		"request==tools/call":                   both,
		"protocol==mcp":                         both,
		"protocol==acp":                         "",
		"text~needle":                           first,
		"text~need":                             first,
		"text==need":                            "",
		"text!=needle":                          second,
		`text=="the needle"`:                    first,
		`text=="CONNECTION refused"`:            first,
		"text==café":                            first,
		"text==down":                            first,
		"text==ndown":                           "",
		"text==hunter2":                         "",
		"host!=nowhere and name==server-1":      both,
		`unit~server and kind==relay`:           both,
		"frames>3 and tool==search":             first,
		"tool==search and finding==orphan":      "",
		`name=="server-1' OR 1==1 --"`:          "",
		`tool=="search' OR 'a'='a"`:             "",
		`text~"\" OR needle"`:                   "", // no frame has the word "or"
		"level==full and policy==lossless":      both,
		"text~needle and text~straw":            first, // in the same passage
		"outcome==open":                         "",
		"lost>0":                                "",
		"controller==stdio and tool==add":       both,
		"tool!=search and tool!=add":            "",
		"text~needle and text!=haystack":        first,
		"text!=needle and text!=straw":          second,
		"failures>=1 and text~\"connect down\"": first,
	} {
		if got := strings.Join(search(t, h, hub.Query{Where: where}), " "); got != want {
			t.Errorf("%s finds %q, want %q", where, got, want)
		}
	}
}

// Sessions are found by their metadata, calls, findings and text, also after the hub was
// restarted, and with a rebuilt index.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	h := start(t, dir, "")
	first := send(t, h.URL(), lossless)
	first.talk(call(1, "add", "straw", well)...)
	first.talk(call(2, "search", "the needle", ill)...)
	first.talk(`{"jsonrpc":"2.0","method":"notifications/n","params":{"password":"hunter2"}}`)
	first.end()
	second := send(t, h.URL(), lossless)
	second.talk(call(1, "add", "hay", well)...)
	second.talk(`<{"jsonrpc":"2.0","id":77,"result":{}}`)
	second.end()
	a, b := first.sender.Info().ID, second.sender.Info().ID
	finds(t, h, a, b)

	began := first.sender.Info().Started
	for _, c := range []struct {
		q    hub.Query
		want string
	}{
		{hub.Query{}, b + " " + a},
		{hub.Query{Words: []string{"ENDED", a[:6]}}, a},
		{hub.Query{Words: []string{"live"}}, ""},
		{hub.Query{Since: time.Now().Add(time.Hour)}, ""},
		{hub.Query{Since: began.Add(-time.Hour)}, b + " " + a},
		{hub.Query{Until: began}, a},
	} {
		if got := strings.Join(search(t, h, c.q), " "); got != c.want {
			t.Errorf("%+v finds %q, want %q", c.q, got, c.want)
		}
	}
	for where, want := range map[string]string{"tool>1": "tool is text", "calls~1": "calls is a number", "text==...": "no word", "nosuch==1": "nosuch"} {
		if _, _, err := viewer(t, h).Search(t.Context(), hub.Query{Where: where}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", where, err)
		}
	}

	check(t, h.Close())
	h = start(t, dir, "")
	finds(t, h, a, b)
	check(t, h.Close())
	for name, spoil := range map[string]func(string) error{
		"missing": os.Remove,
		"no database": func(file string) error {
			return os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600)
		},
		"cut": func(file string) error { return os.Truncate(file, 5000) },
	} {
		check(t, spoil(filepath.Join(dir, "index.db")))
		h = start(t, dir, "")
		finds(t, h, a, b)
		check(t, h.Close())
		t.Log(name)
	}
	h, err := server.Start(t.Context(), server.Options{Dir: dir, Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Reindex: true, Warn: func(text string) { t.Log(text) }})
	check(t, err)
	finds(t, h, a, b)
	check(t, h.Close())
}

// Reading the words of a frame does not change those read later.
func TestSearchEscaped(t *testing.T) {
	h := start(t, t.TempDir(), "")
	f := send(t, h.URL(), lossless)
	const pairs = 2000
	for id := range pairs {
		f.talk(call(2*id, "add", "a text that is long and has no escapes", well)...)
		f.talk(call(2*id+1, "add", "\n", well)...)
	}
	f.end()
	where := fmt.Sprintf("calls==%d and findings==0", 2*pairs)
	if got := search(t, h, hub.Query{Where: where}); len(got) != 1 {
		t.Errorf("%s finds %q", where, got)
	}
}

// A running session is indexed as it arrives. If its beginning was read before the hub was
// restarted, there are no findings that depend on it.
func TestSearchLive(t *testing.T) {
	dir := t.TempDir()
	h := start(t, dir, freePort(t))
	f := send(t, h.URL(), lossless)
	lines := append(call(1, "add", "early", well), call(2, "search", "asked", well)...)
	f.talk(lines[:3]...)
	find := func(where string) {
		t.Helper()
		guard := time.Now().Add(time.Minute)
		for len(search(t, h, hub.Query{Where: where})) == 0 {
			if time.Now().After(guard) {
				t.Fatalf("nothing is found by %s", where)
			}
		}
	}
	find("text~asked and tool==add and calls==1")
	if behind := search(t, h, hub.Query{Where: "calls==1 and frames==0"}); len(behind) != 0 {
		t.Error("the calls are counted, and the frames are not")
	}
	check(t, h.Close())
	h = start(t, dir, listens(h))
	f.talk(lines[3])
	f.talk(call(3, "late", "last", ill)...)
	find("tool==late and failures==1 and text~early")
	f.end()
	find("tool==late and findings==0 and calls==2")
}

// Sessions over the limit of age or size are also removed from the index and the list.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	h := start(t, dir, "")
	old := send(t, h.URL(), lossless)
	old.talk(call(1, "old", "ancient", well)...)
	old.end()
	if got := search(t, h, hub.Query{Where: "text~ancient"}); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	js, err := jetstream.New(h.Conn().NATS())
	check(t, err)
	stream, err := js.Stream(t.Context(), hub.Stream)
	check(t, err, stream.Purge(t.Context())) // as the limits of the stream do
	newer := send(t, h.URL(), lossless)
	newer.talk(call(1, "newer", "modern", well)...)
	newer.end()
	check(t, h.Close())
	h = start(t, dir, "") // it checks for removed sessions when it starts
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := h.Conn().Sessions(ctx)
		check(t, err)
		if len(list) == 1 && list[0].ID == newer.sender.Info().ID {
			break
		}
	}
	for where, want := range map[string]int{"text~ancient": 0, "tool==old": 0, "calls>0": 1, "text~modern": 1} {
		if got := search(t, h, hub.Query{Where: where}); len(got) != want {
			t.Errorf("%s finds %q", where, got)
		}
	}
}
