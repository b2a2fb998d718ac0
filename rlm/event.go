package rlm

import (
	"encoding/json"
	"time"

	"github.com/wirectl/wirectl/internal/render"
)

// An EventKind says what happens.
type EventKind string

// A turn, a cell and a call are told twice: as they begin and, with Done, as they end.
const (
	EventRun    EventKind = "run"    // a run or a child run begins
	EventTurn   EventKind = "turn"   // a root call with the cells of its response
	EventCell   EventKind = "cell"   // a block of code
	EventCall   EventKind = "call"   // a sub-call; with Nested, one that is a child run; with Tool, one of a tool
	EventAnswer EventKind = "answer" // the run, not a child, has its answer
	EventEnd    EventKind = "end"    // a run or a child run has ended
)

// An Event is something that happens in a run. Which members are set depends on Kind.
type Event struct {
	Kind EventKind `json:"event"`
	Done bool      `json:"done,omitempty"`
	// Ref names what the event is about: RUN, RUN/t3, RUN/t3/c1 or RUN/t3/c1/q7. A child
	// run has the Ref of its call, and what happens in it has longer ones.
	Ref    string    `json:"ref"`
	Time   time.Time `json:"time"`
	Depth  int       `json:"depth"`
	Model  string    `json:"model,omitempty"`
	Tool   string    `json:"tool,omitempty"` // of a call that is one of a tool
	Nested bool      `json:"nested,omitempty"`
	Query  string    `json:"-"`                // of a call the ID of its [Query]
	Prompt string    `json:"prompt,omitempty"` // of a run its question, of a call what was asked; cut
	Code   string    `json:"code,omitempty"`   // of a cell
	Text   string    `json:"text,omitempty"`   // of a turn, a call or an answer what was answered, of a cell its output; of calls cut
	Cells  int       `json:"cells,omitempty"`  // of a turn that is done
	// ToolCalls are how many tools were called, of a turn that is done.
	ToolCalls int          `json:"tool_calls,omitempty"`
	Calls     int          `json:"calls,omitempty"`  // of a turn or a cell that is done, those of children included
	Tokens    *Tokens      `json:"tokens,omitempty"` // of what is done, with all that was in it
	Took      Seconds      `json:"took,omitempty"`
	Finish    FinishReason `json:"finish_reason,omitempty"`
	// Error is what went wrong: in code, in a call, in a policy, or in the run.
	Error string `json:"error,omitempty"`
}

// eventText is how many characters of prompts and answers of calls are in events.
const eventText = 2000

// Seconds are a duration, and in JSON a number of seconds.
type Seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Seconds())
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	err := json.Unmarshal(b, &f)
	*s = Seconds(f * float64(time.Second))
	return err
}

// tell tells the observer of an event, one at a time.
func (t *tree) tell(e Event) {
	if t.o.Observe == nil {
		return
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	e.Time = t.o.Now()
	t.o.Observe(e)
}

// shown is what an event shows of a prompt.
func (t *tree) shown(prompt json.RawMessage) string {
	if t.o.Observe == nil {
		return "" // prompts may be large
	}
	return cutEvent(promptText(prompt))
}

// cutEvent cuts what is asked and answered to what events show.
func cutEvent(s string) string {
	cut, _ := render.First(s, eventText)
	return cut
}
