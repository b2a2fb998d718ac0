// Decode measures the start of wirectl, and compares wirectl decode with cat, jq, Python,
// protojson and tshark. A ratio compares slopes: the time for a large file minus that for a
// small one, so that the start does not count.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/corpus"
	"github.com/wirectl/wirectl/test/bench/harness"
)

func main() { harness.Main(start, memory, check, speed) }

// start compares how fast two programs print their version, built as for a release.
func start(b *harness.Bench) {
	const name = "start: wirectl version, time to that of grpcurl -version"
	if !b.Wants(name) {
		return
	}
	b.Build("go", "install", "-trimpath", "-ldflags=-s -w", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3")
	life := func(args ...string) func() float64 {
		return func() float64 {
			begun := time.Now()
			harness.Check(exec.Command(b.Bin(args[0]), args[1:]...).Run())
			return time.Since(begun).Seconds()
		}
	}
	took := harness.Turns(20*b.Rounds, life("wirectl", "version"), life("grpcurl", "-version"))
	b.AtMost(name, []float64{harness.Median(took[0]) / harness.Median(took[1])}, 1, "")
}

// memory measures the peak memory, which must not depend on the length of the stream.
func memory(b *harness.Bench) {
	const name = "10 GiB of mcp on standard input to NDJSON: peak memory"
	if !b.Wants(name) {
		return
	}
	cmd := exec.Command("wirectl", strings.Fields("decode -o ndjson --protocol mcp --framing len32")...)
	in := harness.Must(cmd.StdinPipe())
	harness.Check(cmd.Start())
	err := corpus.Write(in, "mcp", "len32", 10<<30/int64(b.Scale))
	peak := harness.Peak(cmd.Process.Pid)
	harness.Check(errors.Join(err, in.Close(), cmd.Wait()))
	b.AtMost(name, []float64{peak}, 40, "MiB")
}

const (
	mebi = 1 << 20

	oneCore  = "0"
	twoCores = "0,1"
)

// A span is the two sizes whose times are subtracted. Slow peers get less data, since a slope is
// a time per byte.
type span struct{ small, large int64 }

var (
	full  = span{128 * mebi, 1024 * mebi}
	less  = span{32 * mebi, 256 * mebi}
	slow  = span{8 * mebi, 64 * mebi}
	crawl = span{mebi / 2, 4 * mebi}
)

// A side is a command that reads a corpus. Its last argument names the protocol and framing of
// the corpus.
type side struct {
	cpus    string
	span    span
	command string
}

const (
	ndjson = "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"
	latis  = "wirectl decode -o ndjson --protocol latis --framing len32 latis.len32"
)

var comparisons = []struct {
	name       string
	ours, peer side
	goal       float64 // how many times as fast ours must be
}{
	{"mcp to NDJSON, to jq -c", side{oneCore, full, ndjson}, side{oneCore, slow, "jq -c . mcp.line"}, 25},
	{"mcp to NDJSON, to Python's struct and json", side{oneCore, full, ndjson}, side{oneCore, less, "python3 peers/decode.py mcp.len32"}, 14},
	{"latis to NDJSON, to protojson", side{oneCore, full, latis}, side{oneCore, full, "protojson latis.len32"}, 0.9},
	{"latis to NDJSON, to tshark -T json", side{oneCore, full, latis}, side{oneCore, crawl, "peers/latis-tshark latis.pcap"}, 20},
	{"mcp to NDJSON, two cores to one", side{twoCores, full, ndjson}, side{oneCore, full, ndjson}, 1.75},
}

func speed(b *harness.Bench) {
	for _, c := range comparisons {
		program, _, _ := strings.Cut(c.peer.command, " ")
		if strings.Contains(program, "tshark") {
			program = "tshark"
		}
		if !b.Wants(c.name) {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			b.Skip(c.name, program+" is not installed")
			continue
		}
		slopes := harness.Turns(b.Rounds, c.ours.slope(b), c.peer.slope(b))
		b.AtLeast(c.name, harness.Ratio(slopes[1], slopes[0]), c.goal, "")
	}
}

// slope measures the nanoseconds for one more byte of payload.
func (s side) slope(b *harness.Bench) func() float64 {
	return func() float64 {
		small, large := s.span.small/int64(b.Scale), s.span.large/int64(b.Scale)
		short := s.time(b, small)
		long := s.time(b, large)
		if long <= short {
			harness.Check(fmt.Errorf("%s: %d bytes took no longer than %d", s.command, large, small))
		}
		return float64(long-short) / float64(large-small)
	}
}

// time returns the time for a corpus of some size. If that is short, it is the shortest of
// three.
func (s side) time(b *harness.Bench, size int64) (best time.Duration) {
	for i := 0; i < 3 && best < time.Second; i++ {
		cmd := s.on(b, size)
		begun := time.Now()
		harness.Run(cmd)
		if took := time.Since(begun); i == 0 || took < best {
			best = took
		}
	}
	return best
}

// on returns the command, pinned to its processors, on a corpus of some size. Go
// programs see as many processors as they are pinned to.
func (s side) on(b *harness.Bench, size int64) *exec.Cmd {
	args := strings.Fields(s.command)
	last := &args[len(args)-1]
	*last = file(b, *last, size)
	return exec.Command("taskset", append([]string{"-c", s.cpus}, args...)...)
}

// file returns the path of a corpus, which it writes if it does not exist.
func file(b *harness.Bench, name string, size int64) string {
	path := filepath.Join(b.Dir, fmt.Sprintf("%d.%s", size, name))
	if _, err := os.Stat(path); err != nil {
		protocol, framing, _ := strings.Cut(name, ".")
		harness.Check(corpus.File(path, protocol, framing, size))
	}
	return path
}
