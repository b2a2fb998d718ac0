package rlm

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
)

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
