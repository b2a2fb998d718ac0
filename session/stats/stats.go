// Package stats sums up sessions: how much there was of each kind of message,
// how long answers took, how they streamed, and what became of cancels.
//
// The numbers are those of package session. This package arranges them as an
// object for programs and as tables for people.
package stats

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/session"
)

// A Report sums up sessions. As JSON it is the object that the command line
// documents; what is not known is left out there.
type Report struct {
	Frames    int64    `json:"frames"`
	Bytes     int64    `json:"bytes"`
	Exchanges Counts   `json:"exchanges"`
	Cancels   Counts   `json:"cancels"`
	Kinds     []Kind   `json:"kinds"`
	Gaps      []Gap    `json:"gaps,omitempty"`
	HeldBack  []Holdup `json:"held_back,omitempty"`
}

// Counts are how often something happened, by its name. What did not is not
// there.
type Counts map[string]int64

// A Kind is what there was of one kind of message, and of the exchanges that
// it opened.
type Kind struct {
	Protocol  string `json:"protocol"`
	Kind      string `json:"kind"`
	Frames    int64  `json:"frames"`
	Bytes     int64  `json:"bytes"`
	Exchanges Counts `json:"exchanges,omitempty"`
	// Latency is from request to answer, FirstPart from request to first part.
	Latency        *Quantiles `json:"latency_ms,omitempty"`
	FirstPart      *Quantiles `json:"first_part_ms,omitempty"`
	Parts          int64      `json:"parts,omitempty"`
	PartsPerSecond float64    `json:"parts_per_second,omitempty"`
	Cancels        Counts     `json:"cancels,omitempty"`
}

// Quantiles say how durations are spread.
type Quantiles struct {
	Count int64  `json:"count"`
	P50   Millis `json:"p50"`
	P90   Millis `json:"p90"`
	P99   Millis `json:"p99"`
	Max   Millis `json:"max"`
}

// Millis is a duration that JSON has in milliseconds, to the microsecond.
type Millis time.Duration

// MarshalJSON writes the number.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(m)/1e3)/1e3, 'f', -1, 64), nil
}

// A Gap is the longest that an exchange waited for the next part.
type Gap struct {
	Exchange
	P50 Millis `json:"p50_ms"`
	P99 Millis `json:"p99_ms"`
	Max Millis `json:"max_ms"`
}

// A Holdup is how long a large frame of another exchange kept one waiting.
type Holdup struct {
	Exchange
	By  int64  `json:"by"` // the number of that frame
	For Millis `json:"for_ms"`
}

// An Exchange is named by the number of its first frame.
type Exchange struct {
	Frame int64  `json:"frame"`
	Kind  string `json:"kind"`
	ID    string `json:"id,omitempty"` // as it was written
}

// New returns a report of nothing.
func New() *Report { return &Report{Exchanges: Counts{}, Cancels: Counts{}, Kinds: []Kind{}} }

// Add adds what the tracker of a protocol has counted. If the times of its
// frames are not known there are no durations.
func (r *Report) Add(protocol string, t *session.Tracker, timed bool) {
	s := t.Stats()
	r.Frames += s.Frames
	r.Bytes += s.Bytes
	for class, n := range s.Cancels {
		r.Cancels.addCount(session.Class(class).String(), n)
	}
	for _, k := range s.Kinds {
		kind := kindOf(protocol, k, timed)
		for outcome, n := range kind.Exchanges {
			r.Exchanges.addCount(outcome, n)
		}
		r.Kinds = append(r.Kinds, kind)
	}
	slices.SortStableFunc(r.Kinds, func(a, b Kind) int { return cmp.Compare(b.Frames, a.Frames) })
	if timed {
		r.addStalls(t)
	}
}

func (c Counts) addCount(name string, n int64) {
	if n > 0 {
		c[name] += n
	}
}

// total returns the sum of all.
func (c Counts) total() (sum int64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

func kindOf(protocol string, k *session.Kind, timed bool) Kind {
	kind := Kind{
		Protocol: protocol, Kind: k.Name, Frames: k.Frames, Bytes: k.Bytes,
		Exchanges: Counts{}, Cancels: Counts{}, Parts: k.Parts,
	}
	for outcome, n := range k.Outcomes {
		kind.Exchanges.addCount(session.Outcome(outcome).String(), n)
	}
	for class, n := range k.Cancels {
		kind.Cancels.addCount(session.Class(class).String(), n)
	}
	if timed {
		kind.Latency, kind.FirstPart = quantiles(&k.Latency), quantiles(&k.FirstPart)
		kind.PartsPerSecond = math.Round(k.PartsPerSecond()*100) / 100
	}
	return kind
}

// quantiles returns those of a histogram; nil if it is empty.
func quantiles(h *session.Histogram) *Quantiles {
	if h.Count == 0 {
		return nil
	}
	at := func(q float64) Millis { return Millis(h.Quantile(q)) }
	return &Quantiles{Count: h.Count, P50: at(.5), P90: at(.9), P99: at(.99), Max: Millis(h.Max)}
}

// addStalls adds the exchanges that waited, among those that are kept.
func (r *Report) addStalls(t *session.Tracker) {
	for e := range t.Exchanges() {
		gap := Millis(e.Gap(1))
		if gap == 0 && e.HeldBack == 0 {
			continue
		}
		name := Exchange{e.First, e.Kind, strings.ToValidUTF8(string(e.ID.Text), "\ufffd")}
		if gap > 0 {
			r.Gaps = append(r.Gaps, Gap{name, Millis(e.Gap(.5)), Millis(e.Gap(.99)), gap})
		}
		if e.HeldBack > 0 {
			r.HeldBack = append(r.HeldBack, Holdup{name, e.HeldBy, Millis(e.HeldBack)})
		}
	}
	r.Gaps = top(r.Gaps, func(g Gap) Millis { return g.Max })
	r.HeldBack = top(r.HeldBack, func(h Holdup) Millis { return h.For })
}

// listed is how many of the worst are listed.
const listed = 5

// top returns the longest of list, the longest first.
func top[T any](list []T, of func(T) Millis) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(of(b), of(a)) })
	return list[:min(len(list), listed)]
}
