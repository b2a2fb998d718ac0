package starlark

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/wirectl/wirectl/rlm"
)

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
