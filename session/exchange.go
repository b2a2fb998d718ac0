package session

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/context"
)

// An Exchange is a request and everything that answers it. One yielded by the tracker belongs
// to the tracker and is valid until the next Feed or End. Times are zero until their event has
// happened.
type Exchange struct {
	// Kind is the kind of the request.
	Kind string
	// Version is the protocol version whose rules apply to the exchange; "" if unknown.
	Version string
	// Accepted is when the request was answered, if the operation went on after that.
	// FirstPart and LastPart are when parts were read. Parts counts them, excluding an
	// acknowledgement.
	Accepted, FirstPart, LastPart time.Time
	Parts                         int64
	// Absent means that the request was not recorded: its size is unknown.
	Absent bool
	// BytesIn counts the payload bytes to the opener.
	BytesIn int64
	// First and Last are the numbers of the first and last frames. Frames holds the numbers
	// of the first 16.
	First, Last int64
	Frames      []int64

	rules    *protocol.Rules // applied to this exchange
	cancel   *Cancel         // the pending cancel, or nil
	stream   *stream         // nil if it is not a stream and has no state of other streams
	gaps     *Histogram
	root     *Exchange // began the operation that it belongs to, or nil
	rootID   uint64    // its serial number
	answers  int64
	batch    *batch // in which it was asked, or nil
	sequence int    // expected of the next part
	settled  bool
	bindings [numBindings]binding
	// So far, the fields that each part of an answer needs: they are few cache lines, and a
	// message takes a tenth less time than with these fields anywhere.

	Outcome Outcome
	// Opener is the direction in which the request went, or frame.DirUnknown.
	Opener       frame.Dir
	Protocol     protocol.Protocol
	Conn, Stream int
	// ID is the request's id as written, or zero if it has none. Tokens are cut to 256
	// bytes.
	ID protocol.Token
	// Name is the name in the request, of a tool, a prompt, a resource or a model; "" if
	// there is none.
	Name string
	// Model is the model that answers, or until one has answered, the model that was asked.
	// StopReason is why it stopped. Both are "" if unknown.
	Model, StopReason string
	// ToolCalls are the names of the first 64 tools that the model calls.
	ToolCalls []string
	// Links are those of its messages, at most 256.
	Links []protocol.Link
	// Context is what the model is given; nil if unknown. Its answer is not for readers.
	Context *context.Call
	// Said is the end of the model's answer so far, at most 256 KiB, if that is kept.
	// Exchanges that are over have no Said.
	Said []byte
	// Reason is why the exchange was cancelled, as the cancelling side put it, or why its
	// answer is missing; "" if neither is known.
	Reason string

	Failure
	// Arguments is the beginning of the arguments of the request, if they are kept, as written. Mask, if
	// not nil, takes secrets out of a text.
	Arguments []byte
	Mask      func(text string) string

	// Opened is when the request was read, Answered when the first answer of any kind was
	// read, and Closed when the exchange ended.
	Opened, Answered, Closed time.Time
	// BytesOut counts the payload bytes from the opener.
	BytesOut int64
	// Of is the number of the first frame of its operation, if another exchange began that;
	// 0 if the exchange is an operation by itself. Guessed means that it might belong to
	// another operation instead.
	Of      int64
	Guessed bool
	// Assumed means that Outcome is a guess: an answer to another request may be for this one, too.
	Assumed bool
	// Joined counts the exchanges that belong to this operation.
	Joined int
	// Usage is the usage of the operation.
	Usage protocol.Usage

	// HeldBack is how long, at most, large frames of other exchanges delayed this one, and
	// HeldBy is the number of the last such frame. Holding is how long, at most, the large
	// frames of this exchange delayed others.
	HeldBack, Holding time.Duration
	HeldBy            int64

	// Repeatable means that it failed for a reason outside of what it asks for, such as a
	// redirect, so a repetition may still change its outcome. Repeats means that it repeats the
	// exchange that it belongs to.
	Repeatable, Repeats bool

	// Mark is for use by the watcher, to find its data about the exchange; 0 in a new one.
	Mark uint32

	serial   uint64
	count    int // things asked for
	kind     *Kind
	named    *Kind          // of its name, or nil
	gaveUp   bool           // its opener cancelled it after waiting too long
	overdue  bool           // see [Tracker.Overdue]
	optional bool           // settled, but may still be answered once
	cancels  bool           // it was opened by a cancel
	unknown  bool           // with cancels: the target may be open on an unseen connection
	retries  bool           // it ends with the exchange it belongs to
	retry    uint64         // hash of the arguments, to recognize a retry
	carried  bool           // it came in a carrier
	cut      bool           // its request is over the limit
	prompts  []waiting      // requests that wait in the operation, the oldest first
	decided  protocol.Phase // how the operation ended, although the request has no answer yet
	about    bool           // it names the operation that it belongs to
	tooLate  bool           // it continues an operation that had already ended
	failing  bool           // it will end as failed
	endless  bool           // see Frame
	missed   string         // why it may have been answered; see [Tracker.Miss]
	lacking  *Response      // that ended without the answer, which another may bring; or nil
	within   bool           // it belongs to a part of the connection, which may end
	declares protocol.Features
	inputs   []uint64       // hashes of the requests in the answer, for the retry
	waits    bool           // it is a prompt that is reported to wait for its turn
	own      bool           // it is a turn for which the client's user has not asked
	empties  bool           // it drops what waits, if it succeeds
	state    protocol.Phase // state of a task that has ended
	stateAt  int64          // number of the frame with that state
	node     node[Exchange] // in one of the tracker's lists
}

// Outcome is how an exchange ended.
type Outcome uint8

const (
	Open      Outcome = iota // still open
	Done                     // successfully
	Probe                    // because its peer does not have what it looks for, as it could not know
	Failed                   // with an error
	ToolError                // successfully, but the tool reported a failure
	TimedOut                 // as Cancelled, because of a timeout: inferred from the reason of the cancel
	Died                     // because the unit that should answer it died
	Cancelled                // as cancelled, by a cancel that forbids an answer, or because its opener left
	Abandoned                // with its connection
	numOutcomes
)

var outcomeNames = [numOutcomes]string{
	Open: "open", Done: "done", Probe: "probe", Failed: "failed", ToolError: "tool-error", TimedOut: "timed-out",
	Died: "died", Cancelled: "cancelled", Abandoned: "abandoned",
}

// Outcomes returns the names of all outcomes.
func Outcomes() []string { return slices.Clone(outcomeNames[:]) }

// Failed reports whether an exchange with that outcome counts as failed.
func (o Outcome) Failed() bool { return o == Failed || o == ToolError || o == TimedOut || o == Died }

// Stopped reports whether an exchange with that outcome was cancelled.
func (o Outcome) Stopped() bool { return o == Cancelled || o == TimedOut }

// Inferred reports whether the outcome is inferred from free text.
func (o Outcome) Inferred() bool { return o == TimedOut }

// String returns the outcome's name as records and filters spell it.
func (o Outcome) String() string {
	if o < numOutcomes {
		return outcomeNames[o]
	}
	return "outcome(?)"
}

// Title returns a readable name of an exchange: "tools/call slow (id 3)". Text from the wire is
// quoted unless it is plain.
func (e *Exchange) Title() string {
	title := e.Kind
	if e.Name != "" {
		title += " " + plain(e.Name)
	}
	if len(e.ID.Text) > 0 {
		title += " (id " + quote(e.ID) + ")"
	}
	return title
}

// Latency returns the time from the request to the end; 0 if there was none.
func (e *Exchange) Latency() time.Duration { return since(e.Closed, e.Opened) }

// Lasted returns the time from the request to the end, or to the cancel if that is its end
// and nothing has answered; 0 if there was none.
func (e *Exchange) Lasted() time.Duration {
	if e.Closed.IsZero() && e.Outcome.Stopped() && e.cancel != nil {
		return since(e.cancel.Asked, e.Opened)
	}
	return e.Latency()
}

// TimeToFirstPart returns the time from the request to the first part; 0 if
// there was none.
func (e *Exchange) TimeToFirstPart() time.Duration { return since(e.FirstPart, e.Opened) }

// Gap returns the quantile q of the gaps between parts, within an eighth; Gap(1) is the
// largest.
func (e *Exchange) Gap(q float64) time.Duration {
	if e.gaps == nil {
		return 0
	}
	return e.gaps.Quantile(q)
}

// maxFrames bounds the list of an exchange's frames.
const maxFrames = 16

// reset clears e for a new exchange but keeps its memory.
func (e *Exchange) reset() {
	text, frames, gaps, inputs, arguments := e.ID.Text[:0], e.Frames[:0], e.gaps, e.inputs[:0], e.Arguments[:0]
	if gaps != nil {
		gaps.reset()
	}
	*e = Exchange{}
	e.ID.Text, e.Frames, e.gaps, e.inputs, e.Arguments = text, frames, gaps, inputs, arguments
}

// maxToolCalls bounds how many names of tool calls an exchange keeps, and maxLinks its links.
const (
	maxToolCalls = 64
	maxLinks     = 256
)

// ofModel records what a message says about the model that answers e.
func (e *Exchange) ofModel(f *Frame, m *protocol.Message) {
	if calls := f.ToolCalls; len(calls) > 0 {
		e.ToolCalls = append(e.ToolCalls, calls[:min(len(calls), maxToolCalls-len(e.ToolCalls))]...)
	}
	if links := f.Links; len(links) > 0 {
		e.Links = append(e.Links, links[:min(len(links), maxLinks-len(e.Links))]...)
	}
	if model := clip(m.Model, maxText); len(model) > 0 && e.Model != string(model) {
		e.Model = string(model)
	}
	if why := clip(m.StopReason, maxText); len(why) > 0 {
		e.StopReason = string(why)
	}
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

// saw records that a frame belongs to e.
func (e *Exchange) saw(f *Frame) {
	e.Last = f.Seq
	if len(e.Frames) < maxFrames && (len(e.Frames) == 0 || e.Frames[len(e.Frames)-1] != f.Seq) {
		e.Frames = append(e.Frames, f.Seq)
	}
}

// become records how the exchange ended.
func (e *Exchange) become(o Outcome) {
	e.kind.changed(e.Outcome, o, e.Of != 0)
	if e.named != nil {
		e.named.changed(e.Outcome, o, e.Of != 0 && !e.rules.NoWire)
	}
	e.Outcome = o
}

// ended records that an answer has ended e.
func (e *Exchange) ended() {
	if !e.Closed.IsZero() {
		latency := e.Latency()
		e.kind.Latency.Add(latency)
		if e.named != nil && (e.Of == 0 || e.rules.NoWire) {
			e.named.Latency.Add(latency)
		}
	}
	e.over()
}

// over counts the parts of the finished exchange e.
func (e *Exchange) over() {
	first, streaming := e.TimeToFirstPart(), since(e.LastPart, e.FirstPart)
	for _, k := range [...]*Kind{e.kind, e.named} {
		if k == nil {
			continue
		}
		k.Answered += e.BytesIn
		if k.Parts += e.Parts; e.Parts > 0 {
			k.FirstPart.Add(first)
			k.Gaps += e.Parts - 1
			k.Streaming += streaming
		}
	}
}

// cancelled returns the outcome of e if it ends as cancelled.
func (e *Exchange) cancelled() Outcome {
	if e.gaveUp {
		return TimedOut
	}
	return Cancelled
}

// answered records that a frame answers e.
func (e *Exchange) answered(f *Frame) {
	e.saw(f)
	e.BytesIn += int64(f.Size)
	if e.answers == 0 {
		e.Answered = f.Time
	}
	e.answers++
	if e.batch != nil {
		e.batch.answered = true
	}
}

// part records that a frame carries a part of the answer.
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
	if start.IsZero() {
		return 0
	}
	return max(end.Sub(start), 0) // a zero end is before start
}
