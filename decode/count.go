package decode

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture/ndjson"
)

// A Counter counts items by protocol and kind. Its View shows nothing.
type Counter struct {
	mu      sync.Mutex
	tallies []*tally
}

// A Count is how often something was seen, and of what size.
type Count struct {
	Protocol string
	Kind     string
	Frames   int64
	Bytes    int64 // payload bytes
}

// A tally is one worker's share of the counts.
type tally struct {
	last   *Count // the kind seen last: most streams repeat themselves
	counts map[string]*Count
}

// View returns a view that counts.
func (c *Counter) View() View {
	t := &tally{counts: make(map[string]*Count)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tallies = append(c.tallies, t)
	return func(dst []byte, it *Item) ([]byte, error) {
		t.add(it)
		return dst, nil
	}
}

// maxKinds bounds the kinds that are told apart, so that a stream which makes
// them up does not take memory without end. The others are counted together.
const maxKinds = 10_000

func (t *tally) add(it *Item) {
	protocol, kind := "", []byte(ndjson.Skipped)
	if !it.Frame.Gap {
		protocol, kind = it.Protocol.Name(), it.kind()
	}
	if t.last == nil || t.last.Kind != string(kind) || t.last.Protocol != protocol {
		t.last = t.find(protocol, kind)
	}
	t.last.Frames++
	t.last.Bytes += int64(it.Frame.Size())
}

// maxKind is how much of a kind is told apart, in bytes.
const maxKind = 128

func (t *tally) find(protocol string, kind []byte) *Count {
	if len(kind) > maxKind {
		kind = append(clip(kind, maxKind), "…"...)
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

// Counts returns what was counted, the most frequent first. It is to be called
// when no view is in use any more.
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
