package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func newFolder(t *testing.T, most int64) *Folder {
	return &Folder{Dir: filepath.Join(t.TempDir(), "wirectl", "sessions"), maxBytes: most}
}

// begun starts a record and writes size bytes to it.
func begun(t *testing.T, f *Folder, started time.Time, size int) *Recording {
	t.Helper()
	r, err := f.Start(Summary{Started: started, Server: "files", Level: Full})
	check(t, err)
	_, err = r.Write(make([]byte, size))
	check(t, err)
	return r
}

// ids returns the ids of the records, the newest first.
func ids(t *testing.T, f *Folder) (list []string) {
	t.Helper()
	all, err := f.Sessions()
	check(t, err)
	for _, s := range all {
		list = append(list, s.ID)
	}
	return list
}

// Records are removed if they are too old, and the oldest if the total is too large, but
// never while being written.
func TestRing(t *testing.T) {
	f := newFolder(t, 1000)
	now := time.Now()
	long := begun(t, f, now.Add(-MaxAge-time.Hour), 300)
	old := begun(t, f, now.Add(-MaxAge-time.Minute), 100)
	check(t, old.Finish())
	if got := ids(t, f); !slices.Equal(got, []string{long.ID}) {
		t.Errorf("of a record that is too old: %v", got)
	}
	first := begun(t, f, now.Add(-3*time.Hour), 300)
	check(t, first.Finish())
	second := begun(t, f, now.Add(-2*time.Hour), 300)
	check(t, second.Finish())
	third := begun(t, f, now.Add(-time.Hour), 300)
	check(t, third.Finish())
	if got := ids(t, f); !slices.Equal(got, []string{third.ID, second.ID, long.ID}) {
		t.Errorf("%v, want %s, %s and %s", got, third.ID, second.ID, long.ID)
	}
	if _, err := os.Stat(f.path(first.ID, summaries)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the summary of a record that has gone: %v", err)
	}
	check(t, long.Finish())
	if got := ids(t, f); !slices.Equal(got, []string{third.ID, second.ID}) {
		t.Errorf("after the long one: %v", got)
	}
}

// A growing record displaces others. It ends when only records being written are left.
func TestRingIsFull(t *testing.T) {
	f := newFolder(t, 1000)
	now := time.Now()
	other := begun(t, f, now.Add(-time.Hour), 200)
	check(t, other.Finish())
	r := begun(t, f, now, 600)
	_, err := r.Write(make([]byte, 300))
	check(t, err)
	_, err = r.Write(make([]byte, 260))
	check(t, err)
	if got := ids(t, f); !slices.Equal(got, []string{r.ID}) {
		t.Errorf("the records are %v", got)
	}
	if _, err := r.Write(make([]byte, 260)); !errors.Is(err, errFull) {
		t.Errorf("a full ring: %v", err)
	}
	check(t, r.Finish())
	if s, err := f.Find(r.ID); err == nil && (!s.Incomplete || s.Size > 1200) {
		t.Errorf("the record is %+v", s)
	}
}

// A record is live while its writer holds it, and only the user can read it.
func TestStates(t *testing.T) {
	f := newFolder(t, 1<<20)
	r := begun(t, f, time.Now(), 10)
	s, err := f.Find(r.ID[:4])
	check(t, err)
	if !s.Live || s.Lost || s.Size != 10 || s.Server != "files" {
		t.Errorf("while it is written: %+v", s)
	}
	if err := f.Remove(s); !errors.Is(err, ErrLive) {
		t.Errorf("remove it: %v", err)
	}
	check(t, r.file.Close()) // as when its process ends
	if s, err = f.Find(r.ID); err != nil || s.Live || !s.Lost {
		t.Errorf("after a crash: %+v, %v", s, err)
	}
	check(t, os.WriteFile(f.path(s.ID, summaries), []byte("{"), 0o600))
	if s, err = f.Find(r.ID); err != nil || !s.Lost || s.Started.IsZero() {
		t.Errorf("with half a summary: %+v, %v", s, err)
	}
	ended := begun(t, f, time.Now(), 20)
	ended.Calls = 3
	check(t, ended.Finish())
	if s, err = f.Find(ended.ID); err != nil || s.Live || s.Lost || s.Calls != 3 || s.Ended.IsZero() {
		t.Errorf("at its end: %+v, %v", s, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{s.Capture, f.path(s.ID, summaries)} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(f.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

// A record is found by a unique prefix of its id.
func TestFind(t *testing.T) {
	f := newFolder(t, 1<<20)
	check(t, os.MkdirAll(f.Dir, 0o700))
	for _, id := range []string{"aaa111", "aab222", "bbb333", "../../"} {
		_ = os.WriteFile(f.path(id, captures), nil, 0o600)
	}
	check(t, os.WriteFile(filepath.Join(f.Dir, "other.pcapng"), nil, 0o600))
	if got := ids(t, f); len(got) != 3 {
		t.Errorf("the records are %v", got)
	}
	for id, want := range map[string]string{
		"b":      "",
		"bbb333": "",
		"aa":     `the ids of 2 recorded sessions begin with "aa": aaa111, aab222`,
		"c":      `no recorded session has the id "c": wirectl sessions lists them`,
		"":       `no recorded session has the id "": wirectl sessions lists them`,
		"../x":   `no recorded session has the id "../x": wirectl sessions lists them`,
	} {
		s, err := f.Find(id)
		if want == "" {
			if err != nil || s.ID != "bbb333" {
				t.Errorf("%s: %v, %v", id, s.ID, err)
			}
			continue
		}
		if none := (*NotFoundError)(nil); !errors.As(err, &none) {
			t.Errorf("%s: %v", id, err)
		} else if slices.Sort(none.Found); none.Error() != want {
			t.Errorf("%s: %v, want %s", id, none, want)
		}
	}
}

// The folder follows the platform's convention.
func TestOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the folders are those of Linux")
	}
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.local/state/wirectl/sessions"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/wirectl/sessions"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/wirectl/sessions"},
		{map[string]string{}, ""},
	} {
		f, err := Open(func(name string) string { return tt.env[name] })
		if (err == nil) != (tt.want != "") || err == nil && f.Dir != tt.want {
			t.Errorf("%v: %v, %v", tt.env, f, err)
		}
	}
}

// A run is found by the beginning of its id or as the latest, its ring has a budget of its own, and
// nobody else can read it.
func TestRuns(t *testing.T) {
	state := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }
	if _, err := FindRun(getenv, "latest"); err == nil || !strings.Contains(err.Error(), "no run was recorded") {
		t.Errorf("without runs: %v", err)
	}
	old, err := BeginRun(getenv, Run{Agent: "codex", Started: time.Now().Add(-time.Hour)})
	check(t, err, old.End(3, []string{"no model"}))
	w, err := BeginRun(getenv, Run{Agent: "claude", Command: []string{"claude"}, Level: Full})
	check(t, err)
	r, err := FindRun(getenv, Latest)
	check(t, err)
	if r.ID != w.ID || r.Dir != w.Folder() || !r.Live || r.Lost || r.Agent != "claude" {
		t.Errorf("while it runs: %+v", r)
	}
	if err := r.Remove(); !errors.Is(err, ErrLive) {
		t.Errorf("remove it: %v", err)
	}
	check(t, w.hold.Close()) // as when its process ends
	if r, err = FindRun(getenv, w.ID[:5]); err != nil || r.Live || !r.Lost {
		t.Errorf("after a crash: %+v, %v", r, err)
	}
	check(t, r.Remove())
	_, err = FindRun(getenv, w.ID)
	if want := fmt.Sprintf("no run has the id %q: the newest is run:%s", w.ID, old.ID); err == nil || err.Error() != want {
		t.Errorf("a run that has gone: %v, want %s", err, want)
	}
	if r, err = FindRun(getenv, old.ID); err != nil || r.Status != 3 || r.Lost || !slices.Equal(r.Notes, []string{"no model"}) {
		t.Errorf("the one before: %+v, %v", r, err)
	}
	if runtime.GOOS != "windows" {
		for _, name := range []string{r.Dir, filepath.Join(r.Dir, RunFile), filepath.Join(r.Dir, EventsFile)} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	}
	c, err := CreateCapture(r.Dir, "model.pcapng")
	check(t, err)
	c.most = 1000
	_, err = c.Write(make([]byte, 900))
	check(t, err, c.Close())
	if r, err = FindRun(getenv, old.ID); err != nil || r.Size < 900 {
		t.Errorf("with a capture: %+v, %v", r, err)
	}
	long, err := BeginRun(getenv, Run{Started: time.Now().Add(-MaxAge - time.Hour)})
	check(t, err, long.End(0, nil))
	if _, err := FindRun(getenv, long.ID); err == nil {
		t.Error("a run that is too old is still there")
	}
	sessions, err := Open(getenv)
	check(t, err, sessions.Switch(false))
	if _, err := BeginRun(getenv, Run{}); !errors.Is(err, ErrOff) {
		t.Errorf("with recording off: %v", err)
	}
}

// An event is one line that is short enough to be written at once.
func TestEvents(t *testing.T) {
	state := t.TempDir()
	w, err := BeginRun(func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }, Run{})
	check(t, err)
	for _, command := range []string{"ls", strings.Repeat("x", 10_000), strings.Repeat("\x01é", 5_000)} {
		check(t, AppendEvent(w.Folder(), Event{Event: "start", Time: time.Now(), PID: 1, Command: command}))
	}
	text, err := os.ReadFile(filepath.Join(w.Folder(), EventsFile))
	check(t, err, w.End(0, nil))
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines[:3] {
		var e Event
		check(t, json.Unmarshal([]byte(line), &e))
		if len(line) > MaxEvent || e.Command == "" {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}
