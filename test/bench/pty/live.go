//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture/tap"
)

// A wire is a tap on which frames pass, at a rate or as fast as they can.
type wire struct {
	hub    *tap.Hub
	server *tap.Server
	rate   int // a second; 0 is no limit
	wrote  int
	took   time.Duration // to write them all
	stop   chan struct{}
	done   sync.WaitGroup
}

func (b *bench) open(rate int) (*wire, error) {
	folder := filepath.Join(b.dir, "wirectl")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	w := &wire{hub: tap.NewHub(session, tap.Options{}), rate: rate, stop: make(chan struct{})}
	var err error
	w.server, err = tap.Listen(folder, tap.Info{Name: "bench", Started: time.Now()}, w.hub, nil)
	return w, err
}

// pass lets frames pass until the wire is closed.
func (w *wire) pass() {
	for begun := time.Now(); ; {
		select {
		case <-w.stop:
			return
		default:
		}
		due := w.wrote + 100
		if w.rate > 0 {
			due = int(time.Since(begun).Seconds() * float64(w.rate))
			if due == w.wrote {
				time.Sleep(5 * time.Millisecond)
			}
		}
		write := time.Now()
		for ; w.wrote < due; w.wrote++ {
			r := record(w.wrote)
			r.Time = time.Now()
			_ = w.hub.Write(&r) // it is never nil
		}
		w.took += time.Since(write)
	}
}

// close ends the session.
func (w *wire) close() error {
	close(w.stop)
	w.done.Wait()
	return w.server.Close()
}

// watch looks on at a wire for so long, and does something meanwhile. It returns
// how many frames the monitor has taken, how many it says that it has missed,
// and how long it has worked.
func (b *bench) watch(w *wire, while func(*monitor) error) (taken, lost int64, work time.Duration, err error) {
	m, err := start(b.wirectl, b.dir, "tap:"+w.server.Name())
	if err != nil {
		return 0, 0, 0, err
	}
	w.done.Go(w.pass)
	if _, err = m.await(calls); err == nil {
		err = while(m)
	}
	if err = firstOf(err, w.close()); err != nil {
		return 0, 0, 0, err
	}
	if _, err := m.await(ended); err != nil {
		return 0, 0, 0, err
	}
	time.Sleep(time.Second / 5) // for the rest of the line
	found, err := m.await(ended)
	if err != nil {
		return 0, 0, 0, err
	}
	taken, _ = strconv.ParseInt(found[1], 10, 64)
	lost, _ = strconv.ParseInt(found[2], 10, 64)
	work, _, err = m.quit()
	return taken, lost, work, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// steady looks on while 10,000 frames pass in a second, and types.
func (b *bench) steady() error {
	w, err := b.open(10_000)
	if err != nil {
		return err
	}
	const long = 6 * time.Second
	var slowest time.Duration
	taken, lost, work, err := b.watch(w, func(m *monitor) error {
		time.Sleep(long - time.Second)
		err := m.turn(5)
		slowest = m.slowest
		time.Sleep(time.Second)
		return err
	})
	if err != nil {
		return err
	}
	b.most("10,000 frames a second on a tap", 10, 100*work.Seconds()/long.Seconds(), "% of a core")
	b.most("a key meanwhile, worst", 50, milliseconds(slowest), "ms")
	b.most("frames of these that are neither shown nor counted as missed", 0, float64(int64(w.wrote)-taken-lost), "")
	return nil
}

// flood looks on at a wire that never waits.
func (b *bench) flood() error {
	w, err := b.open(0)
	if err != nil {
		return err
	}
	const long = 4 * time.Second
	var slowest time.Duration
	taken, lost, _, err := b.watch(w, func(m *monitor) error {
		time.Sleep(long / 2)
		err := m.turn(5)
		slowest = m.slowest
		time.Sleep(long / 2)
		return err
	})
	if err != nil {
		return err
	}
	b.least("as many as can pass on a tap: taken", 100_000, float64(taken)/long.Seconds(), "frames/s")
	b.most("a key meanwhile, worst", 50, milliseconds(slowest), "ms")
	b.most("frames of these that are neither shown nor counted as missed", 0, float64(int64(w.wrote)-taken-lost), "")
	fmt.Printf("\nOf %d frames that passed in %v it took %d and counted %d as missed; a frame passed in %v.\n",
		w.wrote, long, taken, lost, (w.took / time.Duration(max(w.wrote, 1))).Round(time.Nanosecond))
	return nil
}
