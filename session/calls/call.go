// Package calls lists the operations of sessions: a line for each, with its name, how long
// it took, how much it carried and how it ended. Most are one exchange; one that others
// belong to can be unfolded.
//
// The trackers of package session tell a [Log] what happens, and it passes each call on
// when it is over. A [List] chooses among calls and prints them.
package calls

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/session/stats"
)

// A Call is an operation as it is listed, or one of the exchanges that belong to one.
type Call struct {
	// Frame is the number of the request's frame.
	Frame int64
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
	Parts     int64
	// BytesOut and BytesIn count the payload bytes from and to the caller.
	BytesOut, BytesIn int64
	Outcome           session.Outcome
	Inferred          bool // Outcome is inferred
	// Asked is when a cancel was sent while the call was open, and Class is the result of
	// that cancel. Stopped means that there was one, or that the caller left.
	Asked   time.Time
	Class   session.Class
	Stopped bool
	Reason  string // of the cancel, or why the answer is missing
	Usage   protocol.Usage
	// Model is the model that answered, and StopReason is why it stopped, as reported by
	// its provider.
	Model, StopReason string
	// TokensPerSecond is the speed of the answer; 0 if unknown.
	TokensPerSecond float64
	ToolCalls       []string // the names of the tools that the model calls
	// Prompt is the input of the model; nil if unknown.
	Prompt *session.Prompt

	json      bool // the id is JSON
	withdrawn bool // its end is the cancel, whatever comes later
}

// A field appends the value of a call as JSON; nothing if it does not apply.
type field struct {
	key    string
	append func(dst []byte, c *Call) []byte
}

// fields are the fields of a call, in output order.
var fields = []field{
	{"frame", func(b []byte, c *Call) []byte { return strconv.AppendInt(b, c.Frame, 10) }},
	{"operation", func(b []byte, c *Call) []byte { return appendCount(b, c.Operation) }},
	{"guessed", func(b []byte, c *Call) []byte { return appendFlag(b, c.Guessed) }},
	{"exchanges", func(b []byte, c *Call) []byte { return appendCount(b, int64(c.Exchanges)) }},
	{"conn", func(b []byte, c *Call) []byte { return appendCount(b, int64(c.Conn)) }},
	{"stream", func(b []byte, c *Call) []byte { return appendCount(b, int64(c.Stream)) }},
	{"dir", appendDir},
	{"protocol", func(b []byte, c *Call) []byte { return appendText(b, c.Protocol) }},
	{"version", func(b []byte, c *Call) []byte { return appendText(b, c.Version) }},
	{"id", appendID},
	{"kind", func(b []byte, c *Call) []byte { return appendText(b, c.Kind) }},
	{"name", func(b []byte, c *Call) []byte { return appendText(b, c.Name) }},
	{"start", appendStart},
	{"first_part_ms", func(b []byte, c *Call) []byte { return appendJSON(b, c.FirstPart != 0, stats.Millis(c.FirstPart)) }},
	{"duration_ms", func(b []byte, c *Call) []byte { return appendJSON(b, c.Duration != 0, stats.Millis(c.Duration)) }},
	{"parts", func(b []byte, c *Call) []byte { return appendCount(b, c.Parts) }},
	{"bytes_out", func(b []byte, c *Call) []byte { return strconv.AppendInt(b, c.BytesOut, 10) }},
	{"bytes_in", func(b []byte, c *Call) []byte { return strconv.AppendInt(b, c.BytesIn, 10) }},
	{"outcome", func(b []byte, c *Call) []byte { return appendText(b, c.Outcome.String()) }},
	{"inferred", func(b []byte, c *Call) []byte { return appendFlag(b, c.Inferred) }},
	{"failed", func(b []byte, c *Call) []byte { return appendFlag(b, c.Outcome.Failed()) }},
	{"cancelled", func(b []byte, c *Call) []byte { return appendFlag(b, c.Stopped) }},
	{"cancel", appendCancel},
	{"reason", func(b []byte, c *Call) []byte { return appendText(b, c.Reason) }},
	{"input_tokens", func(b []byte, c *Call) []byte { return appendCount(b, c.Usage.Input) }},
	{"cached_tokens", func(b []byte, c *Call) []byte { return appendCount(b, c.Usage.Cached) }},
	{"output_tokens", func(b []byte, c *Call) []byte { return appendCount(b, c.Usage.Output) }},
	{"input_tokens_max", func(b []byte, c *Call) []byte { return appendMost(b, c.Usage.Input, c.Usage.Perhaps.Input) }},
	{"cached_tokens_max", func(b []byte, c *Call) []byte { return appendMost(b, c.Usage.Cached, c.Usage.Perhaps.Cached) }},
	{"output_tokens_max", func(b []byte, c *Call) []byte { return appendMost(b, c.Usage.Output, c.Usage.Perhaps.Output) }},
	{"cost_usd", func(b []byte, c *Call) []byte { return appendJSON(b, c.Usage.Cost != 0, stats.Dollars(c.Usage.Cost)) }},
	{"model", func(b []byte, c *Call) []byte { return appendText(b, c.Model) }},
	{"stop_reason", func(b []byte, c *Call) []byte { return appendText(b, c.StopReason) }},
	{"tokens_per_second", func(b []byte, c *Call) []byte {
		return appendJSON(b, c.TokensPerSecond != 0, math.Round(c.TokensPerSecond*10)/10)
	}},
	{"tool_calls", func(b []byte, c *Call) []byte { return appendJSON(b, len(c.ToolCalls) > 0, c.ToolCalls) }},
	{"prompt", appendPrompt},
}

// Keys are the names of the fields, in the same order.
var Keys = func() (keys []string) {
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}()

// Fields are the fields of conditions on calls.
var Fields = query.Fields{
	Names: Keys, Flags: []string{"guessed", "inferred", "failed", "cancelled"},
	Values: map[string][]string{
		"dir": frame.DirNames(), "protocol": all.Names(), "outcome": session.Outcomes(), "cancel": session.Classes(),
	},
}

// timeLayout is the layout of times in NDJSON.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

func appendDir(dst []byte, c *Call) []byte {
	if c.Dir == frame.DirUnknown {
		return dst
	}
	return appendText(dst, c.Dir.String())
}

func appendStart(dst []byte, c *Call) []byte {
	if c.Start.IsZero() {
		return dst
	}
	return appendText(dst, c.Start.UTC().Format(timeLayout))
}

func appendCancel(dst []byte, c *Call) []byte {
	if c.Asked.IsZero() && c.Class == session.Pending {
		return dst
	}
	return appendText(dst, c.Class.String())
}

func appendPrompt(dst []byte, c *Call) []byte {
	if c.Prompt == nil {
		return dst
	}
	return appendJSON(dst, true, stats.PromptOf(c.Prompt))
}

// appendJSON appends a value if it applies. Marshalling it cannot fail.
func appendJSON(dst []byte, applies bool, v any) []byte {
	if !applies {
		return dst
	}
	text, _ := jsonscan.Marshal(v)
	return append(dst, text...)
}

// appendID appends the id: as written if that is JSON and was not clipped, or else as text.
func appendID(dst []byte, c *Call) []byte {
	if c.json && jsonscan.WellFormed([]byte(c.ID)) == nil {
		return jsonscan.AppendCompact(dst, []byte(c.ID))
	}
	return appendText(dst, c.ID)
}

func appendText(dst []byte, text string) []byte {
	if text == "" {
		return dst
	}
	return jsonscan.AppendQuote(dst, []byte(text))
}

// appendCount appends a number, which is omitted unless positive: an MCP session over HTTP is a
// stream with a negative number.
// appendMost appends the most that a number of tokens may be, if that is unclear.
func appendMost(dst []byte, n, perhaps int64) []byte {
	if perhaps <= 0 {
		return dst
	}
	return strconv.AppendInt(dst, n+perhaps, 10)
}

func appendCount(dst []byte, n int64) []byte {
	if n <= 0 {
		return dst
	}
	return strconv.AppendInt(dst, n, 10)
}

func appendFlag(dst []byte, b bool) []byte {
	if !b {
		return dst
	}
	return append(dst, "true"...)
}

// record is a call as conditions see it.
type record struct {
	call *Call
	buf  []byte
}

// Field implements [query.Record].
func (r *record) Field(key string) ([]byte, bool) {
	r.buf = fields[slices.Index(Keys, key)].append(r.buf[:0], r.call)
	return r.buf, len(r.buf) > 0
}

// newCall returns the call of an exchange that was just opened.
func newCall(e *session.Exchange) *Call {
	return &Call{
		Frame: e.First, Conn: e.Conn, Stream: e.Stream, Dir: e.Opener, Protocol: e.Protocol.Name(),
		ID: strings.Clone(string(e.ID.Text)), json: e.Protocol.Encoding() == protocol.JSON,
		Kind: e.Kind, Name: e.Name, Start: e.Opened,
	}
}

// update copies the state of the exchange.
func (c *Call) update(e *session.Exchange) {
	c.Operation, c.Guessed, c.Exchanges = e.Of, e.Guessed, e.Joined
	c.Name, c.Version, c.Usage = e.Name, e.Version, e.Usage
	c.Model, c.StopReason = e.Model, e.StopReason
	c.TokensPerSecond, c.Prompt = e.TokensPerSecond(), e.Prompt
	if len(c.ToolCalls) < len(e.ToolCalls) {
		c.ToolCalls = slices.Clone(e.ToolCalls)
	}
	c.Outcome, c.Reason, c.Inferred = e.Outcome, e.Reason, e.Assumed || e.Outcome.Inferred()
	c.Parts, c.BytesOut, c.BytesIn = e.Parts, e.BytesOut, e.BytesIn
	c.FirstPart = e.TimeToFirstPart()
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
