package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
	"github.com/wirectl/wirectl/store"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// start starts a hub with a real NATS server, at any port if listen is "".
func start(t *testing.T, dir, listen string) *server.Hub {
	t.Helper()
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	h, err := server.Start(t.Context(), server.Options{Dir: dir, Listen: listen, MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(text string) { t.Log(text) }})
	check(t, err)
	t.Cleanup(func() { check(t, h.Close()) })
	return h
}

// listens returns the HOST:PORT of a hub.
func listens(h *server.Hub) string { return strings.TrimPrefix(h.URL(), "nats://") }

// freePort returns an address where nothing listens. Its port is outside the range for
// outgoing connections, one of which could take it meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000))
		if _, given := ports.LoadOrStore(address, true); given {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			check(t, l.Close())
			return address
		}
	}
}

// ports are the ones already used by tests.
var ports sync.Map

// warnings are those of a sender.
type warnings struct {
	mu   sync.Mutex
	all  []string
	some chan struct{}
}

func newWarnings() *warnings { return &warnings{some: make(chan struct{}, 1)} }

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
	select {
	case w.some <- struct{}{}:
	default:
	}
}

func (w *warnings) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.all, "\n")
}

// await waits for a warning with these words.
func (w *warnings) await(t *testing.T, words string) {
	t.Helper()
	guard := time.After(time.Minute)
	for {
		all := w.text()
		if strings.Contains(all, words) {
			return
		}
		select {
		case <-w.some:
		case <-guard:
			t.Fatalf("nothing tells %q, but:\n%s", words, all)
		}
	}
}

// A feed is a session that is being sent.
type feed struct {
	t       *testing.T
	journal *journal.Journal
	sender  *hub.Sender
	warned  *warnings
	state   string
	frames  int64
}

// send starts sending a session.
func send(t *testing.T, address string, change func(*hub.Sending)) *feed {
	t.Helper()
	a, err := hub.ParseAddress(address)
	check(t, err)
	f := &feed{t: t, warned: newWarnings()}
	o := hub.Sending{Address: a, Policy: hub.Lossy, Level: history.Full, Kind: "relay", State: t.TempDir(), Say: f.warned.add, Warn: f.warned.add}
	if change != nil {
		change(&o)
	}
	f.state = o.State
	s := capture.Session{Created: time.Now(), Protocol: "mcp", Framing: "line", Controller: "stdio", Unit: "exec server"}
	f.journal = journal.New(s, journal.Options{})
	sender, err := o.Open(f.journal, "server-1")
	check(t, err)
	f.sender = sender.(*hub.Sender)
	return f
}

func lossless(o *hub.Sending) { o.Policy = hub.Lossless }

// payload returns the payload of the frame with that number.
func payload(n int64) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"text":"%s"}}}`+"\n", n, strings.Repeat("x", int(n%300)))
}

func (f *feed) write(raw []byte) {
	f.frames++
	check(f.t, f.journal.Write(record(f.frames, raw)))
}

// record returns the record of the frame with that number.
func record(n int64, raw []byte) *capture.Record {
	return &capture.Record{
		Kind: capture.Frame, Seq: n, Time: time.Now(), Protocol: "mcp", Framing: "line",
		Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Dir: frame.C2U, Conn: 1},
	}
}

func (f *feed) writeMany(n int) {
	for range n {
		f.write(payload(f.frames + 1))
	}
}

// end ends the session and waits until it is sent.
func (f *feed) end() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(f.t, f.journal.Close(), f.sender.Close(ctx))
}

// read reads a session to its end.
func read(t *testing.T, c *hub.Conn, name string) (frames []capture.Record, notes []string) {
	t.Helper()
	src, err := c.Open(t.Context(), name)
	check(t, err)
	defer src.Close()
	r, err := pcapng.NewReader(src, 0)
	check(t, err)
	var rec capture.Record
	for {
		err := r.Next(&rec)
		if err == io.EOF {
			return frames, notes
		}
		check(t, err)
		switch rec.Kind {
		case capture.Frame:
			frames = append(frames, rec.Clone())
		case capture.Note:
			notes = append(notes, string(rec.Text))
		}
	}
}

// isWhole checks that each written frame is there once and in order.
func isWhole(t *testing.T, frames []capture.Record, want int64) {
	t.Helper()
	if int64(len(frames)) != want {
		t.Errorf("the hub has %d frames, want %d", len(frames), want)
	}
	for i, r := range frames {
		if n := int64(i) + 1; r.Seq != n || !bytes.Equal(r.Raw, payload(n)) || r.Conn != 1 || r.Dir != frame.C2U {
			t.Fatalf("frame %d is number %d of connection %d: %.80q", n, r.Seq, r.Conn, r.Raw)
		}
	}
}

// Traffic on a tap comes back from the hub, byte for byte, and is listed.
func TestThereAndBack(t *testing.T) {
	for _, policy := range hub.Policies {
		t.Run(string(policy), func(t *testing.T) {
			h := start(t, t.TempDir(), "")
			f := send(t, h.URL(), func(o *hub.Sending) { o.Policy = policy })
			f.writeMany(5000)
			f.end()
			id := f.sender.Info().ID
			frames, notes := read(t, h.Conn(), id[:5])
			isWhole(t, frames, 5000)
			if len(notes) > 0 {
				t.Errorf("notes: %q", notes)
			}
			list, err := h.Conn().Sessions(t.Context())
			check(t, err)
			if len(list) != 1 || list[0].ID != id || list[0].Frames != 5000 || list[0].Live || list[0].Ended.IsZero() || list[0].Unit != "exec server" || list[0].Lost != 0 {
				t.Errorf("listed: %+v", list)
			}
		})
	}
}

// A running session is read as it arrives.
func TestLive(t *testing.T) {
	h := start(t, t.TempDir(), "")
	f := send(t, h.URL(), nil)
	f.writeMany(1)
	src := opened(t, h, f)
	defer src.Close()
	r, err := pcapng.NewReader(src, 0)
	check(t, err)
	var rec capture.Record
	check(t, r.Next(&rec))
	f.writeMany(1)
	check(t, r.Next(&rec))
	if rec.Seq != 2 {
		t.Errorf("the second frame is %+v", rec)
	}
	list, err := h.Conn().Sessions(t.Context())
	if err != nil || len(list) != 1 || !list[0].Live {
		t.Errorf("listed: %+v, %v", list, err)
	}
	f.end()
	if err := r.Next(&rec); err != io.EOF {
		t.Errorf("at the end: %+v, %v", rec, err)
	}
}

// An obedient controller carries out everything.
type obedient struct{}

func (obedient) Control(context.Context, tap.Command) ([]tap.Note, error) { return nil, nil }

// A viewer that comes before its session waits for it, also while the hub restarts, and then
// sees and controls it.
func TestViewerWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, freePort(t))
	all := store.New(store.Options{})
	defer all.Close()
	url := h.URL() + "/main?creds=" + filepath.Join(dir, "none")
	opener := &source.Opener{Hub: hub.Source(func(string) string { return url })}
	v := &store.Viewing{Name: "hub:server-1", Opener: opener, Store: all, Config: decode.Config{Resync: true}}
	if err := v.Open(t.Context()); !errors.Is(err, fs.ErrNotExist) || v.Waiting != "" {
		t.Errorf("without its token: %v, waiting: %q", err, v.Waiting)
	}
	url = h.URL()
	check(t, v.Open(t.Context()))
	if !strings.HasPrefix(v.Waiting, "waiting for hub:server-1") || v.Wire.Refuses() != "the session has not begun yet" {
		t.Errorf("waiting: %q, commands: %q", v.Waiting, v.Wire.Refuses())
	}
	var viewing sync.WaitGroup
	viewing.Go(func() { v.Run(t.Context()) })
	check(t, h.Close())
	h = start(t, dir, listens(h))
	f := send(t, h.URL(), func(o *hub.Sending) { o.Control = true })
	f.sender.Obey(obedient{})
	f.writeMany(10)
	until(t, "the frames are seen", func() bool { return all.Overview().Frames == 10 })
	until(t, "commands are taken", func() bool { return v.Wire.Refuses() == "" })
	f.end()
	viewing.Wait()
	if o := all.Overview(); !o.Ended {
		t.Errorf("the session has ended, but: %+v", o)
	}
}

// opened opens a session once the hub knows it.
func opened(t *testing.T, h *server.Hub, f *feed) (src *hub.Reader) {
	t.Helper()
	until(t, "the hub knows the session", func() bool {
		var err error
		src, err = h.Conn().Open(t.Context(), f.sender.Info().ID)
		if none := (*hub.NotFoundError)(nil); errors.As(err, &none) {
			return false
		}
		check(t, err)
		return true
	})
	return src
}

// While the hub is down a spool keeps everything, and each interruption is reported.
func TestHubRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, freePort(t))
	f := send(t, h.URL(), lossless)
	f.writeMany(1000)
	for range 2 {
		check(t, h.Close())
		f.writeMany(1000)
		f.warned.await(t, "accepts nothing")
		h = start(t, dir, listens(h))
		f.warned.await(t, "accepts the session again")
		f.warned.mu.Lock()
		f.warned.all = nil
		f.warned.mu.Unlock()
		f.writeMany(1000)
	}
	f.end()
	frames, notes := read(t, h.Conn(), f.sender.Info().ID)
	isWhole(t, frames, 5000)
	if len(notes) == 0 || !strings.Contains(notes[0], "could not be reached") {
		t.Errorf("notes: %q", notes)
	}
}

// A viewer goes on when its hub restarts, and says that the hub was gone.
func TestViewerOfHubThatRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, freePort(t))
	f := send(t, h.URL(), lossless)
	f.writeMany(100)
	opened(t, h, f).Close() // the hub knows it
	a, err := hub.ParseAddress(h.URL())
	check(t, err)
	c, err := hub.Dial(a, nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	check(t, err)
	defer c.Close()
	src, err := c.Open(t.Context(), f.sender.Info().ID)
	check(t, err)
	defer src.Close()
	r, err := pcapng.NewReader(src, 0)
	check(t, err)
	seen := make(chan string)
	go func() {
		defer close(seen)
		var rec capture.Record
		err := r.Next(&rec)
		for ; err == nil; err = r.Next(&rec) {
			if rec.Kind == capture.Note {
				seen <- string(rec.Text)
			} else {
				seen <- fmt.Sprint(rec.Seq)
			}
		}
		if err != io.EOF {
			seen <- err.Error()
		}
	}()
	await := func(words string) {
		t.Helper()
		var last string
		for last = range seen {
			if strings.Contains(last, words) {
				return
			}
		}
		t.Fatalf("the session ends before %q, with %q", words, last)
	}
	await("100")
	check(t, h.Close())
	await("is asked again")
	f.writeMany(100)
	f.warned.await(t, "accepts nothing")
	start(t, dir, listens(h))
	for n := range 100 {
		if got := <-seen; got != fmt.Sprint(101+n) {
			t.Fatalf("frame %d is %q", 101+n, got)
		}
	}
	f.end()
	await("could not be reached")
	for text := range seen {
		t.Errorf("after the end: %q", text)
	}
}

// A lossy sender drops and counts the frames while the hub is down, and continues.
func TestLossy(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	f := send(t, "nats://"+address, nil)
	const many = 60_000 // more than history and queue can hold
	f.writeMany(many)
	f.warned.await(t, "accepts nothing")
	h := start(t, t.TempDir(), address)
	f.warned.await(t, "accepts the session again")
	f.end()
	frames, notes := read(t, h.Conn(), f.sender.Info().ID)
	list, err := h.Conn().Sessions(t.Context())
	check(t, err)
	if lost := list[0].Lost; lost == 0 || lost+int64(len(frames)) != many || list[0].Frames != int64(len(frames)) {
		t.Errorf("%d frames came and %d are counted as lost, of %d: %q", len(frames), lost, many, notes)
	}
}

// A full spool drops frames, warns once, and counts them.
func TestSpoolIsFull(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	f := send(t, "nats://"+address, func(o *hub.Sending) { o.Policy, o.SpoolBytes = hub.Lossless, 64<<10 })
	const many = 30_000
	f.writeMany(many)
	f.warned.await(t, "frames are dropped from now on")
	h := start(t, t.TempDir(), address)
	f.warned.await(t, "accepts the session again")
	f.end()
	frames, notes := read(t, h.Conn(), f.sender.Info().ID)
	list, err := h.Conn().Sessions(t.Context())
	check(t, err)
	if lost := list[0].Lost; len(frames) == 0 || lost == 0 || lost+int64(len(frames)) != many {
		t.Errorf("%d frames came and %d are counted as lost, of %d: %q", len(frames), lost, many, notes)
	}
	if left, _ := filepath.Glob(filepath.Join(f.state, "spool", "*", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The next process sends the spool of a killed one, and the session is marked as cut.
func TestAdopt(t *testing.T) {
	t.Parallel()
	address, state := freePort(t), t.TempDir()
	killed := send(t, "nats://"+address, func(o *hub.Sending) { o.Policy, o.State = hub.Lossless, state })
	killed.writeMany(3000)
	id := killed.sender.Info().ID
	killed.warned.await(t, "accepts nothing")
	killed.end() // there is no hub
	killed.warned.await(t, "waits in")

	spools, err := filepath.Glob(filepath.Join(state, "spool", "*", "*"+id))
	check(t, err)
	parts, err := filepath.Glob(filepath.Join(spools[0], "*.segments"))
	check(t, err)
	part, err := os.Stat(parts[len(parts)-1])
	check(t, err, os.Truncate(parts[len(parts)-1], part.Size()-100)) // the last segment, which marks the end, is not whole

	h := start(t, t.TempDir(), address)
	next := send(t, "nats://"+address, func(o *hub.Sending) { o.Policy, o.State = hub.Lossless, state })
	next.warned.await(t, "has the rest of the session "+id)
	next.end()
	frames, notes := read(t, h.Conn(), id)
	if len(frames) == 0 || len(notes) == 0 || !strings.Contains(notes[len(notes)-1], "killed") {
		t.Errorf("%d frames, notes %q", len(frames), notes)
	}
	isWhole(t, frames, int64(len(frames)))
	list, err := h.Conn().Sessions(t.Context())
	check(t, err)
	for _, i := range list {
		if i.Cut != (i.ID == id) || i.Ended.IsZero() {
			t.Errorf("listed: %+v", i)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(state, "spool", "*", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Secrets never leave the machine, and at the level metadata no text does.
func TestRedaction(t *testing.T) {
	for _, level := range history.Levels {
		h := start(t, t.TempDir(), "")
		f := send(t, h.URL(), func(o *hub.Sending) { o.Level = level })
		f.write([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"text":"private","password":"hunter2"}}}` + "\n"))
		f.end()
		frames, _ := read(t, h.Conn(), f.sender.Info().ID)
		text := string(frames[0].Raw)
		if strings.Contains(text, "hunter2") || strings.Contains(text, "private") != (level == history.Full) || !strings.Contains(text, "tools/call") {
			t.Errorf("%s: %s", level, text)
		}
	}
}

// A run is sent as one session: without a level, what happened and belongs together, but not what was said.
func TestRunIsSent(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"codex":  {"SLOWTOOL": false, "private": false, `"pid":71,"status":2`: true, "tools/call": true, `"callId":"call_lab0007"`: true, `"call_id":"call_lab0007"`: true, `"turn_id":"0`: true},
		"claude": {"SLOWTOOL": false, "private": false, `"pid":71,"status":2`: true, `"claudecode/toolUseId":"toolu_lab0008"`: true, `"id":"toolu_lab0008"`: true, `"tool_use_id":"toolu_lab0008"`: true, "a5135978f795a45ba": true, "a0c035ba-d001": true},
	} {
		folder := t.TempDir()
		check(t, os.CopyFS(folder, os.DirFS("../test/testdata/runs/"+name)))
		check(t, os.WriteFile(filepath.Join(folder, history.EventsFile), []byte(
			`{"event":"start","time":"2026-11-28T03:35:02Z","pid":71,"parent":1,"what":"shell","name":"bash","command":"cat private"}`+"\n"+
				`{"event":"exit","time":"2026-11-28T03:35:03Z","pid":71,"status":2}`+"\n"), 0o600))
		h := start(t, t.TempDir(), "")
		a, err := hub.ParseAddress(h.URL())
		check(t, err)
		run, err := source.OpenRun(t.Context(), folder, decode.Config{Resync: true}, false)
		check(t, err)
		defer run.Close()
		w := newWarnings()
		check(t, hub.Sending{Address: a, Kind: "run", State: t.TempDir(), Say: w.add, Warn: w.add}.SendAll(t.Context(), run, name))
		list, err := h.Conn().Sessions(t.Context())
		check(t, err)
		if len(list) != 1 || list[0].Kind != "run" || list[0].Level != history.Metadata || list[0].Controller != name {
			t.Fatalf("listed: %+v, %s", list, w.text())
		}
		frames, _ := read(t, h.Conn(), list[0].ID)
		var all strings.Builder
		for i := range frames {
			all.Write(frames[i].Payload())
			if m := frames[i].Meta; m != nil && m.Head != nil {
				fmt.Fprintln(&all, m.Head.Fields)
			}
		}
		for text, is := range want {
			if strings.Contains(all.String(), text) != is {
				t.Errorf("%s: %d frames with %s: %v", name, len(frames), text, !is)
			}
		}
	}
}

// The spools for a hub share one limit, even if they start concurrently.
func TestSpoolsAreFullTogether(t *testing.T) {
	t.Parallel()
	address, state := freePort(t), t.TempDir()
	var feeds []*feed
	for range 3 {
		feeds = append(feeds, send(t, "nats://"+address, func(o *hub.Sending) { o.Policy, o.SpoolBytes, o.State = hub.Lossless, 128<<10, state }))
	}
	for _, f := range feeds {
		f.writeMany(10_000)
		f.warned.await(t, "frames are dropped from now on")
	}
	var size int64
	check(t, filepath.WalkDir(state, func(_ string, e os.DirEntry, err error) error {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".segments") {
			size += info.Size()
		}
		return err
	}))
	if size > 160<<10 { // the limit is not per spool
		t.Errorf("the spools have %d bytes", size)
	}
	for _, f := range feeds {
		f.end()
	}
}

// No session can be taken for that of another host, by its name, its id or its date. A name that
// fits several hosts is an error that lists them.
func TestSessionsAreOfTheirHosts(t *testing.T) {
	h := start(t, t.TempDir(), "")
	yesterday, later := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	for _, i := range []hub.Info{
		{Org: "main", Host: "build", Kind: "relay", ID: "abcd1", Name: "files", Started: yesterday.Add(-time.Hour)},
		{Org: "main", Host: "build", Kind: "relay", ID: "abcd2", Name: "files", Started: yesterday},
		{Org: "main", Host: "build", Kind: "relay", ID: "abcd3", Name: "notes", Started: yesterday},
		{Org: "main", Host: "evil", Kind: "relay", ID: "1111", Name: "files", Started: later, Ended: later},
		{Org: "main", Host: "evil", Kind: "relay", ID: "abcd3", Name: "build/files", Started: later},
		{Org: "main", Host: "evil", Kind: "relay", ID: "2222", Name: "abcd2"},
		{Org: "main", Host: "evil", Kind: "relay", ID: "3333", Name: "a"},
		{Org: "main", Host: "evil", Kind: "relay", ID: "4444", Name: "abcd"},
	} {
		describe(t, h, &i)
	}
	describeAt(t, h, "main.evil.build.relay.5555", &hub.Info{Org: "main.evil", Host: "build", Kind: "relay", ID: "5555", Name: "notes"})
	describeAt(t, h, "main.evil.x.relay.6666", &hub.Info{Org: "main", Host: "evil.x", Kind: "relay", ID: "6666", Name: "notes"})
	describeAt(t, h, "main.evil.relay.7777", &hub.Info{Org: "main", Host: "build", Kind: "relay", ID: "7777", Name: "notes"})
	for name, want := range map[string]string{
		"files":       "several sessions at the hub are called \"files\": write one of hub:build/files, hub:evil/files",
		"build/files": "abcd2",
		"evil/files":  "1111",
		"notes":       "abcd3",
		"abcd1":       "abcd1",
		"abcd2":       "hub:build/abcd2, hub:evil/abcd2",
		"build/abcd2": "abcd2",
		"abcd3":       "hub:build/abcd3, hub:evil/abcd3",
		"abcd":        "hub:build/abcd, hub:evil/abcd",
		"build/abcd":  "several sessions at the hub have ids that begin with \"abcd\": write more of it",
		"a":           "3333", // a short beginning is no other name
		"build/":      "has no session",
		"/files":      "has no session",
		"evil/notes":  "has no session",
		"other/files": "has no session",
	} {
		i, err := h.Conn().Find(t.Context(), name)
		if got := i.ID + fmt.Sprint(err); !strings.Contains(got, want) || err == nil && i.ID != want {
			t.Errorf("%s: %+v, %v, want %s", name, i, err, want)
		}
	}
	// A viewer that waits for a session does not wait for another choice.
	getenv := func(string) string { return h.URL() }
	if _, err := hub.Source(getenv)(t.Context(), "files", true); err == nil || !strings.Contains(err.Error(), "hub:build/files") {
		t.Errorf("a viewer: %v", err)
	}
	list, err := h.Conn().Sessions(t.Context())
	check(t, err)
	found, err := viewer(t, h).Search(t.Context(), hub.Query{}, nil)
	check(t, err)
	for _, of := range [][]hub.Info{list, found.Sessions} {
		if len(of) != 8 {
			t.Errorf("listed: %+v", of)
		}
		for _, i := range of {
			if now := time.Now(); i.Started.After(now) || i.Ended.After(now) || strings.Contains(i.Org+i.Host, ".") {
				t.Errorf("listed: %+v", i)
			}
		}
	}
	// What is listed for the page is opened by its host, too.
	page, err := hub.Library{Conn: h.Conn()}.List(t.Context(), "")
	check(t, err)
	for _, l := range page {
		if i, err := h.Conn().Find(t.Context(), l.ID); err != nil || i.Host != l.Host || i.Name != l.Name {
			t.Errorf("%+v is opened as %+v, %v", l, i, err)
		}
	}
}
