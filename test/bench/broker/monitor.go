package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/test/bench/harness"
)

// million opens a capture of a million frames in a terminal.
func million(b *harness.Bench) {
	const name = "monitor, a capture of a million frames: frames a second, from the start to the last"
	if !b.Wants(name) {
		return
	}
	file := filepath.Join(b.Dir, "million.pcapng")
	frames := 1_000_000 / b.Scale
	write(file, frames)
	all := regexp.MustCompile("2 Frames " + regexp.QuoteMeta(shown(frames)) + " ")
	rates := harness.Turns(b.Rounds, func() float64 {
		m := harness.Must(lookOn(file))
		harness.Must(m.await(ended))
		rate := float64(frames) / time.Since(m.begun).Seconds()
		harness.Check(m.press("2", all))
		harness.Must(m.quit())
		return rate
	})
	b.AtLeast(name, rates[0], 750_000, "")
}

// shown returns a count of thousands as a tab of the monitor shows it.
func shown(n int) string {
	value, unit := float64(n)/1e3, "k"
	if n >= 1e6 {
		value, unit = value/1e3, "M"
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", value), ".") + unit
}

// A watch is the cost of watching for some time.
type watch struct{ share, slowest float64 }

// steady watches a tap with 10,000 frames a second, and presses keys.
func steady(b *harness.Bench) {
	const name = "monitor, 10,000 frames a second on a tap: share of a core"
	if !b.Wants(name) {
		return
	}
	folder := filepath.Join(b.Dir, "wirectl")
	harness.Check(os.MkdirAll(folder, 0o700))
	traffic := journal.New(session, journal.Options{})
	server := harness.Must(tap.Listen(folder, tap.Info{Name: "bench", Started: time.Now()}, traffic, nil))
	stop, done := make(chan struct{}), make(chan struct{})
	go pass(traffic, stop, done)
	watches := harness.Turns(b.Rounds, func() watch {
		m := harness.Must(lookOn("tap:" + server.Name()))
		time.Sleep(5 * time.Second / time.Duration(b.Scale))
		typed := m.turn(5)
		time.Sleep(time.Second / time.Duration(b.Scale))
		took := time.Since(m.begun)
		work := harness.Must(m.quit())
		harness.Check(typed)
		return watch{100 * work.Seconds() / took.Seconds(), m.slowest.Seconds() * 1000}
	})
	close(stop)
	<-done
	harness.Check(server.Close())
	var share, slowest []float64
	for _, w := range watches[0] {
		share, slowest = append(share, w.share), append(slowest, w.slowest)
	}
	b.AtMost(name, share, 15, "%")
	b.AtMost("monitor, the same: the slowest answer to a key", slowest, 50, "ms")
}

// pass sends 10,000 frames a second until it is stopped.
func pass(traffic *journal.Journal, stop <-chan struct{}, done chan<- struct{}) {
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
			_ = traffic.Write(&r) // always nil
		}
	}
}
