package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A turn is a root call with the cells of its response.
type turn struct {
	*run
	n         int
	ref       string
	meter     *meter
	start     time.Time
	prompt    []Message
	response  Completion
	blocks    []runlog.CodeBlock
	outputs   []string // of the cells, as the model sees them
	inHistory bool     // the response is in the history
	broken    bool     // a cell or a tool call failed

	toolCalls []runlog.ToolCall
	calls     int // of its cells, including those of children
}

// turn plays turn n. An ending that is not nil ends the run; with an error it has failed.
func (r *run) turn(ctx context.Context, n int, play func(*turn, context.Context) (*ending, error)) (*ending, error) {
	t := &turn{run: r, n: n, ref: fmt.Sprintf("%s/t%d", r.ref, n), meter: r.account.newMeter(r.meter), start: r.o.Now()}
	r.tell(Event{Kind: EventTurn, Ref: t.ref, Depth: r.depth, Model: r.model})
	end, err := play(t, ctx)
	if err == nil && end != nil && (end.finish == Stop || end.finish == MaxIterations) {
		end = t.judge(end)
	}
	t.run.calls += t.calls
	if r.o.Stopping != nil {
		r.o.Stopping.Done(r.state(n))
	}
	if err == nil && end == nil {
		end = t.between(ctx)
	}
	if err == nil && end != nil && end.finish.Limited() && end.finish != MaxIterations {
		_ = t.matches(end) // it is the answer in any case
	}
	if end != nil && err == nil && ctx.Err() != nil && reasonOf(ctx, nil) == Cancelled {
		end.finish = Cancelled // even if the answer came at the same time
	}
	took := r.o.Now().Sub(t.start)
	t.record(end, took)
	usage := t.meter.read().Total()
	e := Event{
		Kind: EventTurn, Done: true, Ref: t.ref, Depth: r.depth, Model: cmp.Or(t.response.Model, r.model), Text: t.response.Text,
		Cells: len(t.blocks), ToolCalls: len(t.toolCalls), Calls: t.calls, Tokens: &usage.Tokens, Took: took.Seconds(), Error: errorText(err),
	}
	if end != nil {
		e.Finish = end.finish
	}
	r.tell(e)
	return end, err
}

// fails ends the run after err; see ended.
func (t *turn) fails(ctx context.Context, kind string, err error) (*ending, error) {
	return t.ended(ctx, t.ref, kind, err)
}

// play is PROMPTING and EXECUTING. After the last turn the model is asked once more.
func (t *turn) play(ctx context.Context) (*ending, error) {
	if err := t.compact(ctx); err != nil {
		return t.fails(ctx, "LLM", err)
	}
	t.env.Tell(slices.Clip(t.full))
	if err := t.ask(ctx, t.historyRequest()); err != nil {
		return t.fails(ctx, "LLM", err)
	}
	code, open := CodeBlocks(t.response.Text, t.o.Facts.Words)
	if t.n > t.iterations {
		return t.forced(ctx, open || len(code) > 0)
	}
	for i, block := range code {
		final, err := t.cell(ctx, i+1, block)
		if err != nil {
			return t.fails(ctx, "Execution", err)
		}
		if final != nil {
			return &ending{*final, Stop}, nil
		}
	}
	answer, refused, err := t.marker(ctx)
	switch {
	case err != nil:
		return t.fails(ctx, "Execution", err)
	case answer != nil:
		return &ending{*answer, Stop}, nil
	}
	t.saySaid()
	t.last = prompt.Feedback(t.outputs, open, refused)
	t.say("user", t.last+"\n\n"+t.request(t.n+1))
	return nil, nil
}

// saySaid adds the response to the history, once.
func (t *turn) saySaid() {
	if !t.inHistory {
		t.say("assistant", t.response.Text)
	}
	t.inHistory = true
}

// forced is the turn after the last. Its code is not run, and is the answer only if there is
// no better one.
func (t *turn) forced(ctx context.Context, isCode bool) (*ending, error) {
	answer, refused, err := t.marker(ctx)
	switch {
	case err != nil:
		return t.fails(ctx, "Execution", err)
	case answer != nil:
		return &ending{*answer, MaxIterations}, nil
	case isCode, refused != "":
		return t.bestSoFar(MaxIterations), nil
	}
	return &ending{cmp.Or(t.response.Text, t.bestSoFar(MaxIterations).answer), MaxIterations}, nil
}

// ask makes the root call.
func (t *turn) ask(ctx context.Context, r Request) (err error) {
	t.prompt, r.Model, r.Ref = r.Messages, t.model, t.ref
	t.response, err = t.complete(ctx, t.meter, t.depth > 0, r)
	if err != nil {
		return err
	}
	t.turns++
	t.named = t.response.Model
	t.run.response = cmp.Or(t.response.Text, t.run.response)
	return nil
}

// marker looks for FINAL_VAR and FINAL in the response. An unknown variable is not an
// answer; refused then says so to the model.
func (t *turn) marker(ctx context.Context) (answer *string, refused string, err error) {
	m, ok := FinalMarker(t.response.Text, t.o.Facts.Words)
	switch {
	case !ok:
		return nil, "", nil
	case m.Open && t.response.Finish == "length":
		return nil, prompt.CutAnswer, nil
	case !m.Variable:
		return &m.Arg, "", nil
	}
	text, known, err := t.env.Var(ctx, m.Arg)
	if err != nil {
		return nil, "", err
	}
	if !known {
		return nil, prompt.NoAnswer(m.Arg, text), nil
	}
	return &text, "", nil
}

// between ends the run after a turn without an answer, if a limit or a policy says so.
func (t *turn) between(ctx context.Context) *ending {
	if t.failed++; !t.broken {
		t.failed = 0
	}
	var reason FinishReason
	switch limit := t.account.checkLimits(t.depth > 0); {
	case ctx.Err() != nil:
		reason = reasonOf(ctx, nil)
	case limit != nil:
		reason = limit.reason
	case t.o.Limits.Errors > 0 && t.failed >= t.o.Limits.Errors:
		reason = MaxErrors
	case t.policyStops(ctx, t.n+1):
		reason = PolicyStop
	case ctx.Err() != nil: // while the policy was asked
		reason = reasonOf(ctx, nil)
	default:
		return nil
	}
	return t.bestSoFar(reason)
}

// maxShallow bounds a context that is sent as it is, in bytes.
const maxShallow = 16 << 20

// shallow is one plain completion of the context and the question.
func (t *turn) shallow(ctx context.Context) (*ending, error) {
	if t.n == 1 {
		text, err := t.wholePrompt(t.question)
		if err != nil {
			return t.fails(ctx, "Validation", err)
		}
		t.say("user", text+t.schemaText())
	}
	r := t.historyRequest()
	r.Schema = t.schemaJSON()
	if err := t.ask(ctx, r); err != nil {
		return t.fails(ctx, "LLM", err)
	}
	return &ending{Unwrap(t.response.Text, t.response.Finish == "length"), Stop}, nil
}

func (r *run) wholePrompt(question string) (string, error) {
	if r.context.Path == "" {
		return question, nil
	}
	f, err := os.Open(r.context.Path)
	if err != nil {
		return "", errors.New("the file of the context cannot be read")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxShallow+1))
	switch {
	case err != nil:
		return "", errors.New("the file of the context cannot be read")
	case len(b) > maxShallow:
		return "", fmt.Errorf("the context has more than %d bytes, too many for one prompt: allow a depth of at least 1", maxShallow)
	case question == "":
		return string(b), nil
	}
	return string(b) + "\n\n" + prompt.Query(question), nil
}

const (
	defaultWindow = 128_000
	// compactAt is the percentage of the window at which the history is compacted.
	compactAt = 85
)

// BytesPerToken is for estimates, where no provider has counted.
const BytesPerToken = 4

// compact replaces the turns in the history by a summary when they fill the window of the
// model. The variable history of the code still has all of them.
func (t *turn) compact(ctx context.Context) error {
	window := cmp.Or(t.o.Model.Window(t.model), defaultWindow)
	if len(t.history) == t.opening || t.tokens(ctx, window)*100 < window*compactAt {
		return nil
	}
	ref := t.ref + "/summary"
	t.tell(Event{Kind: EventCall, Ref: ref, Depth: t.depth, Model: t.model})
	request := Request{Model: t.model, Ref: ref}
	ask, goOn := prompt.Compact, prompt.Continue+"\n\n"+t.request(t.n)
	if t.mode == ToolsMode {
		ask, goOn = prompt.CompactTools, prompt.ContinueTools
		request.Tools, request.ToolChoice = t.tools.Definitions(), "none" // some providers refuse a history with calls of tools that are not defined
	}
	request.Messages = append(slices.Clip(t.history), Message{Role: "user", Content: ask})
	c, err := t.complete(ctx, t.meter, t.depth > 0, request)
	t.tell(Event{
		Kind: EventCall, Done: true, Ref: ref, Depth: t.depth, Model: c.Model, Text: cutEvent(c.Text), Tokens: &c.Tokens,
		Took: c.Took.Seconds(), Error: errorText(err),
	})
	if err != nil {
		return fmt.Errorf("the history could not be summarized: %w", err)
	}
	full := t.full
	t.history, t.wire = slices.Clip(t.history[:t.opening]), nil
	for _, m := range t.history {
		t.wire = appendMessage(t.wire, m)
	}
	t.say("assistant", c.Text)
	t.say("user", goOn)
	t.full = full
	return nil
}

// tokens estimates how many tokens the history has.
func (t *turn) tokens(ctx context.Context, window int) int {
	counter, ok := t.o.Model.(TokenCounter)
	if ok && len(t.wire)*100 >= window*compactAt { // a token is at least a byte
		if n, err := counter.CountTokens(ctx, t.model, t.history); err == nil {
			return n
		}
	}
	return len(t.wire) / BytesPerToken
}

// A Schema is the schema of an answer.
type Schema interface {
	// Document returns the JSON Schema.
	Document() json.RawMessage
	// Match returns the JSON in an answer, or an error if it does not match.
	Match(answer string) (string, error)
}

// maxRepairs is how often a model may correct an answer that does not match.
const maxRepairs = 2

// schemaText returns the part of the first message about the schema; "" if there is no
// schema.
func (r *run) schemaText() string {
	if document := r.schemaJSON(); document != nil {
		return "\n\n" + prompt.Schema(string(document))
	}
	return ""
}

// schemaJSON returns the schema. Child runs have none.
func (r *run) schemaJSON() json.RawMessage {
	if r.o.Schema == nil || r.depth > 0 {
		return nil
	}
	return r.o.Schema.Document()
}

// matches reports whether an answer matches the schema. If so, it reduces it to its JSON.
func (r *run) matches(end *ending) bool {
	if r.o.Schema == nil || r.depth > 0 {
		return true
	}
	var text string
	if text, r.mismatch = r.o.Schema.Match(end.answer); r.mismatch == nil {
		end.answer = text
	}
	return r.mismatch == nil
}

// judge sends an answer that does not match the schema back, and returns nil: the run goes
// on.
func (t *turn) judge(end *ending) *ending {
	if t.matches(end) || t.repairs == maxRepairs {
		return end
	}
	t.repairs++
	t.saySaid()
	again := prompt.Repair(t.mismatch.Error())
	if t.mode == Code && t.env != nil {
		again = prompt.RepairCode(t.mismatch.Error(), t.outputs) + "\n\n" + t.request(t.n+1)
	}
	t.say("user", again)
	return nil
}
