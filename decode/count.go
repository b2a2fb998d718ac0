package decode

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A Counter counts items by protocol and kind.
type Counter struct {
	mu      sync.Mutex
	tallies []*tally
}

// A Count says how often a kind was seen, and its size.
type Count struct {
	Protocol string `json:"protocol,omitempty"`
	Kind     string `json:"kind"`
	Frames   int64  `json:"frames"`
	Bytes    int64  `json:"bytes"` // payload bytes
}

// A tally is one worker's share of the counts.
type tally struct {
	last   *Count // the kind seen last: most streams repeat themselves
	counts map[string]*Count
}

func (c *Counter) tally() *tally {
	t := &tally{counts: make(map[string]*Count)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tallies = append(c.tallies, t)
	return t
}

// view is a [View] that shows nothing.
func (t *tally) view(dst []byte, it *Item) ([]byte, error) {
	t.countItem(it)
	return dst, nil
}

// maxKinds bounds the kinds that are told apart, so that a stream which makes
// them up does not take memory without end. The others are counted together.
const maxKinds = 10_000

var kindSkipped = []byte(ndjson.Skipped)

func (t *tally) countItem(it *Item) {
	protocol, kind := "", kindSkipped
	if !it.Frame.Gap {
		protocol, kind = it.Protocol.Name(), it.kind()
	}
	t.note(protocol, kind, 1, it.Frame.Size())
}

// addBytes counts the first frames, up to one that needs more than its size, in the
// protocol of bytes, and returns how many it counted.
func (t *tally) addBytes(frames []frame.Frame) int {
	n, size := 0, 0
	for ; n < len(frames); n++ {
		f := &frames[n]
		if f.Gap || f.Compressed || f.Flaw != nil || f.Meta != nil {
			break
		}
		size += f.End - f.Start
	}
	if n > 0 {
		t.note(opaque.Bytes.Name(), opaque.KindBytes, n, size)
	}
	return n
}

func (t *tally) note(protocol string, kind []byte, frames, size int) {
	if t.last == nil || t.last.Kind != string(kind) || t.last.Protocol != protocol {
		t.last = t.countOf(protocol, kind)
	}
	t.last.Frames += int64(frames)
	t.last.Bytes += int64(size)
}

// maxKind is how much of a kind is told apart, in bytes.
const maxKind = 128

func (t *tally) countOf(protocol string, kind []byte) *Count {
	if len(kind) > maxKind {
		kind = []byte(render.Shorten(kind, maxKind))
	}
	var buf [maxKind + 32]byte
	key := append(append(append(buf[:0], protocol...), 0), kind...)
	if c := t.counts[string(key)]; c != nil {
		return c
	}
	if len(t.counts) >= maxKinds {
		kind, key = []byte("(other kinds)"), []byte("(other kinds)")
	}
	c := t.counts[string(key)]
	if c == nil {
		c = &Count{Protocol: protocol, Kind: string(kind)}
		t.counts[string(key)] = c
	}
	return c
}

// Counts returns the counts, the most frequent first. It must be called when no view is in
// use any more.
func (c *Counter) Counts() []Count {
	sum := make(map[string]*Count)
	for _, t := range c.tallies {
		for key, part := range t.counts {
			if sum[key] == nil {
				sum[key] = &Count{Protocol: part.Protocol, Kind: part.Kind}
			}
			sum[key].Frames += part.Frames
			sum[key].Bytes += part.Bytes
		}
	}
	counts := make([]Count, 0, len(sum))
	for _, n := range sum {
		counts = append(counts, *n)
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Frames, a.Frames), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.Kind, b.Kind))
	})
	return counts
}

// A Sum has the counts of all kinds, and their sum.
type Sum struct {
	Frames int64   `json:"frames"`
	Bytes  int64   `json:"bytes"`
	Kinds  []Count `json:"kinds"`
}

// Sum returns the counts with their sum. It must be called when no view is in use any more.
func (c *Counter) Sum() Sum {
	all := Sum{Kinds: append([]Count{}, c.Counts()...)}
	for _, k := range all.Kinds {
		all.Frames += k.Frames
		all.Bytes += k.Bytes
	}
	return all
}
