// Relay compares wirectl relay with cat and socat, and measures the tracking of messages.
// Its two ends, peers/relay.c, do not copy, so that only the relay counts. The source
// splices the pages of a file into its pipe, the drain discards pages, and the child
// returns its input. All contenders have the same ends, and all pipes hold 1 MiB.
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
	switch {
	case len(os.Args) > 1 && os.Args[1] == "hub":
		harness.Main(hubs)
		return
	case len(os.Args) > 1 && os.Args[1] == "run":
		harness.Main(agents)
		return
	case len(os.Args) > 2 && os.Args[1] == "agent":
		agent(os.Args[2])
		return
	}
	harness.Main(throughput, roundTrip, crowd, page, paint, tracker)
}

const (
	socat    = "socat -u -b1048576 STDIN STDOUT | peer drain"
	untapped = "wirectl relay -q --no-tap -- peer drain"
	oneWay   = "wirectl relay -q -- peer drain"
	socat2   = "socat - EXEC:'peer mirror',pipes | peer drain"
	bothWay  = "wirectl relay -q -- peer mirror | peer drain"
	summary  = "wirectl relay -- peer mirror | peer drain"
)

var comparisons = []struct {
	name       string
	ours, peer string
	goal       float64
}{
	{"one way: throughput to that of socat -b 1M", untapped, socat, 2},
	{"one way with a tap: throughput to that of socat -b 1M", oneWay, socat, 1},
	{"both ways through a child, -q: throughput to that of socat EXEC", bothWay, socat2, 2.2},
	{"both ways, with the closing summary: throughput to that of socat EXEC", summary, socat2, 1},
}

func throughput(b *harness.Bench) {
	b.Build("cc", "-O2", "-o", b.Bin("peer"), "peers/relay.c")
	// 16 MiB, sent repeatedly. It fits into a cache, like the output of a running program.
	path := filepath.Join(b.Dir, "corpus")
	harness.Check(corpus.File(path, "mcp", "len32", 16<<20))
	file := harness.Must(os.Stat(path))
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
			sameBytes(path, command)
		}
		took := harness.Turns(b.Rounds, clock(path, times, size, c.ours), clock(path, times, size, c.peer))
		b.AtLeast(c.name, harness.Ratio(took[1], took[0]), c.goal, "")
	}
}

func sh(path string, times int, command string) *exec.Cmd {
	return exec.Command("timeout", "120", "bash", "-c", fmt.Sprintf("peer source %s %d | %s", path, times, command))
}

// sameBytes checks the bytes that arrive, in a round that is not timed.
func sameBytes(path, command string) {
	got := harness.Output(sh(path, 2, strings.Replace(command, "peer drain", "md5sum", 1)))
	if string(got) != string(harness.Output(sh(path, 2, "md5sum"))) {
		harness.Check(fmt.Errorf("%s: the bytes differ", command))
	}
}

// clock measures the seconds until the last byte has arrived, without the time that the command
// takes to exit: socat waits half a second.
func clock(path string, times, want int, command string) func() float64 {
	return func() float64 {
		begun := float64(time.Now().UnixNano()) / 1e9
		out := harness.Output(sh(path, times, command))
		var size int
		var at float64
		harness.Must(fmt.Sscan(string(out), &size, &at))
		if size != want {
			harness.Check(fmt.Errorf("%s: %d of %d bytes arrived", command, size, want))
		}
		return at - begun
	}
}

// roundTrip measures 100 bytes there and back, with everything on one processor.
func roundTrip(b *harness.Bench) {
	const name = "added to the p50 of a 100-byte round trip on one processor, to what a relay in C adds by poll"
	const captured = "the same with tap and capture: p50 to that without"
	const recorded = "a wrapped server that is recorded in full: added p50 to that without"
	if !b.Wants(name) && !b.Wants(captured) && !b.Wants(recorded) {
		return
	}
	trips := harness.Turns(b.Rounds, ping(b, "peer echo"), ping(b, "wirectl relay -q --no-tap -- peer echo"),
		ping(b, "wirectl relay -q --capture "+filepath.Join(b.Dir, "capture")+" -- peer echo"), ping(b, "wirectl relay -q -- peer echo"),
		ping(b, "env XDG_STATE_HOME="+b.Dir+" wirectl relay -q --record full -- peer echo"), ping(b, "peer poll peer echo"))
	added := func(to []float64) (list []float64) {
		for i, direct := range trips[0] {
			list = append(list, to[i]-direct)
		}
		return list
	}
	b.AtMost(name, harness.Ratio(added(trips[1]), added(trips[5])), 1, "")
	b.AtMost(captured, harness.Ratio(trips[2], trips[1]), 1.5, "")
	b.AtMost(recorded, harness.Ratio(added(trips[4]), added(trips[3])), 1.5, "")
}

// ping returns a function that measures the p50 of a 100-byte round trip through a command, in
// microseconds.
func ping(b *harness.Bench, command string) func() float64 {
	args := append([]string{"120", "taskset", "-c", "0", "peer", "ping", strconv.Itoa(50_000 / b.Scale)}, strings.Fields(command)...)
	return func() float64 {
		out := harness.Output(exec.Command("timeout", args...))
		return harness.Must(strconv.ParseFloat(strings.Fields(string(out))[0], 64))
	}
}

// tracker runs the benchmark of package session: 1,000 exchanges in flight. The time to make a
// message is deducted.
func tracker(b *harness.Bench) {
	const name = "tracker, 1,000 in flight: "
	if !b.Wants(name) {
		return
	}
	out := harness.Output(exec.Command("go", "-C", "../..", "test", "./session", "-run", "^$", "-bench", "Feed", "-benchmem", "-count", strconv.Itoa(b.Rounds)))
	for _, protocol := range []string{"latis", "mcp"} {
		micros, allocs := benchmarked(out, "BenchmarkFeed/"+protocol)
		making, _ := benchmarked(out, "BenchmarkFeed/making_"+protocol)
		for i := range micros {
			micros[i] -= harness.Median(making)
		}
		b.AtMost(name+"a message of "+protocol, micros, 0.25, "µs")
		b.AtMost(name+"pieces of memory for one of "+protocol, allocs, 0, "")
	}
}

// benchmarked returns the time of each run of a benchmark, in microseconds, and its allocations.
func benchmarked(out []byte, name string) (micros, allocs []float64) {
	line := regexp.MustCompile(name + `-\d+ .*?([\d.]+) ns/op.*?(\d+) allocs/op`)
	for _, found := range line.FindAllStringSubmatch(string(out), -1) {
		ns, _ := strconv.ParseFloat(found[1], 64)
		n, _ := strconv.ParseFloat(found[2], 64)
		micros, allocs = append(micros, ns/1000), append(allocs, n)
	}
	if len(micros) == 0 {
		harness.Check(fmt.Errorf("the benchmark of package session says %s", out))
	}
	return micros, allocs
}
