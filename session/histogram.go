package session

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

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
