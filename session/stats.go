package session

import (
	"time"

	"github.com/wirectl/wirectl/protocol"
)

// Stats are the counts of everything that was fed, even if it is no longer kept.
type Stats struct {
	Frames, Bytes int64
	// Opened are all exchanges, also those in flight. Forgotten were given up because more
	// were in flight than the tracker keeps.
	Opened, InFlight, Forgotten int64
	// Usage is that of models, as far as it was told.
	Usage protocol.Usage
	// Cancels by class.
	Cancels [numClasses]int64
	// Findings by name, the ones that occurred.
	Findings map[string]int64
	// Kinds and Models in the order in which they were first seen.
	Kinds  []*Kind
	Models []*Model
}

// A Kind holds the counts of one kind of message, and of the exchanges that it opened. In
// Names it counts those of the exchanges that have one name; Frames and Bytes are then
// those of their requests.
type Kind struct {
	Name          string
	Frames, Bytes int64
	// Outcomes counts the exchanges by how they ended; Open are in flight.
	Outcomes [numOutcomes]int64
	// Joined counts those of these exchanges that belong to another one's operation. Names
	// do not have their latencies.
	Joined [numOutcomes]int64
	// Answered are the bytes of answers, for exchanges that are over.
	Answered int64
	// Latency is from request to end, of those that ended by an answer, and
	// FirstPart from request to first part.
	Latency, FirstPart Histogram
	// Parts of all ended exchanges; Gaps counts the gaps between them, and
	// Streaming is their sum.
	Parts, Gaps int64
	Streaming   time.Duration
	// Cancels of these exchanges by class.
	Cancels [numClasses]int64
	// Names are the names in the exchanges, in the order in which they were first seen.
	Names []*Kind

	names    map[string]*Kind
	lastName *Kind
}

// changed counts an exchange with another outcome than before.
func (k *Kind) changed(e *Exchange, to Outcome) {
	k.Outcomes[e.Outcome]--
	k.Outcomes[to]++
	if e.Of != 0 {
		k.Joined[e.Outcome]--
		k.Joined[to]++
	}
}

// PartsPerSecond returns how fast parts followed each other; 0 if none did.
func (k *Kind) PartsPerSecond() float64 {
	if k.Streaming <= 0 {
		return 0
	}
	return float64(k.Gaps) / k.Streaming.Seconds()
}

const (
	// maxKinds bounds the kinds that are told apart, which a peer can make up.
	maxKinds = 1000
	// otherKinds is the name of all that come after them.
	otherKinds = "(other kinds)"
)

// kindOf returns the kind of that name.
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

// nameOf returns the counts of a name among the exchanges of a kind; nil if the name is
// empty or there are too many.
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
