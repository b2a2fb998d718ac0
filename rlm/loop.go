package rlm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/rlm/prompt"
)

// A run is the run of the tree, or a child run.
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
	began      time.Time
	log        Log // may be nil

	env     Environment
	history []Message // that the model is sent
	opening int       // how many messages history has before the first turn
	wire    []byte    // history as JSON, without the last bracket
	full    []Message // history without compaction
	last    string    // the outputs of the last turn, as the model sees them
	named   string    // the model, as it names itself
	turns   int       // that were answered
	calls   int       // of the cells, including those of children
	failed  int       // consecutive turns with a failed cell or tool call

	repairs  int   // how many answers were sent back
	mismatch error // why the last answer does not match the schema

	response, best string // the last response, and answer["content"]
	kept           string // best of the interpreter before this one
}

// An ending is how a run ended: with an answer, or by a limit with the best answer so far.
type ending struct {
	answer string
	finish FinishReason
}

// bestSoFar ends the run without a final answer.
func (r *run) bestSoFar(reason FinishReason) *ending {
	answer := cmp.Or(r.best, r.response)
	if reason == PolicyStop {
		answer = cmp.Or(answer, Stopped)
	}
	return &ending{answer, reason}
}

// run plays the run, and reports its first and its last event.
func (r *run) run(ctx context.Context) (*ending, error) {
	r.tell(Event{Kind: EventRun, Ref: r.ref, Depth: r.depth, Model: r.model, Prompt: cutEvent(r.question), Environment: r.environment()})
	end, err := r.states(ctx)
	if r.depth == 0 && (end.answer != "" || err == nil && end.finish != Cancelled) {
		r.tell(Event{Kind: EventAnswer, Ref: r.ref, Text: end.answer, Finish: end.finish})
	}
	usage := r.meter.read().Total()
	r.tell(Event{
		Kind: EventEnd, Ref: r.ref, Depth: r.depth, Finish: end.finish, Error: errorText(err), Tokens: &usage.Tokens,
		Calls: r.calls, Took: r.o.Now().Sub(r.began).Seconds(),
	})
	return end, err
}

// states plays the run from INIT to DONE.
func (r *run) states(ctx context.Context) (*ending, error) {
	r.logMetadata()
	if ctx.Err() != nil {
		return r.ended(ctx, r.ref, "Execution", causeOf(ctx))
	}
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
			return end, err
		}
	}
}

// ended ends the run after err: by a limit or the end of ctx, if err comes from there, or
// else as a failure.
func (r *run) ended(ctx context.Context, at, kind string, err error) (*ending, error) {
	if reason := reasonOf(ctx, err); reason != "" {
		return r.bestSoFar(reason), nil
	}
	best := r.bestSoFar("")
	return best, &Error{Type: kind, At: at, Err: err, Best: best.answer}
}

// open starts the environment with the context. Callers must call drop at the end, also
// after an error.
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

// system returns the system prompt: that of the options, or else that of usual.
func (r *run) system(usual func(prompt.Facts) string, functions []prompt.Tool) string {
	facts := r.o.Facts
	facts.Tools = slices.Concat(facts.Tools, functions)
	facts.Nested = r.depth+1 < r.maxDepth
	if r.o.System != nil && r.mode == r.o.Mode {
		return r.o.System(facts)
	}
	return usual(facts)
}

func (r *run) say(role, content string) { r.addMessage(Message{Role: role, Content: content}) }

func (r *run) addMessage(m Message) {
	r.history = append(r.history, m)
	r.full = append(r.full, m)
	r.wire = appendMessage(r.wire, m)
}

// appendMessage appends a message to a list as JSON.
func appendMessage(b []byte, m Message) []byte {
	separator := byte(',')
	if len(b) == 0 {
		separator = '['
	}
	return append(append(b, separator), jsonscan.MustMarshal(m)...) // strings always have a JSON form
}

// historyRequest returns a request with the history.
func (r *run) historyRequest() Request {
	return Request{Messages: slices.Clip(r.history), Prompt: slices.Concat(r.wire, []byte{']'})}
}

// policyStops asks the policy whether turn n may begin.
func (r *run) policyStops(ctx context.Context, n int) bool {
	if r.o.Stopping == nil {
		return false
	}
	reason, err := r.o.Stopping.Stop(ctx, r.state(n))
	if err != nil && ctx.Err() == nil {
		r.policyFailed(fmt.Sprintf("%s/t%d", r.ref, n), r.depth, fmt.Errorf("stopping policy: %w", err))
	}
	return err == nil && reason != ""
}

func (r *run) state(n int) State {
	return State{
		Iteration: n, Max: r.iterations, Mode: string(r.mode), Depth: r.depth,
		History: slices.Clip(r.full), Last: r.last,
	}
}
