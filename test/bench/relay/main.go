// Relay measures wirectl relay beside cat and socat, and what follows a message in it.
// What is measured is what stands between two ends, so the ends, peers/relay.c, do
// not copy: the source splices the pages of a file into its pipe, the drain throws
// pages away, and the child returns those that it is sent. All contenders have the same
// ends, and all pipes hold 1 MiB.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/corpus"
	"github.com/wirectl/wirectl/test/bench/harness"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "hub" {
		harness.Main(hubs)
		return
	}
	harness.Main(throughput, roundTrip, crowd, page, tracker)
}

const (
	cats    = "peer wide cat | peer wide cat | peer wide cat | peer drain"
	socat   = "socat -u -b1048576 STDIN STDOUT | peer drain"
	oneWay  = "wirectl relay -q -- peer drain"
	socat2  = "socat - EXEC:'peer mirror',pipes | peer drain"
	bothWay = "wirectl relay -q -- peer mirror | peer drain"
	summary = "wirectl relay -- peer mirror | peer drain"
)

var comparisons = []struct {
	name       string
	ours, peer string
	goal       float64
}{
	{"one way with a tap: throughput to that of cat, cat, cat", oneWay, cats, 1.8},
	{"one way with a tap: throughput to that of socat -b 1M", oneWay, socat, 1.6},
	{"both ways through a child, -q: throughput to that of socat EXEC", bothWay, socat2, 2.2},
	{"both ways, with the closing summary: throughput to that of socat EXEC", summary, socat2, 1},
}

func throughput(b *harness.Bench) error {
	if err := b.Build("cc", "-O2", "-o", b.Bin("peer"), "peers/relay.c"); err != nil {
		return err
	}
	// 16 MiB, again and again: a cache holds them, as it does what a program has just made.
	path := filepath.Join(b.Dir, "corpus")
	if err := corpus.File(path, "mcp", "len32", 16<<20); err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	times := max(1, 64/b.Scale)
	size := times * int(file.Size())
	for _, c := range comparisons {
		if !b.Wants(c.name) {
			continue
		}
		if strings.HasPrefix(c.peer, "socat") {
			if _, err := exec.LookPath("socat"); err != nil {
				b.Skip(c.name, "socat is not installed")
				continue
			}
		}
		for _, command := range []string{c.ours, c.peer} {
			if err := sameBytes(path, command); err != nil {
				return err
			}
		}
		took, err := harness.Turns(b.Rounds, clock(path, times, size, c.ours), clock(path, times, size, c.peer))
		if err != nil {
			return err
		}
		b.AtLeast(c.name, harness.Ratio(took[1], took[0]), c.goal, "")
	}
	return nil
}

func sh(path string, times int, command string) *exec.Cmd {
	return exec.Command("timeout", "120", "bash", "-c", fmt.Sprintf("peer source %s %d | %s", path, times, command))
}

// sameBytes compares what arrives, in a round that is not timed.
func sameBytes(path, command string) error {
	got, err := harness.Output(sh(path, 2, strings.Replace(command, "peer drain", "md5sum", 1)))
	if err != nil {
		return err
	}
	want, err := harness.Output(sh(path, 2, "md5sum"))
	if err == nil && string(got) != string(want) {
		err = fmt.Errorf("%s: the bytes differ", command)
	}
	return err
}

// clock measures how many seconds pass until the last byte has arrived. How long the
// command takes to end after that is left out: socat waits half a second.
func clock(path string, times, want int, command string) func() (float64, error) {
	return func() (float64, error) {
		begun := float64(time.Now().UnixNano()) / 1e9
		out, err := harness.Output(sh(path, times, command))
		if err != nil {
			return 0, err
		}
		var size int
		var at float64
		_, err = fmt.Sscan(string(out), &size, &at)
		if err == nil && size != want {
			err = fmt.Errorf("%s: %d of %d bytes arrived", command, size, want)
		}
		return at - begun, err
	}
}

// roundTrip measures 100 bytes there and back, with everything on one processor.
func roundTrip(b *harness.Bench) error {
	const name = "added to the p50 of a 100-byte round trip on one processor"
	const captured = "the same with tap and capture: p50 to that without"
	const recorded = "a wrapped server that is recorded in full: added p50 to that without"
	if !b.Wants(name) && !b.Wants(captured) && !b.Wants(recorded) {
		return nil
	}
	ping := func(command string) func() (float64, error) {
		args := append([]string{"120", "taskset", "-c", "0", "peer", "ping", strconv.Itoa(50_000 / b.Scale)}, strings.Fields(command)...)
		return func() (float64, error) {
			out, err := harness.Output(exec.Command("timeout", args...))
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(strings.Fields(string(out))[0], 64)
		}
	}
	trips, err := harness.Turns(b.Rounds, ping("peer echo"), ping("wirectl relay -q --no-tap -- peer echo"),
		ping("wirectl relay -q --capture "+filepath.Join(b.Dir, "capture")+" -- peer echo"), ping("wirectl relay -q -- peer echo"),
		ping("env XDG_STATE_HOME="+b.Dir+" wirectl relay -q --record full -- peer echo"))
	if err != nil {
		return err
	}
	added := func(to []float64) (list []float64) {
		for i, direct := range trips[0] {
			list = append(list, to[i]-direct)
		}
		return list
	}
	b.AtMost(name, added(trips[1]), 9, "µs")
	b.AtMost(captured, harness.Ratio(trips[2], trips[1]), 1.5, "")
	b.AtMost(recorded, harness.Ratio(added(trips[4]), added(trips[3])), 1.5, "")
	return nil
}

// tracker runs the benchmark of package session: 1,000 exchanges in flight.
func tracker(b *harness.Bench) error {
	const name = "tracker, 1,000 in flight: "
	if !b.Wants(name) {
		return nil
	}
	out, err := harness.Output(exec.Command("go", "-C", "../..", "test", "./session", "-run", "^$", "-bench", "Feed", "-count", strconv.Itoa(b.Rounds)))
	if err != nil {
		return err
	}
	for _, protocol := range []string{"latis", "mcp"} {
		var micros, allocs []float64
		line := regexp.MustCompile("BenchmarkFeed/" + protocol + `.*?([\d.]+) ns/op.*?(\d+) allocs/op`)
		for _, found := range line.FindAllStringSubmatch(string(out), -1) {
			ns, _ := strconv.ParseFloat(found[1], 64)
			n, _ := strconv.ParseFloat(found[2], 64)
			micros, allocs = append(micros, ns/1000), append(allocs, n)
		}
		if len(micros) == 0 {
			return fmt.Errorf("the benchmark of package session says %s", out)
		}
		b.AtMost(name+"a message of "+protocol, micros, 0.2, "µs")
		b.AtMost(name+"pieces of memory for one of "+protocol, allocs, 0, "")
	}
	return nil
}
