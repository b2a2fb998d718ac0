package session

import (
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

// changed moves an exchange from its previous outcome to another.
func (k *Kind) changed(e *Exchange, to Outcome) {
	k.Outcomes[e.Outcome]--
	k.Outcomes[to]++
	if e.Of != 0 {
		k.Joined[e.Outcome]--
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
