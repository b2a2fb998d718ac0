// Package calls lists the operations of sessions: a line for each, with its name, how long
// it took, how much it carried and how it ended. Most are one exchange; one that others
// belong to can be unfolded.
//
// The trackers of package session tell a [Log] what happens, and it passes each call on
// when it is over. A [List] chooses among calls and prints them.
package calls

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/table"
)

// A Call is an operation as it is listed, or one of the exchanges that belong to one.
type Call struct {
	// Frame is the number of the request's frame.
	Frame int64
	// Last is the number of its last frame; 0 if unknown.
	Last int64
	// Operation is the frame of the operation that the exchange belongs to; 0 if it is an
	// operation by itself. Guessed means that it might belong to another one instead.
	// Exchanges counts the exchanges of an operation.
	Operation    int64
	Guessed      bool
	Exchanges    int
	Conn, Stream int
	Dir          frame.Dir // of the request
	Protocol     string
	Version      string // whose rules apply; "" if unknown
	ID           string // as written
	// Kind is the kind of the request. Name is the name in it; "" if there is none.
	Kind, Name string
	// Start is when the request was read; zero if times are not known. Offset is the
	// time from the first frame of the session to it.
	Start  time.Time
	Offset time.Duration
	// Duration is the time from the request to the end of the call, or of the session if
	// the call is still open; 0 if unknown.
	Duration  time.Duration
	FirstPart time.Duration // from the request to the first part; 0 if there was none
	LastPart  time.Duration // and to the last one
	Parts     int64
	// BytesOut and BytesIn count the payload bytes from and to the caller.
	BytesOut, BytesIn int64
	Outcome           session.Outcome
	Inferred          bool // Outcome is inferred
	// Asked is when a cancel was sent while the call was open, and Class is the result of
	// that cancel. Stopped means that there was one, or that the caller left.
	Asked time.Time
	Class session.Class
	// Closed is when the call was answered, perhaps after it was cancelled.
	Closed  time.Time
	Stopped bool
	Reason  string // of the cancel, or why the answer is missing
	session.Failure
	// Event is what happened, if the row is no call but something else of its Kind: an exit, a line of
	// standard error.
	Event string
	Usage protocol.Usage
	// Model is the model that answered, and StopReason is why it stopped, as reported by
	// its provider.
	Model, StopReason string
	// TokensPerSecond is the speed of the answer; 0 if unknown.
	TokensPerSecond float64
	ToolCalls       []string // the names of the tools that the model calls
	// Context is what the model is given; nil if unknown.
	Context *context.Call
	// Links are what the call has in common with calls on other wires. Package join sets Wire, the name
	// of its connection, and its place in the tree of a run.
	Links []protocol.Link
	Wire  string
	Place Place
	// Session is the name of its session; "" if there is only one.
	Session string

	arguments string // of its request, as written
	mask      func(text string) string

	json      bool // the id is JSON
	noWire    bool // there are no bytes
	counted   bool // its protocol may count tokens
	absent    bool // the request was not recorded
	withdrawn bool // its end is the cancel, whatever comes later
	apart     bool // its operation is not the last one that was listed
}

// A Place is the place of a call in the tree of a run.
type Place struct {
	Depth  int
	Parent int64 // the frame of the call that it belongs to; 0 for none
	Edge   Edge  // why
	// Turn means that the call is no call but stands for what follows from one prompt of the user, and
	// Agent that it stands for what an agent does that another one has started.
	Turn, Agent bool
	// GivenUp is when the agent told the model that the call had failed, although it went on, or had succeeded
	// before the user's next prompt.
	GivenUp time.Time
	// Prompt means that the call is the prompt of a turn, and that others are below it.
	Prompt bool
	// Own is what the agent does with the call for itself: "title"; "" if it is part of a turn.
	Own string
}

// An Edge is how sure it is that a call belongs to another one, on another wire.
type Edge uint8

const (
	Unjoined Edge = iota
	ByTime        // it happened in the time of that one, and of no other
	Matched       // the same tool with the same arguments, in the time between answer and result
	Exact         // both have the same id
)

var edges = [...]string{Unjoined: "", ByTime: "by time", Matched: "matched", Exact: "exact"}

// String returns the word for an edge; "" for none.
func (e Edge) String() string { return edges[e] }

// Columns are the columns of a list of calls.
var Columns = []table.Column[Call]{
	{Name: "frame", Value: func(c *Call) any {
		if c.Event != "" {
			return nil
		}
		return c.Frame
	}},
	{Name: "operation", Value: func(c *Call) any { return table.Count(c.Operation) }},
	{Name: "guessed", Value: func(c *Call) any { return table.Flag(c.Guessed) }},
	{Name: "exchanges", Value: func(c *Call) any { return table.Count(int64(c.Exchanges)) }},
	{Name: "conn", Value: func(c *Call) any { return table.Count(int64(c.Conn)) }},
	{Name: "stream", Value: func(c *Call) any { return table.Count(int64(c.Stream)) }}, // negative in an MCP session over HTTP
	{Name: "dir", Value: func(c *Call) any {
		if c.Dir == frame.DirUnknown {
			return nil
		}
		return c.Dir.String()
	}},
	{Name: "protocol", Value: func(c *Call) any { return c.Protocol }},
	{Name: "version", Title: "version", Shown: table.IfSeveral, Drop: 7, Value: func(c *Call) any { return c.Version }},
	{Name: "id", Title: "id", Drop: 12, Most: 12, Usual: 4, Paint: paintID, Value: func(c *Call) any {
		if c.json && jsonscan.WellFormed([]byte(c.ID)) == nil { // it was not clipped
			return json.RawMessage(c.ID)
		}
		return c.ID
	}, Cell: func(c *Call) string { return c.ID }},
	{Name: "kind", Title: "kind", At: -1, Drop: 6, Most: 24, Usual: 10, Value: func(c *Call) any { return c.Kind }, Cell: func(c *Call) string {
		if c.Name == "" {
			return "" // the kind is in the place of the name
		}
		return c.Kind
	}},
	{Name: "name", Title: "name", At: -2, Least: 20, Usual: 28, Paint: paintKind, Value: func(c *Call) any { return c.Name }, Cell: nameCell},
	{Name: "start", Title: "start", Right: true, Drop: 10, Usual: 9, Value: func(c *Call) any { return c.Start }, Cell: func(c *Call) string {
		if c.Start.IsZero() {
			return ""
		}
		return strconv.FormatFloat(c.Offset.Seconds(), 'f', 3, 64)
	}},
	{Name: "first_part_ms", Title: "first part", Right: true, Drop: 5, Value: func(c *Call) any { return table.Millis(c.FirstPart) }},
	{Name: "duration_ms", Title: "took", Right: true, Usual: 7, Value: func(c *Call) any { return table.Millis(c.Duration) }},
	{Name: "parts", Value: func(c *Call) any { return table.Count(c.Parts) }},
	{Name: "bytes_out", Title: "bytes out", Right: true, Drop: 2, Shown: table.IfFirst, Value: func(c *Call) any {
		if c.absent {
			return nil
		}
		return c.bytes(c.BytesOut)
	}},
	{Name: "bytes_in", Title: "bytes in", Right: true, Drop: 3, Usual: 9, Shown: table.IfFirst, Value: func(c *Call) any { return c.bytes(c.BytesIn) }},
	{Name: "outcome", Title: "outcome", At: 4, Least: 44, Usual: 10, Paint: paintOutcome, Value: func(c *Call) any {
		if c.Event != "" {
			return nil
		}
		return c.Outcome.String()
	}, Cell: outcomeCell},
	{Name: "inferred", Value: func(c *Call) any { return table.Flag(c.Inferred) }},
	{Name: "failed", Value: func(c *Call) any { return table.Flag(c.Outcome.Failed()) }},
	{Name: "cancelled", Value: func(c *Call) any { return table.Flag(c.Stopped) }},
	{Name: "cancel", Value: func(c *Call) any {
		if c.Asked.IsZero() && c.Class == session.Pending {
			return nil
		}
		return c.Class.String()
	}},
	{Name: "reason", Value: func(c *Call) any { return c.Reason }},
	tokens("input_tokens", "tokens in", 8, func(c *Call) (n, perhaps int64) { return c.Usage.Input, c.Usage.Perhaps.Input }),
	tokens("cached_tokens", "cached", 4, func(c *Call) (n, perhaps int64) { return c.Usage.Cached, c.Usage.Perhaps.Cached }),
	tokens("output_tokens", "tokens out", 9, func(c *Call) (n, perhaps int64) { return c.Usage.Output, c.Usage.Perhaps.Output }),
	{Name: "input_tokens_max", Value: func(c *Call) any { return most(c.Usage.Input, c.Usage.Perhaps.Input) }},
	{Name: "cached_tokens_max", Value: func(c *Call) any { return most(c.Usage.Cached, c.Usage.Perhaps.Cached) }},
	{Name: "output_tokens_max", Value: func(c *Call) any { return most(c.Usage.Output, c.Usage.Perhaps.Output) }},
	{Name: "cost_usd", Title: "cost", At: 2, Right: true, Shown: table.IfFirst, Drop: 10, Value: func(c *Call) any { return table.Dollars(c.Usage.Cost) }},
	{Name: "model", Value: func(c *Call) any { return c.Model }},
	{Name: "stop_reason", Value: func(c *Call) any { return c.StopReason }},
	{Name: "tokens_per_second", Title: "tokens/s", Right: true, Shown: table.IfFirst, Drop: 1, Value: func(c *Call) any { return table.Rate(c.TokensPerSecond) }},
	{Name: "tool_calls", Title: "tools", At: 1, Shown: table.IfFirst, Drop: 11, Most: 24, Value: func(c *Call) any {
		if len(c.ToolCalls) == 0 {
			return nil
		}
		return c.ToolCalls
	}, Cell: func(c *Call) string { return strings.Join(c.ToolCalls, " ") }},
	{Name: "prompt", Value: func(c *Call) any {
		if c.Context == nil {
			return nil
		}
		return c.Context.Prompt()
	}},
	{Name: "wire", Title: "wire", At: -1, Shown: table.IfFirst, Drop: 14, Most: 16, Value: func(c *Call) any { return c.Wire }, Cell: func(c *Call) string {
		if c.Wire == c.Session {
			return "" // the session is in a column of its own
		}
		return c.Wire
	}},
	{Name: "parent", Value: func(c *Call) any { return table.Count(c.Place.Parent) }},
	{Name: "edge", Value: func(c *Call) any { return c.Place.Edge.String() }},
	{Name: "own", Value: func(c *Call) any { return c.Place.Own }},
	{Name: "cost_by", Value: func(c *Call) any { return stats.CostBy(c.Usage, c.Model) }},
	{Name: "error", Value: func(c *Call) any { return c.Error }},
	{Name: "code", Value: func(c *Call) any { return c.Code }},
	{Name: "status", Value: func(c *Call) any { return c.Status }},
	{Name: "arguments", Title: "arguments", At: 3, Least: 24, Most: 48, Shown: table.IfAny, Drop: 9, Value: func(c *Call) any { return c.Arguments() }, Cell: func(c *Call) string {
		return render.Shorten(c.Arguments(), maxArguments)
	}},
	{Name: "session", Title: "session", At: -1, Shown: table.IfAny, Drop: 15, Most: 20, Value: func(c *Call) any { return c.Session }},
	{Name: "event", Value: func(c *Call) any { return c.Event }},
}

// maxArguments bounds the cells of arguments, so that the outcome stays in sight.
const maxArguments = 56

// Keys are the names of the columns.
var Keys = table.Names(Columns)

// Fields are the fields of conditions on calls.
var Fields = query.Fields{
	Names: Keys, Flags: []string{"guessed", "inferred", "failed", "cancelled"},
	Values: map[string][]string{
		"dir": frame.DirNames(), "protocol": all.Names(), "outcome": session.Outcomes(), "cancel": session.Classes(),
	},
}

// tokens is a column of numbers of tokens, which may be unclear.
func tokens(name, title string, drop int, of func(c *Call) (n, perhaps int64)) table.Column[Call] {
	return table.Column[Call]{
		Name: name, Title: title, Right: true, Shown: table.IfAny, Drop: drop, Hint: func(c *Call) bool { return c.counted },
		Value: func(c *Call) any {
			n, _ := of(c)
			return table.Count(n)
		},
		Cell: func(c *Call) string {
			n, perhaps := of(c)
			if n == 0 && perhaps == 0 {
				return ""
			}
			return render.Range(n, n+perhaps)
		},
	}
}

// bytes returns a number of bytes; nil if there are none.
func (c *Call) bytes(n int64) any {
	if c.noWire || c.Event != "" || c.Place.Turn || c.Place.Agent {
		return nil
	}
	return n
}

// most is the most that a number of tokens may be, if that is unclear.
func most(n, perhaps int64) any {
	if perhaps <= 0 {
		return nil
	}
	return n + perhaps
}

// nameCell returns the name of a call, or its kind, with its place below an operation.
func nameCell(c *Call) string {
	name := cmp.Or(c.Name, c.Kind)
	switch p := c.Place; {
	case p.Depth > 0 && p.Edge < Exact && p.Edge != Unjoined:
		return strings.Repeat("  ", p.Depth-1) + "└? " + name
	case p.Depth > 0:
		return strings.Repeat("  ", p.Depth-1) + "└ " + name
	case c.Operation == 0:
	case c.Guessed:
		name = "└? " + name
	default:
		name = "└ " + name
	}
	if c.apart {
		name += fmt.Sprintf(" (of frame %d)", c.Operation)
	}
	return name
}

// Arguments returns the beginning of the arguments of the request, on one line and without secrets; "" if
// they are unknown.
func (c *Call) Arguments() string {
	text := session.OneLine([]byte(c.arguments))
	if c.mask == nil || text == "" {
		return text
	}
	return c.mask(text)
}

// outcomeCell returns how a call ended, and why.
func outcomeCell(c *Call) string {
	if c.Event != "" {
		return c.Event
	}
	text := c.Outcome.String()
	if c.Inferred {
		text += " (inferred)"
	}
	if c.Stopped && !c.Outcome.Stopped() && c.Outcome != session.Open {
		text += ", cancel " + c.Class.String()
	}
	if why := c.Explain(c.Outcome, c.Reason, c.StopReason); why != "" {
		text += ": " + why
	}
	if c.StopReason != "" {
		text += " (" + c.StopReason + ")"
	}
	return text
}

func paintKind(_ *Call, style *render.Style) render.Paint { return style.Kind }
func paintID(_ *Call, style *render.Style) render.Paint   { return style.ID }

func paintOutcome(c *Call, style *render.Style) render.Paint {
	if c.Outcome.Failed() {
		return style.Error
	}
	return render.Paint{}
}

// record is a call as conditions see it.
type record struct {
	call *Call
	buf  []byte
}

// Field implements [query.Record].
func (r *record) Field(key string) ([]byte, bool) {
	r.buf = table.AppendValue(r.buf[:0], Columns, key, r.call)
	return r.buf, len(r.buf) > 0
}

// newCall returns the call of an exchange that was just opened.
func newCall(e *session.Exchange) *Call {
	spec := all.Of(e.Protocol)
	return &Call{
		counted: spec.API != nil || spec.Live != protocol.NotLive || spec.Rules.NoWire,
		Frame:   e.First, Conn: e.Conn, Stream: e.Stream, Dir: e.Opener, Protocol: e.Protocol.Name(),
		ID: strings.Clone(string(e.ID.Text)), json: e.Protocol.Encoding() == protocol.JSON, noWire: spec.Rules.NoWire,
		Kind: e.Kind, Name: e.Name, Start: e.Opened, arguments: string(e.Arguments), mask: e.Mask,
	}
}

// update copies the state of the exchange.
func (c *Call) update(e *session.Exchange) {
	c.Last = e.Last
	c.Operation, c.Guessed, c.Exchanges = e.Of, e.Guessed, e.Joined
	c.Name, c.Version, c.Usage = e.Name, e.Version, e.Usage
	c.Model, c.StopReason = e.Model, e.StopReason
	c.TokensPerSecond, c.Context, c.Links = e.TokensPerSecond(), e.Context, e.Links
	if len(c.ToolCalls) < len(e.ToolCalls) {
		c.ToolCalls = slices.Clone(e.ToolCalls)
	}
	c.Outcome, c.Reason, c.Inferred = e.Outcome, e.Reason, e.Assumed || e.Outcome.Inferred()
	c.Failure = e.Failure
	c.Parts, c.BytesOut, c.BytesIn = e.Parts, e.BytesOut, e.BytesIn
	c.Closed = e.Closed
	c.FirstPart, c.LastPart, c.absent = e.TimeToFirstPart(), since(e.LastPart, e.Opened), e.Absent
	c.Stopped = c.Stopped || e.Outcome.Stopped()
	late := c.withdrawn || c.Class == session.Crossed || c.Class == session.LateResult
	switch {
	case e.Outcome.Stopped() && (late || e.Closed.IsZero()): // its caller had moved on by then
		c.Duration = since(c.Asked, c.Start)
	default:
		c.Duration = e.Latency()
	}
}

// since returns the time from start to end; 0 if either is unknown.
func since(end, start time.Time) time.Duration {
	if end.IsZero() || start.IsZero() {
		return 0
	}
	return max(end.Sub(start), 0)
}
