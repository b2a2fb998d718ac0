package env

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/repl"
)

// maxCalls is how many calls of a worker may be unanswered at the same time.
const maxCalls = 4096

// A worker is a process at the other end of a wire.
type worker struct {
	process Process
	in      io.WriteCloser
	out     io.ReadCloser
	tap     func(frame.Dir, []byte)

	messages chan message  // closed at the end of the wire
	gone     chan struct{} // closed by kill
	once     sync.Once
	running  sync.WaitGroup // goroutines that read and write
	fault    error          // what was wrong with a message; valid once messages is closed
	breach   error          // why it was killed

	writing sync.Mutex
	calls   atomic.Int64 // unanswered ones
}

// startWorker starts a worker. It is ready when it says so.
func startWorker(ctx context.Context, c *Config, s Spec) (*worker, error) {
	w := &worker{messages: make(chan message), gone: make(chan struct{}), tap: c.Tap}
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
	w.running.Go(w.read)
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

// read reads messages until the wire ends.
func (w *worker) read() {
	defer close(w.messages)
	s := frame.NewScanner(w.out, frame.Len32)
	s.SetLimit(repl.Limit)
	for s.Scan() {
		if w.tap != nil {
			w.tap(frame.U2C, s.Frame().Raw)
		}
		var m message
		if err := json.Unmarshal(s.Frame().Payload(), &m); err != nil {
			w.fault = fmt.Errorf("the interpreter sent a bad message: %w", err)
			return
		}
		select {
		case w.messages <- m:
		case <-w.gone:
			return
		}
	}
	if errors.Is(s.Err(), frame.ErrTooLarge) {
		w.fault = s.Err()
	}
}

// write writes frames. It waits for a worker that does not read, until that is killed.
func (w *worker) write(frames []byte) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.tap != nil {
		for rest := frames; len(rest) > 0; {
			var e frame.Extent
			if frame.Len32.Next(rest, repl.Limit, true, &e) != nil || e.Raw == 0 {
				break
			}
			w.tap(frame.C2U, rest[:e.Raw])
			rest = rest[e.Raw:]
		}
	}
	_, _ = w.in.Write(frames) // a wire that is broken ends read, too
}

// post writes frames without waiting. The channel is closed when they are written.
func (w *worker) post(frames []byte) (written <-chan struct{}) {
	done := make(chan struct{})
	w.running.Go(func() {
		defer close(done)
		w.write(frames)
	})
	return done
}

// cancel asks the worker to interrupt a request that was posted. The channel told is
// closed when it has been told.
func (w *worker) cancel(id uint64, posted <-chan struct{}, told chan<- struct{}) {
	var b bytes.Buffer
	_ = appendFrame(&b, cancel{"cancel", id})
	w.running.Go(func() {
		<-posted
		w.write(b.Bytes())
		close(told)
	})
}

// kill ends the worker, and all that it has started, at once.
func (w *worker) kill() {
	w.once.Do(func() {
		close(w.gone)
		w.process.Kill()
		w.in.Close()
		w.out.Close()
	})
}

// end kills the worker and waits for all that belongs to it. It returns how the worker
// has ended.
func (w *worker) end() error {
	w.kill()
	w.running.Wait()
	err := w.process.Wait()
	return cmp.Or(w.breach, w.fault, err)
}

// alive reports whether the wire is still there, as far as is known. The worker has
// nothing to say now, but threads that have outlived their cell may.
func (w *worker) alive() bool {
	for range maxCalls {
		select {
		case m, ok := <-w.messages:
			if !ok {
				return false
			}
			(&request{worker: w}).handle(m)
		default:
			return true
		}
	}
	return true
}
