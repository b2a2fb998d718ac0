package rlm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// Options describe a run. Model and Question must be set, and Open in code mode.
type Options struct {
	Model    Model
	Open     Opener
	Question string
	Mode     Mode // "" is Code

	// Tools are those that the model calls in tools mode, and functions of the code in code
	// mode. Children have them, too. ToolChoice, for the first turn of tools mode, is auto,
	// none, required or the name of a tool; "" is auto.
	Tools       Tools
	ToolChoice  string
	ToolTimeout time.Duration // of one call; 0 is 5 minutes
	Schema      Schema        // of the answer; nil if it may be any text
	// Context is the file that the question is about. Without a path, the context is
	// the question itself, and Shape is not read.
	Context Context
	Shape   prompt.Shape // what the root model is told of the context

	Dir string // for temporary files; "" is that of the system

	Root string // the root model; "" is the default
	Sub  string // the model of calls that name none; "" is the root model
	// Check says why code may not ask a model that it names; nil: it may ask any.
	Check func(model string) error

	// System makes the system prompt from Facts; nil: prompt.Python, and prompt.Tools in
	// tools mode. The run sets Nested.
	System func(prompt.Facts) string
	Facts  prompt.Facts // its Words are the info words of blocks that are run; none: repl

	Limits   Limits
	Parallel int // concurrent sub-calls of the tree, and child runs of each depth; 0 is 16

	Stopping   StoppingPolicy    // may be nil
	Compressor ContextCompressor // may be nil
	Nesting    NestedCallPolicy  // may be nil: llm_query starts no child run
	Handler    NestedCallHandler // may be nil

	// Observe is told what happens, one event at a time. It may cancel the run, but
	// must not wait for it.
	Observe    func(Event)
	Interrupts *Interrupts // may be nil
	// Log takes the records of the run. A log that fails does not end a run that is
	// paid for: Outcome.LogErr has the first error.
	Log      Log
	Metadata runlog.Metadata // what the caller knows for the first line of the log

	Now   func() time.Time // nil: time.Now
	NewID func() string    // 32 hex digits; nil: random
}

// An Opener starts an environment for a run or for a child run. Several goroutines call it.
type Opener func(ctx context.Context, s Session) (Environment, error)

// A Session tells an environment what it is opened for.
type Session struct {
	ID    string // of the run: RLM_CORRELATION_ID
	Ref   string // of the run, or of the call that is a child run
	Depth int    // 0 is the run itself: RLM_DEPTH

	Functions []Function // tools that the code can call
}

// A Log takes the records of a run. One goroutine uses it at a time.
type Log interface {
	Metadata(m runlog.Metadata) error
	Iteration(i runlog.Iteration) error
}

// Limits bound a run with all its children. 0 is no limit unless stated otherwise.
type Limits struct {
	Iterations int // root turns; 0 is 30, and 10 in tools mode
	Depth      int // of nesting; 0 is one plain completion
	Calls      int // sub-calls of the whole tree, turns of children included
	Tokens     int64
	Cost       float64 // dollars
	Errors     int     // consecutive turns with a failed cell
	Timeout    time.Duration
}

// A FinishReason says why a run ended.
type FinishReason string

// The reasons that a run ends for.
const (
	Stop          FinishReason = "stop"           // a final answer
	MaxIterations FinishReason = "max_iterations" // asked once more for an answer
	Calls         FinishReason = "calls"          // of a refused call, and of a child that may make no more turns
	PolicyStop    FinishReason = "policy_stop"
	Timeout       FinishReason = "timeout"
	MaxTokens     FinishReason = "tokens"
	MaxCost       FinishReason = "cost"
	MaxErrors     FinishReason = "errors"
	Cancelled     FinishReason = "cancelled"
)

// Limited reports whether a limit ended the run, so that its answer is the best so far.
func (f FinishReason) Limited() bool {
	switch f {
	case MaxIterations, PolicyStop, Timeout, MaxTokens, MaxCost, MaxErrors:
		return true
	}
	return false
}

// An Outcome is how a run ended.
type Outcome struct {
	ID          string // 32 hex digits, also the trace id
	Traceparent string
	Answer      string       // or the best so far
	Finish      FinishReason // "" if the run failed
	Limit       FinishReason // that was met; it is Calls where a call was refused and the run went on
	Model       string       // the root model, as it named itself
	Iterations  int          // root turns that were answered
	Calls       int          // sub-calls that were made, turns of children included
	Usage       Usage        // of all calls, root turns included
	Took        time.Duration
	LogErr      error // the first of the log
	PolicyErr   error // the first of a policy's program
	SchemaErr   error // why the answer does not match the schema; nil if it does
}

// An Error is why a run failed.
type Error struct {
	Type string // Validation, Execution or LLM
	At   string // such as RUN/t3
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what the error comes from.
func (e *Error) Unwrap() error { return e.Err }

const (
	defaultIterations  = 30
	defaultRounds      = 10 // iterations of tools mode
	defaultParallel    = 16
	defaultToolTimeout = 5 * time.Minute
)

// Run answers a question. An error, an [*Error], says that the run failed. Where it ended
// for another reason, the end of ctx among them, Outcome.Finish has it. The outcome says
// what was used in any case. When Run returns, nothing that it started is left.
func Run(ctx context.Context, o Options) (Outcome, error) {
	t, err := newTree(o)
	if err != nil {
		return Outcome{}, &Error{Type: "Validation", Err: err}
	}
	start := t.o.Now()
	ctx, t.account.end = context.WithCancelCause(ctx)
	defer t.account.end(nil)
	defer t.o.Interrupts.begin(t.id, func(error) { t.account.end(nil) })()
	if d := t.o.Limits.Timeout; d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, &limitError{Timeout, "the run has taken " + d.String()})
		defer stop()
	}
	r := &run{
		tree: t, ref: t.id, model: t.o.Root, question: t.o.Question, context: t.o.Context, shape: t.o.Shape,
		mode: t.o.Mode, tools: t.o.Tools, iterations: t.o.Limits.Iterations, maxDepth: t.o.Limits.Depth,
		meter: t.account.newMeter(nil), log: t.o.Log,
	}
	end, err := r.run(ctx)
	out := Outcome{
		ID: t.id, Traceparent: t.traceparent(), Answer: end.answer, Finish: end.finish,
		Model: cmp.Or(r.named, r.model), Iterations: r.turns, Usage: r.meter.read(), Took: t.o.Now().Sub(start),
		LogErr: t.logErr, PolicyErr: t.policyErr, SchemaErr: r.mismatch,
	}
	refused := false
	if out.Calls, refused = t.account.counts(); end.finish.Limited() {
		out.Limit = end.finish
	} else if refused {
		out.Limit = Calls
	}
	return out, err
}

// A tree is what a run and all its children share.
type tree struct {
	o       Options
	id      string
	account *account
	slots   chan struct{} // one for each sub-call that is made

	telling sync.Mutex

	mu                sync.Mutex
	children          map[int]chan struct{} // by depth, one for each child run
	logErr, policyErr error
}

func newTree(o Options) (*tree, error) {
	switch {
	case o.Model == nil, o.Open == nil && o.Mode != ToolsMode:
		return nil, errors.New("a run needs a model and an environment")
	case o.Mode == ToolsMode && o.Tools == nil:
		return nil, errors.New("tools mode needs tools")
	case o.Question == "" && o.Context.Path == "":
		return nil, errors.New("a run needs a question or a context")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	o.Sub = cmp.Or(o.Sub, o.Root)
	o.Mode = cmp.Or(o.Mode, Code)
	o.Limits.Iterations = cmp.Or(o.Limits.Iterations, o.Mode.iterations())
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.ToolTimeout = cmp.Or(o.ToolTimeout, defaultToolTimeout)
	return &tree{
		o: o, id: o.NewID(), account: &account{limits: o.Limits},
		slots: make(chan struct{}, o.Parallel), children: map[int]chan struct{}{},
	}, nil
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// traceparent is the W3C trace context of the run; the second half of its id names the span.
func (t *tree) traceparent() string {
	return "00-" + t.id + "-" + t.id[len(t.id)/2:] + "-01"
}

// note keeps the first error of a log or of a policy.
func (t *tree) note(first *error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *first == nil {
		*first = err
	}
}

// childSlots bounds the child runs of a depth. Each depth has its own slots: a child
// that waits for one never keeps its children from theirs.
func (t *tree) childSlots(depth int) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[depth] == nil {
		t.children[depth] = make(chan struct{}, t.o.Parallel)
	}
	return t.children[depth]
}
