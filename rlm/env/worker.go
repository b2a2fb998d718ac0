package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
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
		close(r.told)
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
