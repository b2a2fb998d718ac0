// Package starlark runs cells of code without an installed interpreter: wirectl executes
// itself again as the worker, which interprets Starlark. Any program that calls [New] must
// therefore call [Main] before anything else.
package starlark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
)

// argument is the first argument of a worker.
const argument = "//starlark"

// spare is the address space of the Go runtime, besides that of the code.
const spare = 4 << 30

// New returns an environment whose worker is this program. It sets Path, Args and Env of the
// Spec in c. Its Memory bounds the variables of the code.
func New(c env.Config) (*env.Env, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirectl's own program: %w", err)
	}
	c.Spec.Path = self
	c.Spec.Args = []string{argument}
	if c.Stdio || runtime.GOOS == "windows" {
		c.Spec.Args = append(c.Spec.Args, "stdio")
	}
	c.Spec.Env = []string{"GOTRACEBACK=none", "GOGC=off"} // no collection before Main
	if runtime.GOOS == "windows" {
		c.Spec.Env = append(c.Spec.Env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	if c.Spec.Memory > 0 {
		c.Spec.Args = append(c.Spec.Args, "memory="+strconv.FormatInt(c.Spec.Memory, 10))
		c.Spec.Memory += spare
	}
	return env.New(c), nil
}

// Main is the worker. In any other process, it returns at once.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != argument {
		return
	}
	debug.SetGCPercent(100)
	in, out := os.NewFile(3, "wire"), os.NewFile(3, "wire")
	memory := int64(0)
	for _, option := range os.Args[2:] {
		if text, ok := strings.CutPrefix(option, "memory="); ok {
			memory, _ = strconv.ParseInt(text, 10, 64)
		} else if option == "stdio" {
			in, out = os.NewFile(0, "stdin"), os.NewFile(1, "stdout")
		}
	}
	newWorker(in, out, memory).work()
}

// leave ends the worker.
func leave() {
	os.Exit(0) //nolint:forbidigo // it is a separate process
}

// options make the language as similar to Python as possible.
var options = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Limits of a cell. The depth prevents an overflow of the process's stack.
const (
	checkEvery = 1000 // steps
	maxDepth   = 10_000
)

// Reasons for which the worker ends a cell.
const (
	tooDeep     = "RecursionError"
	tooLarge    = "MemoryError"
	interrupted = "KeyboardInterrupt"
)

// How errors begin: the interpreter's for a cell that was ended and for an unknown name, and
// the worker's for a tool.
const (
	cancelled   = "Starlark computation cancelled: "
	unknownName = "internal error: predeclared variable "
	toolError   = "ToolError: "
)

// run runs the code of a cell, and returns its error.
func (w *worker) run(m *message) *rlm.CellError {
	name := fmt.Sprintf("<cell %d>", m.ID)
	program, err := compile(name, m.Code)
	if err != nil {
		return describe(err, name)
	}
	thread := &starlark.Thread{Name: name, Print: func(_ *starlark.Thread, text string) { w.print(text + "\n") }}
	thread.OnMaxSteps = func(t *starlark.Thread) {
		t.SetMaxExecutionSteps(t.ExecutionSteps() + checkEvery)
		w.check(t)
	}
	thread.SetMaxExecutionSteps(checkEvery)
	stop := context.AfterFunc(m.life, func() { thread.Cancel(interrupted) })
	defer stop()
	_, err = program.Init(thread, w.names)
	return describe(err, name)
}

// check ends a cell that is nested too deep, or whose variables are too large.
func (w *worker) check(t *starlark.Thread) {
	if t.CallStackDepth() > maxDepth {
		t.Cancel(tooDeep)
	}
	if w.limit == 0 {
		return
	}
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(used); used[0].Value.Uint64() > w.limit {
		t.Cancel(tooLarge)
	}
}

// compile compiles a cell. Names that it binds at its top level become variables of the
// session, so that functions see what later cells bind, as in Python.
func compile(name, code string) (*starlark.Program, error) {
	f, err := options.Parse(name, code, 0)
	if err != nil {
		return nil, err
	}
	if f.Stmts, err = shared(f.Stmts); err != nil {
		return nil, err
	}
	return starlark.FileProgram(f, func(string) bool { return true })
}

// self and define are names that code cannot have: of the session, whose fields are its
// variables, and of a function that returns another.
const (
	self   = "<session>"
	define = "<def>"
)

// shared rewrites statements of the top level, so that they set fields of the session.
func shared(list []syntax.Stmt) (_ []syntax.Stmt, err error) {
	var out []syntax.Stmt
	for _, stmt := range list {
		out = append(out, stmt)
		switch s := stmt.(type) {
		case *syntax.AssignStmt:
			s.LHS = target(s.LHS)
		case *syntax.DefStmt:
			out = append(out[:len(out)-1], definition(s)...)
		case *syntax.ForStmt:
			s.Vars = target(s.Vars)
			s.Body, err = shared(s.Body)
		case *syntax.WhileStmt:
			s.Body, err = shared(s.Body)
		case *syntax.IfStmt:
			if s.True, err = shared(s.True); err == nil {
				s.False, err = shared(s.False)
			}
		case *syntax.LoadStmt:
			err = syntax.Error{Pos: s.Load, Msg: "load: there are no modules to load"}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// target rewrites the target of an assignment.
func target(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.Ident:
		return &syntax.DotExpr{X: &syntax.Ident{NamePos: e.NamePos, Name: self}, Dot: e.NamePos, NamePos: e.NamePos, Name: e}
	case *syntax.ParenExpr:
		e.X = target(e.X)
	case *syntax.TupleExpr:
		for i := range e.List {
			e.List[i] = target(e.List[i])
		}
	case *syntax.ListExpr:
		for i := range e.List {
			e.List[i] = target(e.List[i])
		}
	}
	return e
}

// definition defines a function inside another, and assigns the value that the other returns.
func definition(s *syntax.DefStmt) []syntax.Stmt {
	name := func(text string) *syntax.Ident { return &syntax.Ident{NamePos: s.Def, Name: text} }
	outer := &syntax.DefStmt{
		Def: s.Def, Name: name(define), Lparen: s.Def, Rparen: s.Def,
		Body: []syntax.Stmt{s, &syntax.ReturnStmt{Return: s.Def, Result: name(s.Name.Name)}},
	}
	call := &syntax.CallExpr{Fn: name(define), Lparen: s.Def, Rparen: s.Def}
	return []syntax.Stmt{outer, &syntax.AssignStmt{OpPos: s.Def, Op: syntax.EQ, LHS: target(name(s.Name.Name)), RHS: call}}
}

const notPython = " (this is Starlark: no import, class, try, with, raise, del, f-strings, generators or **)"

// describe returns the error of a cell, with a type as in Python, and the line.
func describe(err error, cell string) *rlm.CellError {
	var wrong syntax.Error
	var unresolved resolve.ErrorList
	var failed *starlark.EvalError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &rlm.CellError{Type: "SyntaxError", Message: wrong.Msg + notPython, Line: int(wrong.Pos.Line)}
	case errors.As(err, &unresolved):
		return &rlm.CellError{Type: "SyntaxError", Message: unresolved[0].Msg, Line: int(unresolved[0].Pos.Line)}
	case !errors.As(err, &failed):
		return &rlm.CellError{Type: "Error", Message: err.Error()}
	}
	e := &rlm.CellError{Type: "Error", Message: cut(failed.Msg, shown)}
	for _, f := range failed.CallStack {
		if f.Pos.Filename() == cell {
			e.Line = int(f.Pos.Line)
		}
	}
	if reason, ok := strings.CutPrefix(failed.Msg, cancelled); ok {
		e.Type, e.Message = reason, map[string]string{
			tooDeep: fmt.Sprintf("functions are nested deeper than %d calls", maxDepth), tooLarge: "the variables take more memory than the limit",
		}[reason]
	}
	if rest, ok := strings.CutPrefix(failed.Msg, unknownName); ok {
		unknown, _, _ := strings.Cut(rest, " ")
		e.Type, e.Message = "NameError", fmt.Sprintf("name '%s' is not defined", unknown)
	}
	if text, ok := strings.CutPrefix(failed.Msg, toolError); ok {
		e.Type, e.Message = "ToolError", cut(text, shown)
	}
	if strings.HasPrefix(failed.Msg, "excessive ") || strings.HasPrefix(failed.Msg, "repeat count ") {
		e.Type = tooLarge
	}
	return e
}

// Bounds of a message of a batch. Two messages are in flight, so that the host always has
// one.
const (
	batchPrompts = 256
	batchBytes   = 8 << 20
	underWay     = 2
)

// errInterrupted has the words of the interpreter.
var errInterrupted = errors.New(cancelled + interrupted) //nolint:staticcheck // their words

// promptOf returns a prompt as JSON.
func promptOf(t *starlark.Thread, v starlark.Value) (json.RawMessage, error) {
	switch v := v.(type) {
	case starlark.String:
		return json.Marshal(string(v))
	case *starlark.Dict, *starlark.List, starlark.Tuple:
		text, err := starlark.Call(t, starjson.Module.Members["encode"], starlark.Tuple{v}, nil)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(textOf(text)), nil
	}
	return nil, fmt.Errorf("a prompt must be a string, a dict or a list of messages, not %s", v.Type())
}

// sendCall sends a call, whose result is sent to the channel.
func (w *worker) sendCall(call object) (<-chan *message, error) {
	answered := make(chan *message, 1)
	w.mu.Lock()
	w.last++
	call["id"], call["cell"] = w.last, w.cell.ID
	w.waiting[w.last] = answered
	w.mu.Unlock()
	w.flush()
	return answered, w.send(call)
}

// answer waits for the result of a call, or for an interrupt. A result after a cancel is that
// of a cancelled call, and is ignored.
func (w *worker) answer(answered <-chan *message) (m *message, err error) {
	select {
	case m = <-answered:
	case <-w.cell.life.Done():
	}
	if w.cell.life.Err() != nil {
		return nil, errInterrupted
	}
	return m, nil
}

// named returns the model in a call; nil if there is none.
func named(v starlark.Value) (any, error) {
	if v == nil || v == starlark.None {
		return nil, nil
	}
	name, ok := starlark.AsString(v)
	if !ok {
		return nil, fmt.Errorf("model must be a string, not %s", v.Type())
	}
	return name, nil
}

func (w *worker) query(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var prompt, model, id, depth starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "prompt", &prompt, "model?", &model, "correlation_id?", &id, "depth?", &depth); err != nil {
		return nil, err
	}
	text, err := w.queryOne(t, b.Name(), prompt, model)
	if err == errInterrupted { //nolint:errorlint // it is never wrapped
		return nil, err
	}
	if err != nil {
		text = "Error: LM query failed - " + err.Error()
	}
	return starlark.String(text), nil
}

func (w *worker) queryOne(t *starlark.Thread, kind string, prompt, model starlark.Value) (string, error) {
	name, err := named(model)
	if err != nil {
		return "", err
	}
	raw, err := promptOf(t, prompt)
	if err != nil {
		return "", err
	}
	if len(raw) > repl.Limit-4096 {
		return "", fmt.Errorf("the prompt has %d bytes, the limit is %d", len(raw), repl.Limit-4096)
	}
	answered, err := w.sendCall(object{"kind": kind, "model": name, "prompt": raw})
	if err != nil {
		return "", err
	}
	m, err := w.answer(answered)
	if err != nil {
		return "", err
	}
	if !m.OK {
		return "", errors.New(m.Error)
	}
	var response string
	err = json.Unmarshal(m.Response, &response)
	return response, err
}

// tool returns the function that calls a tool.
func (w *worker) tool(f rlm.Function) builtin {
	return func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) > len(f.Arguments) {
			return nil, fmt.Errorf("%s: takes at most %d positional arguments", b.Name(), len(f.Arguments))
		}
		arguments := starlark.NewDict(len(args) + len(kwargs))
		for i, v := range args {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(f.Arguments[i]), v})
		}
		for _, pair := range kwargs {
			if _, twice, _ := arguments.Get(pair[0]); twice {
				return nil, fmt.Errorf("%s: got multiple values for %s", b.Name(), pair[0])
			}
			_ = arguments.SetKey(pair[0], pair[1])
		}
		raw, err := promptOf(t, arguments)
		if err != nil {
			return nil, err
		}
		answered, err := w.sendCall(object{"kind": "tool_call", "name": f.Tool, "arguments": raw})
		if err != nil {
			return nil, err
		}
		m, err := w.answer(answered)
		switch {
		case err != nil:
			return nil, err
		case !m.OK:
			return nil, errors.New(toolError + m.Error)
		}
		return decode(string(m.Response))
	}
}

// A part is a message of a batch in flight.
type part struct {
	places   []int
	answered <-chan *message
}

// A batch is a call of a batched form.
type batch struct {
	*worker
	kind    string
	model   any
	answers []starlark.Value
	places  []int
	prompts []json.RawMessage
	size    int
	parts   []part
}

func (w *worker) batched(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var model, id starlark.Value
	var prompts starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "prompts", &prompts, "model?", &model, "correlation_id?", &id); err != nil {
		return nil, err
	}
	if _, ok := prompts.(*starlark.Dict); ok {
		return nil, fmt.Errorf("%s: prompts must be a list, not dict", b.Name())
	}
	c := batch{worker: w, kind: b.Name()}
	name, wrong := named(model)
	c.model = name
	for v := range starlark.Elements(prompts) {
		raw, err := promptOf(t, v)
		if err == nil && len(raw) > repl.Limit-4096 {
			err = fmt.Errorf("the prompt has %d bytes, the limit is %d", len(raw), repl.Limit-4096)
		}
		if wrong != nil {
			err = wrong
		}
		if err != nil {
			c.answers = append(c.answers, starlark.String("Error: "+err.Error()))
			continue
		}
		if err := c.add(raw); err != nil {
			return nil, err
		}
	}
	if err := c.send(0); err != nil {
		return nil, err
	}
	return starlark.NewList(c.answers), nil
}

// add adds a prompt. It may first have to send those before it.
func (c *batch) add(raw json.RawMessage) error {
	if len(c.prompts) == batchPrompts || len(c.prompts) > 0 && c.size+len(raw) > batchBytes {
		if err := c.send(underWay - 1); err != nil {
			return err
		}
	}
	c.places = append(c.places, len(c.answers))
	c.prompts = append(c.prompts, raw)
	c.size += len(raw)
	c.answers = append(c.answers, starlark.None)
	return nil
}

// send sends the prompts that were added, and waits until only left messages are in flight.
func (c *batch) send(left int) error {
	if len(c.prompts) > 0 {
		answered, err := c.sendCall(object{"kind": c.kind, "model": c.model, "prompts": c.prompts})
		if err != nil {
			return err
		}
		c.parts = append(c.parts, part{c.places, answered})
		c.places, c.prompts, c.size = nil, nil, 0
	}
	for len(c.parts) > left {
		m, err := c.answer(c.parts[0].answered)
		if err != nil {
			return err
		}
		for i, place := range c.parts[0].places {
			c.answers[place] = starlark.String(m.response(i))
		}
		c.parts = c.parts[1:]
	}
	return nil
}

// response returns the response to a prompt of a batch.
func (m *message) response(i int) string {
	var text string
	var failed struct{ Error string }
	switch {
	case !m.OK || i >= len(m.Responses):
		return "Error: " + strings.TrimSpace(m.Error)
	case json.Unmarshal(m.Responses[i], &text) == nil:
		return text
	}
	_ = json.Unmarshal(m.Responses[i], &failed)
	return "Error: " + failed.Error
}
