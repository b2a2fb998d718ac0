package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/test/bench/harness"
)

// million opens a capture of a million frames in a terminal.
func million(b *harness.Bench) error {
	const name = "monitor, a capture of a million frames: frames a second, from the start to the last"
	if !b.Wants(name) {
		return nil
	}
	file := filepath.Join(b.Dir, "million.pcapng")
	frames := 1_000_000 / b.Scale
	if err := write(file, frames); err != nil {
		return err
	}
	rates, err := harness.Turns(b.Rounds, func() (float64, error) {
		m, err := lookOn(file)
		if err != nil {
			return 0, err
		}
		if found, err := m.await(ended); err != nil || found[1] != strconv.Itoa(frames) {
			return 0, errors.Join(errors.New("the monitor does not show all frames"), err)
		}
		rate := float64(frames) / time.Since(m.begun).Seconds()
		_, err = m.quit()
		return rate, err
	})
	if err != nil {
		return err
	}
	b.AtLeast(name, rates[0], 1_000_000, "")
	return nil
}

// A watch is what it took to look on for some time.
type watch struct{ share, slowest float64 }

// steady looks on while 10,000 frames a second pass on a tap, and types.
func steady(b *harness.Bench) error {
	const name = "monitor, 10,000 frames a second on a tap: share of a core"
	if !b.Wants(name) {
		return nil
	}
	folder := filepath.Join(b.Dir, "wirectl")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	hub := tap.NewHub(session, tap.Options{})
	server, err := tap.Listen(folder, tap.Info{Name: "bench", Started: time.Now()}, hub, nil)
	if err != nil {
		return err
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go pass(hub, stop, done)
	watches, err := harness.Turns(b.Rounds, func() (watch, error) {
		m, err := lookOn("tap:" + server.Name())
		if err != nil {
			return watch{}, err
		}
		time.Sleep(5 * time.Second / time.Duration(b.Scale))
		typed := m.turn(5)
		time.Sleep(time.Second / time.Duration(b.Scale))
		took := time.Since(m.begun)
		work, err := m.quit()
		return watch{100 * work.Seconds() / took.Seconds(), m.slowest.Seconds() * 1000}, errors.Join(typed, err)
	})
	close(stop)
	<-done
	if err := errors.Join(err, server.Close()); err != nil {
		return err
	}
	var share, slowest []float64
	for _, w := range watches[0] {
		share, slowest = append(share, w.share), append(slowest, w.slowest)
	}
	b.AtMost(name, share, 10, "%")
	b.AtMost("monitor, the same: the slowest answer to a key", slowest, 50, "ms")
	return nil
}

// pass lets 10,000 frames a second pass until it is stopped.
func pass(hub *tap.Hub, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	begun := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for due := int(time.Since(begun).Seconds() * 10_000); n < due; n++ {
			r := record(n)
			r.Time = time.Now()
			_ = hub.Write(&r) // it is never nil
		}
	}
}
