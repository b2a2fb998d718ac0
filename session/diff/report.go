package diff

import (
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
)

// What names a kind of difference.
type What string

// The kinds of differences.
const (
	Exchange What = "exchange" // an exchange that only one session has
	Message  What = "message"  // a message that only one of two exchanges has
	Payload  What = "payload"  // a member of a payload
	Chunks   What = "chunks"   // an answer with the same content, split differently
	Outcome  What = "outcome"
	Latency  What = "latency"
	Model    What = "model" // how a model answered: the path is a field of a call
	// Definition is a tool, prompt or resource of an MCP server.
	Definition What = "definition"
	// Version is the version of a protocol; Kind is the protocol.
	Version What = "version"
)

// A Difference is one difference between two sessions. It is a line of NDJSON.
type Difference struct {
	What What `json:"difference"`
	// Kind is the kind of the exchange, and Message that of the message; "" if the difference
	// is about the exchange.
	Kind string `json:"kind"`
	// Of is the operation to which the exchange belongs; nil if it is one itself.
	Of      *Operation `json:"operation,omitempty"`
	Message string     `json:"message,omitempty"`
	// Path leads to the member of the payload; "" is the payload itself.
	Path string `json:"path,omitempty"`
	// Change is how a definition differs; nil for other differences.
	*contract.Change
	// A and B are the two sides. A side is nil if its session has no such exchange.
	A *Side `json:"a,omitempty"`
	B *Side `json:"b,omitempty"`
}

// An Operation is an operation in both sessions. A and B are its first frames.
type Operation struct {
	Kind string `json:"-"` // in A
	ID   string `json:"-"`
	A    int64  `json:"a"`
	B    int64  `json:"b"`
}

// A Side is one session's side of a difference.
type Side struct {
	// ID is the id of the exchange as written, or "".
	ID string `json:"id,omitempty"`
	// Opened is the frame that opened the exchange. Frames are the frames concerned, none
	// if this side lacks the message.
	Opened int64   `json:"opened,omitempty"`
	Frames []int64 `json:"frames,omitempty"`
	// Value is the beginning of a JSON value as written, or words; "" if there is none.
	Value string `json:"value,omitempty"`
}

// maxDifferences bounds how many differences a report keeps.
const maxDifferences = 10_000

// A Report lists the differences of two sessions.
type Report struct {
	// Differences are in the order of the first session. At most maxDifferences are kept; Total
	// counts all.
	Differences []Difference
	Total       int64
	// Frames and Exchanges are counts for each session. A message that belongs to no request is
	// compared as an exchange, but not counted.
	Frames, Exchanges [2]int64
	// Breaking counts the changes of definitions that break clients.
	Breaking int64
	// Differ counts exchanges that differ, and OnlyA and OnlyB those that only one session has.
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

// Summary summarizes the differences in words.
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

// size describes the size of a session.
func (r *Report) size(session int) string {
	return render.Count(r.Frames[session], "frame") + " and " + render.Count(r.Exchanges[session], "exchange")
}
