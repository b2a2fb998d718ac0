//go:build unix

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	rounds = 5

	kibi = 1 << 10
	mebi = 1 << 20
	gibi = 1 << 30

	// The CPUs that a command is pinned to.
	oneCore  = "0"
	twoCores = "0,1"
	// eachCore is for one command on each, both at once: what two cores of the
	// machine give to programs that have nothing to do with each other.
	eachCore = "0 1"
	// eitherCore is for one command, first on the one and then on the other, where both
	// are measured together: one of them may be slower, for what else runs on it.
	eitherCore = "0|1"
)

// A span is the two sizes whose times are subtracted, so that what a program
// needs to start does not count.
type span struct{ small, large int64 }

// The slow peers get less to do: a slope is a time a byte. None gets so little that
// what else goes on for a moment decides it.
var (
	full  = span{128 * mebi, gibi}
	less  = span{32 * mebi, 256 * mebi}
	slow  = span{8 * mebi, 64 * mebi}
	crawl = span{512 * kibi, 4 * mebi}
)

// A side is one of the two programs of a comparison.
type side struct {
	cpus    string
	span    span
	command command
}

// A comparison says how many times as fast ours has to be; 0 is for a figure that
// others are read by.
type comparison struct {
	name       string
	ours, peer side
	goal       float64
}

var comparisons = []comparison{
	{"walk: frames only, against cat", side{oneCore, full, "wirectl decode --count --protocol bytes --framing len32 mcp.len32"}, side{oneCore, full, "cat mcp.len32"}, 0.8},
	{"walk, two cores", side{twoCores, full, "wirectl decode --count --protocol bytes --framing len32 mcp.len32"}, side{twoCores, full, "cat mcp.len32"}, 0.8},
	{"count latis, parsed, against cat", side{oneCore, full, "wirectl decode --count --protocol latis --framing len32 latis.len32"}, side{oneCore, full, "cat latis.len32"}, 0.5},
	{"count latis, two cores", side{twoCores, full, "wirectl decode --count --protocol latis --framing len32 latis.len32"}, side{twoCores, full, "cat latis.len32"}, 0.5},
	{"count rlm, validated, against json.Valid", side{oneCore, full, "wirectl decode --count --protocol rlm --framing len32 rlm.len32"}, side{oneCore, full, "jsonvalid rlm.len32"}, 3},
	{"count rlm, two cores", side{twoCores, full, "wirectl decode --count --protocol rlm --framing len32 rlm.len32"}, side{twoCores, full, "jsonvalid rlm.len32"}, 3},
	{"count mcp, validated, against json.Valid", side{oneCore, full, "wirectl decode --count --protocol mcp --framing len32 mcp.len32"}, side{oneCore, full, "jsonvalid mcp.len32"}, 3},
	{"count mcp, two cores", side{twoCores, full, "wirectl decode --count --protocol mcp --framing len32 mcp.len32"}, side{twoCores, full, "jsonvalid mcp.len32"}, 3},
	{"ndjson of mcp, against jq -c", side{oneCore, full, "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"}, side{oneCore, slow, "jq -c . mcp.line"}, 25},
	{"ndjson of rlm, against jq -c", side{oneCore, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, side{oneCore, slow, "jq -c . rlm.line"}, 25},
	{"ndjson of mcp, against Python struct + json", side{oneCore, full, "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"}, side{oneCore, less, "decode.py mcp.len32"}, 14},
	{"ndjson of rlm, against Python struct + json", side{oneCore, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, side{oneCore, less, "decode.py rlm.len32"}, 14},
	{"ndjson of mcp, two cores against one", side{twoCores, full, "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"}, side{eitherCore, full, "wirectl decode -o ndjson --protocol mcp --framing len32 mcp.len32"}, 1.75},
	{"ndjson of rlm, two cores against one", side{twoCores, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, side{eitherCore, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, 1.75},
	{"the same, two programs at once against one: what the machine gives", side{eachCore, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, side{eitherCore, full, "wirectl decode -o ndjson --protocol rlm --framing len32 rlm.len32"}, 0},
	{"ndjson of latis, against protojson", side{oneCore, full, "wirectl decode -o ndjson --protocol latis --framing len32 latis.len32"}, side{oneCore, full, "protojson latis.len32"}, 4},
	{"ndjson of latis, against tshark -T json with the schema", side{oneCore, full, "wirectl decode -o ndjson --protocol latis --framing len32 latis.len32"}, side{oneCore, crawl, "latis-tshark latis.pcap"}, 200},
}

func (b *bench) comparisons(t *table) error {
	for _, c := range comparisons {
		if !b.only.MatchString(c.name) {
			continue
		}
		if !c.peer.command.installed() {
			t.skipped(c.name, "not installed")
			continue
		}
		ratios, err := b.compare(c)
		if err != nil {
			return err
		}
		median := ratios[len(ratios)/2]
		measured := fmt.Sprintf("%.2f (%.2f to %.2f)", median, ratios[0], ratios[len(ratios)-1])
		if c.goal == 0 {
			t.told(c.name, measured)
			continue
		}
		t.row(c.name, measured, fmt.Sprintf("≥ %v", c.goal), median >= c.goal)
	}
	return nil
}

// compare returns how many times as fast ours was in each round, in order of
// size. The two sides take turns, because the speed of a machine drifts.
func (b *bench) compare(c comparison) ([]float64, error) {
	var ratios []float64
	for range rounds {
		ours, err := b.slope(c.ours)
		if err != nil {
			return nil, err
		}
		peer, err := b.slope(c.peer)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, peer/ours)
	}
	slices.Sort(ratios)
	return ratios, nil
}

// slope returns the nanoseconds that s takes for one more byte of payload.
func (b *bench) slope(s side) (float64, error) {
	small, err := b.time(s, s.span.small/b.scale)
	if err != nil {
		return 0, err
	}
	large, err := b.time(s, s.span.large/b.scale)
	if err != nil {
		return 0, err
	}
	work := float64(s.span.large-s.span.small) * float64(len(strings.Fields(s.cpus)))
	return float64(large-small) * float64(b.scale) / work, nil
}

// time returns the time that s takes for size bytes; where that is next to
// nothing, the shortest of a few.
func (b *bench) time(s side, size int64) (time.Duration, error) {
	dir, err := b.corpusDir(size, s.command.corpora()...)
	if err != nil {
		return 0, err
	}
	best := time.Duration(math.MaxInt64)
	for range 3 {
		wall, err := s.run(dir)
		if err != nil {
			return 0, err
		}
		best = min(best, wall)
		if best > time.Second {
			break
		}
	}
	return best, nil
}

// run runs the command in dir, one for each set of CPUs, all at once, and returns
// how long that took; the mean, if it runs on some first and then on others.
func (s side) run(dir string) (time.Duration, error) {
	turns := strings.Split(s.cpus, "|")
	start := time.Now()
	for _, turn := range turns {
		var g errgroup.Group
		for _, cpus := range strings.Fields(turn) {
			g.Go(func() error {
				_, err := run(s.command.pinned(cpus, dir))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(len(turns)), nil
}
