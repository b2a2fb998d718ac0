package env

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
)

// maxCalls bounds the unanswered calls of a worker.
const maxCalls = 4096

// A worker is a process at the other end of a wire.
type worker struct {
	process Process
	in, out *os.File
	tap     func(frame.Dir, []byte)
	scanner *frame.Scanner // of the goroutine that reads

	ready   chan message            // has the first message; closed if the wire has ended before it
	serving atomic.Pointer[request] // the current request; nil if there is none
	ended   chan struct{}           // closed when the process has ended
	once    sync.Once
	running sync.WaitGroup // goroutines that read and write
	fault   error          // what was wrong with a message; valid after the end of the wire

	mu     sync.Mutex
	breach error // the rule for which it was killed

	writing sync.Mutex
	calls   atomic.Int64 // unanswered ones
	lease   lease
}

// startWorker starts a worker. Its first message says that it is ready.
func startWorker(ctx context.Context, c *Config, s Spec) (*worker, error) {
	w := &worker{ready: make(chan message, 1), ended: make(chan struct{}), tap: c.Tap}
	theirs, err := w.connect(&s, c.Stdio)
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if w.process, err = c.Launcher.Start(ctx, s); err != nil {
		w.in.Close()
		w.out.Close()
		return nil, err
	}
	w.scanner = frame.NewScanner(w.out, frame.Len32)
	w.scanner.SetLimit(repl.Limit)
	w.running.Go(func() {
		_ = w.process.Wait()
		close(w.ended)
	})
	w.running.Go(func() {
		defer close(w.ready)
		if m, ok := w.next(); ok {
			w.ready <- m
		}
	})
	return w, nil
}

// connect makes the wire. It returns the worker's ends.
func (w *worker) connect(s *Spec, stdio bool) (theirs []*os.File, err error) {
	if !stdio {
		ours, other, err := socketPair()
		if err != nil {
			return nil, err
		}
		w.in, w.out = ours, ours
		s.Files = []*os.File{other}
		return s.Files, nil
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		in.Close()
		return nil, err
	}
	w.in, w.out = in, out
	s.Stdin, s.Stdout = stdin, stdout
	return []*os.File{stdin, stdout}, nil
}

// next reads a message. If there is none, the wire has ended.
func (w *worker) next() (m message, ok bool) {
	if w.scanner.Scan() {
		if w.tap != nil {
			w.tap(frame.U2C, w.scanner.Frame().Raw)
		}
		err := m.read(w.scanner.Frame().Payload())
		if err == nil {
			return m, true
		}
		w.fault = fmt.Errorf("the interpreter sent a bad message: %w", err)
	} else if errors.Is(w.scanner.Err(), frame.ErrTooLarge) {
		w.fault = w.scanner.Err()
	}
	return message{}, false
}

// read handles messages until the request is done, or another goroutine reads. Nobody reads
// between two requests. Threads that have outlived their cell then cannot send without end.
func (w *worker) read(r *request) {
	for readOn := true; readOn; {
		m, ok := w.next()
		if !ok {
			r.finish(message{})
			return
		}
		readOn = w.handle(r, m)
	}
}

// handle handles a message during a request. It reports whether its goroutine should read on.
func (w *worker) handle(r *request, m message) bool {
	switch m.Kind {
	case "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "tool_call":
		return w.call(r, m)
	}
	return !r.handle(m)
}

// breaks kills a worker that has broken a rule.
func (w *worker) breaks(why error) {
	w.mu.Lock()
	w.breach = cmp.Or(w.breach, why)
	w.mu.Unlock()
	w.kill()
}

// call answers a call of the code. A call of no request, or of another request, comes from a
// thread that has outlived its cell.
func (w *worker) call(r *request, m message) (readOn bool) {
	if w.calls.Add(1) > maxCalls {
		w.breaks(fmt.Errorf("more than %d calls at the same time", maxCalls))
		return true
	}
	begun := m.Cell == r.id && r.caller != nil && r.begin()
	return w.lease.serve(r, func() {
		a := answer{Kind: m.Kind + "_result", ID: m.ID, Error: errNoCell.Error()}
		if begun {
			r.answer(m, &a)
		}
		var b bytes.Buffer
		if err := appendFrame(&b, a); err != nil {
			_ = appendFrame(&b, answer{Kind: a.Kind, ID: a.ID, Error: "answer: " + err.Error()})
		}
		w.post(b.Bytes(), func() { w.calls.Add(-1) })
	})
}

var errNoCell = errors.New("calls are possible only while a cell runs, from threads that it has started")

// query answers a call that did not come over the wire.
func (w *worker) query(ctx context.Context, q rlm.Query) []rlm.Answer {
	defer w.calls.Add(-1)
	if w.calls.Add(1) > maxCalls {
		return failed(q, fmt.Errorf("more than %d calls at the same time", maxCalls))
	}
	r := w.serving.Load()
	if r == nil || r.caller == nil || !r.begin() {
		return failed(q, errNoCell)
	}
	defer r.calls.Done()
	defer r.clock.ended()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(r.ctx, func() { stop(errEnded) })()
	return r.caller.Query(ctx, q)
}

// failed answers each prompt with an error.
func failed(q rlm.Query, err error) []rlm.Answer {
	return slices.Repeat([]rlm.Answer{{Err: err}}, len(q.Prompts))
}

// write writes frames. If the worker does not read, it waits until the worker is killed.
func (w *worker) write(frames []byte) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.tapOut(frames)
	_, _ = w.in.Write(frames) // if the wire is broken, read ends, too
}

func (w *worker) tapOut(frames []byte) {
	if w.tap == nil {
		return
	}
	for len(frames) > 0 {
		var e frame.Extent
		if frame.Len32.Next(frames, repl.Limit, true, &e) != nil || e.Raw == 0 {
			return
		}
		w.tap(frame.C2U, frames[:e.Raw])
		frames = frames[e.Raw:]
	}
}

// post writes frames without waiting. It calls written when they are written.
func (w *worker) post(frames []byte, written func()) {
	if !w.tryPost(frames, written) {
		w.running.Go(func() {
			w.write(frames)
			written()
		})
	}
}

// tryPost is like post, but does nothing and returns false if other frames are being written.
// It writes as much as fits at once, and the rest in a goroutine.
func (w *worker) tryPost(frames []byte, written func()) bool {
	if !w.writing.TryLock() {
		return false
	}
	w.tapOut(frames)
	rest := frames[writeSome(w.in, frames):]
	if len(rest) == 0 {
		w.writing.Unlock()
		written()
		return true
	}
	w.running.Go(func() {
		defer written()
		defer w.writing.Unlock()
		_, _ = w.in.Write(rest)
	})
	return true
}

// cancel asks the worker to interrupt a request.
func (w *worker) cancel(r *request) {
	var b bytes.Buffer
	_ = appendFrame(&b, cancel{"cancel", r.id})
	w.running.Go(func() {
		<-r.posted
		w.write(b.Bytes())
		close(r.notified)
	})
}

// kill kills the worker and everything that it has started.
func (w *worker) kill() {
	w.once.Do(func() {
		w.process.Kill()
		hangUp(w.in)
		w.in.Close()
		w.out.Close()
	})
}

// end kills the worker and waits for its goroutines. It returns how the worker has ended.
func (w *worker) end() error {
	w.kill()
	w.lease.end()
	w.running.Wait()
	err := w.process.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.breach, w.fault, err)
}

// alive reports whether the process has not ended, as far as is known.
func (w *worker) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

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

	// notified is closed when the worker was told of an interrupt, or need not be told. Only then
	// does the code learn that its calls have failed: otherwise, it would go on.
	notified chan struct{}

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
		posted: make(chan struct{}), notified: make(chan struct{}), done: make(chan struct{}),
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
		close(r.notified)
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
		<-r.notified
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
	const restarted = "; the interpreter is a new one, without the variables"
	err := r.result.Error
	interrupted := err != nil && err.Type == typeCancelled
	switch {
	case r.cause == errTimeout && r.died != nil: //nolint:errorlint // it is never wrapped
		return &rlm.CellError{Type: typeTimeout, Message: fmt.Sprintf("the cell ran for more than %v, and did not end when it was interrupted%s", timeout, restarted)}
	case r.cause == errTimeout && interrupted: //nolint:errorlint // as above
		return &rlm.CellError{Type: typeTimeout, Message: fmt.Sprintf("the cell ran for more than %v and was interrupted; the variables are kept", timeout), Line: err.Line}
	case r.cause != nil && r.died != nil:
		return &rlm.CellError{Type: typeCancelled, Message: "the cell was cancelled, and did not end when it was interrupted" + restarted}
	case r.cause != nil && interrupted:
		return &rlm.CellError{Type: typeCancelled, Message: "the cell was cancelled; the variables are kept", Line: err.Line}
	case r.died != nil:
		return &rlm.CellError{Type: typeDied, Message: fmt.Sprintf("the interpreter ended: %v%s", r.died, restarted)}
	}
	return err
}
