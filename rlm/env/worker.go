package env

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
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

	ready   chan message            // has the first message
	serving atomic.Pointer[request] // the current request; nil if there is none
	ended   chan struct{}           // closed at the end of the wire
	once    sync.Once
	running sync.WaitGroup // goroutines that read and write
	fault   error          // what was wrong with a message; valid once ended is closed

	mu     sync.Mutex
	breach error // the rule for which it was killed

	writing sync.Mutex
	calls   atomic.Int64 // unanswered ones
	strays  int          // messages without a request
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
	w.running.Go(w.greet)
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

// greet reads the first message, and then the others.
func (w *worker) greet() {
	if m, ok := w.next(); ok {
		w.ready <- m
		w.read()
	}
}

// next reads a message. If there is none, the wire has ended.
func (w *worker) next() (m message, ok bool) {
	if w.scanner.Scan() {
		if w.tap != nil {
			w.tap(frame.U2C, w.scanner.Frame().Raw)
		}
		err := json.Unmarshal(w.scanner.Frame().Payload(), &m)
		if err == nil {
			return m, true
		}
		w.fault = fmt.Errorf("the interpreter sent a bad message: %w", err)
	} else if errors.Is(w.scanner.Err(), frame.ErrTooLarge) {
		w.fault = w.scanner.Err()
	}
	close(w.ended)
	return message{}, false
}

// read handles messages until the wire ends, or another goroutine reads.
func (w *worker) read() {
	for {
		m, ok := w.next()
		if !ok || !w.handle(m) {
			return
		}
	}
}

// maxStrays bounds the messages of a worker between two requests. Threads that have outlived
// their cell may send some.
const maxStrays = 4096

// handle handles a message. It reports whether its goroutine should read on.
func (w *worker) handle(m message) bool {
	r := w.serving.Load()
	if r != nil {
		w.strays = 0
	} else if w.strays++; w.strays > maxStrays {
		w.breaks(fmt.Errorf("more than %d messages between two cells", maxStrays))
	}
	switch m.Kind {
	case "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "tool_call":
		return w.call(r, m)
	}
	if r != nil {
		r.handle(m)
		runtime.Gosched() // so that the request goes on in this thread, which saves a tenth of a cell's time
	}
	return true
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
	if r != nil && (m.Cell != r.id || r.caller == nil || !r.begin()) {
		r = nil
	}
	return w.lease.serve(w, func() {
		a := answer{Kind: m.Kind + "_result", ID: m.ID, Error: errNoCell.Error()}
		if r != nil {
			r.answer(m, &a)
		}
		var b bytes.Buffer
		if err := appendFrame(&b, a); err != nil {
			_ = appendFrame(&b, answer{Kind: a.Kind, ID: a.ID, Error: "answer: " + err.Error()})
		}
		w.write(b.Bytes())
		w.calls.Add(-1)
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

// post writes frames without waiting: as much as fits at once, and the rest in a goroutine.
// The channel is closed when they are written.
func (w *worker) post(frames []byte) (written <-chan struct{}) {
	done := make(chan struct{})
	if !w.writing.TryLock() {
		w.running.Go(func() {
			defer close(done)
			w.write(frames)
		})
		return done
	}
	w.tapOut(frames)
	rest := frames[writeSome(w.in, frames):]
	if len(rest) == 0 {
		w.writing.Unlock()
		close(done)
		return done
	}
	w.running.Go(func() {
		defer close(done)
		defer w.writing.Unlock()
		_, _ = w.in.Write(rest)
	})
	return done
}

// cancel asks the worker to interrupt a request that was posted. It closes told when the
// message was written.
func (w *worker) cancel(id uint64, posted <-chan struct{}, told chan<- struct{}) {
	var b bytes.Buffer
	_ = appendFrame(&b, cancel{"cancel", id})
	w.running.Go(func() {
		<-posted
		w.write(b.Bytes())
		close(told)
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

// alive reports whether the wire has not ended, as far as is known.
func (w *worker) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}
