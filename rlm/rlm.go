// Package rlm runs recursive language models. A question about a context of any size is
// put to a root model that sees only what the context is: its type and its size. The model
// writes code that reads the context in an interpreter, and that can ask sub-models.
//
// The package holds the loop and what bounds it. What it needs of others it declares: a
// [Model] that completes messages, and an [Environment] that runs code. Packages under env
// are environments; the broker becomes a Model in package commands.
package rlm

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wirectl/wirectl/rlm/runlog"
)

// A Message is one of a conversation with a model.
type Message struct {
	Role    string `json:"role"` // system, user, assistant or, in tools mode, tool
	Content string `json:"content"`
	// ToolCalls are those of an assistant in tools mode, as OpenAI writes them, and
	// ToolCallID is the call that a message of a tool answers. Messages are comparable.
	ToolCalls  runlog.Raw `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A Model completes conversations. It serves any number of goroutines.
type Model interface {
	// Complete returns as soon as ctx ends; the connection to the provider is closed by
	// then. It makes no second try of its own: a paid request is sent once, unless the
	// configuration of the broker allows more. Its errors are safe to show to the code.
	// The tokens of a call that failed are counted too.
	Complete(ctx context.Context, r Request) (Completion, error)
	// Window is how many tokens the model of that name can read, 0 if that is not known.
	Window(model string) int
}

// A TokenCounter is a [Model] that knows better than by the length how many tokens a
// conversation has.
type TokenCounter interface {
	CountTokens(ctx context.Context, model string, messages []Message) (int, error)
}

// A Request is what a model is asked. Either Messages or Prompt is set.
type Request struct {
	Model    string          // "" is the default
	Messages []Message       // of the root
	Prompt   json.RawMessage // of code: a string, an object or an array of messages
	Ref      string          // names the call in taps and events, such as RUN/t3/c1/q7
	// Tools may be called by the model, as ToolChoice says: auto, none, required, or the
	// name of one.
	Tools      []Tool
	ToolChoice string
	Schema     json.RawMessage // of the answer; nil if it may be any text
	// Traceparent is the W3C trace context of the run.
	Traceparent string
}

// A Completion is a model's answer.
type Completion struct {
	Model  string // that answered
	Text   string
	Finish string // why it ended, in OpenAI's words; "length" where it was cut
	Calls  []ToolCall
	Tokens Tokens
	Took   time.Duration
}

// Tokens are what calls have used.
type Tokens struct {
	Input  int64   `json:"input"`
	Output int64   `json:"output"`
	Cost   float64 `json:"cost,omitempty"` // in dollars; 0 where no price is known
}

// An Environment is an interpreter that keeps its variables from cell to cell. One
// goroutine uses it at a time.
type Environment interface {
	// Load makes a context known to the code, under the name context. It is called
	// before the first cell. After a worker was lost, Exec loads it again by itself.
	Load(ctx context.Context, c Context) error
	// Exec runs a cell. What the cell did wrong is in the Result; an error means that the
	// environment is of no more use. When ctx ends, so do the cell and its calls.
	Exec(ctx context.Context, cell Cell) (Result, error)
	// Var returns the text of a variable, as FINAL_VAR gives it.
	Var(ctx context.Context, name string) (text string, known bool, err error)
	// Close ends the interpreter with all that it started, and removes its files. It may
	// be called more than once.
	Close() error
}

// A Context is what a question is about. It lies in a file, which an environment reads
// without taking it into our memory.
type Context struct {
	Path string // of a file that the environment may read
	Type string // how the file is to be read: text, json or jsonl
}

// A Cell is a block of code that is to be run.
type Cell struct {
	Code string
	Ref  string // such as RUN/t3/c1
	// History is the value of the variable history: all messages so far.
	History []Message
	// Calls answers what the code asks. Its methods are called from several goroutines.
	Calls Caller
}

// A Caller answers what the code of a cell asks.
type Caller interface {
	// Query answers prompts, in order. An answer that failed holds an error, and spoils
	// no other. It returns as soon as ctx ends.
	Query(ctx context.Context, q Query) []Answer
}

// A Query is one call of llm_query, rlm_query or their batched forms, or of a tool.
type Query struct {
	ID      string            // of the request of the worker; "" if it has none
	Prompts []json.RawMessage // each a string, an object or an array of messages
	Model   string            // "" is the default for sub-calls
	Nested  bool              // asks for a child run
	Batch   bool              // was asked in the batched form
	Tool    string            // its name; the one prompt are its arguments, and the answer is JSON
}

// An Answer is what came of one prompt.
type Answer struct {
	Text string
	Err  error
}

// A Result is what came of a cell.
type Result struct {
	Stdout, Stderr string
	Omitted        int64             // bytes of output that were dropped
	Locals         map[string]string // representations of the variables, cut
	Took           time.Duration     // without what was spent waiting for calls alone
	Err            *CellError        // nil if the cell ran to its end
	// Final is the answer of the run, if the cell gave one: by FINAL, by FINAL_VAR or by
	// setting answer["ready"].
	Final *string
	// Best is answer["content"] as the cell left it.
	Best string
	// Lost says that the interpreter is a new one: the variables are gone.
	Lost bool
}

// A CellError is an error of the code. It has neither a traceback nor a path of the host.
type CellError struct {
	Type    string `json:"type"` // such as ZeroDivisionError, or Timeout where the cell took too long
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // in the cell, from 1; 0 if not known
}

func (e *CellError) Error() string { return e.Type + ": " + e.Message }
