package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A turn is a root call with the cells of its response.
type turn struct {
	*run
	n        int
	ref      string
	meter    *meter
	start    time.Time
	prompt   []Message
	response Completion
	blocks   []runlog.CodeBlock
	outputs  []string // of the cells, as the model sees them
	said     bool     // the response is in the history
	broken   bool     // a cell or a tool call failed

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
	if !t.said {
		t.say("assistant", t.response.Text)
	}
	t.said = true
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

// A State is what a [StoppingPolicy] sees of a run.
type State struct {
	Iteration int       `json:"iteration"` // the next turn, or the one that has ended, from 1
	Max       int       `json:"max_iterations"`
	Mode      string    `json:"mode"` // code or tools
	Depth     int       `json:"depth"`
	History   []Message `json:"history"`
	Last      string    `json:"last_result"` // the outputs of the last turn, as the model sees them
}

// A StoppingPolicy may end a run, or a child run, before its limits do. An error is reported
// in Outcome.PolicyErr, and does not end the run. Like all policies, it is used by several
// goroutines, one for each run.
type StoppingPolicy interface {
	// Stop is called before each root call. A reason other than "" ends the run.
	Stop(ctx context.Context, s State) (reason string, err error)
	// Done is called after each turn.
	Done(s State)
}

// Stopped is the answer of a run that a policy stopped before there was a better one.
const Stopped = "[Stopped by custom policy]"

// A ContextCompressor shortens the answer of a sub-call or a child run. After an error, the
// code gets the whole answer, which has been paid for.
type ContextCompressor interface {
	// Compress shortens text to about maxTokens tokens, or as its configuration says.
	Compress(ctx context.Context, text string, maxTokens int) (string, error)
}

// A NestedCallPolicy decides which calls of llm_query start child runs. After an error, the
// call is a plain one.
type NestedCallPolicy interface {
	Orchestrate(ctx context.Context, prompt json.RawMessage, depth int) (Nested, bool, error)
}

// Nested changes settings of a child run. Zero values change nothing.
type Nested struct {
	Mode          Mode     `json:"mode"`
	Tools         []string `json:"tools"` // that the child may call; nil is all tools of the run
	MaxIterations int      `json:"max_iterations"`
	MaxDepth      int      `json:"max_depth"`
}

// A NestedCallHandler may answer sub-calls instead of a model.
type NestedCallHandler interface {
	Handle(ctx context.Context, c NestedCall) (text string, handled bool, err error)
}

// A NestedCall is a sub-call that a [NestedCallHandler] may answer.
type NestedCall struct {
	Prompt json.RawMessage // a string, an object or an array of messages
	Model  string
	Ref    string
	Depth  int  // of the run that calls
	Nested bool // asks for a child run
}

// Truncate cuts longer texts to that many characters.
type Truncate int

// Compress implements [ContextCompressor].
func (n Truncate) Compress(_ context.Context, text string, _ int) (string, error) {
	cut, omitted := render.First(text, int(n))
	if omitted == 0 {
		return text, nil
	}
	return fmt.Sprintf("%s\n[%d characters omitted]", cut, omitted), nil
}

// Summarize is the model that summarizes texts of more than maxTokens tokens. The run makes
// the call, and counts it like any other.
type Summarize string

// Compress implements [ContextCompressor]. Only a run can ask the model.
func (m Summarize) Compress(ctx context.Context, text string, maxTokens int) (string, error) {
	ask, ok := ctx.Value(askKey{}).(askFunc)
	if !ok {
		return "", fmt.Errorf("summarize: %q can be asked only in a run", string(m))
	}
	if len(text)/BytesPerToken <= maxTokens {
		return text, nil
	}
	prompt, err := json.Marshal(fmt.Sprintf("Summarize the text below in at most %d words. "+
		"Keep names, numbers and results exactly. Reply with the summary alone.\n\n%s", maxTokens/2, text))
	if err != nil {
		return "", err
	}
	return ask(string(m), prompt)
}

// An askFunc makes a sub-call for a policy.
type askFunc func(model string, prompt json.RawMessage) (string, error)

type askKey struct{}

// Always starts a child run for every call.
type Always struct{}

// Orchestrate implements [NestedCallPolicy].
func (Always) Orchestrate(context.Context, json.RawMessage, int) (Nested, bool, error) {
	return Nested{}, true, nil
}

// Never starts no child run.
type Never struct{}

// Orchestrate implements [NestedCallPolicy].
func (Never) Orchestrate(context.Context, json.RawMessage, int) (Nested, bool, error) {
	return Nested{}, false, nil
}

// Over starts a child run for prompts of more than that many characters.
type Over int

// Orchestrate implements [NestedCallPolicy].
func (n Over) Orchestrate(_ context.Context, prompt json.RawMessage, _ int) (Nested, bool, error) {
	return Nested{}, utf8.RuneCountInString(promptText(prompt)) > int(n), nil
}

// Match starts a child run for prompts that the expression matches.
type Match struct{ *regexp.Regexp }

// Orchestrate implements [NestedCallPolicy].
func (m Match) Orchestrate(_ context.Context, prompt json.RawMessage, _ int) (Nested, bool, error) {
	return Nested{}, m.MatchString(promptText(prompt)), nil
}

// promptText returns the value of a prompt that is a string, and the JSON of any other.
func promptText(prompt json.RawMessage) string {
	var s string
	if json.Unmarshal(prompt, &s) == nil {
		return s
	}
	return string(prompt)
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
