// Package tool provides what a model can call besides models: commands, MCP tools and
// Python functions; and checks answers against a schema.
//
// It reads tools from a file. It neither dials servers nor starts interpreters: callers
// pass functions for that.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
