package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A Mode is how a run works.
type Mode string

// The modes of runs.
const (
	Code      Mode = "code"  // the model writes code
	ToolsMode Mode = "tools" // the model calls tools
)

func (m Mode) iterations() int {
	if m == ToolsMode {
		return defaultRounds
	}
	return defaultIterations
}

// A Tool is a function that a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON Schema of an object
}

// A ToolCall is a call that a model has requested. Arguments are JSON; if the model wrote
// something else, they are a JSON string with that.
type ToolCall struct {
	ID, Name  string
	Arguments json.RawMessage
}

// Tools are the tools that a model may call. Several goroutines use them.
type Tools interface {
	// Definitions returns the same tools each time.
	Definitions() []Tool
	// Invoke calls a tool. The result is JSON. The model is told of an error, and goes on.
	// Invoke returns as soon as ctx ends.
	Invoke(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)
}

// A ToolError is an error of a tool, or of a call that is not valid.
type ToolError struct {
	Type string // ToolNotFound, Validation or ToolExecution
	Err  error
}

func (e *ToolError) Error() string { return e.Type + ": " + e.Err.Error() }

// Unwrap returns what the error comes from.
func (e *ToolError) Unwrap() error { return e.Err }

// some are the tools that a child run may call.
type some struct {
	Tools
	names []string
}

// only returns the tools with these names; nil is all tools.
func only(tools Tools, names []string) Tools {
	if names == nil || tools == nil {
		return tools
	}
	return some{tools, names}
}

func (s some) Definitions() []Tool {
	return slices.DeleteFunc(slices.Clone(s.Tools.Definitions()), func(t Tool) bool { return !slices.Contains(s.names, t.Name) })
}

// converse is a turn of tools mode: the model answers, or calls tools. After the last turn,
// it is asked for the answer.
func (t *turn) converse(ctx context.Context) (*ending, error) {
	if t.n == 1 {
		if err := t.begin(); err != nil {
			return t.fails(ctx, "Validation", err)
		}
	}
	if err := t.compact(ctx); err != nil {
		return t.fails(ctx, "LLM", err)
	}
	finish := Stop
	r := t.historyRequest()
	r.Tools, r.ToolChoice, r.Schema = t.tools.Definitions(), "auto", t.schemaJSON()
	switch {
	case t.n > t.iterations:
		r.ToolChoice, finish = "none", MaxIterations
	case t.n == 1 && t.depth == 0: // a run that had to call a tool in each turn would never end
		r.ToolChoice = cmp.Or(t.o.ToolChoice, "auto")
	}
	if err := t.ask(ctx, r); err != nil {
		return t.fails(ctx, "LLM", err)
	}
	switch {
	case t.n > t.iterations && t.response.Text == "":
		return t.bestSoFar(finish), nil
	case t.n > t.iterations, len(t.response.Calls) == 0:
		return &ending{t.response.Text, finish}, nil
	}
	t.callTools(ctx)
	return nil, nil
}

// begin makes the messages before the first turn.
func (t *turn) begin() error {
	conversation, err := t.conversation()
	if err != nil {
		return err
	}
	if system := t.system(prompt.Tools, nil); system != "" {
		t.say("system", system)
	}
	conversation[len(conversation)-1].Content += t.schemaText()
	for _, m := range conversation {
		t.addMessage(m)
	}
	t.opening = len(t.history)
	return nil
}

// conversation returns the context, if it is a message or a list of messages, and the
// question; or else one message with both. The question of a child is its context.
func (r *run) conversation() (list []Message, err error) {
	question := r.question
	if r.depth > 0 {
		question = ""
	}
	if r.context.Path == "" {
		return []Message{{Role: "user", Content: prompt.Query(question)}}, nil
	}
	if r.context.Type == "json" {
		if list, err = readMessages(r.context.Path); err != nil {
			return nil, err
		}
	}
	switch {
	case len(list) > 0 && question != "":
		return append(list, Message{Role: "user", Content: prompt.Query(question)}), nil
	case len(list) > 0:
		return list, nil
	}
	text, err := r.wholePrompt(question)
	return []Message{{Role: "user", Content: text}}, err
}

// readMessages reads a file with a message or a list of messages. It returns nil if the file
// has something else.
func readMessages(path string) (list []Message, err error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxShallow {
		return nil, errors.New("the context cannot be read, or is too large for one prompt")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("the file of the context cannot be read")
	}
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		data = append(append([]byte{'['}, data...), ']')
	}
	if json.Unmarshal(data, &list) != nil {
		return nil, nil //nolint:nilerr // it is another text
	}
	for _, m := range list {
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return nil, nil
		}
	}
	return list, nil
}

// callTools makes the calls of the response, all at once, and adds the results in the order
// of the calls.
func (t *turn) callTools(ctx context.Context) {
	calls := t.response.Calls
	t.addMessage(Message{Role: "assistant", Content: t.response.Text, ToolCalls: openAICalls(calls)})
	t.inHistory = true
	t.toolCalls = make([]runlog.ToolCall, len(calls))
	var group sync.WaitGroup
	for i := range calls {
		group.Go(func() { t.toolCalls[i] = t.callTool(ctx, fmt.Sprintf("%s/q%d", t.ref, i+1), "", calls[i]) })
	}
	group.Wait()
	t.last = ""
	for i := range t.toolCalls {
		c := &t.toolCalls[i]
		t.broken = t.broken || c.Error != ""
		text := toolText(c)
		t.addMessage(Message{Role: "tool", ToolCallID: calls[i].ID, Content: text})
		t.last = joinLines(t.last, text)
	}
	if t.n == t.iterations {
		t.say("user", prompt.LastTools)
	}
}

// callTool makes one call. The query is the ID of the [Query] if code has made the call.
func (t *turn) callTool(ctx context.Context, ref, query string, call ToolCall) runlog.ToolCall {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer t.o.Interrupts.begin(ref, end)()
	t.tell(Event{Kind: EventCall, Ref: ref, Depth: t.depth, Tool: call.Name, Query: query, Prompt: cutEvent(string(call.Arguments))})
	start := t.o.Now()
	result, err := t.invoke(ctx, call)
	took := t.o.Now().Sub(start)
	c := runlog.ToolCall{ID: call.ID, Name: call.Name, Arguments: runlog.Raw(call.Arguments), Seconds: took.Seconds(), Error: errorText(err)}
	if err == nil {
		c.Result = runlog.Raw(result)
	}
	t.tell(Event{
		Kind: EventCall, Done: true, Ref: ref, Depth: t.depth, Tool: call.Name, Text: cutEvent(string(c.Result)), Took: took.Seconds(),
		Error: c.Error,
	})
	return c
}

func (t *turn) invoke(ctx context.Context, call ToolCall) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, causeOf(ctx)
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, causeOf(ctx)
	}
	defer func() { <-t.slots }()
	if t.tools == nil {
		return nil, &ToolError{"ToolNotFound", errors.New("there are no tools")}
	}
	defined := t.tools.Definitions()
	if !slices.ContainsFunc(defined, func(d Tool) bool { return d.Name == call.Name }) {
		names := make([]string, len(defined))
		for i := range defined {
			names[i] = defined[i].Name
		}
		return nil, &ToolError{"ToolNotFound", fmt.Errorf("there is no tool %q: there are %s", call.Name, strings.Join(names, ", "))}
	}
	var arguments map[string]any
	if json.Unmarshal(call.Arguments, &arguments) != nil || arguments == nil {
		return nil, &ToolError{"Validation", errors.New("the arguments are not a JSON object")}
	}
	late := &ToolError{"ToolExecution", fmt.Errorf("no result within %v", t.o.ToolTimeout)}
	limited, stop := context.WithTimeoutCause(ctx, t.o.ToolTimeout, late)
	defer stop()
	result, err := t.tools.Invoke(limited, call.Name, call.Arguments)
	switch {
	case err == nil && !json.Valid(result):
		return nil, &ToolError{"ToolExecution", errors.New("the result is not JSON")}
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, causeOf(ctx)
	case limited.Err() != nil:
		return nil, late
	}
	return nil, err
}

// toolText returns the result of a call as the model sees it: always JSON, even if the result
// is too long.
func toolText(c *runlog.ToolCall) string {
	if c.Error != "" {
		return encodeJSON(map[string]string{"error": c.Error})
	}
	cut, omitted := render.First(string(c.Result), prompt.OutputChars)
	if omitted == 0 {
		return cut
	}
	return encodeJSON(map[string]any{"beginning": cut, "omitted_characters": omitted})
}

// openAICalls returns calls as in a message of OpenAI.
func openAICalls(calls []ToolCall) runlog.Raw {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	list := make([]call, len(calls))
	for i, c := range calls {
		list[i] = call{c.ID, "function", function{c.Name, string(c.Arguments)}}
	}
	return runlog.Raw(encodeJSON(list))
}

func encodeJSON(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // all values have a JSON form
	return strings.TrimSuffix(b.String(), "\n")
}
