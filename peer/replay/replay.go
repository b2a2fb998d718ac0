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
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
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
	// Diverged, if not nil, is called for each divergence.
	Diverged func(*Divergence)
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

// A Record is one frame of a recording.
type Record struct {
	Seq      int64
	Time     time.Time // zero if unknown
	Frame    *frame.Frame
	Framing  frame.Framing
	Protocol protocol.Protocol
}

// A Session is a recording, which it holds in memory.
type Session struct {
	conns []*Script
	lines map[line]*Script // the same

	carried  []Record          // frames of carriers, and gaps
	overHTTP protocol.Protocol // nil if there is none
	bare     protocol.Protocol // overHTTP, if its messages have no ids; nil otherwise
}

// Add accepts the next frame of the recording. It keeps nothing that r points to. If a carrier,
// such as WebSocket, holds the frames, only the messages are kept. They are played in their
// inner framing, or as lines.
func (s *Session) Add(r Record) {
	f, framing := r.Frame.Clone(), r.Framing
	at, isHTTP := line{conn: f.Conn}, false
	if f.Meta != nil || f.Gap {
		whole := f
		s.carried = append(s.carried, Record{Seq: r.Seq, Time: r.Time, Frame: &whole, Protocol: r.Protocol})
	}
	if f.Meta != nil {
		if isHTTP = f.Meta.Framing == frame.HTTP; isHTTP && !f.Gap {
			s.learn(r.Protocol, f.Meta.Signal)
		}
		if f.Meta.Signal != frame.NoSignal || f.Gap {
			return
		}
		if f.Meta.Framing == frame.GRPC.Name() {
			at.stream = f.Stream
		}
		f, framing = unwrapped(&f)
	}
	c := s.script(at)
	c.isHTTP = isHTTP
	c.Framing, c.Protocol = framing, r.Protocol // the last one is the most precise
	c.steps = append(c.steps, &step{index: len(c.steps), seq: r.Seq, time: r.Time, dir: f.Dir, frame: f})
}

// Event accepts an event of the recording: a unit may have died.
func (s *Session) Event(r *capture.Record) {
	if c := s.lines[line{conn: r.Conn}]; c != nil && r.Kind == capture.HalfClosed && c.end.by == frame.DirUnknown {
		c.end = closing{r.Dir, r.Time}
	}
}

// learn records which protocol is spoken over HTTP.
func (s *Session) learn(p protocol.Protocol, signal frame.Signal) {
	switch {
	case bare(p):
		s.bare, s.overHTTP = p, p
	case signal == frame.NoSignal && (all.IsRPC(p) || s.overHTTP == nil && p.Name() == "json"):
		s.overHTTP = p
	}
}

// bare reports whether messages of a protocol have no ids. Then only HTTP assigns answers to
// requests.
func bare(p protocol.Protocol) bool {
	api := all.Of(p).API
	return api != nil && api.Fail == nil
}

// unwrapped returns a frame without its carrier.
func unwrapped(f *frame.Frame) (frame.Frame, frame.Framing) {
	payload := f.Payload()
	framing, err := frame.Named(f.Meta.Framing)
	if err != nil {
		if framing = frame.Len32; isJSON(payload) {
			framing, payload = frame.Line, jsonscan.AppendCompact(nil, payload)
		}
	}
	return framed(f, framing, payload), framing
}

// framed returns a frame with a payload in a framing. It is empty if the payload does not fit.
func framed(f *frame.Frame, framing frame.Framing, payload []byte) frame.Frame {
	raw, err := frame.Append(nil, framing, payload)
	plain := frame.Frame{Raw: raw, Conn: f.Conn, Dir: f.Dir}
	var e frame.Extent
	if err == nil && framing.Next(raw, len(raw), true, &e) == nil {
		plain.Start, plain.End = e.Start, e.End
	}
	return plain
}

// A line identifies a conversation: a connection, or a stream of it.
type line struct {
	conn   int
	stream int64
}

func (s *Session) script(at line) *Script {
	if c := s.lines[at]; c != nil {
		return c
	}
	c := &Script{Conn: at.conn}
	if s.lines == nil {
		s.lines = make(map[line]*Script)
	}
	s.lines[at] = c
	s.conns = append(s.conns, c)
	return c
}

// Scripts returns a script for each connection, in the order in which they began. Frames
// of unknown direction count as the given side's, unless their kind belongs to the other.
func (s *Session) Scripts(side frame.Dir) []*Script { return s.scripts(side, s.bare) }

// WebScripts returns the scripts for a peer over HTTP: one for all HTTP traffic, on any number
// of connections. Without HTTP traffic, it returns the same as Scripts.
func (s *Session) WebScripts(side frame.Dir) []*Script { return s.scripts(side, s.overHTTP) }

func (s *Session) scripts(side frame.Dir, overHTTP protocol.Protocol) []*Script {
	if overHTTP != nil {
		s.conns = slices.DeleteFunc(s.conns, func(c *Script) bool { return c.isHTTP })
		s.conns = append([]*Script{s.webScript(web{Protocol: overHTTP, isRPC: all.IsRPC(overHTTP)}, side)}, s.conns...)
		s.bare, s.overHTTP = nil, nil
	}
	for _, c := range s.conns {
		c.prepare(side)
	}
	return s.conns
}
