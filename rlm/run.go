package rlm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
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

// Usage is what each model has used.
type Usage map[string]ModelUsage

// ModelUsage is what one model has used.
type ModelUsage struct {
	Calls int64
	Tokens
}

// Total returns what all models have used together.
func (u Usage) Total() ModelUsage {
	var t ModelUsage
	for _, m := range u {
		t.Calls += m.Calls
		t.Tokens = t.plus(m.Tokens)
	}
	return t
}

func (t Tokens) plus(u Tokens) Tokens {
	return Tokens{Input: t.Input + u.Input, Output: t.Output + u.Output, Cost: t.Cost + u.Cost}
}

// A limitError says that a limit prevents a call.
type limitError struct {
	reason FinishReason
	text   string
}

func (e *limitError) Error() string { return e.text }

// An account bounds what a run and all its children may use. A call is counted before it is
// made, so parallel calls cannot exceed their limit. Tokens and cost are known only after a
// call, so calls in flight may exceed their limits.
type account struct {
	limits Limits
	end    context.CancelCauseFunc // ends the run

	mu      sync.Mutex
	calls   int // sub-calls, and turns of children
	refused bool
	used    Tokens
}

// reserve counts a call, or returns the limit that forbids it. All limits except that of
// calls end the run. The turns of the root are not sub-calls.
func (a *account) reserve(sub bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.limit(sub)
	switch {
	case e == nil && sub:
		a.calls++
	case e == nil:
	case e.reason == Calls:
		a.refused = true
		return e
	default:
		a.end(e)
		return e
	}
	return nil
}

// checkLimits returns the limit that forbids a call; nil if there is none.
func (a *account) checkLimits(sub bool) *limitError {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit(sub)
}

// limit is check while mu is locked.
func (a *account) limit(sub bool) *limitError {
	l := a.limits
	switch used := a.used.Input + a.used.Output; {
	case l.Tokens > 0 && used >= l.Tokens:
		return &limitError{MaxTokens, fmt.Sprintf("the run has used %d of %d tokens", used, l.Tokens)}
	case l.Cost > 0 && a.used.Cost >= l.Cost:
		return &limitError{MaxCost, fmt.Sprintf("the run has cost $%.4f of $%.4f", a.used.Cost, l.Cost)}
	case sub && l.Calls > 0 && a.calls >= l.Calls:
		return &limitError{Calls, fmt.Sprintf("the run has used all of its %d calls: continue without calls", l.Calls)}
	}
	return nil
}

// counts returns how many sub-calls were made, and whether one was refused.
func (a *account) counts() (calls int, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls, a.refused
}

// A meter adds up what a part of the tree has used. A turn counts towards its run, and a
// child run towards the turn that started it.
type meter struct {
	account *account
	up      *meter

	usage Usage // account.mu guards it
}

func (a *account) newMeter(up *meter) *meter {
	return &meter{account: a, up: up, usage: Usage{}}
}

// addTokens counts one call, here and in all meters above. The limits count estimate if t is
// zero.
func (m *meter) addTokens(model string, t, estimate Tokens) {
	m.account.mu.Lock()
	defer m.account.mu.Unlock()
	m.account.used = m.account.used.plus(cmp.Or(t, estimate))
	for ; m != nil; m = m.up {
		u := m.usage[model]
		u.Calls++
		u.Tokens = u.plus(t)
		m.usage[model] = u
	}
}

func (m *meter) read() Usage {
	m.account.mu.Lock()
	defer m.account.mu.Unlock()
	return maps.Clone(m.usage)
}

// complete asks a model once and counts the call, even if it fails.
func (t *tree) complete(ctx context.Context, m *meter, sub bool, r Request) (Completion, error) {
	if ctx.Err() != nil {
		return Completion{}, causeOf(ctx)
	}
	if err := t.account.reserve(sub); err != nil {
		return Completion{}, err
	}
	r.Traceparent = t.traceparent()
	start := t.o.Now()
	c, err := t.o.Model.Complete(ctx, r)
	c.Model = cmp.Or(c.Model, r.Model)
	c.Took = cmp.Or(c.Took, t.o.Now().Sub(start))
	m.addTokens(c.Model, c.Tokens, c.Estimate)
	if err != nil && ctx.Err() != nil {
		err = causeOf(ctx)
	}
	return c, err
}

var errCancelled = errors.New("the run was cancelled")

// causeOf returns why ctx has ended.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return errCancelled
}

// reasonOf returns the limit that err or the end of ctx comes from; Cancelled if ctx has
// ended for another reason; and "" otherwise.
func reasonOf(ctx context.Context, err error) FinishReason {
	var limit *limitError
	switch {
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &limit), errors.As(err, &limit):
		return limit.reason
	case ctx.Err() != nil:
		return Cancelled
	}
	return ""
}
