// Package broker routes completions by the name of a model to providers: with a
// default, aliases and patterns, weights and fallbacks, limits and retries, and a
// cancellation that reaches the provider. Its front doors, which serve clients, are the
// sub-packages of door; they know the protocols, and broker knows none. Package config reads
// the configuration.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/otlp"
	"github.com/wirectl/wirectl/llm"
)

// A Broker serves calls. It is safe for any number of goroutines.
type Broker struct {
	table    atomic.Pointer[table]
	ids      atomic.Int64
	running  atomic.Int64
	ledger   ledger
	spending spending
	metrics  *metrics
	watch    Watcher
	trace    func(parent string) string
	start    time.Time
}

// A Watcher is told of every call that ends; it must not keep the call.
type Watcher interface {
	Ended(c *Call, r *Report)
}

// New returns a broker for the configuration. The watcher may be nil.
func New(cfg Config, w Watcher) (*Broker, error) {
	b := &Broker{watch: w, start: time.Now(), metrics: newMetrics()}
	b.ledger.accounts = map[accountKey]*Usage{}
	b.spending.of, b.spending.reserved = map[string]*Spent{}, map[string]Estimate{}
	return b, b.Reload(cfg)
}

// Trace sets the function that returns the trace context of a call, from that of its client,
// and of each attempt, from that of the call. It must be called before the first call.
func (b *Broker) Trace(f func(parent string) string) { b.trace = f }

// Reload makes cfg the configuration of all new calls; running ones keep theirs. Metrics of a
// backend continue under its name; its limits and its breaker begin anew. If cfg is invalid,
// nothing changes.
func (b *Broker) Reload(cfg Config) error {
	t, err := newTable(cfg, b.metrics)
	if err != nil {
		return err
	}
	b.table.Store(t)
	return nil
}

// A Call is one prompt for one model, and its outcome.
type Call struct {
	// Door and Client say where the call comes from; Ref is the client's id for it.
	// Account is the client whose budget pays for the call, "" for none.
	Door, Client, Ref, Account string
	// Model is the name that the client asked for; blank is the default.
	Model string
	// Prompt, Body, API, Before, Choices, Header, Emit and Alive are as in [provider.Request].
	Prompt, Body []byte
	API          llm.API
	Before       []llm.Turn
	Choices      int
	Header       http.Header
	Emit         func(provider.Part) error
	Alive        func() error
	// Most is as in [llm.Answer].
	Most int
	// MaxTokens is the limit of the answer that the client wants, 0 if there is none.
	MaxTokens int64
	// Parent is the trace context that the client sent, if any, and Traceparent
	// that of the call itself, from Do on.
	Parent, Traceparent string

	// ID is the broker's own number of the call, from Do on.
	ID int64
	// Name is the model that the call went to, after defaults and aliases.
	Name string
	// Started and Took are when and how long the call ran.
	Started time.Time
	Took    time.Duration
	// Hops are the attempts at providers, in order, the successful one last.
	Hops []Hop
	// Completion is the outcome.
	Completion provider.Completion
	// Tap publishes the exchanges with providers; it may be nil.
	Tap Tap

	model *model                     // the model that the call went to
	trace func(parent string) string // of the broker
	ask   ask

	table    *table
	spending *spending
	purses   []Purse // the budgets that pay for the call
	price    *Price  // of the model that serves it
	holds    []hold  // what is reserved for it
	paid     bool    // it was counted
	composed bool    // it consists of calls that are counted separately
}

// Chat returns the client's request as one of Chat Completions; nil for a prompt.
func (c *Call) Chat() []byte {
	return (&provider.Request{Body: c.Body, API: c.API, Before: c.Before}).Chat()
}

// A Tap publishes a call's exchanges with providers.
type Tap interface {
	Provider(c *Call, h *Hop) provider.Exchange
}

// A Hop is one attempt of a call at a provider.
type Hop struct {
	Provider, Model string
	Started         time.Time
	Took            time.Duration
	// Sent says that the request was sent; otherwise the attempt ended while queued.
	Sent bool
	Err  error
	// Traceparent is the trace context sent to the provider, if any: that of the attempt if
	// attempts are traced, else that of the call.
	Traceparent string
}

// Do makes a call. When it fails, [Message] says what the client may know.
func (b *Broker) Do(ctx context.Context, c *Call) error {
	err := b.call(ctx, c)
	b.ended(c, err)
	return err
}

func (b *Broker) ended(c *Call, err error) {
	c.charge()
	o := outcomeOf(err)
	model := b.ledger.addCall(c, o, b.table.Load().secrets)
	b.metrics.addCall(c.Door, model, c, o)
	if b.watch != nil {
		b.watch.Ended(c, newReport(c, err))
	}
}

// Admit returns an [*UnknownModelError] if the call's model does not exist. The call has then
// ended, and is reported, as in [Broker.Do].
func (b *Broker) Admit(c *Call) error {
	err := b.Find(c.Model)
	if err != nil {
		b.begin(c)
		b.ended(c, err)
	}
	return err
}

// An ask is what a call is for.
type ask uint8

const (
	completion ask = iota
	count
	embeddings
)

// Count counts the tokens of the call's request; the result is in the Usage of its
// Completion. There is no completion: the call is in no account and no log.
func (b *Broker) Count(ctx context.Context, c *Call) error {
	c.ask = count
	return b.call(ctx, c)
}

// Embed makes embeddings. The call's Body is OpenAI's request, and the Body of its Completion
// OpenAI's answer.
func (b *Broker) Embed(ctx context.Context, c *Call) error {
	c.ask = embeddings
	return b.Do(ctx, c)
}

func (b *Broker) begin(c *Call) {
	c.ID = b.ids.Add(1)
	c.Started = time.Now()
	c.Parent, c.trace = otlp.Traceparent(otlp.SpanContext(c.Parent)), b.trace
	c.Traceparent = c.below(c.Parent)
}

// call makes a call without reporting its end.
func (b *Broker) call(ctx context.Context, c *Call) (err error) {
	b.begin(c)
	b.running.Add(1)
	defer func() {
		b.running.Add(-1)
		c.Took = time.Since(c.Started)
	}()
	c.table, c.spending = b.table.Load(), &b.spending
	if c.model, c.Name, err = c.table.find(c.Model); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	switch c.ask {
	case count:
		return c.model.only(ctx, c, can[provider.Counter], ErrCannotCount)
	case embeddings:
		if err := c.pay(ctx, c.model); err != nil {
			return err
		}
		return c.model.only(ctx, c, can[provider.Embedder], ErrCannotEmbed)
	}
	err = c.model.withFallbacks(ctx, c)
	if !passedOver(err) {
		return err
	}
	for _, h := range slices.Backward(c.Hops) {
		if !passedOver(h.Err) {
			return h.Err // of a provider that was called
		}
	}
	return err
}

// below returns a trace context below a parent.
func (c *Call) below(parent string) string {
	if c.trace == nil {
		return parent
	}
	return c.trace(parent)
}

// passedOver reports whether err means that the provider was not called: its breaker is open,
// or it does not support the request.
func passedOver(err error) bool {
	return err != nil && (errors.Is(err, ErrOpen) || CauseOf(err) == provider.Unsupported)
}

// Find returns an *UnknownModelError if the model does not exist.
func (b *Broker) Find(model string) error {
	_, _, err := b.table.Load().find(model)
	return err
}

// Models returns the names of the models, sorted; patterns are among them.
func (b *Broker) Models() []string {
	t := b.table.Load()
	return t.withOffered(t.names, true)
}

// Named returns the names without patterns, sorted.
func (b *Broker) Named() []string {
	t := b.table.Load()
	return t.withOffered(t.named, false)
}

// Running returns how many calls run.
func (b *Broker) Running() int64 { return b.running.Load() }

// Uptime returns how long the broker has existed.
func (b *Broker) Uptime() time.Duration { return time.Since(b.start) }

// MaxBatch is how many calls a request may make: each takes memory, however short its prompt.
const MaxBatch = 10_000

// Batch makes the calls of one request, as many at once as the configuration allows, and
// returns their errors in order. It calls ended, unless nil, for each call that succeeded, one
// at a time.
func (b *Broker) Batch(ctx context.Context, calls []*Call, ended func(*Call)) []error {
	errs := make([]error, len(calls))
	var telling sync.Mutex
	do := func(i int) {
		errs[i] = b.Do(ctx, calls[i])
		if ended != nil && errs[i] == nil {
			telling.Lock()
			defer telling.Unlock()
			ended(calls[i])
		}
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(len(calls), b.table.Load().batch) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(calls)); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
	return errs
}

// The causes of cancelled calls. A door cancels a call's context with one of these.
var (
	// ErrGone: the client has left.
	ErrGone = errors.New("the client went away")
	// ErrCancelled: the client cancelled the call.
	ErrCancelled = errors.New("cancelled by the client")
	// ErrShutdown: the broker is about to stop.
	ErrShutdown = errors.New("the broker is shutting down")
)

// ErrCannotCount: no provider of the model counts tokens.
var ErrCannotCount = errors.New("the providers of the model count no tokens")

// ErrCannotEmbed: no provider of the model makes embeddings.
var ErrCannotEmbed = errors.New("the providers of the model make no embeddings")

// The causes of attempts that exceed a time limit.
var (
	errFirstPart = &provider.Error{Cause: provider.TimedOut, Err: errors.New("no part of the answer arrived within timeouts.first_token")}
	errTotal     = &provider.Error{Cause: provider.TimedOut, Err: errors.New("the answer was not complete within timeouts.total")}
)

// ErrOpen: the breaker is open, because the provider failed too often.
var ErrOpen = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the breaker is open: the provider failed too often recently")}

// An UnknownModelError says that no model has the name.
type UnknownModelError struct {
	Model   string
	Allowed []string
}

// Error is the message for clients, with Python's quoting.
func (e *UnknownModelError) Error() string {
	quoted := make([]string, len(e.Allowed))
	for i, name := range e.Allowed {
		quoted[i] = PyQuote(name)
	}
	return fmt.Sprintf("Unknown model %s. Allowed: [%s]", PyQuote(e.Model), strings.Join(quoted, ", "))
}

// Message is the error message for clients. It has no details of a provider.
func Message(err error) string {
	if unknown, ok := errors.AsType[*UnknownModelError](err); ok {
		return unknown.Error()
	}
	if spent, ok := errors.AsType[*BudgetError](err); ok {
		return spent.Error()
	}
	switch {
	case errors.Is(err, ErrShutdown):
		return "Broker is shutting down"
	case errors.Is(err, ErrCancelled):
		return "Request cancelled"
	case errors.Is(err, ErrGone):
		return "Client went away" // for logs only
	case errors.Is(err, ErrHubLost):
		return "Shared limits cannot be checked: the hub of the brokers cannot be reached"
	case errors.Is(err, ErrCannotCount):
		return "No provider of this model can count tokens"
	case errors.Is(err, ErrCannotEmbed):
		return "No provider of this model can make embeddings: ask a model of a provider of the kind openai or gemini"
	}
	if large, ok := errors.AsType[*provider.TooLargeError](err); ok {
		return large.Error()
	}
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		return problem(pe)
	}
	return internalError
}

// internalError is the message for faults of the broker.
const internalError = "Internal broker error"

// problem is the message for a failure of a provider. It depends only on the status and the
// code, never on the provider's text.
func problem(e *provider.Error) string {
	switch {
	case e.Cause == provider.Unsupported:
		return e.Err.Error()
	case e.KeyRefused() && e.KeyEnv != "":
		return "Authentication failed: check the environment variable " + e.KeyEnv
	case e.KeyRefused():
		return "Authentication failed: check the key of the provider"
	case e.TooLong():
		return "Context too long: shorten the prompt"
	case e.UnknownModel():
		return "Model not found: the provider does not know it"
	}
	switch e.Cause {
	case provider.RateLimited:
		return "Rate limit exceeded: try again later"
	case provider.Refused:
		return "Invalid request: the provider refused it"
	case provider.TimedOut:
		return "Request timed out"
	case provider.Unreachable:
		return "Connection error"
	case provider.Overloaded:
		return "Server error: the provider failed"
	}
	if e.Status != 0 { // such as a redirect
		return "Server error: the provider failed"
	}
	return internalError
}

// CauseOf returns the cause of a provider's error, Internal for any other.
func CauseOf(err error) provider.Cause {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return e.Cause
	}
	return provider.Internal
}

// ErrorType names the class of an error in one word.
func ErrorType(err error) string {
	switch outcomeOf(err) {
	case Cancelled:
		return "cancelled"
	case Refused:
		return "unknown_model"
	}
	return CauseOf(err).String()
}

// A Group is the state that brokers share: limits of providers, budgets, open breakers and
// usage. Most methods run for each call, and must not wait for the network.
type Group interface {
	// Limiter returns the rate that a provider has at all brokers together.
	Limiter(provider string, perSecond float64, burst int) Limiter
	// Admit counts a call with its estimate against all of the budgets, or against none if one
	// is used up, and Charge adds tokens and cost, which may be negative.
	Admit(ctx context.Context, purses []Purse, e Estimate) error
	Charge(purses []Purse, tokens int64, cost float64)
	// Spent is the group's use of a budget, as far as the broker knows.
	Spent(p Purse) Spent
	// Opened tells the others that the breaker of b has opened; IsOpen reports whether
	// the breaker is open at another broker.
	Opened(b *Backend)
	IsOpen(provider string) bool
	// Usage is that of the whole group, given this broker's own.
	Usage(ctx context.Context, own []Usage) ([]Usage, error)
}

// Workers are other machines that answer calls.
type Workers interface {
	provider.Provider
	// Offers reports whether any worker offers a model, and Offered lists their models.
	Offers(model string) bool
	Offered() []string
}

// workersTime bounds calls to workers that the configuration does not name.
const workersTime = 10 * time.Minute

// addWorkers adds the model for names that only workers offer.
func (t *table) addWorkers(w Workers, n *metrics) {
	if w == nil {
		return
	}
	i := slices.IndexFunc(t.backends, func(b *backend) bool { return b.Provider == provider.Provider(w) })
	if i < 0 {
		i = len(t.backends)
		t.backends = append(t.backends, newBackend(&Backend{Name: t.unused("workers"), Provider: w, Total: workersTime}, n, t.secrets, t.group))
	}
	t.workers, t.rest = w, &model{name: "workers", routes: []route{{t.backends[i], "", 1}}, turns: make([]int, 1)}
}

// unused returns a name that no backend has.
func (t *table) unused(name string) string {
	for slices.ContainsFunc(t.backends, func(b *backend) bool { return b.Name == name }) {
		name += "-joined"
	}
	return name
}

// withOffered adds the models of workers to names; patterns only if they are wanted.
func (t *table) withOffered(names []string, patterns bool) []string {
	if t.workers == nil {
		return names
	}
	names = slices.Clone(names)
	for _, name := range t.workers.Offered() {
		if patterns || !strings.Contains(name, "*") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A Limiter makes calls wait for their turn.
type Limiter interface {
	Wait(ctx context.Context) error
}

// ErrHubLost: the shared state cannot be reached, and the configuration says that calls fail
// then.
var ErrHubLost = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the limits that brokers share cannot be checked: the hub cannot be reached, and on_hub_loss is closed")}

// GroupUsage returns the usage of all brokers of the group, nil without a group.
func (b *Broker) GroupUsage(ctx context.Context) ([]Usage, error) {
	g := b.table.Load().group
	if g == nil {
		return nil, nil
	}
	return g.Usage(ctx, b.Usage())
}
