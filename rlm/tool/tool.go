// Package tool provides what a model can call besides models: commands, MCP tools and
// Python functions; and checks answers against a schema.
//
// It reads tools from a file. It neither dials servers nor starts interpreters: callers
// pass functions for that.
package tool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wirectl/wirectl/rlm"
)

// A World connects a set of tools to servers and interpreters.
type World struct {
	// Dial connects to an MCP server by a command line, or by one word that is an address.
	// The token may be empty.
	Dial func(ctx context.Context, words []string, token string) (Server, error)
	// Open returns an interpreter of Python in which code was run.
	Open func(ctx context.Context, code string) (rlm.Environment, error)
	// Getenv returns tokens.
	Getenv func(string) string
	// Patience is how long the tools of an entry may take to be ready; 0 is 2 minutes.
	Patience time.Duration
	// Code says that tools become functions of code, which reserves some names.
	Code bool
}

// A Server is an MCP server. Any number of goroutines may use it.
type Server interface {
	// Ask makes a request and returns its result. The end of ctx cancels it.
	Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	Close() error
}

// A Set is the tools of a file. It implements [rlm.Tools].
type Set struct {
	defined []rlm.Tool
	invoke  map[string]invoker
	code    map[string]bool // names of functions; nil if code does not call them
	close   []func() error
}

// An invoker calls one tool.
type invoker func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)

// Definitions implements [rlm.Tools].
func (s *Set) Definitions() []rlm.Tool { return s.defined }

// Invoke implements [rlm.Tools].
func (s *Set) Invoke(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	result, err := s.invoke[name](ctx, arguments)
	var known *rlm.ToolError
	if err != nil && !errors.As(err, &known) {
		err = &rlm.ToolError{Type: "ToolExecution", Err: err}
	}
	return result, err
}

// Close ends servers and interpreters.
func (s *Set) Close() error {
	var errs []error
	for _, end := range s.close {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// addTool adds a tool with a new name.
func (s *Set) addTool(t rlm.Tool, call invoker) error {
	if _, taken := s.invoke[t.Name]; taken {
		return fmt.Errorf("two tools have the name %q: list the others in only", t.Name)
	}
	if s.code != nil {
		f, err := t.Function()
		switch {
		case err != nil:
			return err
		case s.code[f.Name]:
			return fmt.Errorf("two tools have the function name %s: list the others in only", f.Name)
		}
		s.code[f.Name] = true
	}
	s.invoke[t.Name] = call
	s.defined = append(s.defined, t)
	return nil
}

// asResult returns the output of a tool as JSON. Output that is not JSON becomes a string.
func asResult(output string) json.RawMessage {
	if text := strings.TrimSpace(output); json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, _ := json.Marshal(strings.TrimRight(output, "\r\n")) // strings always have a JSON form
	return b
}

const (
	maxOutput  = 4 << 20 // of a command, in bytes
	maxMessage = 2000    // of standard error, in bytes
)

// addExec adds a command, which reads the arguments as JSON, and writes JSON or text.
func (s *Set) addExec(name string, e *entry) error {
	if !isCallable(name) {
		return fmt.Errorf("%q: the name of a tool has at most 64 letters, digits, _ and -", name)
	}
	parameters, schema, err := e.parameters()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	args := e.Exec
	return s.addTool(rlm.Tool{Name: name, Description: e.Description, Parameters: parameters}, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
		if schema != nil {
			if err := schema.checkJSON(arguments); err != nil {
				return nil, &rlm.ToolError{Type: "Validation", Err: err}
			}
		}
		return execute(ctx, args, arguments)
	})
}

// execute runs a command to its end.
func execute(ctx context.Context, args []string, stdin []byte) (json.RawMessage, error) {
	var complaint Tail
	p, output, err := rlm.Ask(ctx, args, append(stdin, '\n'), &complaint, func(r io.Reader) ([]byte, error) {
		return io.ReadAll(io.LimitReader(r, maxOutput+1))
	})
	if p == nil {
		return nil, err
	}
	exit, failed := p.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil, failed != nil:
		return nil, errors.Join(err, failed)
	case len(output) > maxOutput:
		return nil, fmt.Errorf("more than %d bytes of output", maxOutput)
	case exit.Signal != nil:
		return nil, fmt.Errorf("ended by signal %v%s", exit.Signal, complaint.Said())
	case exit.Status != 0:
		return nil, fmt.Errorf("exit status %d%s", exit.Status, complaint.Said())
	}
	return asResult(string(output)), nil
}

// A Tail keeps the end of the text that is written to it.
type Tail struct{ kept []byte }

func (t *Tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-maxMessage):]
	return len(b), nil
}

// Said returns the text for the end of an error; "" if nothing was written.
func (t *Tail) Said() string {
	text := strings.TrimSpace(string(bytes.ToValidUTF8(t.kept, []byte("\ufffd"))))
	if text == "" {
		return ""
	}
	return ": " + text
}

// functions is code that describes and calls the functions of the code before it.
//
//go:embed functions.py
var functions string

// maxSource bounds a file of Python.
const maxSource = 1 << 20

// An interpreter runs the functions of a file, one at a time.
type interpreter struct {
	turn chan struct{} // held by the user of env
	env  rlm.Environment
}

// addPython adds the functions of a file.
func (s *Set) addPython(ctx context.Context, name string, e *entry, w World) error {
	info, err := os.Stat(e.Python)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if info.Size() > maxSource {
		return fmt.Errorf("%s: %s has more than %d bytes", name, e.Python, maxSource)
	}
	source, err := os.ReadFile(e.Python)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// The lines of the file stay the lines of the code, for errors.
	env, err := w.Open(ctx, string(source)+"\n\n"+functions)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p := &interpreter{turn: make(chan struct{}, 1), env: env}
	s.close = append(s.close, env.Close)
	result, err := p.run(ctx, "FINAL(_wirectl.describe())")
	if err != nil {
		return inSource(e.Python, strings.Count(string(source), "\n")+1, err)
	}
	var found []rlm.Tool
	if err := json.Unmarshal([]byte(result), &found); err != nil {
		return fmt.Errorf("%s: %s: the functions cannot be described: %w", name, e.Python, err)
	}
	for _, t := range found {
		if !e.wants(t.Name) {
			continue
		}
		if !isCallable(t.Name) {
			return fmt.Errorf("%s: the function %q has a name that models cannot call: list the others in only", name, t.Name)
		}
		err := s.addTool(t, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
			name, _ := json.Marshal(t.Name) // strings always have a JSON form
			text, _ := json.Marshal(string(arguments))
			result, err := p.run(ctx, fmt.Sprintf("FINAL(_wirectl.call(%s, %s))", name, text))
			return json.RawMessage(result), err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// inSource adds the position in a file of Python to an error.
func inSource(file string, lines int, err error) error {
	e := &Error{Name: file, Err: err}
	if wrong, ok := errors.AsType[*rlm.CellError](err); ok {
		e.Err = wrong
		if wrong.Line > 0 && wrong.Line <= lines {
			e.Line = wrong.Line
		}
	}
	return e
}

// run runs code, and returns the value that it passes to FINAL. It waits for other users.
func (p *interpreter) run(ctx context.Context, code string) (string, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	res, err := p.env.Exec(ctx, rlm.Cell{Code: code})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	case res.Err != nil:
		return "", &rlm.CellError{Type: res.Err.Type, Message: res.Err.Message} // the line would be in functions.py
	case res.Final == nil:
		return "", errors.New("the function returned nothing that can be read")
	}
	return *res.Final, nil
}

const (
	maxPages   = 100  // of a list of tools
	maxOffered = 1000 // tools of a server
)

// addMCP adds the tools of a server.
func (s *Set) addMCP(ctx context.Context, name string, e *entry, w World) error {
	token := ""
	if e.Token != "" {
		if token = w.Getenv(e.Token); token == "" {
			return fmt.Errorf("%s: the environment variable %s is not set", name, e.Token)
		}
	}
	server, err := w.Dial(ctx, e.MCP, token)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.close = append(s.close, server.Close)
	tools, err := listTools(ctx, server)
	if err != nil {
		return fmt.Errorf("%s: list of tools: %w", name, err)
	}
	for _, t := range tools {
		theirs := t.Name
		t.Name = uncallable.ReplaceAllString(t.Name, "_")
		if !e.wants(t.Name) {
			continue
		}
		if !isCallable(t.Name) {
			return fmt.Errorf("%s: the tool %q has a name that models cannot call: list the others in only", name, theirs)
		}
		err := s.addTool(t, func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
			return callMCP(ctx, server, theirs, arguments)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// listTools asks a server for all its tools.
func listTools(ctx context.Context, server Server) (tools []rlm.Tool, err error) {
	params := json.RawMessage(`{}`)
	for range maxPages {
		result, err := server.Ask(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Schema      json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			parameters := t.Schema
			if len(parameters) == 0 || parameters[0] != '{' {
				parameters = anyObject
			}
			tools = append(tools, rlm.Tool{Name: t.Name, Description: t.Description, Parameters: parameters})
		}
		if page.Next == "" {
			return tools, nil
		}
		if len(tools) > maxOffered {
			break
		}
		if params, err = json.Marshal(map[string]string{"cursor": page.Next}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d pages or %d tools", maxPages, maxOffered)
}

// callMCP calls a tool. The result is the structured content, or the text, or else the whole
// content.
func callMCP(ctx context.Context, server Server, name string, arguments json.RawMessage) (json.RawMessage, error) {
	params, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return nil, err
	}
	answer, err := server.Ask(ctx, "tools/call", params)
	if err != nil {
		return nil, err
	}
	var result struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, err
	}
	text, isText := textOf(result.Content)
	switch {
	case result.IsError && isText:
		return nil, errors.New(text)
	case result.IsError:
		return nil, fmt.Errorf("the tool failed: %s", result.Content)
	case len(result.Structured) > 0 && result.Structured[0] == '{':
		return result.Structured, nil
	case isText:
		return asResult(text), nil
	case len(result.Content) == 0:
		return json.RawMessage("null"), nil
	}
	return result.Content, nil
}

// textOf returns the text of content that is only text.
func textOf(content json.RawMessage) (text string, ok bool) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil || len(parts) == 0 {
		return "", false
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n"), true
}

// A Schema checks JSON. It implements [rlm.Schema].
type Schema struct {
	document json.RawMessage
	resolved *jsonschema.Resolved
}

// NewSchema reads a JSON Schema: draft 2020-12 or draft-07.
func NewSchema(document []byte) (*Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(document, &s); err != nil {
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(document[:min(int(wrong.Offset), len(document))], []byte("\n")), err)
		}
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, document); err != nil {
		return nil, err
	}
	return &Schema{compact.Bytes(), resolved}, nil
}

// Document implements [rlm.Schema].
func (s *Schema) Document() json.RawMessage { return s.document }

// checkJSON returns why JSON does not match.
func (s *Schema) checkJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.resolved.Validate(value)
}

// Match implements [rlm.Schema]. The JSON may be in a block of code, or in text.
func (s *Schema) Match(answer string) (string, error) {
	text := extract(answer)
	return text, s.checkJSON([]byte(text))
}

// extract returns the JSON in an answer, if there is any.
func extract(answer string) string {
	answer = strings.TrimSpace(answer)
	if json.Valid([]byte(answer)) {
		return answer
	}
	if blocks, _ := rlm.CodeBlocks(answer, []string{"json", ""}); len(blocks) > 0 {
		return strings.TrimSpace(blocks[0])
	}
	if from, to := strings.IndexAny(answer, "{["), strings.LastIndexAny(answer, "}]"); from >= 0 && to > from {
		return answer[from : to+1]
	}
	return answer
}
