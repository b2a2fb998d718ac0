package session

import (
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// An Exchange is a request and everything that answers it. One that the
// tracker yields belongs to it and is valid until the next Feed or End. Times are
// zero as long as nothing has happened.
type Exchange struct {
	Conn, Stream int
	// Opener is the direction in which the request went, or frame.DirUnknown.
	Opener frame.Dir
	// ID is the request's id as written, or zero if it has none. Of a token of
	// more than 256 bytes the beginning is kept.
	ID protocol.Token
	// Kind is the kind of the request.
	Kind    string
	Outcome Outcome

	// Opened is when the request was read, Answered when the first answer of
	// any kind was, FirstPart and LastPart when parts were, and Closed when
	// the exchange ended.
	Opened, Answered, FirstPart, LastPart, Closed time.Time
	// Parts counts the parts of the answer, without an acknowledgement.
	Parts int64
	// BytesOut went from the opener, BytesIn to it, as payloads.
	BytesOut, BytesIn int64
	// First and Last are the numbers of the first and the last frame, and
	// Frames those of the first 16.
	First, Last int64
	Frames      []int64

	// HeldBack is how long, at most, large frames of other exchanges kept its
	// own waiting, and HeldBy the number of the last such frame. Holding is
	// how long, at most, its own large frames kept others waiting.
	HeldBack, Holding time.Duration
	HeldBy            int64

	// Mark is for the watcher, to find what it keeps of the exchange; 0 in one
	// that is new.
	Mark uint32

	serial   uint64
	count    int // things asked for
	answers  int64
	sequence int // expected of the next part
	kind     *Kind
	gaps     *Histogram
	cancel   *Cancel // the cancel that is not settled yet, or nil
	settled  bool
	optional bool // settled, but may still be answered once
	cancels  bool // it was opened by a cancel
	unknown  bool // and what that names may be open on a connection that was not seen
	bindings [3]binding
	node     node[Exchange] // in one of the tracker's lists
}

// Outcome is how an exchange ended.
type Outcome uint8

const (
	Open      Outcome = iota // it has not
	Done                     // well
	Failed                   // with an error
	Cancelled                // as cancelled, or with a cancel that forbids an answer, or because its opener left
	Abandoned                // with its connection
)

var outcomeNames = [...]string{Open: "open", Done: "done", Failed: "failed", Cancelled: "cancelled", Abandoned: "abandoned"}

// String returns the outcome's name as records and filters spell it.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "outcome(?)"
}

// Latency returns the time from the request to the end; 0 if there was none.
func (e *Exchange) Latency() time.Duration { return since(e.Closed, e.Opened) }

// TimeToFirstPart returns the time from the request to the first part; 0 if
// there was none.
func (e *Exchange) TimeToFirstPart() time.Duration { return since(e.FirstPart, e.Opened) }

// Gap returns the gap between parts that a share of q of all gaps does not
// exceed, within an eighth; Gap(1) is the largest.
func (e *Exchange) Gap(q float64) time.Duration {
	if e.gaps == nil {
		return 0
	}
	return e.gaps.Quantile(q)
}

// maxFrames bounds the list of an exchange's frames.
const maxFrames = 16

// reset makes e a new exchange and keeps its memory.
func (e *Exchange) reset() {
	text, frames, gaps := e.ID.Text[:0], e.Frames[:0], e.gaps
	if gaps != nil {
		gaps.reset()
	}
	*e = Exchange{}
	e.ID.Text, e.Frames, e.gaps = text, frames, gaps
}

// bindingIn returns the binding of e in q, which has one.
func (e *Exchange) bindingIn(q *queue) *binding {
	for i := range e.bindings {
		if e.bindings[i].queue == q {
			return &e.bindings[i]
		}
	}
	return nil
}

// saw notes that a frame belongs to e.
func (e *Exchange) saw(f *Frame) {
	e.Last = f.Seq
	if len(e.Frames) < maxFrames && (len(e.Frames) == 0 || e.Frames[len(e.Frames)-1] != f.Seq) {
		e.Frames = append(e.Frames, f.Seq)
	}
}

// become notes how the exchange ended.
func (e *Exchange) become(o Outcome) {
	e.kind.Outcomes[e.Outcome]--
	e.Outcome = o
	e.kind.Outcomes[o]++
}

// answered notes that a frame answers e.
func (e *Exchange) answered(f *Frame) {
	e.saw(f)
	e.BytesIn += int64(f.Size)
	if e.answers == 0 {
		e.Answered = f.Time
	}
	e.answers++
}

// part notes that a frame brings a part of the answer.
func (e *Exchange) part(f *Frame) {
	e.Parts++
	if e.Parts == 1 {
		e.FirstPart = f.Time
	} else {
		if e.gaps == nil {
			e.gaps = new(Histogram)
		}
		e.gaps.Add(since(f.Time, e.LastPart))
	}
	e.LastPart = f.Time
}

// since returns the time from start to end, or 0 if either is unknown or the
// clock was set back between them.
func since(end, start time.Time) time.Duration {
	if end.IsZero() || start.IsZero() {
		return 0
	}
	return max(end.Sub(start), 0)
}
