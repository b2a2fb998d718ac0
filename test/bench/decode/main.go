// Decode measures how wirectl starts, and wirectl decode beside cat, jq, Python,
// protojson and tshark. A ratio compares slopes, the time for a large file less that
// for a small one, so that starting does not count.
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

// start compares two programs that say their version, as both are released.
func start(b *harness.Bench) error {
	const name = "start: wirectl version, time to that of grpcurl -version"
	if !b.Wants(name) {
		return nil
	}
	if err := b.Build("go", "install", "-trimpath", "-ldflags=-s -w", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"); err != nil {
		return err
	}
	life := func(args ...string) func() (float64, error) {
		return func() (float64, error) {
			begun := time.Now()
			err := exec.Command(b.Bin(args[0]), args[1:]...).Run()
			return time.Since(begun).Seconds(), err
		}
	}
	took, err := harness.Turns(20*b.Rounds, life("wirectl", "version"), life("grpcurl", "-version"))
	if err != nil {
		return err
	}
	b.AtMost(name, []float64{harness.Median(took[0]) / harness.Median(took[1])}, 1, "")
	return nil
}

// memory measures the peak, which may not depend on the length of the stream.
func memory(b *harness.Bench) error {
	const name = "10 GiB of mcp on standard input to NDJSON: peak memory"
	if !b.Wants(name) {
		return nil
	}
	cmd := exec.Command("wirectl", strings.Fields("decode -o ndjson --protocol mcp --framing len32")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = corpus.Write(in, "mcp", "len32", 10<<30/int64(b.Scale))
	peak, peakErr := harness.Peak(cmd.Process.Pid)
	if err := errors.Join(err, peakErr, in.Close(), cmd.Wait()); err != nil {
		return err
	}
	b.AtMost(name, []float64{peak}, 32, "MiB")
	return nil
}

const (
	mebi = 1 << 20

	oneCore  = "0"
	twoCores = "0,1"
)

// A span is the two sizes of which the times are subtracted. The slow peers get less to
// do, since a slope is a time a byte.
type span struct{ small, large int64 }

var (
	full  = span{128 * mebi, 1024 * mebi}
	less  = span{32 * mebi, 256 * mebi}
	slow  = span{8 * mebi, 64 * mebi}
	crawl = span{mebi / 2, 4 * mebi}
)

// A side is a command that reads a corpus, whose name is its last argument: its
// protocol and framing.
type side struct {
	cpus    string
	span    span
	command string
}

const (
	walk   = "wirectl decode --count --protocol bytes --framing len32 mcp.len32"
	count  = "wirectl decode --count --protocol latis --framing len32 latis.len32"
	ndjson = "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"
	latis  = "wirectl decode -o ndjson --protocol latis --framing len32 latis.len32"
)

var comparisons = []struct {
	name       string
	ours, peer side
	goal       float64 // how many times as fast ours has to be
}{
	{"walk over frames, to cat", side{oneCore, full, walk}, side{oneCore, full, "cat mcp.len32"}, 0.8},
	{"count of latis, to cat", side{oneCore, full, count}, side{oneCore, full, "cat latis.len32"}, 0.5},
	{"mcp to NDJSON, to jq -c", side{oneCore, full, ndjson}, side{oneCore, slow, "jq -c . mcp.line"}, 25},
	{"mcp to NDJSON, to Python's struct and json", side{oneCore, full, ndjson}, side{oneCore, less, "python3 peers/decode.py mcp.len32"}, 14},
	{"latis to NDJSON, to protojson", side{oneCore, full, latis}, side{oneCore, full, "protojson latis.len32"}, 4},
	{"latis to NDJSON, to tshark -T json", side{oneCore, full, latis}, side{oneCore, crawl, "peers/latis-tshark latis.pcap"}, 200},
	{"mcp to NDJSON, two cores to one", side{twoCores, full, ndjson}, side{oneCore, full, ndjson}, 1.75},
}

func speed(b *harness.Bench) error {
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
		slopes, err := harness.Turns(b.Rounds, c.ours.slope(b), c.peer.slope(b))
		if err != nil {
			return err
		}
		b.AtLeast(c.name, harness.Ratio(slopes[1], slopes[0]), c.goal, "")
	}
	return nil
}

// slope measures the nanoseconds for one more byte of payload.
func (s side) slope(b *harness.Bench) func() (float64, error) {
	return func() (float64, error) {
		small, large := s.span.small/int64(b.Scale), s.span.large/int64(b.Scale)
		short, err := s.time(b, small)
		if err != nil {
			return 0, err
		}
		long, err := s.time(b, large)
		if long <= short && err == nil {
			err = fmt.Errorf("%s: %d bytes took no longer than %d", s.command, large, small)
		}
		return float64(long-short) / float64(large-small), err
	}
}

// time returns the time for a corpus of some size; where that is next to nothing,
// the shortest of three.
func (s side) time(b *harness.Bench, size int64) (best time.Duration, err error) {
	for i := 0; i < 3 && best < time.Second; i++ {
		cmd, err := s.on(b, size)
		if err != nil {
			return 0, err
		}
		begun := time.Now()
		if err := harness.Run(cmd); err != nil {
			return 0, err
		}
		if took := time.Since(begun); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// on returns the command, pinned to its processors, on a corpus of some size. Go
// programs see as many processors as they are pinned to.
func (s side) on(b *harness.Bench, size int64) (*exec.Cmd, error) {
	args := strings.Fields(s.command)
	last := &args[len(args)-1]
	path, err := file(b, *last, size)
	*last = path
	return exec.Command("taskset", append([]string{"-c", s.cpus}, args...)...), err
}

// file returns the path of a corpus, and makes it if it is not there.
func file(b *harness.Bench, name string, size int64) (string, error) {
	path := filepath.Join(b.Dir, fmt.Sprintf("%d.%s", size, name))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	protocol, framing, _ := strings.Cut(name, ".")
	return path, corpus.File(path, protocol, framing, size)
}
