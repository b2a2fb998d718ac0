// Package calls lists the operations of sessions: a line for each, with what was called,
// how long it took, how much it carried and how it ended. Most are one exchange; one that
// others belong to can be unfolded.
//
// A [Log] is told by the trackers of package session what happens, and passes each call
// on when it is over. A [List] chooses among calls and prints them.
package calls

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/session/stats"
)

// A Call is an operation as it is listed, or one of the exchanges that belong to one.
type Call struct {
	// Frame is the number of the request's frame.
	Frame int64
	// Operation is that of the operation that the exchange belongs to; 0 if it is one by
	// itself. Guessed says that it might belong to another as well, and Exchanges counts
	// those that belong to an operation.
	Operation    int64
	Guessed      bool
	Exchanges    int
	Conn, Stream int
	Dir          frame.Dir // in which the request went
	Protocol     string
	Version      string // by which it is judged; "" if that is not known
	ID           string // as written
	// Kind is the kind of the request, and Name what it names; "" if nothing.
	Kind, Name string
	// Start is when the request was read; zero if times are not known. Offset is the
	// time from the first frame of the session to it.
	Start  time.Time
	Offset time.Duration
	// Duration is the time from the request to the end of the call, or of the session if
	// the call is still open; 0 if that is not known.
	Duration  time.Duration
	FirstPart time.Duration // from the request to the first part; 0 if there was none
	Parts     int64
	// BytesOut went from the caller, BytesIn to it, as payloads.
	BytesOut, BytesIn int64
	Outcome           session.Outcome
	// Asked is when a cancel was sent while the call was open, and Class what became of
	// that cancel. Stopped says that there was one, or that the caller left.
	Asked   time.Time
	Class   session.Class
	Stopped bool
	Reason  string // of the cancel
	Usage   protocol.Usage
	// Model is the model that answered, and StopReason why it stopped, as its provider says.
	Model, StopReason string
	// TokensPerSecond is how fast it gave its answer; 0 if that is not known.
	TokensPerSecond float64
	ToolCalls       []string // the names of the tools that the model calls
	// Prompt is what the model was given; nil if that is not known.
	Prompt *session.Prompt

	json      bool // the id is JSON
	withdrawn bool // its end is the cancel, whatever comes later
}

// Keys are the fields of a call, in the order in which they are written.
var Keys = []string{
	"frame", "operation", "guessed", "exchanges", "conn", "stream", "dir", "protocol", "version", "id", "kind", "name",
	"start", "first_part_ms", "duration_ms", "parts", "bytes_out", "bytes_in", "outcome", "inferred", "failed", "cancelled",
	"cancel", "reason", "input_tokens", "cached_tokens", "output_tokens", "cost_usd", "model", "stop_reason",
	"tokens_per_second", "tool_calls", "prompt",
}

// Fields are the fields of conditions on calls.
var Fields = query.Fields{
	Names: Keys, Flags: []string{"guessed", "inferred", "failed", "cancelled"},
	Values: map[string][]string{
		"dir": frame.DirNames(), "protocol": all.Names(), "outcome": session.Outcomes(), "cancel": session.Classes(),
	},
}

// timeLayout is that of the times of frames in NDJSON.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// appendField appends what the call has under a key, as JSON; nothing if it does not
// apply.
func (c *Call) appendField(dst []byte, key string) []byte {
	switch key {
	case "frame":
		return strconv.AppendInt(dst, c.Frame, 10)
	case "operation":
		return appendCount(dst, c.Operation)
	case "guessed":
		return appendFlag(dst, c.Guessed)
	case "exchanges":
		return appendCount(dst, int64(c.Exchanges))
	case "conn":
		return appendCount(dst, int64(c.Conn))
	case "stream":
		return appendCount(dst, int64(c.Stream))
	case "dir":
		if c.Dir == frame.DirUnknown {
			return dst
		}
		return appendText(dst, c.Dir.String())
	case "protocol":
		return appendText(dst, c.Protocol)
	case "version":
		return appendText(dst, c.Version)
	case "id":
		return c.appendID(dst)
	case "kind":
		return appendText(dst, c.Kind)
	case "name":
		return appendText(dst, c.Name)
	case "start":
		if c.Start.IsZero() {
			return dst
		}
		return appendText(dst, c.Start.UTC().Format(timeLayout))
	case "first_part_ms":
		return appendMillis(dst, c.FirstPart)
	case "duration_ms":
		return appendMillis(dst, c.Duration)
	}
	return c.appendResult(dst, key)
}

// appendResult is appendField for what came of the call.
func (c *Call) appendResult(dst []byte, key string) []byte {
	switch key {
	case "parts":
		return appendCount(dst, c.Parts)
	case "bytes_out":
		return strconv.AppendInt(dst, c.BytesOut, 10)
	case "bytes_in":
		return strconv.AppendInt(dst, c.BytesIn, 10)
	case "outcome":
		return appendText(dst, c.Outcome.String())
	case "inferred":
		return appendFlag(dst, c.Outcome.Inferred())
	case "failed":
		return appendFlag(dst, c.Outcome.Failed())
	case "cancelled":
		return appendFlag(dst, c.Stopped)
	case "cancel":
		if c.Asked.IsZero() && c.Class == session.Pending {
			return dst
		}
		return appendText(dst, c.Class.String())
	case "reason":
		return appendText(dst, c.Reason)
	case "input_tokens":
		return appendCount(dst, c.Usage.Input)
	case "cached_tokens":
		return appendCount(dst, c.Usage.Cached)
	case "output_tokens":
		return appendCount(dst, c.Usage.Output)
	case "cost_usd":
		if c.Usage.Cost == 0 {
			return dst
		}
		number, _ := stats.Dollars(c.Usage.Cost).MarshalJSON() // which does not fail
		return append(dst, number...)
	case "model":
		return appendText(dst, c.Model)
	case "stop_reason":
		return appendText(dst, c.StopReason)
	case "tokens_per_second":
		if c.TokensPerSecond == 0 {
			return dst
		}
		return strconv.AppendFloat(dst, math.Round(c.TokensPerSecond*10)/10, 'f', -1, 64)
	case "tool_calls":
		return appendList(dst, c.ToolCalls)
	case "prompt":
		return appendPrompt(dst, c.Prompt)
	}
	return dst
}

// appendList appends texts as an array.
func appendList(dst []byte, texts []string) []byte {
	for i, text := range texts {
		dst = jsonscan.AppendQuote(append(dst, "[,"[min(i, 1)]), []byte(text))
	}
	if len(texts) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendPrompt appends what a model was given as an object.
func appendPrompt(dst []byte, p *session.Prompt) []byte {
	if p == nil {
		return dst
	}
	text, _ := jsonscan.Marshal(stats.PromptOf(p)) // which does not fail
	return append(dst, text...)
}

// appendID appends the id: JSON as it was written, if it was not clipped, and else text.
func (c *Call) appendID(dst []byte) []byte {
	if c.json && jsonscan.Valid([]byte(c.ID)) == nil {
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

// appendCount appends a number that is left out if it is not positive: a session of MCP
// over HTTP is a stream with a negative number.
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

func appendMillis(dst []byte, d time.Duration) []byte {
	if d == 0 {
		return dst
	}
	number, _ := stats.Millis(d).MarshalJSON() // which does not fail
	return append(dst, number...)
}

// record is a call as conditions see it.
type record struct {
	call *Call
	buf  []byte
}

// Field implements [query.Record].
func (r *record) Field(key string) ([]byte, bool) {
	r.buf = r.call.appendField(r.buf[:0], key)
	return r.buf, len(r.buf) > 0
}

// newCall returns what is known of an exchange that was just opened.
func newCall(e *session.Exchange) *Call {
	return &Call{
		Frame: e.First, Conn: e.Conn, Stream: e.Stream, Dir: e.Opener, Protocol: e.Protocol.Name(),
		ID: strings.Clone(string(e.ID.Text)), json: e.Protocol.Encoding() == protocol.JSON,
		Kind: e.Kind, Name: e.Name, Start: e.Opened,
	}
}

// update takes over what has become of the exchange.
func (c *Call) update(e *session.Exchange) {
	c.Operation, c.Guessed, c.Exchanges = e.Of, e.Guessed, e.Joined
	c.Version, c.Usage = e.Version, e.Usage
	c.Model, c.StopReason = e.Model, e.StopReason
	c.TokensPerSecond, c.Prompt = e.TokensPerSecond(), e.Prompt
	if len(c.ToolCalls) < len(e.ToolCalls) {
		c.ToolCalls = slices.Clone(e.ToolCalls)
	}
	c.Outcome, c.Reason = e.Outcome, e.Reason
	c.Parts, c.BytesOut, c.BytesIn = e.Parts, e.BytesOut, e.BytesIn
	c.FirstPart = e.TimeToFirstPart()
	c.Stopped = c.Stopped || e.Outcome.Stopped()
	late := c.withdrawn || c.Class == session.Crossed || c.Class == session.LateResult
	switch {
	case e.Outcome.Stopped() && (late || e.Closed.IsZero()): // its caller had gone on by then
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
