// Package observe reports the calls of a broker: in a log with one JSON object per line,
// as structured completions, and as spans for OpenTelemetry. It changes no call; package
// broker counts usage.
package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/otlp"
)

// All is several watchers.
type All []broker.Watcher

// Ended tells each.
func (a All) Ended(c *broker.Call, r *broker.Report) {
	for _, w := range a {
		w.Ended(c, r)
	}
}

// Version is the version of the lines of a Log.
const Version = 1

// lines writes lines of JSON.
type lines struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (l *lines) write(v any) {
	line, err := jsonscan.Marshal(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	l.err = cmp.Or(l.err, err)
}

// Err returns the first error of writing.
func (l *lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// A Log writes a line for each call. docs/broker.md describes them.
type Log struct {
	lines
	prompts bool
}

// NewLog returns a log to w. Prompts and responses are in it only if asked for.
func NewLog(w io.Writer, prompts bool) *Log { return &Log{lines{w: w}, prompts} }

// An entry is a line.
type entry struct {
	V           int             `json:"v"`
	Time        time.Time       `json:"time"`
	Call        int64           `json:"call"`
	Door        string          `json:"door"`
	Client      string          `json:"client"`
	ID          string          `json:"id,omitempty"`
	Asked       string          `json:"asked,omitempty"`
	Model       string          `json:"model,omitempty"`
	Outcome     string          `json:"outcome"`
	Error       string          `json:"error,omitempty"`
	Seconds     float64         `json:"seconds"`
	Input       int64           `json:"input_tokens"`
	Output      int64           `json:"output_tokens"`
	Finish      string          `json:"finish_reason,omitempty"`
	Dropped     int             `json:"dropped_tool_calls"`
	Hops        []hop           `json:"hops"`
	Cancel      *cancel         `json:"cancel,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Prompt      json.RawMessage `json:"prompt,omitempty"`
	Response    json.RawMessage `json:"response,omitempty"`
}

// A hop is an attempt at a provider.
type hop struct {
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Sent     bool    `json:"sent"`
	Seconds  float64 `json:"seconds"`
	Cause    string  `json:"cause,omitempty"`
	Status   int     `json:"status,omitempty"`
	Detail   string  `json:"detail,omitempty"`
}

// A cancel says why a call was cancelled, and how far it had come.
type cancel struct {
	By      string `json:"by"`
	Stopped string `json:"stopped_at"`
}

// Ended writes the line of a call.
func (l *Log) Ended(c *broker.Call, r *broker.Report) {
	e := entry{
		V: Version, Time: c.Started.UTC(), Call: c.ID, Door: c.Door, Client: c.Client, ID: c.Ref, Asked: c.Model, Model: c.Name,
		Outcome: r.Outcome.String(), Seconds: c.Took.Seconds(), Hops: []hop{}, Traceparent: c.Traceparent,
		Input: c.Completion.Usage.Input, Output: c.Completion.Usage.Output, Finish: c.Completion.Finish, Dropped: c.Completion.Dropped,
	}
	if r.Err != nil {
		e.Error = broker.Message(r.Err)
	}
	for i := range c.Hops {
		e.Hops = append(e.Hops, newHop(&c.Hops[i]))
	}
	if r.Outcome == broker.Cancelled {
		e.Cancel = &cancel{r.By, r.Stopped}
	}
	if l.prompts {
		e.Prompt, e.Response = c.Prompt, c.Completion.Text
		if c.Body != nil {
			e.Prompt = c.Chat()
		}
	}
	l.write(e)
}

func newHop(h *broker.Hop) hop {
	made := hop{Provider: h.Provider, Model: h.Model, Sent: h.Sent, Seconds: h.Took.Seconds()}
	if pe, ok := errors.AsType[*provider.Error](h.Err); ok {
		made.Cause, made.Status = pe.Cause.String(), pe.Status
		if pe.Err != nil {
			made.Detail = pe.Err.Error()
		}
	}
	return made
}

// Calls writes each call as a line: its door and id, then the WireResult of rlm, which is an
// error or a chat_completion with the prompt and the response.
type Calls struct {
	lines
	append func(b []byte, c *broker.Call) []byte
}

// NewCalls returns a Calls to w. completion appends a chat_completion.
func NewCalls(w io.Writer, completion func(b []byte, c *broker.Call) []byte) *Calls {
	return &Calls{lines{w: w}, completion}
}

// A result is a line.
type result struct {
	Door       string          `json:"door"`
	Ref        string          `json:"correlation_id"`
	Error      *string         `json:"error"`
	Completion json.RawMessage `json:"chat_completion"`
}

// Ended writes a call.
func (l *Calls) Ended(c *broker.Call, r *broker.Report) {
	line := result{Door: c.Door, Ref: c.Ref}
	if r.Err != nil {
		line.Error = new(broker.Message(r.Err))
	} else {
		shown := *c
		if c.Prompt == nil {
			if shown.Prompt, _ = jsonscan.Get(c.Chat(), "messages"); shown.Prompt == nil {
				shown.Prompt = []byte("null")
			}
		}
		line.Completion = l.append(nil, &shown)
	}
	l.write(line)
}

// Spans sends a span for each call, with a child for each attempt at a provider, and
// measures calls.
type Spans struct{ To *otlp.Exporter }

// Traceparent returns the trace context of a call: a new span in the client's trace, or a new
// trace.
func Traceparent(client string) string {
	return otlp.Traceparent(otlp.Below(otlp.SpanContext(client)))
}

// Ended sends the spans of a call, unless the client's trace is not sampled.
func (s Spans) Ended(c *broker.Call, r *broker.Report) {
	call := span(c.Traceparent, c.Parent, c.Name, trace.SpanKindServer, c.Started, c.Took, r.Err)
	call.Attributes = append(call.Attributes,
		otlp.InputTokens.Int64(c.Completion.Usage.Input), otlp.OutputTokens.Int64(c.Completion.Usage.Output),
		otlp.Door.String(c.Door), otlp.Outcome.String(r.Outcome.String()), otlp.CallNumber.Int64(c.ID),
		name(otlp.RequestModel, cmp.Or(c.Model, c.Name)))
	if finish := c.Completion.Finish; finish != "" {
		call.Attributes = append(call.Attributes, otlp.FinishReasons.StringSlice([]string{finish}))
	}
	if r.Err == nil {
		call.Attributes = append(call.Attributes, name(otlp.ResponseModel, c.Name))
	}
	s.To.Send(call)
	for i := range c.Hops {
		h := &c.Hops[i]
		hop := span(h.Traceparent, c.Traceparent, h.Model, trace.SpanKindClient, h.Started, h.Took, h.Err)
		about := []attribute.KeyValue{name(otlp.ProviderName, h.Provider), name(otlp.RequestModel, h.Model)}
		hop.Attributes = append(hop.Attributes, about...)
		s.To.Send(hop)
		s.measure(c, r, h, append(about, hop.Attributes[0]))
	}
}

// measure adds an attempt to the metrics. The last one has the tokens of the call.
func (s Spans) measure(c *broker.Call, r *broker.Report, h *broker.Hop, about []attribute.KeyValue) {
	if h == &c.Hops[len(c.Hops)-1] && r.Err == nil {
		s.To.MeasureTokens(c.Completion.Usage.Input, c.Completion.Usage.Output, about...)
	}
	if h.Err != nil {
		about = append(about, otlp.ErrorType.String(broker.ErrorType(h.Err)))
	}
	s.To.Measure(otlp.ModelDuration, h.Took.Seconds(), about...)
}

// span returns the span of a trace context below a parent. It is named after the operation and
// the model, if any.
func span(own, parent, model string, kind trace.SpanKind, at time.Time, took time.Duration, err error) *otlp.Span {
	s := &otlp.Span{
		Context: otlp.SpanContext(own), Parent: otlp.SpanContext(parent), Name: strings.TrimSpace(otlp.Chat + " " + model),
		Kind: kind, Start: at, End: at.Add(took), Attributes: []attribute.KeyValue{otlp.OperationName.String(otlp.Chat)},
	}
	if err != nil {
		s.Error, s.Message = broker.ErrorType(err), broker.Message(err)
	}
	return s
}

// name returns a name as an attribute, which is empty if the name is.
func name(key attribute.Key, name string) attribute.KeyValue {
	if name == "" {
		return attribute.KeyValue{}
	}
	return key.String(name)
}
