package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
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
		check(f.t, f.journal.Write(&r))
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
	return searchAs(t, viewer(t, h), q)
}

// searched searches until the index has everything, which a hub that has much to do may not have
// at once.
func searched(t *testing.T, c *hub.Conn, q hub.Query) (f hub.Found) {
	t.Helper()
	until(t, "the index has everything", func() bool {
		var err error
		f, err = c.Search(t.Context(), q, nil)
		check(t, err)
		return f.Behind == 0
	})
	return f
}

func searchAs(t *testing.T, c *hub.Conn, q hub.Query) (ids []string) {
	t.Helper()
	f := searched(t, c, q)
	if len(f.Partly) > 0 {
		t.Errorf("these were not read: %q", f.Partly)
	}
	for _, i := range f.Sessions {
		ids = append(ids, i.ID)
	}
	return ids
}

// finds checks which of two sessions match the conditions.
func finds(t *testing.T, h *server.Hub, first, second string) {
	t.Helper()
	c := viewer(t, h)
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
		if got := strings.Join(searchAs(t, c, hub.Query{Where: where}), " "); got != want {
			t.Errorf("%s finds %q, want %q", where, got, want)
		}
	}
}

// Sessions are found by their metadata, calls, findings and text, also after the hub was
// restarted, and with a rebuilt index.
func TestSearch(t *testing.T) {
	t.Parallel()
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
	if _, err := viewer(t, h).Search(t.Context(), hub.Query{Where: "text~needle", After: &hub.Cursor{}}, nil); err != nil {
		t.Error(err)
	}
	for where, want := range map[string]string{"tool>1": "tool is text", "calls~1": "calls is a number", "text==...": "no word", "nosuch==1": "nosuch"} {
		if _, err := viewer(t, h).Search(t.Context(), hub.Query{Where: where}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", where, err)
		}
	}

	check(t, h.Close())
	h = start(t, dir, "")
	finds(t, h, a, b)
	check(t, h.Close())
	old := filepath.Join(dir, "index.db-wal") // of a version with a database
	check(t, os.WriteFile(old, []byte("words"), 0o600))
	for name, spoil := range map[string]func(jetstream.KeyValue, jetstream.Stream) error{
		"none yet":       func(_ jetstream.KeyValue, s jetstream.Stream) error { return s.Purge(t.Context()) },
		"no position":    func(b jetstream.KeyValue, _ jetstream.Stream) error { return b.Delete(t.Context(), "position") },
		"no JSON":        put("position", "{"),
		"of another hub": put("position", `{"format":1,"created":"2020-01-01T00:00:00Z","segments":2}`),
		"behind its facts": func(b jetstream.KeyValue, _ jetstream.Stream) error {
			e, err := b.Get(t.Context(), "position")
			check(t, err)
			var at map[string]any
			check(t, json.Unmarshal(e.Value(), &at))
			at["segments"] = 0
			text, err := json.Marshal(at)
			check(t, err)
			_, err = b.Put(t.Context(), "position", text)
			return err
		},
	} {
		h = start(t, dir, "")
		js := jetstreamOf(t, h)
		bucket, err := js.KeyValue(t.Context(), hub.Facts)
		check(t, err)
		name2, _ := hub.Bucket(hub.Facts)
		stream, err := js.Stream(t.Context(), name2)
		check(t, err, spoil(bucket, stream), h.Close())
		t.Log(name)
		h = start(t, dir, "")
		finds(t, h, a, b)
		check(t, h.Close())
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the file of an older version is still there")
	}
	h, err := server.Start(t.Context(), server.Options{Dir: dir, Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Reindex: true, Warn: func(text string) { t.Log(text) }})
	check(t, err)
	finds(t, h, a, b)
	check(t, h.Close())
}

// put returns a function that replaces an entry.
func put(key, text string) func(jetstream.KeyValue, jetstream.Stream) error {
	return func(b jetstream.KeyValue, _ jetstream.Stream) error {
		_, err := b.PutString(context.Background(), key, text)
		return err
	}
}

// A search that reads sessions reports how far it is, goes on where it was, and names what it has
// not read. One with more values than the hub keeps is read, too.
func TestSearchInSteps(t *testing.T) {
	t.Parallel()
	h, err := server.Start(t.Context(), server.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, SearchBytes: 1 << 10, SearchTime: 1, Warn: func(text string) { t.Log(text) },
	})
	check(t, err)
	t.Cleanup(func() { check(t, h.Close()) })
	var want []string
	for id := range 3 {
		i := &hub.Info{ID: fmt.Sprintf("s%d", id), Org: hub.DefaultOrg, Host: "h", Kind: "relay", Name: "r", Started: time.Now()}
		describe(t, h, i)
		publish(t, h, i, section(t, 1, call(1, "add", "hay", well)...), "Number", "1", "Frames", "2")
		want = append([]string{i.ID}, want...)
	}
	steps := 0
	search := func(where string) hub.Found {
		t.Helper()
		steps = 0
		searched(t, viewer(t, h), hub.Query{})
		f, err := viewer(t, h).Search(t.Context(), hub.Query{Where: where}, func(f *hub.Found) {
			if steps++; f.Searched != int64(steps) || f.All != 3 || len(f.Sessions) > steps {
				t.Errorf("after step %d: %+v", steps, f)
			}
		})
		check(t, err)
		return f
	}
	ids := func(f hub.Found) (list []string) {
		for _, i := range f.Sessions {
			list = append(list, i.ID)
		}
		return list
	}
	if f := search("text~hay"); steps != 2 || !slices.Equal(ids(f), want) || f.Partly != nil {
		t.Errorf("%d steps: %+v", steps, f)
	}
	var many []string
	for id := range 2000 {
		many = append(many, call(2+id, fmt.Sprintf("tool-%04d-%s", id, strings.Repeat("x", 100)), "straw", well)...)
	}
	i := &hub.Info{ID: "s9", Org: hub.DefaultOrg, Host: "h", Kind: "relay", Name: "large"}
	describe(t, h, i)
	publish(t, h, i, section(t, 1, many...), "Number", "1", "Frames", "4000")
	publish(t, h, i, section(t, 4001, call(1, "last", "needle", well)...), "Number", "2", "Frames", "4002")
	if f := search("name==large and tool~tool-1999"); !slices.Equal(ids(f), []string{"s9"}) {
		t.Errorf("a value beyond those that are kept: %+v", f)
	}
	if f := search("name==large and text~straw"); !slices.Equal(ids(f), []string{"s9"}) || f.Partly != nil {
		t.Errorf("at the beginning of a large session: %+v", f)
	}
	if f := search("name==large and text~needle"); f.Sessions != nil || !slices.Equal(f.Partly, []string{"h/s9"}) {
		t.Errorf("at the end of a large session: %+v", f)
	}
}

// Reading the words of a frame does not change those read later.
func TestSearchEscaped(t *testing.T) {
	t.Parallel()
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

// A running session is indexed as it arrives. A call that is open when the hub is restarted is
// counted.
func TestSearchLive(t *testing.T) {
	t.Parallel()
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
	find("tool==late and findings==0 and calls==3")
}

// Sessions over the limit of age or size are also removed from the index and the list.
func TestRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, "")
	old := send(t, h.URL(), lossless)
	old.talk(call(1, "old", "ancient", well)...)
	old.end()
	if got := search(t, h, hub.Query{Where: "text~ancient"}); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	stream, err := jetstreamOf(t, h).Stream(t.Context(), hub.Stream)
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

// publish stores a message of the session, as anybody with a token to send can.
func publish(t *testing.T, h *server.Hub, i *hub.Info, data []byte, headers ...string) {
	t.Helper()
	m := nats.NewMsg(hub.Segments + i.Key())
	m.Data = data
	for n := 0; n < len(headers); n += 2 {
		m.Header.Set("Wirectl-"+headers[n], headers[n+1])
	}
	_, err := jetstreamOf(t, h).PublishMsg(t.Context(), m)
	check(t, err)
}

func jetstreamOf(t *testing.T, h *server.Hub) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(h.Conn().NATS())
	check(t, err)
	return js
}

// describe stores the summary of a session.
func describe(t *testing.T, h *server.Hub, i *hub.Info) {
	t.Helper()
	describeAt(t, h, i.Key(), i)
}

// describeAt stores one under any key, as a publisher can at a server without the hub's tokens.
func describeAt(t *testing.T, h *server.Hub, key string, i *hub.Info) {
	t.Helper()
	text, err := json.Marshal(i)
	check(t, err)
	_, subjects := hub.Bucket(hub.Summaries)
	_, err = jetstreamOf(t, h).Publish(t.Context(), subjects+key, text)
	check(t, err)
}

// section returns a segment with these frames, of which the first has the number seq.
func section(t *testing.T, seq int, lines ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	check(t, err)
	w, err := pcapng.NewWriter(z, capture.Session{Created: time.Now(), Protocol: "mcp", Framing: "line"}, nil)
	check(t, err)
	for n, line := range lines {
		text, answers := strings.CutPrefix(line, "<")
		r := record(int64(seq+n), []byte(text+"\n"))
		if answers {
			r.Dir = frame.U2C
		}
		check(t, w.Write(r))
	}
	check(t, z.Close())
	return b.Bytes()
}

// Messages that are no segments are skipped by readers and by the index, which tells it once.
// What came before and after them is read, also after a restart.
func TestBadSegments(t *testing.T) {
	t.Parallel()
	dir, warned := t.TempDir(), newWarnings()
	o := server.Options{Dir: dir, Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: warned.add}
	h, err := server.Start(t.Context(), o)
	check(t, err)
	i := &hub.Info{ID: "a1", Org: hub.DefaultOrg, Host: "evil", Kind: "relay", Name: "bad", Started: time.Now()}
	describe(t, h, i)
	good := func(number int) {
		publish(t, h, i, section(t, 2*number-1, call(number, "add", "hay", well)...), "Number", strconv.Itoa(number), "Frames", strconv.Itoa(2*number))
	}
	good(1)
	z, err := zstd.NewWriter(nil)
	check(t, err)
	zeros := bytes.Repeat(z.EncodeAll(make([]byte, 32<<20), nil), 40)
	publish(t, h, i, zeros, "Number", "2", "Frames", "4")
	publish(t, h, i, []byte("no zstd"), "Number", "3", "Frames", "6")
	good(4)
	publish(t, h, i, section(t, 1), "Number", "no number", "Frames", "6")
	publish(t, h, i, section(t, 1), "Number", "5", "Frames", "6", "Piece", "1 of 2")
	good(6)
	const told = "session main.evil.relay.a1: "
	want := []string{
		"segment 2 is skipped: it is not a section", "segment 3 is skipped: it is not a section",
		"a message that is not a segment is skipped", "segment 5 is skipped: its part",
	}
	counts := func(calls int64) {
		t.Helper()
		list := searched(t, viewer(t, h), hub.Query{Where: "name==bad"}).Sessions
		if len(list) != 1 || *list[0].Calls != calls || *list[0].Findings != 0 {
			t.Errorf("want %d calls: %+v", calls, list)
		}
		for _, text := range want {
			if n := strings.Count(warned.text(), told+text); n != 1 {
				t.Errorf("%q is told %d times:\n%s", text, n, warned.text())
			}
		}
	}
	counts(3)
	check(t, h.Close())
	h, err = server.Start(t.Context(), o)
	check(t, err)
	good(7)
	good(8)
	counts(5)

	frames, notes := read(t, h.Conn(), "bad")
	if len(frames) != 10 {
		t.Errorf("%d frames are read, want 10", len(frames))
	}
	for _, text := range append(want, "segments are missing here") {
		if !strings.Contains(strings.Join(notes, "\n"), text) {
			t.Errorf("no note %q:\n%s", text, strings.Join(notes, "\n"))
		}
	}
	check(t, h.Close())
}

// count returns the only session that is found once the index has everything.
func count(t *testing.T, h *server.Hub, where string) (i hub.Info) {
	t.Helper()
	until(t, "the session is there", func() bool {
		f := searched(t, viewer(t, h), hub.Query{Where: where})
		if len(f.Sessions) == 1 {
			i = f.Sessions[0]
		}
		return len(f.Sessions) == 1
	})
	return i
}

// What a session has is counted once, wherever in it the hub is restarted, and just as a
// rebuilt index counts it.
func TestIndexIsResumed(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"answered":         slices.Concat(call(1, "add", "a", well), call(2, "add", "b", ill), call(3, "add", "c", well)),
		"answered twice":   append(call(1, "add", "a", well), call(1, "add", "a", well)[1]),
		"answered late":    {call(1, "add", "a", well)[0], call(2, "add", "b", ill)[0], call(2, "add", "b", ill)[1], call(1, "add", "a", well)[1]},
		"never answered":   {call(1, "add", "a", well)[0], call(2, "add", "b", well)[0], call(3, "add", "c", well)[0]},
		"asked twice":      {call(1, "add", "a", well)[0], call(1, "add", "a", well)[0], call(1, "add", "a", well)[1]},
		"never asked":      {call(1, "add", "a", well)[1], call(2, "add", "b", well)[0], call(2, "add", "b", well)[1]},
		"cancelled":        {call(1, "add", "a", well)[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, call(1, "add", "a", well)[1]},
		"of a new version": {`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, `<{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, call(1, "add", "a", well)[0]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := server.Options{Dir: dir, Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(text string) { t.Log(text) }}
			h, err := server.Start(t.Context(), o)
			check(t, err)
			i := &hub.Info{ID: "a1", Org: hub.DefaultOrg, Host: "h", Kind: "relay", Name: "r", Started: time.Now()}
			describe(t, h, i)
			for n, line := range lines {
				number := strconv.Itoa(n + 1)
				publish(t, h, i, section(t, n+1, line), "Number", number, "Frames", number)
				count(t, h, "name==r")
				check(t, h.Close())
				h, err = server.Start(t.Context(), o)
				check(t, err)
			}
			last := strconv.Itoa(len(lines) + 1)
			publish(t, h, i, section(t, len(lines)+1), "Number", last, "Frames", strconv.Itoa(len(lines)), "End", "1")
			got := count(t, h, "name==r")
			check(t, h.Close())
			o.Reindex = true
			h, err = server.Start(t.Context(), o)
			check(t, err)
			want := count(t, h, "name==r")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rebuilt and resumed: %s", diff)
			}
			check(t, h.Close())
		})
	}
}

// More sessions than the index reads at once are counted, too.
func TestManySessions(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir(), "")
	const many = 140
	lines := call(1, "add", "a", well)
	for n, line := range lines {
		for id := range many {
			i := &hub.Info{ID: fmt.Sprintf("s%d", id), Org: hub.DefaultOrg, Host: "h", Kind: "relay", Name: "r", Started: time.Now()}
			if n == 0 {
				describe(t, h, i)
			}
			number := strconv.Itoa(n + 1)
			publish(t, h, i, section(t, n+1, line), "Number", number, "Frames", number)
		}
	}
	if f := searched(t, viewer(t, h), hub.Query{Where: "calls==1 and findings==0 and frames==2"}); len(f.Sessions) != many {
		t.Errorf("%d sessions", len(f.Sessions))
	}
}
