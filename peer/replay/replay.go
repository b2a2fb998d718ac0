// Package replay plays one side of a recorded session against a live peer and
// compares the peer's frames with the recording.
//
// A [Session] collects the frames of a recording and returns a [Script] for each
// of its connections. [Script.Run] plays a script over a connection: a frame is
// sent once everything that preceded it has arrived, not just at its time. Ids that
// the live peer chose replace those of the recording; no other byte changes.
// [Script.Sweep] cancels a request at every point of its answer. Callers open the
// connections and read the files.
package replay

import (
	"context"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// Options say how a script is played.
type Options struct {
	// Side is the direction of the frames that are sent: frame.C2U plays the
	// controller, frame.U2C the unit.
	Side frame.Dir
	// Speed divides the recorded pauses; 0 sends as soon as possible.
	Speed float64
	// Timeout bounds how long the controller waits for a frame; 0 means no limit. A
	// unit waits without limit, because its client chooses when to ask.
	Timeout time.Duration
	// KeepGoing continues after a difference, as if the frame had been as recorded.
	KeepGoing bool
	// Cases fills in Result.Cases.
	Cases bool
	// Match compares the peer's frames.
	Match Matcher
	// Limit is the largest payload to read, in bytes; 0 is the default of the protocol
	// and framing.
	Limit int
	// Trace, if not nil, is called for each frame sent or received.
	Trace func(Event)
}

// A Matcher says how to compare a frame of the peer with the recorded one. Kind, phase
// and order in the exchange must always be the same.
type Matcher struct {
	// Exact compares payloads: JSON as values, ids by what they name.
	Exact bool
	// Form, if not nil, is a filter whose results for both frames are compared. Its
	// input is a JSON object with the keys kind, phase, id and payload.
	Form func(ctx context.Context, object []byte) ([]byte, error)
	// Ignore are the members of payloads that Exact does not compare.
	Ignore []jsondiff.Path
	// IgnoreChunks ignores the number and content of the parts of an answer. It is
	// implied without Exact and Form.
	IgnoreChunks bool
	// Skip are the kinds of frames that may be absent.
	Skip []string
}

// elastic reports whether the number of parts may differ.
func (m *Matcher) elastic() bool { return m.IgnoreChunks || !m.Exact && m.Form == nil }

// An Event is a frame that was sent or received.
type Event struct {
	Time time.Time
	Dir  frame.Dir
	// Recorded is the number of the frame's counterpart in the recording, 0 if
	// it has none.
	Recorded int64
	Payload  []byte
	Kind, ID string
}

// A Result is the outcome of a run.
type Result struct {
	Conn int `json:"conn,omitempty"` // of the recording
	// Sent counts the frames sent, Matched the peer's frames that are as recorded, and
	// Extra those that are allowed in addition.
	Sent    int64 `json:"sent"`
	Matched int64 `json:"matched"`
	Extra   int64 `json:"extra"`
	// Missing counts recorded frames of the peer that were allowed to be absent.
	Missing int64 `json:"missing"`
	// Versions are the protocol versions that messages stated, in order.
	Versions []string      `json:"versions,omitempty"`
	Took     time.Duration `json:"took_ns"`
	// Differences counts the divergences. Divergences are the first of these, in order.
	Differences int64         `json:"differences"`
	Divergences []*Divergence `json:"-"`
	// Cases are the outcomes of the recorded frames of the peer, in order, if
	// Options.Cases is set.
	Cases []Case `json:"-"`
}

// A Case is the outcome of an expected frame of the peer, or an unexpected one.
type Case struct {
	Name       string
	Divergence *Divergence // nil if it arrived as recorded
	Skipped    bool        // the run ended before, or it may be absent
}

// Divergence returns the first divergence; nil if there is none.
func (r *Result) Divergence() *Divergence {
	if len(r.Divergences) == 0 {
		return nil
	}
	return r.Divergences[0]
}
