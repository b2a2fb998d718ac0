package rlm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "policy" {
		policy(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// A rule is a model: functions from messages or a prompt to a turn.
type rule struct {
	root     func(turn int, messages []Message) string // turn counts from 1
	sub      func(prompt string) (string, error)
	delay    time.Duration
	left     time.Duration // delay of abandoned calls; 0 means delay
	tokens   Tokens        // per call
	estimate Tokens
	window   int

	mu      sync.Mutex
	calls   int
	open    int // running calls
	largest int // maximum of open
	refs    []string
	asked   []Request
}

func (m *rule) Window(string) int { return m.window }

func (m *rule) Complete(ctx context.Context, r Request) (Completion, error) {
	m.mu.Lock()
	m.calls++
	m.open++
	m.largest = max(m.largest, m.open)
	m.refs = append(m.refs, r.Ref)
	m.asked = append(m.asked, r)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.open--
		m.mu.Unlock()
	}()
	c := Completion{Model: r.Model, Finish: "stop", Tokens: m.tokens, Estimate: m.estimate, Took: m.delay}
	delay := m.delay
	if m.left > 0 && string(r.Prompt) == `"left"` {
		delay = m.left
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if r.Messages != nil {
		var turn int
		ref := strings.TrimSuffix(r.Ref, "/summary")
		_, _ = fmt.Sscanf(ref[strings.LastIndex(ref, "/"):], "/t%d", &turn)
		if c.Text = m.root(turn, r.Messages); strings.HasPrefix(c.Text, "!") {
			return c, errors.New(c.Text[1:])
		}
		if text, cut := strings.CutSuffix(c.Text, "[cut]"); cut {
			c.Text, c.Finish = text, "length"
		}
		c.Text, c.Calls = callsIn(c.Text)
		return c, nil
	}
	text, err := m.sub(promptText(r.Prompt))
	c.Text = text
	return c, err
}

// turns returns a root that gives these responses in order, and then repeats the last one.
func turns(texts ...string) func(int, []Message) string {
	return func(n int, _ []Message) string { return texts[min(n, len(texts))-1] }
}

func echo(prompt string) (string, error) { return "<" + prompt + ">", nil }

// code returns a response with a block for each cell.
func code(cells ...string) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString("Next:\n```repl\n" + c + "\n```\n")
	}
	return b.String()
}

// A lab is an environment whose cells consist of lines with a word and its argument.
type lab struct {
	mu     sync.Mutex
	opened int
	closed int
	ran    []string
	kept   []Message // the history
}

func (l *lab) open(context.Context, Session) (Environment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return &labEnv{lab: l, vars: map[string]string{}}, nil
}

type labEnv struct {
	*lab
	vars   map[string]string
	best   string
	closed bool
}

func (e *labEnv) Load(ctx context.Context, c Context) error {
	e.vars["context"] = c.Path
	return ctx.Err()
}

func (e *labEnv) Var(ctx context.Context, name string) (string, bool, error) {
	text, ok := e.vars[name]
	return text, ok, ctx.Err()
}

func (e *labEnv) Tell(history []Message) { e.kept = history }

func (e *labEnv) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.lab.closed++
	}
	e.closed = true
	return nil
}

func (e *labEnv) Exec(ctx context.Context, cell Cell) (Result, error) {
	e.mu.Lock()
	e.ran = append(e.ran, cell.Code)
	e.mu.Unlock()
	res := Result{Locals: map[string]string{}}
	for line := range strings.Lines(cell.Code) {
		word, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := e.step(ctx, cell, word, arg, &res); err != nil {
			return res, err
		}
		if res.Err != nil || ctx.Err() != nil {
			break
		}
	}
	for name, v := range e.vars {
		res.Locals[name] = v
	}
	res.Best = e.best
	return res, nil
}

func (e *labEnv) step(ctx context.Context, cell Cell, word, arg string, res *Result) error {
	ask := func(nested bool, prompts ...string) {
		q := Query{Nested: nested, Batch: len(prompts) > 1}
		for _, p := range prompts {
			if model, rest, ok := strings.Cut(p, ":"); ok {
				q.Model, p = model, rest
			}
			b, _ := json.Marshal(p)
			q.Prompts = append(q.Prompts, b)
		}
		for _, a := range cell.Calls.Query(ctx, q) {
			if a.Err != nil {
				a.Text = "Error: " + a.Err.Error()
			}
			res.Stdout += a.Text + "\n"
			e.vars["last"] = a.Text
		}
	}
	switch word {
	case "tool": // its name and its arguments
		name, arguments, _ := strings.Cut(arg, " ")
		a := cell.Calls.Query(ctx, Query{Tool: name, Prompts: []json.RawMessage{json.RawMessage(arguments)}})[0]
		if res.Stdout += a.Text + "\n"; a.Err != nil {
			res.Err = &CellError{Type: "ToolError", Message: a.Err.Error()}
		}
	case "print":
		res.Stdout += arg + "\n"
	case "ask":
		ask(false, arg)
	case "nest":
		ask(true, arg)
	case "batch":
		ask(false, strings.Split(arg, "|")...)
	case "many":
		var n int
		_, _ = fmt.Sscan(arg, &n)
		ask(false, strings.Split(strings.Repeat("x|", n-1)+"x", "|")...)
	case "leave": // an abandoned thread that makes a call
		go func() {
			_ = cell.Calls.Query(context.WithoutCancel(ctx), Query{Prompts: []json.RawMessage{[]byte(`"left"`)}})
		}()
	case "set":
		name, value, _ := strings.Cut(arg, " ")
		e.vars[name] = value
	case "fail":
		res.Err = &CellError{Type: "ValueError", Message: arg, Line: 1}
	case "best":
		e.best = arg
	case "lose":
		e.best, res.Lost = "", true
	case "final":
		if arg == "last" {
			arg = e.vars["last"]
		}
		res.Final = &arg
	case "wait":
		<-ctx.Done()
	case "die":
		return errors.New("the worker cannot be started again")
	default:
		res.Err = &CellError{Type: "NameError", Message: word}
	}
	return nil
}

// A memo is a log and an observer.
type memo struct {
	childLog
	mu      sync.Mutex
	events  []Event
	meta    int
	observe func(Event)
}

func (m *memo) Metadata(r runlog.Metadata) error {
	m.meta++
	return m.childLog.Metadata(r)
}

func (m *memo) tell(e Event) {
	m.mu.Lock()
	m.events = append(m.events, e)
	m.mu.Unlock()
	if m.observe != nil {
		m.observe(e)
	}
}

// start runs a model in a lab.
func start(ctx context.Context, m Model, l *lab, log *memo, change func(*Options)) (Outcome, error) {
	o := Options{
		Model: m, Open: l.open, Question: "why", Root: "root", Sub: "sub",
		Limits: Limits{Iterations: 4, Depth: 1}, Log: log, Observe: log.tell,
		System: func(prompt.Facts) string { return "Write code." },
		NewID:  func() string { return "0123456789abcdef0123456789abcdef" },
	}
	if change != nil {
		change(&o)
	}
	return Run(ctx, o)
}

type badLog struct{ err error }

func (l badLog) Metadata(runlog.Metadata) error   { return l.err }
func (l badLog) Iteration(runlog.Iteration) error { return l.err }
