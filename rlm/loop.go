package rlm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// A run is one question: that of the tree, or that of a child.
type run struct {
	*tree
	ref        string
	depth      int
	model      string
	question   string
	context    Context
	shape      prompt.Shape
	mode       Mode
	tools      Tools // nil if there are none
	iterations int
	maxDepth   int
	meter      *meter
	log        Log // nil if nobody reads it

	env     Environment
	history []Message // what the model is sent
	opening int       // how many messages of history are there before the first turn
	size    int       // of history as JSON, in bytes
	full    []Message // history as it would be without compaction
	last    string    // what the code put out in the last turn, as the model sees it
	named   string    // the model, as it named itself
	turns   int       // that were answered
	calls   int       // of the cells, those of children included
	failed  int       // consecutive turns with a failed cell or tool call

	repairs  int   // answers that were sent back
	mismatch error // why the last answer does not match the schema

	response, best string // the last response, and answer["content"]
}

// An ending is how a run ended: by an answer, or by a limit with the best one so far.
type ending struct {
	answer string
	finish FinishReason
}

// bestSoFar ends the run without a final answer.
func (r *run) bestSoFar(reason FinishReason) ending {
	answer := cmp.Or(r.best, r.response)
	if reason == PolicyStop {
		answer = cmp.Or(answer, Stopped)
	}
	return ending{answer, reason}
}

// run goes through the states of a run, from its first event to its last.
func (r *run) run(ctx context.Context) (ending, error) {
	start := r.o.Now()
	r.tell(Event{Kind: EventRun, Ref: r.ref, Depth: r.depth, Model: r.model, Prompt: cutEvent(r.question)})
	end, err := r.states(ctx)
	if err == nil && r.depth == 0 && end.finish != Cancelled {
		r.tell(Event{Kind: EventAnswer, Ref: r.ref, Text: end.answer, Finish: end.finish})
	}
	usage := r.meter.read().Total()
	r.tell(Event{
		Kind: EventEnd, Ref: r.ref, Depth: r.depth, Finish: end.finish, Error: errorText(err), Tokens: &usage.Tokens,
		Calls: r.calls, Took: Seconds(r.o.Now().Sub(start)),
	})
	return end, err
}

// states goes from INIT to DONE.
func (r *run) states(ctx context.Context) (ending, error) {
	r.logMetadata()
	play := (*turn).play
	switch {
	case r.depth >= r.maxDepth:
		play = (*turn).shallow
	case r.mode == ToolsMode:
		play = (*turn).converse
	default:
		drop, err := r.open(ctx)
		defer drop()
		if err != nil {
			return r.ended(ctx, r.ref, "Execution", err)
		}
	}
	if r.depth < r.maxDepth && r.policyStops(ctx, 1) {
		return r.bestSoFar(PolicyStop), nil
	}
	for n := 1; ; n++ {
		if end, err := r.turn(ctx, n, play); end != nil {
			return *end, err
		}
	}
}

// ended tells apart a limit, the end of ctx and a failure.
func (r *run) ended(ctx context.Context, at, kind string, err error) (ending, error) {
	if reason := reasonOf(ctx, err); reason != "" {
		return r.bestSoFar(reason), nil
	}
	return r.bestSoFar(""), &Error{Type: kind, At: at, Err: err}
}

// open starts the environment with the context. What it returns is to be called at the
// end, after an error too.
func (r *run) open(ctx context.Context) (drop func(), err error) {
	drop = func() {}
	if r.context.Path == "" {
		c, remove, err := r.fileContext(r.question, "text")
		if err != nil {
			return drop, err
		}
		drop = remove
		r.context, r.shape = c, prompt.ShapeOf(r.question)
	}
	functions, described := functionsOf(r.tools)
	env, err := r.o.Open(ctx, Session{ID: r.id, Ref: r.ref, Depth: r.depth, Functions: functions})
	if err != nil {
		return drop, err
	}
	remove := drop
	drop = func() {
		_ = env.Close()
		remove()
	}
	r.env = env
	if err := env.Load(ctx, r.context); err != nil {
		return drop, err
	}
	for _, m := range prompt.Opening(r.system(prompt.Python, described), r.shape, r.question, r.schemaText(), r.iterations) {
		r.say(m.Role, m.Content)
	}
	r.opening = len(r.history)
	return drop, nil
}

// system returns the system prompt, which usual makes unless the options say otherwise.
func (r *run) system(usual func(prompt.Facts) string, functions []prompt.Tool) string {
	facts := r.o.Facts
	facts.Tools = slices.Concat(facts.Tools, functions)
	facts.Nested = r.depth+1 < r.maxDepth
	if r.o.System != nil && r.mode == r.o.Mode {
		return r.o.System(facts)
	}
	return usual(facts)
}

func (r *run) say(role, content string) { r.add(Message{Role: role, Content: content}) }

func (r *run) add(m Message) {
	r.history = append(r.history, m)
	r.full = append(r.full, m)
	r.size += messageSize(m)
}

func messageSize(m Message) int {
	b, _ := json.Marshal(m) // strings always have a JSON form
	return len(b) + 1
}

// policyStops asks the policy whether turn n may begin.
func (r *run) policyStops(ctx context.Context, n int) bool {
	if r.o.Stopping == nil {
		return false
	}
	reason, err := r.o.Stopping.Stop(ctx, r.state(n))
	if err != nil && ctx.Err() == nil {
		r.note(&r.policyErr, fmt.Errorf("stopping policy: %w", err))
	}
	return err == nil && reason != ""
}

func (r *run) state(n int) State {
	return State{
		Iteration: n, Max: r.iterations, Mode: string(r.mode), Depth: r.depth,
		History: slices.Clip(r.full), Last: r.last,
	}
}
