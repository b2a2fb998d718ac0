// Package rlm runs recursive language models. A root model answers a question about a
// context of any size, of which it sees only the type and the size. It writes code that
// reads the context in an interpreter, and that can ask sub-models.
//
// The package has the loop and its limits. It declares what it needs: a [Model] that
// completes messages, and an [Environment] that runs code. Packages below env are
// environments; package run makes the broker a Model.
package rlm

import (
	"context"
	"encoding/json"
	"time"

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
