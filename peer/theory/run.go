package theory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A run is one run of the tool, with any number of clients.
type run struct {
	runtime  *Runtime
	request  *Request
	controls chan json.RawMessage
	ctx      context.Context
	cancel   context.CancelCauseFunc
	expiry   *time.Timer // set when the run is kept

	mu      sync.Mutex
	clients []*client
	final   []byte      // the Response; nil before
	orphan  *time.Timer // ends a run without clients
	alive   *time.Timer // sends an Event when no other message is sent
}

func newRun(t *Runtime, q *Request) *run {
	r := &run{runtime: t, request: q, controls: make(chan json.RawMessage, 16)}
	q.Controls = r.controls
	r.ctx, r.cancel = context.WithCancelCause(t.ctx)
	r.mu.Lock() // the timer may fire before it is stored
	defer r.mu.Unlock()
	r.alive = time.AfterFunc(t.options.KeepAlive, func() { r.event("keepalive") })
	return r
}

// join adds a client to the run, or sends it the Response if the run has ended.
func (r *run) join(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.push(message(r.runtime.options.Dialect, "Ack", r.request.id, nil), false, true)
	if r.final != nil {
		c.push(r.final, false, true)
		return
	}
	r.clients = append(r.clients, c)
	if r.orphan != nil {
		r.orphan.Stop()
		r.orphan = nil
	}
}

// leave removes a client. Some time after the last client has left, the run is stopped.
func (r *run) leave(c *client) {
	c.drop() // a pending write to the client must not block the run
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.clients, c)
	if i < 0 {
		return
	}
	r.clients = slices.Delete(r.clients, i, i+1)
	if len(r.clients) == 0 && r.final == nil {
		r.orphan = time.AfterFunc(r.runtime.options.Orphan, func() { r.cancel(errOrphaned) })
	}
}

// tell sends a message to all clients, unless the run has ended.
func (r *run) tell(kind string, data json.RawMessage) {
	m := message(r.runtime.options.Dialect, kind, r.request.id, data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final != nil {
		return
	}
	if len(m) > peerLimit {
		r.runtime.options.Log.Warn("a message was dropped: clients do not accept messages of its size", "run", r.request.RunID, "bytes", len(m))
		return
	}
	r.alive.Reset(r.runtime.options.KeepAlive)
	r.push(m, kind == "Token")
}

// push queues a message for all clients.
func (r *run) push(m []byte, droppable bool) {
	for _, c := range r.clients {
		c.push(m, droppable, len(r.clients) == 1)
	}
}

// event sends an Event with a phase to all clients.
func (r *run) event(phase string) { r.eventOf(phase, nil, nil) }

func (r *run) eventOf(phase string, by *string, budgets *budget) {
	r.tell("Event", jsonscan.MustMarshal(struct {
		Phase   string  `json:"phase"`
		By      *string `json:"by,omitempty"`
		TS      int64   `json:"ts"` // in milliseconds
		Budgets *budget `json:"budgets,omitempty"`
	}{phase, by, time.Now().UnixMilli(), budgets}))
}

// phases are the phases that the ops of controls lead to.
var phases = map[string]string{
	"preempt": "preempted", "pause": "paused", "resume": "resumed", "set_budget": "budget_updated",
}

// control executes a request of a controller. If allowed is false, it only answers with
// control_noop.
func (r *run) control(content json.RawMessage, allowed bool) {
	var op controlOp
	if err := json.Unmarshal(content, &op); err != nil || !allowed {
		op = controlOp{By: op.By}
	}
	by := cmp.Or(op.By, "controller")
	phase := phases[op.Op]
	switch {
	case phase == "" || r.ctx.Err() != nil:
		phase = "control_noop"
	case op.Op != "preempt":
		select {
		case r.controls <- content:
		default: // the tool's queue is full
			phase = "control_noop"
		}
	}
	var budgets *budget
	if phase == "budget_updated" {
		budgets = &budget{op.Tokens, op.TimeS}
	}
	r.eventOf(phase, &by, budgets)
	if phase == "preempted" {
		r.cancel(errPreempted)
	}
}

// work runs the tool: it waits for a turn and ends with the Response.
func (r *run) work() {
	defer r.runtime.running.Done()
	defer r.cancel(nil)
	result, err := r.attempt()
	failure := r.failure(err)
	dialect, id := r.runtime.options.Dialect, r.request.id
	m := response(dialect, id, result, failure)
	if len(m) > peerLimit {
		m = response(dialect, id, nil, &Error{ErrRuntime, fmt.Sprintf("the outputs take %d bytes, and clients accept %d: write them to a URL or to /artifacts/", len(m), peerLimit)})
	}
	if failure == nil {
		r.event("completed")
	}
	r.runtime.keepRun(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive.Stop()
	r.final = m
	r.push(m, false)
	r.clients = nil
	if r.orphan != nil {
		r.orphan.Stop()
	}
}

// attempt waits for a turn, loads the inputs, runs the tool and stores the outputs.
func (r *run) attempt() (*Result, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	if err := r.await(); err != nil {
		return nil, err
	}
	defer func() { <-r.runtime.slots }()
	r.event("started")
	o := &r.runtime.options
	q := *r.request
	inputs, err := o.Files.hydrate(r.ctx, q.RunID, q.Inputs)
	if err != nil {
		return nil, err
	}
	q.Inputs = inputs
	result, err := r.runtime.handler.Run(r.ctx, &q, func(m Message) { r.tell(m.Kind, m.Data) })
	if err != nil {
		return result, err
	}
	// The client has paid for the outputs of a run that was stopped, so they are stored, too.
	cause := context.Cause(r.ctx)
	if cause != errStopped { // there is no time any more
		err = o.Files.store(context.WithoutCancel(r.ctx), q.RunID, result.Outputs, q.Outputs)
	}
	return result, cmp.Or(cause, err)
}

func (r *run) validate() error {
	if mode := r.request.Mode; mode != "mock" && mode != "real" {
		return &Error{ErrValidation, fmt.Sprintf("invalid mode %q: want mock or real", mode)}
	}
	return nil
}

// await waits for a turn.
func (r *run) await() error {
	select {
	case r.runtime.slots <- struct{}{}:
		return nil
	default:
	}
	if r.runtime.options.Refuse {
		return &Error{ErrRuntime, fmt.Sprintf("%d runs are in progress; try again later", r.runtime.options.MaxRuns)}
	}
	r.event("queued")
	select {
	case r.runtime.slots <- struct{}{}:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// failure returns the error for the client; nil if err is nil.
func (r *run) failure(err error) *Error {
	var known *Error
	cause := context.Cause(r.ctx)
	switch {
	case err == nil:
		return nil
	case cause == errPreempted && errors.As(err, &known) && known.Code == ErrPreempted:
		return known // in the tool's own words
	case cause == errPreempted:
		return &Error{ErrPreempted, cause.Error()}
	case cause != nil:
		return &Error{ErrRuntime, cause.Error()}
	case errors.As(err, &known):
		return known
	}
	r.runtime.options.Log.Error("the run failed", "run", r.request.RunID, "error", err)
	return &Error{ErrRuntime, "the run failed"}
}
