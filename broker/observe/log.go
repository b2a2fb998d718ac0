// Package observe reports the calls of a broker: in a log with one JSON object per line,
// as structured completions, and as spans for OpenTelemetry. It changes no call; package
// broker counts usage.
package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
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
