package session

import (
	"slices"
	"time"

	"github.com/wirectl/wirectl/protocol"
)

// A Model holds the counts of the exchanges that a model has answered, or was asked to answer.
type Model struct {
	Name string
	// Calls counts the exchanges that are over, and Failed those that failed.
	Calls, Failed int64
	Usage         protocol.Usage
	// FirstPart is the time from request to first part: the time to the first token.
	FirstPart Histogram
	// Streamed counts the tokens between the first part and the end, and Streaming is the
	// time between these.
	Streamed  int64
	Streaming time.Duration
	// StopReasons and ToolCalls hold counts by name.
	StopReasons, ToolCalls map[string]int64
}

// maxNamesOfModel bounds how many stop reasons and tools of a model are distinguished.
const maxNamesOfModel = 256

// TokensPerSecond returns the speed of the model; 0 if unknown.
func (m *Model) TokensPerSecond() float64 { return perSecond(m.Streamed, m.Streaming) }

func perSecond(n int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// streamed returns how many tokens of the answer came after its beginning, and how long
// that took: from the first part, or from the request if there are no parts.
func (e *Exchange) streamed() (tokens int64, took time.Duration) {
	if e.Outcome != Done || e.Model == "" {
		return 0, 0
	}
	start := e.FirstPart
	if e.Parts == 0 {
		start = e.Opened
	}
	if took = since(e.Closed, start); took == 0 {
		return 0, 0
	}
	return e.Usage.Output, took
}

// TokensPerSecond returns the speed of the answer, from the first part to the end; 0 if
// unknown.
func (e *Exchange) TokensPerSecond() float64 { return perSecond(e.streamed()) }

// modelOf returns the model of e, or nil if it has none or there are too many.
func (t *Tracker) modelOf(e *Exchange) *Model {
	if e.Model == "" {
		return nil
	}
	at := slices.IndexFunc(t.models, func(m *Model) bool { return m.Name == e.Model })
	if at < 0 {
		if len(t.models) == maxNamesOfModel {
			return nil
		}
		at = len(t.models)
		t.models = append(t.models, &Model{Name: e.Model, StopReasons: map[string]int64{}, ToolCalls: map[string]int64{}})
	}
	return t.models[at]
}

// countModel counts the finished exchange that was not counted yet.
func (t *Tracker) countModel() {
	e := t.uncounted
	if t.uncounted = nil; e == nil {
		return
	}
	if m := t.modelOf(e); m != nil {
		m.addExchange(e)
	}
}

// addExchange counts a finished exchange.
func (m *Model) addExchange(e *Exchange) {
	m.Calls++
	if e.Outcome.Failed() {
		m.Failed++
	}
	m.Usage = m.Usage.Plus(e.Usage)
	if first := e.TimeToFirstPart(); first > 0 {
		m.FirstPart.Add(first)
	}
	tokens, took := e.streamed()
	m.Streamed += tokens
	m.Streaming += took
	if e.StopReason != "" {
		countName(m.StopReasons, e.StopReason)
	}
	for _, name := range e.ToolCalls {
		countName(m.ToolCalls, name)
	}
}

func countName(counts map[string]int64, name string) {
	if _, known := counts[name]; known || len(counts) < maxNamesOfModel {
		counts[name]++
	}
}

// maxSaid bounds how much of the text of an answer is kept.
const maxSaid = 256 << 10

// say appends a piece to the text of the answer, and keeps only the end.
func (e *Exchange) say(piece []byte) {
	piece = piece[max(0, len(piece)-maxSaid/2):]
	if len(e.Said)+len(piece) > maxSaid {
		n := copy(e.Said, e.Said[len(e.Said)-(maxSaid/2):])
		e.Said = e.Said[:n]
	}
	if need := len(e.Said) + len(piece); need > cap(e.Said) {
		e.Said = append(make([]byte, 0, min(max(2*cap(e.Said), need, 256), maxSaid)), e.Said...)
	}
	e.Said = append(e.Said, piece...)
}
