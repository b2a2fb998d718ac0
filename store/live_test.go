package store

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
)

// distant is a relay on another machine, where one frame after the other waits.
type distant struct {
	mu      sync.Mutex
	waiting []int64
	done    []tap.Command
}

func (d *distant) Refuses() string { return "" }

func (d *distant) Do(_ context.Context, c tap.Command) (notes []tap.Note, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch c.Do {
	case tap.Waiting:
		for _, n := range d.waiting {
			notes = append(notes, tap.Note{Tap: tap.Held, Held: n, Dir: "c2u", Payload: json.RawMessage(`{"id":1}`)})
		}
		return notes, nil
	case tap.Drop:
		return nil, errors.New("no frame 9 waits")
	case tap.Release:
		d.waiting = slices.DeleteFunc(d.waiting, func(n int64) bool { return n == c.Held })
	}
	d.done = append(d.done, c)
	return nil, nil
}

// The frames that wait at another machine are shown, let go and changed as those of a tap.
func TestRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		defer s.Close()
		d := &distant{waiting: []int64{4, 5}}
		w := NewWire(s)
		w.remote = d
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { w.watch(ctx) })
		held := func() (numbers []int64) {
			time.Sleep(2 * waitingEvery)
			synctest.Wait()
			for _, h := range s.Overview().Held {
				numbers = append(numbers, h.Number)
			}
			return numbers
		}
		if got := held(); !slices.Equal(got, []int64{4, 5}) {
			t.Errorf("held: %v", got)
		}
		if err := errors.Join(w.Release(4), w.Edit(5, []byte(`{"id":2}`)), w.Hold("size>1"), w.Cancel(1, "7")); err != nil {
			t.Error(err)
		}
		if got := held(); !slices.Equal(got, []int64{5}) {
			t.Errorf("held: %v", got)
		}
		if err := w.Drop(9); err == nil || err.Error() != "no frame 9 waits" {
			t.Errorf("refused: %v", err)
		}
		cancel()
		watching.Wait()
		var done []string
		for _, c := range d.done {
			done = append(done, c.Do)
		}
		if !slices.Equal(done, []string{tap.Release, tap.Edit, tap.Hold, tap.Cancel}) || string(d.done[1].Payload) != `{"id":2}` || string(d.done[3].ID) != "7" {
			t.Errorf("done: %+v", d.done)
		}
	})
}

// A tap that cannot be looked into is told of, and hides no other.
func TestListSkipsWhatCannotBeRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("taps are Unix sockets")
	}
	dir, err := os.MkdirTemp("", "tap") // a short name, because sockets have no long ones
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := tap.Listen(dir, tap.Info{Name: "good", Protocol: "mcp"}, journal.New(capture.Session{}, journal.Options{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "odd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("no hello\n"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	odd, err := json.Marshal(tap.Info{Name: "odd", Pid: os.Getpid(), Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "odd.json"), odd, 0o600); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	taps, err := ListTaps(t.Context(), dir, func(err error) { skipped = append(skipped, err.Error()) })
	if err != nil || len(taps) != 1 || !strings.HasPrefix(taps[0].Name, "good") {
		t.Errorf("%v, %v", taps, err)
	}
	if len(skipped) != 1 || !strings.HasPrefix(skipped[0], "tap:odd: ") {
		t.Errorf("told of %q", skipped)
	}
}

// Notes are kept beside a session that is a file or a folder.
func TestWhereNotesAreKept(t *testing.T) {
	for name, want := range map[string]string{"a.pcapng": "a.pcapng.notes.json", "b/": "b.notes.json", "-": "", "live": "", "tap:x": "", "fixture:mcp-cancel": ""} {
		if got := NotesFile(name); got != want {
			t.Errorf("notes of %s: %q, want %q", name, got, want)
		}
	}
}

// Connections are numbered from 1, on from one tap to the next, and what is asked of
// one that has ended goes to none.
func TestNumbersOfConnections(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	w := NewWire(s)
	var got []int
	for _, conns := range [][]int{{0, 0}, {0}, {1, 2, 1}, {0}} {
		w.begin(nil)
		for _, conn := range conns {
			r := capture.Record{Kind: capture.Opened}
			r.Conn = conn
			w.number(&r)
			got = append(got, r.Conn)
		}
	}
	if want := []int{1, 1, 2, 3, 4, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("the numbers are %v, want %v", got, want)
	}
	if err := w.Cancel(4, "1"); err != errNoTap {
		t.Errorf("a cancel on a connection that has ended: %v", err)
	}
}
