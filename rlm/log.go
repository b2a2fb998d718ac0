package rlm

import (
	"cmp"
	"time"

	"github.com/wirectl/wirectl/rlm/runlog"
)

// A childLog keeps the log of a child run for the record of its call.
type childLog struct{ runlog.Run }

func (l *childLog) Metadata(m runlog.Metadata) error {
	m.SchemaVersion, m.Type = runlog.Version, "metadata"
	l.Run.Metadata = m
	return nil
}

func (l *childLog) Iteration(i runlog.Iteration) error {
	i.SchemaVersion, i.Type = runlog.Version, "iteration"
	l.Run.Iterations = append(l.Run.Iterations, i)
	return nil
}

// environment returns the kind of interpreter. A child run may have none although its parent
// has one.
func (r *run) environment() string {
	if r.mode == ToolsMode {
		return string(ToolsMode)
	}
	return cmp.Or(r.o.Metadata.EnvironmentType, "none")
}

func (r *run) logMetadata() {
	if r.log == nil {
		return
	}
	m := r.o.Metadata
	m.Timestamp = runlog.Timestamp(r.o.Now())
	m.EnvironmentType = r.environment()
	m.RootModel, m.MaxDepth, m.MaxIterations, m.CorrelationID = r.model, r.maxDepth, r.iterations, r.id
	if err := r.log.Metadata(m); err != nil {
		r.note(&r.logErr, err)
	}
}

// record logs the turn. The record has the answer if a limit ended the run, but not if the
// run was cancelled or has failed.
func (t *turn) record(end *ending, took time.Duration) {
	if t.log == nil {
		return
	}
	i := runlog.Iteration{
		Iteration: t.n, Timestamp: runlog.Timestamp(t.o.Now()), Response: runlog.Text(t.response.Text), CodeBlocks: t.blocks, ToolCalls: t.toolCalls,
		Seconds: took.Seconds(), CorrelationID: t.id, Usage: t.meter.read().Record(), Cumulative: t.run.meter.read().Record(),
	}
	for _, m := range t.prompt {
		i.Prompt = append(i.Prompt, runlog.Message{Role: m.Role, Content: runlog.Text(m.Content), ToolCalls: m.ToolCalls, ToolCallID: runlog.Text(m.ToolCallID)})
	}
	if end != nil {
		i.FinishReason = string(end.finish)
		if end.finish != Cancelled && end.finish != "" {
			answer := runlog.Text(end.answer)
			i.FinalAnswer = &answer
		}
	}
	if err := t.log.Iteration(i); err != nil {
		t.note(&t.logErr, err)
	}
}

// block returns the record of the cell.
func (c *cell) block(code string, res Result, took time.Duration) runlog.CodeBlock {
	calls := make([]runlog.ChatCompletion, len(c.done))
	for i, k := range c.done {
		calls[i] = k.completion()
	}
	stderr := res.Stderr
	if res.Err != nil {
		stderr = joinLines(stderr, res.Err.text())
	}
	return runlog.CodeBlock{Code: code, Result: runlog.Result{
		Stdout: res.Stdout, Stderr: stderr, Locals: runlog.Locals(res.Locals, nil), Seconds: took.Seconds(), CorrelationID: c.id, Calls: calls,
	}}
}

func (k *call) completion() runlog.ChatCompletion {
	c := runlog.ChatCompletion{
		RootModel: k.model, Prompt: k.prompt, Response: runlog.Text(k.text), Usage: *k.meter.read().Record(), Seconds: k.took.Seconds(),
		FinishReason: k.finish, Error: errorText(k.err),
	}
	c.SetTokens()
	if k.child != nil {
		c.Run = &k.child.Run
	}
	return c
}

// Record returns the usage for a log.
func (u Usage) Record() *runlog.Usage {
	r := &runlog.Usage{Models: map[string]runlog.ModelUsage{}, TotalCost: u.Total().Cost}
	for name, m := range u {
		r.Models[name] = runlog.ModelUsage{Calls: m.Calls, InputTokens: m.Input, OutputTokens: m.Output, TotalCost: m.Cost}
	}
	return r
}
