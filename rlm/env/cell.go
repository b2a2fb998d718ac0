package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/rlm"
)

// maxOutput is how much output of a cell is kept, in bytes. Our workers send no more.
const maxOutput = 1 << 20

// Types of errors that are not those of the code.
const (
	typeTimeout   = "Timeout"
	typeDied      = "InterpreterDied"
	typeCancelled = "KeyboardInterrupt" // as workers say it
	typeValue     = "ValueError"
)

var errTimeout = errors.New("took too long")

// A request is one that a worker serves: a cell, or what is like one.
type request struct {
	worker *worker
	id     uint64
	caller rlm.Caller    // nil if nothing may be asked
	slots  chan struct{} // of calls
	clock  *clock
	ctx    context.Context // of its calls
	calls  sync.WaitGroup
	// told is closed when the worker knows that it is interrupted, or need not know it. The
	// code learns that its calls have failed no sooner, or it would go on with that.
	told chan struct{}

	stdout, stderr strings.Builder
	omitted        int64

	result message
	cause  error // why it was interrupted
	died   error // how the worker has ended, if it has
	took   time.Duration
}

// do makes a request of the worker, and waits for its result.
func (e *Env) do(ctx context.Context, m any, id uint64) *request {
	var b bytes.Buffer
	if err := appendFrame(&b, m); err != nil {
		return &request{result: message{Error: &rlm.CellError{Type: typeValue, Message: err.Error()}}}
	}
	return e.serve(ctx, b.Bytes(), id, nil)
}

// serve sends frames, the last of which is a request, and waits for its result. Nothing
// of the request is under way when it returns.
func (e *Env) serve(ctx context.Context, frames []byte, id uint64, caller rlm.Caller) *request {
	calls, endCalls := context.WithCancel(ctx)
	r := &request{
		worker: e.worker, id: id, caller: caller, slots: e.slots,
		clock: newClock(e.config.Timeout), ctx: calls, told: make(chan struct{}),
	}
	ended := r.await(ctx, frames, e.config.Grace, endCalls)
	r.took = r.clock.stop()
	endCalls()
	r.calls.Wait()
	if r.cause == nil {
		close(r.told)
	}
	if !ended {
		r.died = orClean(e.stop())
	}
	return r
}

// await returns true when the request has its result, and false when the worker has ended.
func (r *request) await(ctx context.Context, frames []byte, grace time.Duration, endCalls func()) bool {
	posted := r.worker.post(frames)
	late, done := r.clock.timer.C, ctx.Done()
	var tooLate <-chan time.Time
	interrupt := func(cause error) {
		r.cause, late, done = cause, nil, nil
		endCalls()
		r.worker.cancel(r.id, posted, r.told)
		tooLate = time.After(grace)
	}
	for {
		select {
		case m, ok := <-r.worker.messages:
			if !ok {
				return false
			}
			if r.handle(m) {
				return true
			}
		case <-late:
			interrupt(errTimeout)
		case <-done:
			interrupt(context.Cause(ctx))
		case <-tooLate:
			return false
		}
	}
}

// handle handles a message, and reports whether it is the result. A message that belongs
// to another request comes from a thread that has outlived it.
func (r *request) handle(m message) (result bool) {
	switch m.Kind {
	case "output":
		if m.ID == r.id {
			r.print(m)
		}
	case "busy":
		if m.ID == r.id {
			r.clock.worked(time.Duration(min(max(0, m.Seconds), 1e6) * float64(time.Second)))
		}
	case "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "tool_call":
		r.call(m)
	case "execute_result", "load_context_result", "final_var_result":
		if m.ID == r.id {
			r.result = m
			return true
		}
	}
	return false
}

func (r *request) print(m message) {
	room := maxOutput - r.stdout.Len() - r.stderr.Len()
	if len(m.Text) > room {
		for room > 0 && !utf8.RuneStart(m.Text[room]) {
			room--
		}
		r.omitted += int64(len(m.Text) - room)
		m.Text = m.Text[:room]
	}
	if m.Stream == "stderr" {
		r.stderr.WriteString(m.Text)
	} else {
		r.stdout.WriteString(m.Text)
	}
}

// call answers a call of the code, without waiting for the answer.
func (r *request) call(m message) {
	w := r.worker
	if w.calls.Add(1) > maxCalls {
		w.breach = fmt.Errorf("more than %d calls at the same time", maxCalls)
		w.kill()
		return
	}
	own := m.Cell == r.id && r.caller != nil
	if own {
		r.clock.began()
		r.calls.Add(1)
	}
	w.running.Go(func() {
		a := answer{Kind: m.Kind + "_result", ID: m.ID, Error: "calls are possible only while a cell runs, from threads that it has started"}
		if own {
			r.ask(m, &a)
			r.clock.ended()
			r.calls.Done()
			if r.ctx.Err() != nil {
				<-r.told
			}
		}
		var b bytes.Buffer
		if err := appendFrame(&b, a); err != nil {
			_ = appendFrame(&b, answer{Kind: a.Kind, ID: a.ID, Error: "answer: " + err.Error()})
		}
		w.write(b.Bytes())
		w.calls.Add(-1)
	})
}

// ask asks what a call asks.
func (r *request) ask(m message, a *answer) {
	q := rlm.Query{Model: m.Model, Nested: strings.HasPrefix(m.Kind, "rlm_"), Batch: strings.HasSuffix(m.Kind, "_batched")}
	switch {
	case m.Kind == "tool_call":
		a.Error = "there are no tools"
	case q.Batch:
		answers := r.batch(q, m.Prompts)
		a.OK, a.Error, a.Responses = true, "", make([]any, len(answers))
		for i := range answers {
			a.Responses[i] = answers[i].Text
			if err := answers[i].Err; err != nil {
				a.Responses[i] = failure{err.Error()}
			}
		}
	default:
		one := r.one(q, m.Prompt)
		if one.Err != nil {
			a.Error = one.Err.Error()
			return
		}
		a.OK, a.Error, a.Response = true, "", &one.Text
	}
}

// batch asks many prompts, as many at the same time as there are slots.
func (r *request) batch(q rlm.Query, prompts []json.RawMessage) []rlm.Answer {
	answers := make([]rlm.Answer, len(prompts))
	var next atomic.Int64
	var askers sync.WaitGroup
	for range min(len(prompts), cap(r.slots)) {
		askers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(prompts); i = int(next.Add(1)) - 1 {
				answers[i] = r.one(q, prompts[i])
			}
		})
	}
	askers.Wait()
	return answers
}

var (
	errEnded    = errors.New("the cell was ended")
	errNoPrompt = errors.New("no prompt")
)

// one asks one prompt, when there is a slot.
func (r *request) one(q rlm.Query, prompt json.RawMessage) rlm.Answer {
	if len(prompt) == 0 {
		return rlm.Answer{Err: errNoPrompt}
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-r.ctx.Done():
		return rlm.Answer{Err: errEnded}
	}
	if r.ctx.Err() != nil {
		return rlm.Answer{Err: errEnded}
	}
	q.Prompts = []json.RawMessage{prompt}
	answers := r.caller.Query(r.ctx, q)
	if len(answers) != 1 {
		return rlm.Answer{Err: fmt.Errorf("%d answers to one prompt", len(answers))}
	}
	return answers[0]
}

// failure is the error of the request, as the model is told.
func (r *request) failure(timeout time.Duration) *rlm.CellError {
	const gone = "; the interpreter is a new one, without the variables"
	err := r.result.Error
	interrupted := err != nil && err.Type == typeCancelled
	switch {
	case r.cause == errTimeout && r.died != nil: //nolint:errorlint // it is never wrapped
		return &rlm.CellError{Type: typeTimeout, Message: fmt.Sprintf("the cell ran for more than %v, and did not end when it was interrupted%s", timeout, gone)}
	case r.cause == errTimeout && interrupted: //nolint:errorlint // as above
		return &rlm.CellError{Type: typeTimeout, Message: fmt.Sprintf("the cell ran for more than %v and was interrupted; the variables are kept", timeout), Line: err.Line}
	case r.cause != nil && r.died != nil:
		return &rlm.CellError{Type: typeCancelled, Message: "the cell was cancelled, and did not end when it was interrupted" + gone}
	case r.cause != nil && interrupted:
		return &rlm.CellError{Type: typeCancelled, Message: "the cell was cancelled; the variables are kept", Line: err.Line}
	case r.died != nil:
		return &rlm.CellError{Type: typeDied, Message: fmt.Sprintf("the interpreter ended: %v%s", r.died, gone)}
	}
	return err
}

// orClean gives an end without an error a name.
func orClean(err error) error {
	if err == nil {
		return errors.New("with status 0")
	}
	return err
}
