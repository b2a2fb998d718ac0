package rlm

import (
	"encoding/json"
	"time"

	"github.com/wirectl/wirectl/internal/render"
)

// An EventKind says what has happened.
type EventKind string

// Turns, cells and calls have two events: one when they begin and, with Done, one when they
// end.
const (
	EventRun    EventKind = "run"    // a run or a child run has begun
	EventTurn   EventKind = "turn"   // a root call with the cells of its response
	EventCell   EventKind = "cell"   // a block of code
	EventCall   EventKind = "call"   // a sub-call; with Nested, a child run; with Tool, a call of a tool
	EventPolicy EventKind = "policy" // a policy has failed; each Error once
	EventAnswer EventKind = "answer" // of the run, not of a child run; the best so far unless Finish is [Stop]
	EventEnd    EventKind = "end"    // a run or a child run has ended
)

// An Event is something that has happened in a run. Which members are set depends on Kind.
type Event struct {
	Kind EventKind `json:"event"`
	Done bool      `json:"done,omitempty"`
	// Ref names the subject of the event: RUN, RUN/t3, RUN/t3/c1 or RUN/t3/c1/q7. A child run
	// has the Ref of its call, which begins the Refs of its events.
	Ref    string    `json:"ref"`
	Time   time.Time `json:"time"`
	Depth  int       `json:"depth"`
	Model  string    `json:"model,omitempty"`
	Tool   string    `json:"tool,omitempty"` // of a call of a tool
	Nested bool      `json:"nested,omitempty"`
	Query  string    `json:"-"`                // the ID of the [Query], of a call
	Prompt string    `json:"prompt,omitempty"` // the question of a run or the prompt of a call; cut
	Code   string    `json:"code,omitempty"`   // of a cell
	Text   string    `json:"text,omitempty"`   // the response of a turn, the output of a cell, an answer, or the answer to a call, cut
	Cells  int       `json:"cells,omitempty"`  // of a turn that is done
	// Environment is the kind of interpreter of a run, or tools in tools mode.
	Environment string `json:"environment_type,omitempty"`
	// ToolCalls is how many tools were called, of a turn that is done.
	ToolCalls int          `json:"tool_calls,omitempty"`
	Calls     int          `json:"calls,omitempty"`  // of a turn or a cell that is done, including those of children
	Tokens    *Tokens      `json:"tokens,omitempty"` // of everything in a subject that is done
	Took      float64      `json:"took,omitempty"`   // in seconds, of a subject that is done
	Finish    FinishReason `json:"finish_reason,omitempty"`
	// Error is the error of the code, a call, a policy or the run.
	Error string `json:"error,omitempty"`
}

// eventText bounds prompts and answers of calls in events, in characters.
const eventText = 2000

// tell passes an event to the observer, one at a time.
func (t *tree) tell(e Event) {
	if t.o.Observe == nil {
		return
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	e.Time = t.o.Now()
	t.o.Observe(e)
}

// shown returns a prompt for an event.
func (t *tree) shown(prompt json.RawMessage) string {
	if t.o.Observe == nil {
		return "" // prompts may be large
	}
	return cutEvent(promptText(prompt))
}

// cutEvent cuts a prompt or an answer for an event.
func cutEvent(s string) string {
	cut, _ := render.First(s, eventText)
	return cut
}
