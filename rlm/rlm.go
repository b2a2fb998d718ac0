// Package rlm runs recursive language models. A root model answers a question about a
// context of any size, of which it sees only the type and the size. It writes code that
// reads the context in an interpreter, and that can ask sub-models.
//
// The package has the loop and its limits. It declares what it needs: a [Model] that
// completes messages, and an [Environment] that runs code. Packages below env are
// environments; package run makes the broker a Model.
package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A Message is a message of a conversation with a model.
type Message struct {
	Role    string `json:"role"` // system, user, assistant or, in tools mode, tool
	Content string `json:"content"`
	// ToolCalls are the calls of an assistant in tools mode, as OpenAI writes them, and
	// ToolCallID is the call that a message of a tool answers. Messages are comparable.
	ToolCalls  runlog.Raw `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A Model completes conversations. Any number of goroutines may use it.
type Model interface {
	// Complete returns as soon as ctx ends, with the connection to the provider closed. It
	// does not retry: a request, which costs money, is sent once unless the configuration of
	// the broker allows more. Its errors are safe to show to the code. The tokens of a failed
	// call are counted, too.
	Complete(ctx context.Context, r Request) (Completion, error)
	// Window returns how many tokens the model can read; 0 if that is not known.
	Window(model string) int
}

// A TokenCounter is a [Model] that can count the tokens of a conversation.
type TokenCounter interface {
	CountTokens(ctx context.Context, model string, messages []Message) (int, error)
}

// A Request is a request to a model. Either Messages or Prompt is set.
type Request struct {
	Model    string    // "" is the default
	Messages []Message // of a root call
	// Prompt is Messages as JSON, or nil; of a sub-call, it is a string, an object or an array
	// of messages.
	Prompt json.RawMessage
	Ref    string // names the call in taps and events, such as RUN/t3/c1/q7
	// Tools are tools that the model may call. ToolChoice is auto, none, required, or the
	// name of a tool.
	Tools      []Tool
	ToolChoice string
	Schema     json.RawMessage // of the answer; nil if it may be any text
	// Traceparent is the W3C trace context of the run.
	Traceparent string
}

// A Completion is a model's answer.
type Completion struct {
	Model  string // that has answered
	Text   string
	Finish string // why it ended, as OpenAI names it; "length" if it was cut
	Calls  []ToolCall
	Tokens Tokens
	// Estimate is what the limits count if the provider has not counted: Tokens is zero then.
	Estimate Tokens
	Took     time.Duration
}

// Tokens are the tokens that calls have used.
type Tokens struct {
	Input  int64   `json:"input"`
	Output int64   `json:"output"`
	Cost   float64 `json:"cost,omitempty"` // in dollars; 0 if no price is known
}

// An Environment is an interpreter that keeps its variables from cell to cell. One goroutine
// uses it at a time.
type Environment interface {
	// Load loads a context into the variable context. It is called before the first cell.
	// After a worker was lost, Exec loads the context again.
	Load(ctx context.Context, c Context) error
	// Exec runs a cell. An error of the cell is in the Result; an error that Exec returns
	// means that the environment cannot be used any more. When ctx ends, so do the cell and
	// its calls.
	Exec(ctx context.Context, cell Cell) (Result, error)
	// Tell sets the variable history: all messages so far. It is called before the model is
	// asked, so that the interpreter has the messages when the next cell begins.
	Tell(history []Message)
	// Var returns the text of a variable, for FINAL_VAR. If it has none, text says why; "" if
	// there is no such variable.
	Var(ctx context.Context, name string) (text string, known bool, err error)
	// Close ends the interpreter and everything that it has started, and removes its files.
	// It may be called more than once.
	Close() error
}

// A Context is the context of a question. It is a file, which the environment reads, so that
// it is never in the memory of this process.
type Context struct {
	Path string // of a file that the environment may read
	Type string // text, json or jsonl
}

// A Cell is a block of code to be run.
type Cell struct {
	Code string
	Ref  string // such as RUN/t3/c1
	// Calls answers the calls of the code. Several goroutines use it.
	Calls Caller
}

// A Caller answers the calls of the code of a cell.
type Caller interface {
	// Query answers prompts, in order. Each answer may have an error. Query returns as soon
	// as ctx ends.
	Query(ctx context.Context, q Query) []Answer
}

// A Query is one call of llm_query, rlm_query or their batched forms, or of a tool.
type Query struct {
	ID      string            // of the worker's request; "" if it has none
	Prompts []json.RawMessage // each a string, an object or an array of messages
	Model   string            // "" is the default for sub-calls
	Nested  bool              // a child run is requested
	Batch   bool              // it is a batched call
	Tool    string            // the name of a tool; the only prompt is its arguments, and the answer is JSON
}

// An Answer is the answer to one prompt.
type Answer struct {
	Text string
	Err  error
}

// A Result is the result of a cell.
type Result struct {
	Stdout, Stderr string
	Omitted        int64             // bytes of output that were dropped
	Locals         map[string]string // representations of the variables, cut
	Took           time.Duration     // without the time spent only waiting for calls
	Err            *CellError        // nil if the cell ran to its end
	// Final is the answer of the run, if the cell has given one: by FINAL, by FINAL_VAR or by
	// setting answer["ready"].
	Final *string
	// Best is answer["content"] after the cell.
	Best string
	// Lost says that the interpreter is a new one, without the variables.
	Lost bool
}

// A CellError is an error of the code. It has neither a traceback nor a path of the host.
type CellError struct {
	Type    string `json:"type"` // such as ZeroDivisionError, or Timeout if the cell took too long
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // in the cell, from 1; 0 if not known
}

func (e *CellError) Error() string {
	if e.Message == "" {
		return e.Type
	}
	return e.Type + ": " + e.Message
}

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

// A childLog keeps the log of a child run for the record of its call.
type childLog struct{ runlog.Run }

func (l *childLog) Metadata(m runlog.Metadata) error {
	m.SchemaVersion, m.Type = runlog.Version, "metadata"
	l.Run.Metadata = m
	return nil
}

func (l *childLog) Iteration(i runlog.Iteration) error {
	i.SchemaVersion, i.Type = runlog.Version, "iteration"
	l.Run.Iterations = append(l.Run.Iterations, i)
	return nil
}

// environment returns the kind of interpreter. A child run may have none although its parent
// has one.
func (r *run) environment() string {
	if r.mode == ToolsMode {
		return string(ToolsMode)
	}
	return cmp.Or(r.o.Metadata.EnvironmentType, "none")
}

func (r *run) logMetadata() {
	if r.log == nil {
		return
	}
	m := r.o.Metadata
	m.Timestamp = runlog.Timestamp(r.o.Now())
	m.EnvironmentType = r.environment()
	m.RootModel, m.MaxDepth, m.MaxIterations, m.CorrelationID = r.model, r.maxDepth, r.iterations, r.id
	if err := r.log.Metadata(m); err != nil {
		r.note(&r.logErr, err)
	}
}

// record logs the turn. The record has the answer if a limit ended the run, but not if the
// run was cancelled or has failed.
func (t *turn) record(end *ending, took time.Duration) {
	if t.log == nil {
		return
	}
	i := runlog.Iteration{
		Iteration: t.n, Timestamp: runlog.Timestamp(t.o.Now()), Response: runlog.Text(t.response.Text), CodeBlocks: t.blocks, ToolCalls: t.toolCalls,
		Seconds: took.Seconds(), CorrelationID: t.id, Usage: t.meter.read().Record(), Cumulative: t.run.meter.read().Record(),
	}
	for _, m := range t.prompt {
		i.Prompt = append(i.Prompt, runlog.Message{Role: m.Role, Content: runlog.Text(m.Content), ToolCalls: m.ToolCalls, ToolCallID: runlog.Text(m.ToolCallID)})
	}
	if end != nil {
		i.FinishReason = string(end.finish)
		if end.finish != Cancelled && end.finish != "" {
			answer := runlog.Text(end.answer)
			i.FinalAnswer = &answer
		}
	}
	if err := t.log.Iteration(i); err != nil {
		t.note(&t.logErr, err)
	}
}

// block returns the record of the cell.
func (c *cell) block(code string, res Result, took time.Duration) runlog.CodeBlock {
	calls := make([]runlog.ChatCompletion, len(c.done))
	for i, k := range c.done {
		calls[i] = k.completion()
	}
	stderr := res.Stderr
	if res.Err != nil {
		stderr = joinLines(stderr, res.Err.text())
	}
	return runlog.CodeBlock{Code: code, Result: runlog.Result{
		Stdout: res.Stdout, Stderr: stderr, Locals: runlog.Locals(res.Locals, nil), Seconds: took.Seconds(), CorrelationID: c.id, Calls: calls,
	}}
}

func (k *call) completion() runlog.ChatCompletion {
	c := runlog.ChatCompletion{
		RootModel: k.model, Prompt: k.prompt, Response: runlog.Text(k.text), Usage: *k.meter.read().Record(), Seconds: k.took.Seconds(),
		FinishReason: k.finish, Error: errorText(k.err),
	}
	c.SetTokens()
	if k.child != nil {
		c.Run = &k.child.Run
	}
	return c
}

// Record returns the usage for a log.
func (u Usage) Record() *runlog.Usage {
	r := &runlog.Usage{Models: map[string]runlog.ModelUsage{}, TotalCost: u.Total().Cost}
	for name, m := range u {
		r.Models[name] = runlog.ModelUsage{Calls: m.Calls, InputTokens: m.Input, OutputTokens: m.Output, TotalCost: m.Cost}
	}
	return r
}

// Interrupts ends parts of a run from outside. The zero value is for one run; nil ends
// nothing.
type Interrupts struct {
	mu   sync.Mutex
	live map[string]context.CancelCauseFunc // by Ref
}

var errInterrupted = errors.New("it was interrupted")

// Interrupt ends the part of the run with that Ref. A run ends as if the user had interrupted it.
// After the end of a cell, the run goes on. A call, or a child run, fails.
func (i *Interrupts) Interrupt(ref string) error {
	i.mu.Lock()
	end := i.live[ref]
	i.mu.Unlock()
	if end == nil {
		return fmt.Errorf("there is nothing to interrupt at %q: name a run, a cell or a call in flight", ref)
	}
	end(errInterrupted)
	return nil
}

// begin makes a part known until done is called; end ends it.
func (i *Interrupts) begin(ref string, end context.CancelCauseFunc) (done func()) {
	if i == nil {
		return func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.live == nil {
		i.live = map[string]context.CancelCauseFunc{}
	}
	i.live[ref] = end
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.live, ref)
	}
}
