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

	// Tools are the tools that the model can call in tools mode, and functions of the code in
	// code mode. Children have them, too. ToolChoice is for the first turn of tools mode:
	// auto, none, required or the name of a tool; "" is auto.
	Tools       Tools
	ToolChoice  string
	ToolTimeout time.Duration // of one call; 0 is 5 minutes
	Schema      Schema        // of the answer; nil if it may be any text
	// Context is the context of the question. Without a path, the question is also the
	// context, and Shape is not used.
	Context Context
	Shape   prompt.Shape // of the context, for the root model

	Dir string // for temporary files; "" is the system's

	Root string // the root model; "" is the default
	Sub  string // the model of calls that do not name one; "" is the root model
	// Check returns why code may not ask a model; if it is nil, code may ask any model.
	Check func(model string) error

	// System returns the system prompt for Facts; nil is prompt.Python, or prompt.Tools in
	// tools mode. The run sets Nested.
	System func(prompt.Facts) string
	Facts  prompt.Facts // its Words are the info words of blocks that are run; none is repl

	Limits   Limits
	Parallel int // concurrent sub-calls of the tree, and child runs of each depth; 0 is 16

	Stopping   StoppingPolicy    // may be nil
	Compressor ContextCompressor // may be nil
	Nesting    NestedCallPolicy  // may be nil: llm_query starts no child run
	Handler    NestedCallHandler // may be nil

	// Observe gets the events, one at a time. It may cancel the run, but must not wait for
	// it.
	Observe    func(Event)
	Interrupts *Interrupts // may be nil
	// Log gets the records of the run. Its errors do not end the run, which costs money:
	// Outcome.LogErr has the first one.
	Log      Log
	Metadata runlog.Metadata // for the first line of the log, as far as the caller knows it

	Now   func() time.Time // nil: time.Now
	Began time.Time        // when the run has begun; zero: when Run is called
	NewID func() string    // 32 hex digits; nil: random
}

// An Opener opens an environment for a run or a child run. Several goroutines call it.
type Opener func(ctx context.Context, s Session) (Environment, error)

// A Session describes the run for which an environment is opened.
type Session struct {
	ID    string // of the run: RLM_CORRELATION_ID
	Ref   string // of the run, or of the call that is a child run
	Depth int    // 0 is the run itself: RLM_DEPTH

	Functions []Function // tools that the code can call
}

// A Log gets the records of a run. One goroutine uses it at a time.
type Log interface {
	Metadata(m runlog.Metadata) error
	Iteration(i runlog.Iteration) error
}

// Limits bound a run with all its children. 0 is no limit, unless stated otherwise.
type Limits struct {
	Iterations int // root turns; 0 is 30, and 10 in tools mode
	Depth      int // of nesting; 0 is one plain completion
	Calls      int // sub-calls of the whole tree, including turns of children
	Tokens     int64
	Cost       float64 // dollars
	Errors     int     // consecutive turns with a failed cell
	Timeout    time.Duration
}

// A FinishReason says why a run ended.
type FinishReason string

// The reasons for which a run ends.
const (
	Stop          FinishReason = "stop"           // a final answer
	MaxIterations FinishReason = "max_iterations" // the model was asked once more for an answer
	Calls         FinishReason = "calls"          // for a refused call, and a child that may make no more turns
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

// An Outcome is the outcome of a run.
type Outcome struct {
	ID          string // 32 hex digits, also the trace id
	Traceparent string
	Answer      string       // or the best answer so far
	Finish      FinishReason // "" if the run failed
	Limit       FinishReason // the limit that was reached; Calls if a call was refused and the run went on
	Model       string       // the root model, as it names itself
	Iterations  int          // root turns that were answered
	Calls       int          // sub-calls that were made, including turns of children
	Usage       Usage        // of all calls, including root turns
	Took        time.Duration
	LogErr      error // the first error of the log
	PolicyErr   error // the first error of a policy
	SchemaErr   error // why the answer does not match the schema; nil if it does
}

// An Error is why a run failed.
type Error struct {
	Type string // Validation, Execution or LLM
	At   string // such as RUN/t3
	Err  error
	Best string // the best answer so far; may be empty
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

// Run answers a question. An error is an [*Error] and says that the run has failed. Other
// reasons for the end of a run, such as the end of ctx, are in Outcome.Finish. The outcome
// has the usage in any case. When Run returns, nothing that it has started is left.
func Run(ctx context.Context, o Options) (Outcome, error) {
	t, err := newTree(o)
	if err != nil {
		return Outcome{}, &Error{Type: "Validation", Err: err}
	}
	ctx, t.account.end = context.WithCancelCause(ctx)
	defer t.account.end(nil)
	defer t.o.Interrupts.begin(t.id, func(error) { t.account.end(nil) })()
	ctx, stop := WithTimeout(ctx, t.o.Limits.Timeout)
	defer stop()
	r := &run{
		tree: t, ref: t.id, model: t.o.Root, question: t.o.Question, context: t.o.Context, shape: t.o.Shape,
		mode: t.o.Mode, tools: t.o.Tools, iterations: t.o.Limits.Iterations, maxDepth: t.o.Limits.Depth,
		meter: t.account.newMeter(nil), log: t.o.Log, began: cmp.Or(t.o.Began, t.o.Now()),
	}
	end, err := r.run(ctx)
	out := Outcome{
		ID: t.id, Traceparent: t.traceparent(), Answer: end.answer, Finish: end.finish,
		Model: cmp.Or(r.named, r.model), Iterations: r.turns, Usage: r.meter.read(), Took: t.o.Now().Sub(r.began),
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

// WithTimeout returns a context that ends a run by the limit Timeout after d; 0 is no limit. A
// run sets it itself, and its caller may start it earlier.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, &limitError{Timeout, "the run has taken " + d.String()})
}

// TimedOut reports whether the limit Timeout has ended ctx.
func TimedOut(ctx context.Context) bool { return reasonOf(ctx, nil) == Timeout }

// A tree is what a run and all its children share.
type tree struct {
	o       Options
	id      string
	account *account
	slots   chan struct{} // for concurrent sub-calls

	telling sync.Mutex

	mu                sync.Mutex
	children          map[int]chan struct{} // slots for concurrent child runs, by depth
	logErr, policyErr error
	policyErrs        map[string]bool // those that were reported
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
		policyErrs: map[string]bool{},
	}, nil
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// traceparent returns the W3C trace context of the run. The second half of its id is the id
// of the span.
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

// maxPolicyErrs bounds how many errors of policies are reported.
const maxPolicyErrs = 20

// policyFailed reports an error of a policy at once.
func (t *tree) policyFailed(ref string, depth int, err error) {
	t.note(&t.policyErr, err)
	t.mu.Lock()
	fresh := !t.policyErrs[err.Error()] && len(t.policyErrs) < maxPolicyErrs
	if fresh {
		t.policyErrs[err.Error()] = true
	}
	t.mu.Unlock()
	if fresh {
		t.tell(Event{Kind: EventPolicy, Ref: ref, Depth: depth, Error: err.Error()})
	}
}

// childSlots returns the slots for child runs of a depth. Each depth has its own slots, so
// that child runs cannot block their own children.
func (t *tree) childSlots(depth int) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[depth] == nil {
		t.children[depth] = make(chan struct{}, t.o.Parallel)
	}
	return t.children[depth]
}
