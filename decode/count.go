package decode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session/query"
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

// calls are the gRPC calls of a capture and the requests to APIs of models. Their paths
// name the types of their messages.
type calls struct {
	open     all.OpenCalls
	named    bool // the protocol is given, whatever the paths say
	readings map[protocol.Protocol]*reading
	reported map[string]bool // paths that the schema lacks
}

func newCalls(cfg *Config) calls {
	return calls{open: all.OpenCalls{Known: cfg.Calls}, named: cfg.Protocol != nil}
}

// maxTold bounds the unknown methods that are reported.
const maxTold = 16

// readingOf returns the reading for the frame of a call whose path names its messages; nil for
// any other frame.
func (c *captured) readingOf(f *frame.Frame) *reading {
	if c.calls.named {
		return nil
	}
	p := c.calls.open.Protocol(f)
	if p == nil {
		return nil
	}
	r := c.calls.readings[p]
	if r == nil {
		r = &reading{framing: frame.GRPC, protocol: p}
		if f.Meta.Framing == frame.HTTP {
			r.framing = onlyCarried{unframed{frame.Line}, frame.HTTP}
			c.tellModel(f, p)
		}
		if c.calls.readings == nil {
			c.calls.readings = map[protocol.Protocol]*reading{}
		}
		c.calls.readings[p] = r
	}
	return r
}

// tellModel reports, once for each protocol, that requests go to the API of a model.
func (c *captured) tellModel(f *frame.Frame, p protocol.Protocol) {
	if c.cfg.Notice == nil || slices.Contains(c.refined, p) {
		return
	}
	c.refined = append(c.refined, p)
	why := "the body of the first request" // whose head came before, in HTTP/2
	if head := f.Meta.Head; head != nil {
		why = fmt.Sprintf("the first request is %q", carried.Asked(head))
	}
	c.cfg.Notice(fmt.Sprintf("%s over http: %s", p.Name(), why))
}

// lacks reports, once, a method that the given schema does not have.
func (c *captured) lacks(path string) {
	if !c.calls.hasSchema() || c.cfg.Notice == nil || c.calls.reported[path] || len(c.calls.reported) >= maxTold {
		return
	}
	if c.calls.reported == nil {
		c.calls.reported = map[string]bool{}
	}
	c.calls.reported[path] = true
	c.cfg.Notice(fmt.Sprintf("the schema has no method %q: give the --proto FILE that has it, or name the messages with --message", path))
}

// hasSchema reports whether a schema was given without a message, so that the paths of
// calls name the messages.
func (c *calls) hasSchema() bool {
	return !c.named && c.open.Known != nil && c.open.Known.Schema != nil
}

// ErrNoMessage is the error for a stream that is to be read by a schema, when nothing says
// which message of the schema the payloads are.
var ErrNoMessage = errors.New("a schema has many messages, and only gRPC calls name theirs: name the message with --message NAME")

// A Program turns the NDJSON record of an item into lines of its own.
type Program interface {
	Append(ctx context.Context, dst, object []byte) ([]byte, error)
}

// Filtered shows the output of program for each item's NDJSON record.
func Filtered(ctx context.Context, program Program) View {
	record := NDJSON()
	var line []byte
	return func(dst []byte, it *Item) ([]byte, error) {
		var err error
		if line, err = record(line[:0], it); err != nil {
			return dst, err
		}
		dst, err = program.Append(ctx, dst, line)
		if errors.Is(err, query.ErrHalt) {
			err = errEnough
		}
		return dst, err
	}
}
