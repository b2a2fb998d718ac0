// Package replay plays one side of a recorded session against a live peer and
// compares what the peer says with what the other side said in the recording.
//
// A [Session] is fed with the frames of a recording and gives a [Script] for each
// of its connections. [Script.Run] plays a script over a connection: a frame is
// sent when everything has come that it was an answer to, not when the clock says
// so alone; ids that the live peer made take the place of those in the recording,
// and no other byte changes. [Script.Sweep] cancels a request at every point of
// its answer. The package dials nothing and reads no file: connections and frames
// are given to it.
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
	// Speed divides the recorded times; 0 sends as soon as may be.
	Speed float64
	// Timeout bounds how long the controller waits for a frame; 0 waits for
	// ever. A unit waits for ever in any case: when to ask is up to its client.
	Timeout time.Duration
	// KeepGoing goes on behind a difference, as if the frame had been as recorded.
	KeepGoing bool
	// Cases asks for what came of each frame.
	Cases bool
	// Match judges the peer's frames.
	Match Matcher
	// Limit is the largest payload in bytes that is read; 0 is the default of
	// protocol and framing.
	Limit int
	// Trace, if not nil, is told of each frame that is sent or received.
	Trace func(Event)
}

// A Matcher says when a frame of the peer is the recorded one. Kind, phase and
// order in the exchange have to be the same in any case.
type Matcher struct {
	// Exact compares payloads: JSON as values, ids by what they name.
	Exact bool
	// Form, if not nil, compares what it makes of both frames, each given as
	// a JSON object with the keys kind, phase, id and payload.
	Form func(ctx context.Context, object []byte) ([]byte, error)
	// Ignore are the members of payloads that Exact does not compare.
	Ignore []jsondiff.Path
	// IgnoreChunks says that it is the same into how many parts an answer is
	// cut, and what each of them says. Without Exact and Form it is, anyway.
	IgnoreChunks bool
	// Skip are the kinds that are neither waited for nor missed.
	Skip []string
}

// elastic reports whether there may be more parts, or fewer.
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

// A Result is what came of a run.
type Result struct {
	Conn int `json:"conn,omitempty"` // of the recording
	// Sent and Matched count the frames that were sent and those of the peer
	// that are as recorded; Extra those that are allowed beyond the recording.
	Sent    int64 `json:"sent"`
	Matched int64 `json:"matched"`
	Extra   int64 `json:"extra"`
	// Missing counts recorded frames of the peer that never came and need not
	// have.
	Missing int64 `json:"missing"`
	// Versions are those of the protocol that messages stated, as they came.
	Versions []string      `json:"versions,omitempty"`
	Took     time.Duration `json:"took_ns"`
	// Differences counts where the peer left the recording, and Divergences are these
	// places, the first first.
	Differences int64         `json:"differences"`
	Divergences []*Divergence `json:"-"`
	// Cases are the recorded frames of the peer, in order, and what came of each, if
	// that was asked for.
	Cases []Case `json:"-"`
}

// A Case is a frame that was expected of the peer, or one that was not.
type Case struct {
	Name       string
	Divergence *Divergence // nil if it came as recorded
	Skipped    bool        // the run ended before, or nothing was expected of it
}

// Divergence returns where the peer left the recording first; nil if it did not.
func (r *Result) Divergence() *Divergence {
	if len(r.Divergences) == 0 {
		return nil
	}
	return r.Divergences[0]
}
