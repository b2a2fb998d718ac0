// Package runlog writes and reads the logs of recursive language models: files of JSON
// lines. The first line is about the run, each other line about a turn.
//
// The schema is version 1 of one that other implementations and their viewers share. They
// read every line that is not of type metadata as a turn, so no other type is written.
// They ignore unknown keys, and so does the [Reader]. This implementation has added error,
// finish_reason, metadata of a call, tool_calls, and total_cost.
package runlog

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// Version is the version of the schema.
const Version = 1

// Metadata is the first line of a log.
type Metadata struct {
	SchemaVersion     int            `json:"schema_version,omitempty"` // set by the Writer
	Type              string         `json:"type,omitempty"`           // set by the Writer
	Timestamp         string         `json:"timestamp,omitempty"`      // ISO 8601; "" is set by the Writer
	RootModel         string         `json:"root_model"`
	MaxDepth          int            `json:"max_depth"`
	MaxIterations     int            `json:"max_iterations"`
	Backend           string         `json:"backend"`
	BackendKwargs     map[string]any `json:"backend_kwargs"`
	EnvironmentType   string         `json:"environment_type"`
	EnvironmentKwargs map[string]any `json:"environment_kwargs"`
	OtherBackends     []string       `json:"other_backends"` // nil is null
	CorrelationID     string         `json:"correlation_id,omitempty"`
}

// An Iteration is the line of a turn.
type Iteration struct {
	SchemaVersion int         `json:"schema_version,omitempty"` // set by the Writer
	Type          string      `json:"type,omitempty"`           // set by the Writer
	Iteration     int         `json:"iteration"`                // from 1
	Timestamp     string      `json:"timestamp,omitempty"`      // ISO 8601; "" is set by the Writer
	Prompt        Messages    `json:"prompt"`
	Response      Text        `json:"response"`
	CodeBlocks    []CodeBlock `json:"code_blocks"`
	ToolCalls     []ToolCall  `json:"tool_calls,omitempty"` // of the model, or of the code
	FinalAnswer   *Text       `json:"final_answer"`
	Seconds       float64     `json:"iteration_time"`
	CorrelationID string      `json:"correlation_id,omitempty"`
	Usage         *Usage      `json:"iteration_usage_summary,omitempty"`
	Cumulative    *Usage      `json:"cumulative_usage_summary,omitempty"` // of the run so far, including sub-calls
	FinishReason  string      `json:"finish_reason,omitempty"`            // in the last line
}

// A ToolCall is a call of a tool, with its result.
type ToolCall struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Arguments Raw     `json:"arguments"`
	Result    Raw     `json:"result,omitempty"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"execution_time"`
}

// A CodeBlock is a block of code, with its result.
type CodeBlock struct {
	Code   string `json:"code"`
	Result Result `json:"result"`
}

// A Result is the result of a block of code.
type Result struct {
	Stdout        string           `json:"stdout"`
	Stderr        string           `json:"stderr"` // includes the error of the code, for which viewers have no other place
	Locals        map[string]Text  `json:"locals"`
	Seconds       float64          `json:"execution_time"`
	CorrelationID string           `json:"correlation_id,omitempty"`
	Calls         []ChatCompletion `json:"rlm_calls"`
}

// A ChatCompletion is a call of a model, or a child run.
type ChatCompletion struct {
	RootModel        string          `json:"root_model"`
	Prompt           json.RawMessage `json:"prompt"` // a string, an object or an array of messages
	Response         Text            `json:"response"`
	Usage            Usage           `json:"usage_summary"`
	PromptTokens     int64           `json:"prompt_tokens"`     // see SetTokens
	CompletionTokens int64           `json:"completion_tokens"` // see SetTokens
	Seconds          float64         `json:"execution_time"`
	ToolCalls        json.RawMessage `json:"tool_calls,omitempty"`
	FinishReason     string          `json:"finish_reason,omitempty"`
	Error            string          `json:"error,omitempty"`
	Run              *Run            `json:"metadata,omitempty"` // of a child run
}

// SetTokens sets PromptTokens and CompletionTokens to the usage of the root model.
func (c *ChatCompletion) SetTokens() {
	used := c.Usage.Models[c.RootModel]
	c.PromptTokens, c.CompletionTokens = used.InputTokens, used.OutputTokens
}

// A Run is the log of a child run, inside the record of its call.
type Run struct {
	Metadata   Metadata    `json:"run_metadata"`
	Iterations []Iteration `json:"iterations"`
}

// Usage is the usage of several models.
type Usage struct {
	Models    map[string]ModelUsage `json:"model_usage_summaries"`
	TotalCost float64               `json:"total_cost,omitempty"` // in dollars; 0 if not known
}

// ModelUsage is the usage of one model.
type ModelUsage struct {
	Calls        int64   `json:"total_calls"`
	InputTokens  int64   `json:"total_input_tokens"`
	OutputTokens int64   `json:"total_output_tokens"`
	TotalCost    float64 `json:"total_cost,omitempty"`
}

// A Text is written as a string. If another program has written something else, it is the
// JSON of that.
type Text string

// UnmarshalJSON reads any JSON.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch b[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(b, (*string)(t))
	}
	*t = Text(b)
	return nil
}

// A Raw is JSON that is written as it is; "" is null.
type Raw string

// MarshalJSON implements [json.Marshaler].
func (r Raw) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(string(r), "null")), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Raw) UnmarshalJSON(b []byte) error {
	*r = Raw(b)
	return nil
}

// A Message is a message of a conversation.
type Message struct {
	Role       string `json:"role"`
	Content    Text   `json:"content"`
	ToolCalls  Raw    `json:"tool_calls,omitempty"` // of an assistant, as OpenAI writes them
	ToolCallID Text   `json:"tool_call_id,omitempty"`
}

// Messages are a conversation. Viewers expect an array with string contents. If another
// program has written a single prompt, it is read as one message of the user.
type Messages []Message

// UnmarshalJSON reads an array of messages, a message, or a string.
func (m *Messages) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
		*m = nil
		return nil
	case '[':
		return json.Unmarshal(b, (*[]Message)(m))
	}
	one := Message{Role: "user"}
	if b[0] != '{' {
		err := json.Unmarshal(b, &one.Content)
		*m = Messages{one}
		return err
	}
	err := json.Unmarshal(b, &one)
	if one.Content == "" {
		one.Content = Text(b)
	}
	*m = Messages{one}
	return err
}

// After returns the messages after the first ones that m has in common with earlier.
func (m Messages) After(earlier Messages) Messages {
	n := 0
	for n < min(len(m), len(earlier)) && m[n] == earlier[n] {
		n++
	}
	return m[n:]
}

// localChars bounds the representation of a variable, in characters.
const localChars = 2000

// reserved are the names of every run.
var reserved = []string{
	"context", "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "FINAL", "FINAL_VAR", "SHOW_VARS",
	"answer", "history", "RLM_CORRELATION_ID", "RLM_DEPTH",
}

// Locals returns variables for the log: without the names of every run and those in also,
// such as tools, and without names that begin with an underscore. The values are passed
// through hide, unless it is nil, and cut to 2,000 characters.
func Locals(vars map[string]string, hide func(string) string, also ...string) map[string]Text {
	kept := make(map[string]Text, len(vars))
	for name, value := range vars {
		if strings.HasPrefix(name, "_") || slices.Contains(reserved, name) || slices.Contains(also, name) {
			continue
		}
		if hide != nil {
			value = hide(value)
		}
		short, _ := render.First(value, localChars)
		kept[name] = Text(short)
	}
	return kept
}
