package session

import (
	"iter"
	"math"
	"math/bits"
	"time"

	"github.com/wirectl/wirectl/protocol"
)

// Stats counts everything that was fed, even if it is no longer kept.
type Stats struct {
	Frames, Bytes int64
	// Opened counts all exchanges, including those in flight. Forgotten counts those
	// dropped because more were in flight than the tracker keeps.
	Opened, InFlight, Forgotten int64
	// Usage is the usage of models, as far as reported.
	Usage protocol.Usage
	// Cancels by class.
	Cancels [numClasses]int64
	// Findings by name, only those that occurred.
	Findings map[string]int64
	// Kinds and Models in the order of first use.
	Kinds  []*Kind
	Models []*Model
}

// A Kind holds the counts of one kind of message, and of the exchanges that it opened. Each of
// Names holds the counts of the exchanges with that name; its Frames and Bytes are those of the
// requests.
type Kind struct {
	Name          string
	Frames, Bytes int64
	// Outcomes counts the exchanges by how they ended; Open are in flight.
	Outcomes [numOutcomes]int64
	// Joined counts the exchanges that belong to another exchange's operation. Their
	// latencies are not included in Names.
	Joined [numOutcomes]int64
	// Answered is the bytes of answers, for ended exchanges.
	Answered int64
	// Latency is the time from request to end, for exchanges ended by an answer. FirstPart
	// is the time from request to first part.
	Latency, FirstPart Histogram
	// Parts are those of all ended exchanges. Gaps counts the gaps between parts, and
	// Streaming is the sum of the gaps.
	Parts, Gaps int64
	Streaming   time.Duration
	// Cancels of these exchanges by class.
	Cancels [numClasses]int64
	// Names are the names in the exchanges, in the order of first use.
	Names []*Kind

	names    map[string]*Kind
	lastName *Kind
}

// changed moves an exchange from its previous outcome to another. It may be joined to an operation.
func (k *Kind) changed(from, to Outcome, joined bool) {
	k.Outcomes[from]--
	k.Outcomes[to]++
	if joined {
		k.Joined[from]--
		k.Joined[to]++
	}
}

// PartsPerSecond returns the rate of parts; 0 if there was no gap between parts.
func (k *Kind) PartsPerSecond() float64 {
	if k.Streaming <= 0 {
		return 0
	}
	return float64(k.Gaps) / k.Streaming.Seconds()
}

const (
	// maxKinds bounds how many kinds are distinguished, because a peer can make them up.
	maxKinds = 1000
	// otherKinds is the name for all kinds beyond maxKinds.
	otherKinds = "(other kinds)"
)

// kindOf returns the kind with that name.
func (t *Tracker) kindOf(name []byte) *Kind {
	if k := t.lastKind; k != nil && k.Name == string(name) {
		return k
	}
	k := t.kinds[string(clip(name, maxText))]
	if k == nil {
		k = t.newKind(string(clip(name, maxText)))
	}
	t.lastKind = k
	return k
}

func (t *Tracker) newKind(name string) *Kind {
	if len(t.kinds) >= maxKinds {
		if k := t.kinds[otherKinds]; k != nil {
			return k
		}
		name = otherKinds
	}
	k := &Kind{Name: name}
	t.kinds[name] = k
	t.kindOrder = append(t.kindOrder, k)
	return k
}

// nameOf returns the counts of a name among the exchanges of a kind, or nil if the name is
// empty or there are too many names.
func (t *Tracker) nameOf(k *Kind, label []byte) *Kind {
	switch n := k.lastName; {
	case len(label) == 0:
		return nil
	case n != nil && n.Name == string(label):
		return n
	}
	n := k.names[string(label)]
	if n == nil {
		if t.names >= maxKinds {
			return nil
		}
		t.names++
		n = &Kind{Name: string(label)}
		if k.names == nil {
			k.names = make(map[string]*Kind)
		}
		k.names[n.Name] = n
		k.Names = append(k.Names, n)
	}
	k.lastName = n
	return n
}

// A Histogram counts durations in buckets whose bounds grow by a quarter of a power of two,
// from a microsecond to 73 minutes. A quantile is off by at most an eighth. Its size is fixed.
// The zero Histogram is empty.
type Histogram struct {
	// Count is the number of durations, Sum their sum, and Min and Max the shortest and the
	// longest.
	Count         int64
	Sum, Min, Max time.Duration

	buckets [(maxOctave - minOctave) * perOctave]uint32
}

const (
	minOctave = 10 // 2^10 ns is the lower bound of the first bucket, which also counts shorter durations
	maxOctave = 42
	perOctave = 4
)

// Add counts d. A negative duration, from a clock that was set back, counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	if h.Count == 0 || d < h.Min {
		h.Min = d
	}
	h.Max = max(h.Max, d)
	h.Count++
	h.Sum += d
	h.buckets[bucketOf(d)]++
}

// reset empties h, if necessary.
func (h *Histogram) reset() {
	clear(h.buckets[bucketOf(h.Min) : bucketOf(h.Max)+1])
	h.Count, h.Sum, h.Min, h.Max = 0, 0, 0, 0
}

// bucketOf returns the bucket of d, which is not negative.
func bucketOf(d time.Duration) int {
	octave := bits.Len64(uint64(d)) - 1
	if octave < minOctave {
		return 0
	}
	if octave >= maxOctave {
		return (maxOctave-minOctave)*perOctave - 1
	}
	quarter := int(d>>(octave-2)) & (perOctave - 1)
	return (octave-minOctave)*perOctave + quarter
}

// Quantile returns the quantile q of the durations, to the precision of the buckets; 0 if there
// are none. The shortest and the longest are exact.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.Count)))
	switch {
	case rank <= 1:
		return h.Min
	case rank >= h.Count:
		return h.Max
	}
	for i, n := range h.buckets {
		rank -= int64(n)
		if rank <= 0 {
			return min(max(middle(i), h.Min), h.Max)
		}
	}
	return h.Max
}

// middle returns the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	octave, quarter := bucket/perOctave+minOctave, bucket%perOctave
	width := time.Duration(1) << (octave - 2)
	return time.Duration(perOctave+quarter)*width + width/2
}

// Buckets yields the upper bound of each bucket and the number of durations in it, in
// increasing order.
func (h *Histogram) Buckets() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		for i, n := range h.buckets {
			octave, quarter := i/perOctave+minOctave, i%perOctave
			if !yield(time.Duration(perOctave+quarter+1)<<(octave-2), int64(n)) {
				return
			}
		}
	}
}

// maxSpent bounds for how many sessions and threads the usage is remembered.
const maxSpent = 1 << 12

// usageOf returns the usage since the last message that reported it. A total is compared with
// that of the message before.
func (t *Tracker) usageOf(ev *event) protocol.Usage {
	if ev.m.Spent.Of.IsZero() {
		return t.counted(ev)
	}
	used, all := ev.m.Usage, ev.m.Spent.Usage
	at := t.keyOf(ev.scope, ev.from, ev.m.Spent.Of)
	if ev.m.Spent.Anew {
		delete(t.spent, at)
		return protocol.Usage{}
	}
	before := t.spent[at]
	if all.Cost == 0 {
		all.Cost = before.Cost
	}
	since := all.Minus(before)
	switch {
	case all == protocol.Usage{Cost: all.Cost}: // no tokens reported
		all.Input, all.Cached, all.Output = before.Input, before.Cached, before.Output
		used.Cost = since.Cost
	case before == protocol.Usage{Cost: before.Cost}: // none reported before
		if used.Cost == 0 {
			used.Cost = since.Cost
		}
	default:
		used = since
	}
	if t.rules.Totals && (all.Cost < before.Cost || all.Input < before.Input || all.Output < before.Output) {
		t.report(totalFalls, ev.f, nil, "%s reports less usage than before", ev.kind.Name)
	}
	t.spend(at, all)
	return used
}

// counted returns the usage of a message that may count all of its session so far. If that is
// unclear, only the growth since the last message is certain.
func (t *Tracker) counted(ev *event) protocol.Usage {
	u := ev.m.Usage
	switch ev.m.Counts {
	case protocol.PeerCountsTurn, protocol.PeerCountsSession:
		ev.scope.counts = ev.m.Counts
	case protocol.CountsAsAgreed:
		if at, ok := t.sessionOf(ev); ok && ev.scope.counts != protocol.PeerCountsTurn && u != (protocol.Usage{}) {
			return t.grown(ev.scope, at, u)
		}
	}
	return u
}

// grown returns how much the usage of a session has grown to u, and how much more its last turn
// may have used. A usage that falls cannot be that of a session.
func (t *Tracker) grown(s *scope, at key, u protocol.Usage) protocol.Usage {
	before, known := t.spent[at]
	t.spend(at, u)
	grown := u.Minus(before)
	switch {
	case !known: // nobody knows what the session had used before
		grown = protocol.Usage{}
	case s.counts == protocol.PeerCountsSession:
		return grown
	case u.Input < before.Input || u.Output < before.Output:
		s.counts = protocol.PeerCountsTurn
		return u
	}
	more := u.Minus(grown)
	grown.Perhaps = protocol.Tokens{Input: more.Input, Cached: more.Cached, Output: more.Output}
	return grown
}

// sessionOf returns the name of the session of a message, or of the request that it answers.
func (t *Tracker) sessionOf(ev *event) (at key, ok bool) {
	if ev.m.Ref.Space == protocol.SpaceSession {
		return t.keyOf(ev.scope, ev.from.Opposite(), ev.m.Ref), true
	}
	e := t.findExchange(ev.scope, ev.from.Opposite(), ev.m.ID)
	if e == nil || e.bindings[bySecond].queue == nil {
		return key{}, false
	}
	return e.bindings[bySecond].queue.key, true
}

// spend notes what a session or thread has used.
func (t *Tracker) spend(at key, u protocol.Usage) {
	if t.spent == nil || len(t.spent) >= maxSpent {
		t.spent = make(map[key]protocol.Usage)
	}
	t.spent[at] = u
}

// use adds a usage to an operation and to the total.
func (t *Tracker) use(op *Exchange, u protocol.Usage) {
	if u == (protocol.Usage{}) {
		return
	}
	op.Usage, t.used = op.Usage.Plus(u), t.used.Plus(u)
	if op.settled && op != t.uncounted && u != (protocol.Usage{}) {
		if m := t.modelNamed(op.Model); m != nil && !t.base.NoWire {
			m.Usage = m.Usage.Plus(u)
		}
	}
}
