package live

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/store"
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
		s := store.New(store.Options{})
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
