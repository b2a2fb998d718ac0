package diff

import (
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
)

// What names a kind of difference.
type What string

// All that sessions can differ in.
const (
	Exchange What = "exchange" // one session has no such exchange
	Message  What = "message"  // an exchange has no such message there
	Payload  What = "payload"  // a member of a payload
	Chunks   What = "chunks"   // an answer that says the same in other parts
	Outcome  What = "outcome"
	Latency  What = "latency"
	Model    What = "model" // how a model answered: the path is a field of a call
	// Definition is a tool, prompt or resource of an MCP server.
	Definition What = "definition"
	// Version is the version of a protocol, which is the kind.
	Version What = "version"
)

// A Difference is one thing in which two sessions differ.
type Difference struct {
	What What
	// Kind is that of the exchange, and Message that of the message, "" where
	// it is about the exchange.
	Kind, Message string
	// Of is the operation to which the exchange belongs; nil if it is one by itself.
	Of *Operation
	// Path leads to the member of the payload; "" is the payload itself.
	Path string
	// Change is how a definition differs; nil for other differences.
	Change *contract.Change
	// A and B are the sides of it; nil where a session has no such exchange.
	A, B *Side
}

// An Operation is one that both sessions have, by the numbers of its first frames.
type Operation struct {
	Kind, ID string // in A
	A, B     int64
}

// A Side is what one session has, where the other has something else.
type Side struct {
	// ID is that of the exchange as written, or "".
	ID string
	// Opened is the number of the frame that opened the exchange, and Frames
	// those that the difference is about. It is empty if a frame is missing.
	Opened int64
	Frames []int64
	// Value is the value on this side: the beginning of a JSON value, or words. It
	// is "" if there is none.
	Value string
}

// maxDifferences bounds how many differences a report keeps.
const maxDifferences = 10_000

// A Report is what comparing two sessions gave.
type Report struct {
	// Differences are in the order of the first session, as far as they were
	// kept, and Total counts all.
	Differences []Difference
	Total       int64
	// Frames and Exchanges count what there is in each session. A message that
	// belongs to no request is compared as an exchange, and not counted as one.
	Frames, Exchanges [2]int64
	// Breaking counts the changes of definitions that break clients.
	Breaking int64
	// Differ counts the exchanges of both sessions that differ, and OnlyA and
	// OnlyB those that only one session has.
	Differ, OnlyA, OnlyB int64
}

func (r *Report) addDifference(d Difference) {
	r.Total++
	if d.Change != nil && d.Change.Class == contract.Breaking {
		r.Breaking++
	}
	if len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, d)
	}
}

// Alike reports whether nothing differs.
func (r *Report) Alike() bool { return r.Total == 0 }

// Summary says in words how much differs.
func (r *Report) Summary() string {
	if r.Alike() {
		return "no differences in " + r.size(0)
	}
	var parts []string
	if r.Differ > 0 {
		parts = append(parts, render.Count(r.Differ, "exchange")+" changed")
	}
	if r.OnlyA > 0 {
		parts = append(parts, fmt.Sprintf("%d only in A", r.OnlyA))
	}
	if r.OnlyB > 0 {
		parts = append(parts, fmt.Sprintf("%d only in B", r.OnlyB))
	}
	total := render.Count(r.Total, "difference")
	if r.Breaking > 0 {
		total += fmt.Sprintf(" (%d breaking)", r.Breaking)
	}
	text := fmt.Sprintf("%s: %s; A has %s, B %s", total, strings.Join(parts, ", "), r.size(0), r.size(1))
	if n := r.Total - int64(len(r.Differences)); n > 0 {
		text += fmt.Sprintf("; the last %s not shown", render.Count(n, "one"))
	}
	return text
}

// size says how large a session is.
func (r *Report) size(session int) string {
	return render.Count(r.Frames[session], "frame") + " and " + render.Count(r.Exchanges[session], "exchange")
}
