package env

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm"
)

// maxOutput bounds the output of a cell, in bytes. The workers of wirectl send no more.
const maxOutput = 1 << 20

// Types of errors that do not come from the code.
const (
	typeTimeout   = "Timeout"
	typeDied      = "InterpreterDied"
	typeCancelled = "KeyboardInterrupt" // as in workers
	typeValue     = "ValueError"
)

var errTimeout = errors.New("took too long")

// A request is a request to a worker, such as a cell.
type request struct {
	worker *worker
	id     uint64
	caller rlm.Caller // nil if calls are not possible
	clock  *clock
	ctx    context.Context // of its calls
	end    func()          // ends ctx
	grace  time.Duration
	calls  sync.WaitGroup
	posted chan struct{} // closed when the request was written

	// told is closed when the worker was told of an interrupt, or need not be told. Only then
	// does the code learn that its calls have failed: otherwise, it would go on.
	told chan struct{}

	stdout, stderr strings.Builder
	omitted        int64
	result         message
	done           chan struct{} // closed when there is a result, or the wire has ended

	mu     sync.Mutex
	closed bool        // no call and no interrupt begins any more
	cause  error       // why it was interrupted
	last   *time.Timer // kills the worker after an interrupt

	died error // how the worker has ended; nil if it has not
	took time.Duration
}

// do makes a request to the worker, and waits for the result.
func (e *Env) do(ctx context.Context, m any, id uint64) *request {
	var b bytes.Buffer
	if err := appendFrame(&b, m); err != nil {
		return &request{result: message{Error: &rlm.CellError{Type: typeValue, Message: err.Error()}}}
	}
	return e.serve(ctx, b.Bytes(), id, nil)
}

// serve sends frames, the last of which is a request, and waits for its result and the end of
// its calls. The calling goroutine reads the wire: waking another one for each message would
// cost more than most cells.
func (e *Env) serve(ctx context.Context, frames []byte, id uint64, caller rlm.Caller) *request {
	r := &request{
		worker: e.worker, id: id, caller: caller, grace: e.config.Grace,
		posted: make(chan struct{}), told: make(chan struct{}), done: make(chan struct{}),
	}
	r.ctx, r.end = context.WithCancel(ctx)
	r.clock = newClock(e.config.Timeout, func() { r.interrupt(errTimeout) })
	r.worker.serving.Store(r)
	r.worker.post(frames, func() { close(r.posted) })
	stop := context.AfterFunc(ctx, func() { r.interrupt(context.Cause(ctx)) })
	r.worker.read(r)
	<-r.done
	stop()
	r.calls.Wait()
	if r.result.Kind == "" {
		r.died = cmp.Or(e.stop(), errClean)
	}
	return r
}

// interrupt interrupts the request, once, and kills the worker if it does not end soon.
func (r *request) interrupt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.cause != nil {
		return
	}
	r.cause = cause
	r.end()
	r.worker.cancel(r)
	r.last = time.AfterFunc(r.grace, r.worker.kill)
}

// finish ends the request, with a result or at the end of the wire.
func (r *request) finish(result message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	r.worker.serving.Store(nil)
	r.took = r.clock.stop()
	r.end()
	if r.cause == nil {
		close(r.told)
	} else if !r.last.Stop() {
		result = message{} // the worker is being killed
	}
	r.result = result
	close(r.done)
}

// handle handles a message that is not a call. A message of another request comes from a
// thread that has outlived it. handle reports whether the request is done.
func (r *request) handle(m message) (done bool) {
	if m.ID != r.id {
		return false
	}
	switch m.Kind {
	case "output":
		r.print(m)
	case "busy":
		r.clock.worked(time.Duration(min(max(0, m.Seconds), 1e6) * float64(time.Second)))
	case "execute_result", "load_context_result", "final_var_result":
		r.finish(m)
		return true
	}
	return false
}

func (r *request) print(m message) {
	text := render.Clip(m.Text, maxOutput-r.stdout.Len()-r.stderr.Len())
	r.omitted += int64(len(m.Text) - len(text))
	if m.Stream == "stderr" {
		r.stderr.WriteString(text)
	} else {
		r.stdout.WriteString(text)
	}
}

// begin counts a call, unless the request is over.
func (r *request) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.clock.began()
		r.calls.Add(1)
	}
	return !r.closed
}

// answer answers a call of the code.
func (r *request) answer(m message, a *answer) {
	r.ask(m, a)
	r.clock.ended()
	r.calls.Done()
	if r.ctx.Err() != nil {
		<-r.told
	}
}

var (
	errEnded    = errors.New("the cell was ended")
	errNoPrompt = errors.New("no prompt")
	errClean    = errors.New("with status 0") // for an end without an error
)

// ask passes a call to the caller.
func (r *request) ask(m message, a *answer) {
	q := rlm.Query{ID: strconv.FormatUint(m.ID, 10), Prompts: m.Prompts, Model: m.Model, Nested: strings.HasPrefix(m.Kind, "rlm_"), Batch: strings.HasSuffix(m.Kind, "_batched")}
	isTool := m.Kind == "tool_call"
	switch {
	case isTool:
		q.Tool, q.Prompts = m.Name, []json.RawMessage{m.Arguments}
	case !q.Batch:
		q.Prompts = []json.RawMessage{m.Prompt}
	}
	switch {
	case isTool && m.Name == "":
		a.Error = "no name of a tool"
		return
	case !q.Batch && len(q.Prompts[0]) == 0:
		a.Error = errNoPrompt.Error()
		return
	case r.ctx.Err() != nil:
		a.Error = errEnded.Error()
		return
	}
	answers := r.caller.Query(r.ctx, q)
	switch {
	case len(answers) != len(q.Prompts):
		a.Error = fmt.Sprintf("%d answers to %d prompts", len(answers), len(q.Prompts))
	case !q.Batch && answers[0].Err != nil:
		a.Error = answers[0].Err.Error()
	case isTool:
		a.OK, a.Error, a.Response = true, "", json.RawMessage(answers[0].Text)
	case !q.Batch:
		a.OK, a.Error, a.Response = true, "", answers[0].Text
	default:
		a.OK, a.Error, a.Responses = true, "", make([]any, len(answers))
		for i := range answers {
			a.Responses[i] = answers[i].Text
			if err := answers[i].Err; err != nil {
				a.Responses[i] = failure{err.Error()}
			}
		}
	}
}

// failure returns the error of the request for the model.
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
