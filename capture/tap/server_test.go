package tap

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

// shortDir returns a folder with a path short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	if err := checkPlatform(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "tap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func serve(t *testing.T, dir, name string, h *journal.Journal, c Controller) *Server {
	t.Helper()
	s, err := Listen(dir, Info{Name: name, Protocol: "mcp"}, h, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, dir, name string) (*Conn, *pcapng.Reader) {
	t.Helper()
	c, err := Dial(t.Context(), dir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r, err := pcapng.NewReader(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

// The socket carries a capture: history, new records, and a clean end.
func TestServer(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{Protocol: "mcp", Unit: "u"}, journal.Options{})
	s := serve(t, dir, "npx @x/server", h, nil)
	feed(t, h, aFrame(1, "one"))
	c, r := dial(t, dir, "npx--x-server")
	expect(t, read(t, r, 2), "hello 1-0", "frame 1 one")
	if c.Info.Name != s.Name() || c.Info.Protocol != "mcp" || r.Session().Unit != "u" {
		t.Errorf("info %+v, session %+v", c.Info, r.Session())
	}
	feed(t, h, aFrame(2, "two"))
	expect(t, read(t, r, 1), "frame 2 two")
	h.Alter()
	feed(t, h, aFrame(3, "three"))
	go s.Close()
	expect(t, read(t, r, 1), "frame 3 three")
	if !r.Session().Altered {
		t.Error("the session does not say that it was altered")
	}
	var rec capture.Record
	if err := r.Next(&rec); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// A glance ends at the end of the history or after the given number of frames, while the tap
// continues.
func TestGlance(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{}, journal.Options{})
	serve(t, dir, "x", h, nil)
	glance := func(frames int64, want ...string) {
		t.Helper()
		p, err := Glance(t.Context(), dir, "x", frames)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.Hello.Frames != h.Totals().Frames {
			t.Errorf("it says %d frames of %d", p.Hello.Frames, h.Totals().Frames)
		}
		var got []string
		var rec capture.Record
		for err = p.Next(&rec); err == nil; err = p.Next(&rec) {
			got = append(got, words(&rec))
		}
		if err != io.EOF {
			t.Errorf("it ends with %v", err)
		}
		expect(t, got, want...)
	}
	glance(10)
	feed(t, h, aFrame(1, "one"))
	feed(t, h, aFrame(2, "two"))
	glance(10, "frame 1 one", "frame 2 two")
	glance(1, "frame 1 one")
	glance(0)
}

// A viewer that does not read blocks neither the hub nor Close.
func TestStuckViewer(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{}, journal.Options{})
	s := serve(t, dir, "x", h, nil)
	_, r := dial(t, dir, "x")
	for i := range int64(200) {
		feed(t, h, aFrame(i+1, strings.Repeat("x", 100_000)))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var rec capture.Record
	var err error
	for err == nil {
		err = r.Next(&rec)
	}
	if !errors.Is(err, capture.ErrCut) {
		t.Errorf("it ends with %v", err)
	}
	if taps, _ := List(dir, nil); len(taps) > 0 {
		t.Errorf("%v is left", taps)
	}
}

// A viewer that disconnects is removed, even without traffic.
func TestViewerGoes(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{}, journal.Options{})
	serve(t, dir, "x", h, nil)
	c, _ := dial(t, dir, "x")
	c.Close()
	for h.Totals().Viewers > 0 {
		runtime.Gosched()
	}
}

// The newest tap comes first. Taps of dead processes and taps without a listener are removed.
func TestList(t *testing.T) {
	dir := shortDir(t)
	serve(t, dir, "old", journal.New(capture.Session{}, journal.Options{}), nil)
	s := serve(t, dir, "new", journal.New(capture.Session{}, journal.Options{}), nil)
	again := serve(t, dir, "new", journal.New(capture.Session{}, journal.Options{}), nil)
	for name, pid := range map[string]int{"dead": 1 << 30, "silent": os.Getpid()} {
		if err := describe(dir, Info{Name: name, Pid: pid, Started: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	taps, err := List(dir, nil)
	for _, tap := range taps {
		names = append(names, tap.Name)
	}
	if want := []string{"silent", s.Name() + "-2", s.Name()}; err != nil || strings.Join(names[:3], " ") != strings.Join(want, " ") {
		t.Errorf("%v, %v, want %v", names, err, want)
	}
	c, err := Dial(t.Context(), dir, "")
	if err != nil || c.Info.Name != again.Name() {
		t.Fatalf("the newest is %+v, %v", c, err)
	}
	c.Close()
	for _, name := range []string{"dead", "silent"} {
		if _, err := os.Stat(filepath.Join(dir, name+describes)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// Names are found by prefix, and errors suggest similar names.
func TestNames(t *testing.T) {
	dir := shortDir(t)
	_, err := Dial(t.Context(), dir, "gopls")
	if err == nil || err.Error() != `no tap "gopls", and no other: wirectl relay and wirectl serve open taps` {
		t.Error(err)
	}
	serve(t, dir, "gopls", journal.New(capture.Session{}, journal.Options{}), nil)
	serve(t, dir, "go", journal.New(capture.Session{}, journal.Options{}), nil)
	c, _ := dial(t, dir, "gop")
	if _, err := Dial(t.Context(), dir, "go"); err == nil {
		t.Error("it chose one of two")
	}
	if _, err := Await(t.Context(), dir, "go", nil); err == nil || !strings.Contains(err.Error(), "there are: ") {
		t.Errorf("it awaited one of two: %v", err)
	}
	_, err = Dial(t.Context(), dir, strings.Replace(c.Info.Name, "gopls", "gpols", 1))
	if err == nil || !strings.Contains(err.Error(), "did you mean "+c.Info.Name) {
		t.Error(err)
	}
}

// A viewer may come before the tap: it waits, and says so once.
func TestAwait(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{}, journal.Options{})
	waiting := make(chan struct{})
	go func() {
		<-waiting
		serve(t, dir, "x", h, nil)
	}()
	c, err := Await(t.Context(), dir, "", func() { close(waiting) })
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Await(ctx, dir, "y", cancel); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The next tap began later and has the same base name, unless any name is accepted.
func TestNext(t *testing.T) {
	dir := shortDir(t)
	begun := time.Now()
	open := func(name string, after time.Duration) *Server {
		s, err := Listen(dir, Info{Name: name, Started: begun.Add(after)}, journal.New(capture.Session{}, journal.Options{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	open("my-server", -time.Hour)
	last := open("my-server", 0).info
	other := open("my", time.Second)
	next := func(any bool, want string) {
		t.Helper()
		c, err := Next(t.Context(), dir, last, any)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Info.Name != want {
			t.Errorf("%s is followed by %s, want %s", last.Name, c.Info.Name, want)
		}
	}
	next(true, other.Name())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Next(ctx, dir, last, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", c, err)
	}
	next(false, open("my-server", 2*time.Second).Name())
}

// A folder that others may enter is rejected.
func TestDir(t *testing.T) {
	base := shortDir(t)
	env := func(string) string { return base }
	dir, err := Dir(env)
	if err != nil || dir != filepath.Join(base, "wirectl") {
		t.Fatal(dir, err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if err := os.Chmod(dir, 0o750); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	if _, err := Dir(env); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Error(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(env); err == nil {
		t.Error("it follows a link")
	}
}

// An echo is a controller that returns the payload in a note.
type echo struct{}

func (echo) Control(_ context.Context, c Command) ([]Note, error) {
	if c.Do == Resend {
		return nil, errors.New("no such frame")
	}
	return []Note{{Tap: Held, Held: 7, Dir: frame.C2U.String(), Payload: c.Payload}}, nil
}

// Each viewer gets the answers to its own commands, in order, with their tags.
func TestControl(t *testing.T) {
	dir, h := shortDir(t), journal.New(capture.Session{}, journal.Options{})
	serve(t, dir, "x", h, echo{})
	serve(t, dir, "y", journal.New(capture.Session{}, journal.Options{}), nil)
	c, r := dial(t, dir, "x")
	for _, cmd := range []Command{
		{Do: Inject, To: "unit", Payload: json.RawMessage(`{"b":1, "a":1.0}`), Tag: "1"},
		{Do: Resend, Seq: 3, Tag: "2"},
		{Do: "cansel", Tag: "3"},
	} {
		if err := c.Send(cmd); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`{"tap":"hello"}`,
		`{"tap":"held","held":7,"dir":"c2u","payload":{"b":1,"a":1.0}}`,
		`{"tap":"answer","do":"inject","tag":"1"}`,
		`{"tap":"answer","do":"resend","tag":"2","error":"no such frame"}`,
		`{"tap":"answer","do":"cansel","tag":"3","error":"\"do\" is one of inject, cancel, resend, hold, release, edit, drop, waiting, not \"cansel\" (did you mean cancel?)"}`,
	} {
		var rec capture.Record
		if err := r.Next(&rec); err != nil || string(rec.Text) != want {
			t.Errorf("got  %s, %v\nwant %s", rec.Text, err, want)
		}
	}
	c, r = dial(t, dir, "y")
	if err := c.Send(Command{Do: Waiting}); err != nil {
		t.Fatal(err)
	}
	expect(t, read(t, r, 1), "hello 0-0")
	var rec capture.Record
	if err := r.Next(&rec); err != nil || !strings.Contains(string(rec.Text), "read-only") {
		t.Errorf("%s, %v", rec.Text, err)
	}
}

// Incomplete commands are rejected with an error that names the missing part.
func TestParseCommand(t *testing.T) {
	for line, want := range map[string]string{
		`{"do":"inject","to":"unit","payload":{}}`:               "",
		`{"do":"inject","to":"unit","data":"AAE="}`:              "",
		`{"do":"cancel","id":"3","conn":2}`:                      "",
		`{"do":"hold"}`:                                          "",
		`{"do":"hold","where":"kind==x"}`:                        "",
		`{"do":"inject","to":"me","payload":{}}`:                 `inject: "to" is unit or controller, and not "me"`,
		`{"do":"inject","to":"unit"}`:                            `inject needs either "payload" or "data"`,
		`{"do":"inject","to":"unit","payload":{},"data":"AA=="}`: `inject needs either "payload" or "data"`,
		`{"do":"cancel"}`:                                        `cancel needs the "id" of an exchange`,
		`{"do":"resend","seq":-1}`:                               `resend needs "seq", the number of a frame`,
		`{"do":"drop"}`:                                          `drop needs "held", the number of a frame that waits`,
		`{"do":"drop","held":1} {}`:                              `invalid command: more follows the object on its line`,
		`{"do":"drop","hold":1}`:                                 `invalid command: want an object on one line: json: unknown field "hold"`,
		`drop 1`:                                                 `invalid command: want an object on one line: invalid character 'd' looking for beginning of value`,
	} {
		_, err := ParseCommand([]byte(line))
		if got := errorText(err); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A valid command is still valid after it is marshalled again.
func FuzzParseCommand(f *testing.F) {
	for _, line := range []string{
		`{"do":"inject","to":"unit","payload":{"a":1}}`, `{"do":"cancel","id":"3","conn":2}`,
		`{"do":"resend","seq":4}`, `{"do":"hold","where":"kind==x"}`, `{"do":"edit","held":1,"data":"AAE="}`, `{"do":"waiting"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := ParseCommand(line)
		if err != nil {
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseCommand(text); err != nil {
			t.Errorf("%s was written as %s: %v", line, text, err)
		}
	})
}
