package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/wirectl/wirectl/rlm"
)

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
