// Package env is the host's side of workers, the processes that interpret the code of a run,
// in any language. It starts them, loads the context, runs cells, answers their calls, and
// kills those that hang.
//
// Workers are not trusted. A worker can only make its own cell fail.
package env

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/rlm"
)

// A Config says which worker to start, and how to treat it.
type Config struct {
	Launcher Launcher // nil is Plain
	// Spec is the program. This package sets Dir, Files and the streams, and adds to Read.
	Spec Spec
	// Files are written into the session folder before a worker is started.
	Files map[string][]byte
	// Stdio says that the wire is on the standard streams instead of descriptor 3.
	Stdio bool
	// ContextAt is the path of the context for the worker; "" is its path here.
	ContextAt string
	Dir       string // for the session folder; "" is the system's temporary folder
	Setup     string // code that is run before the first cell, in each new worker

	Run   string // the id of the run, RLM_CORRELATION_ID
	Depth int    // of the run, RLM_DEPTH

	Functions []rlm.Function // tools that the code can call

	Timeout time.Duration // of a cell; 0 is DefaultTimeout
	Grace   time.Duration // for a cell that was interrupted; 0 is DefaultGrace

	// Tap gets each frame, which it must not keep, from several goroutines. It must not
	// block. It may be nil.
	Tap func(d frame.Dir, raw []byte)
}

// The defaults of a Config.
const (
	DefaultTimeout = 300 * time.Second
	DefaultGrace   = 2 * time.Second
)

// startTimeout is how long a worker may take until it is ready.
const startTimeout = 60 * time.Second

// An Env is an interpreter in a worker. It implements [rlm.Environment].
type Env struct {
	config  Config
	folder  string // "" until it is needed, and once closed
	context *rlm.Context
	worker  *worker // may be nil
	running atomic.Pointer[worker]
	lost    bool          // a worker has ended, which was not reported yet
	history []rlm.Message // the variable
	synced  []rlm.Message // the part of it that the worker has
	last    uint64        // id of a request
	closed  bool
}

var _ rlm.Environment = (*Env)(nil)

// New returns an environment. The worker is started when it is needed.
func New(c Config) *Env {
	if c.Launcher == nil {
		c.Launcher = Plain
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	c.Stdio = c.Stdio || runtime.GOOS == "windows"
	return &Env{config: c}
}

// Load starts a worker and loads a context, which the worker reads from its file.
func (e *Env) Load(ctx context.Context, c rlm.Context) error {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return err
	}
	_ = e.stop() // a running worker cannot get access to another file
	e.lost = false
	e.context = &rlm.Context{Path: path, Type: c.Type}
	return e.start(ctx)
}

// errDied says that a worker has ended, or was killed, before the first cell.
type errDied struct{ error }

func (e errDied) Unwrap() error { return e.error }

// start starts a worker that is ready for cells.
func (e *Env) start(ctx context.Context) (err error) {
	if e.closed {
		return errors.New("the environment is closed")
	}
	spec := e.config.Spec
	if err := e.fill(&spec); err != nil {
		return err
	}
	if e.worker, err = startWorker(ctx, &e.config, spec); err != nil {
		return err
	}
	e.running.Store(e.worker)
	e.synced = nil
	defer func() {
		if err != nil {
			_ = e.stop()
		}
	}()
	if err := e.awaitReady(ctx); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := errors.Join(
		appendFrame(&b, set{Kind: "set", Name: "RLM_CORRELATION_ID", Value: e.config.Run}),
		appendFrame(&b, set{Kind: "set", Name: "RLM_DEPTH", Value: e.config.Depth}),
	); err != nil {
		return err
	}
	if len(e.config.Functions) > 0 {
		if err := appendFrame(&b, set{Kind: "set", Name: "tools", Value: e.config.Functions}); err != nil {
			return fmt.Errorf("tools: %w", err)
		}
	}
	e.worker.post(b.Bytes(), func() {})
	if e.context != nil {
		load := loadContext{"load_context", e.next(), cmp.Or(e.config.ContextAt, e.context.Path), e.context.Type}
		if err := e.prepare(ctx, "load the context", load, load.ID); err != nil {
			return err
		}
	}
	if e.config.Setup != "" {
		setup := execute{"execute", e.next(), e.config.Setup}
		return e.prepare(ctx, "setup code", setup, setup.ID)
	}
	return nil
}

// fill creates the session folder, and adds it and the context to the program.
func (e *Env) fill(s *Spec) (err error) {
	if e.folder == "" {
		if e.folder, err = os.MkdirTemp(e.config.Dir, folderPrefix); err != nil {
			return err
		}
		if e.folder, err = filepath.Abs(e.folder); err != nil { // TMPDIR may be relative
			return err
		}
	}
	for name, content := range e.config.Files {
		path := filepath.Join(e.folder, name)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o400); err != nil {
			return err
		}
	}
	s.Dir = e.folder
	if e.context != nil {
		s.Read = append(s.Read[:len(s.Read):len(s.Read)], e.context.Path)
	}
	return nil
}

// awaitReady waits until the worker is ready.
func (e *Env) awaitReady(ctx context.Context) error {
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	select {
	case m, ok := <-e.worker.ready:
		if !ok {
			return errDied{fmt.Errorf("start the interpreter: it ended: %w", cmp.Or(e.stop(), errClean))}
		}
		if m.Kind != "ready" {
			return errDied{fmt.Errorf("start the interpreter: it began with a message %.20q, not ready", m.Kind)}
		}
		return nil
	case <-late.C:
		return errDied{fmt.Errorf("start the interpreter: not ready after %v", startTimeout)}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prepare makes a request that has to succeed before cells can run.
func (e *Env) prepare(ctx context.Context, what string, request any, id uint64) error {
	r := e.do(ctx, request, id)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.died != nil:
		return errDied{fmt.Errorf("%s: %w", what, r.failure(e.config.Timeout))}
	case r.result.Error != nil && r.result.Error.Line > 0:
		return fmt.Errorf("%s: line %d: %w", what, r.result.Error.Line, r.failure(e.config.Timeout))
	case r.result.Error != nil:
		return fmt.Errorf("%s: %w", what, r.failure(e.config.Timeout))
	}
	return nil
}

// Exec runs a cell, in a new worker if the last one is gone.
func (e *Env) Exec(ctx context.Context, cell rlm.Cell) (rlm.Result, error) {
	if e.worker != nil && !e.worker.alive() {
		_ = e.stop()
		e.lost = true
	}
	lost := e.lost
	if e.worker == nil {
		if err := e.start(ctx); err != nil {
			return e.notStarted(ctx, err)
		}
	}
	e.lost = false
	var b bytes.Buffer
	if err := e.tellHistory(&b); err != nil {
		return rlm.Result{}, err
	}
	request := execute{"execute", e.next(), cell.Code}
	if err := appendFrame(&b, request); err != nil {
		return rlm.Result{Lost: lost, Err: &rlm.CellError{Type: typeValue, Message: fmt.Sprintf("the cell has %d bytes: %v", len(cell.Code), err)}}, nil
	}
	r := e.serve(ctx, b.Bytes(), request.ID, cell.Calls)
	return rlm.Result{
		Stdout: r.stdout.String(), Stderr: r.stderr.String(),
		Omitted: r.omitted + max(0, r.result.Omitted),
		Locals:  r.result.Locals,
		Took:    r.took,
		Err:     r.failure(e.config.Timeout),
		Final:   r.result.Final,
		Best:    r.result.Best,
		Lost:    lost || r.died != nil,
	}, nil
}

// notStarted returns the result of a cell for which no worker could be started. If the worker
// has died, the next one may not.
func (e *Env) notStarted(ctx context.Context, err error) (rlm.Result, error) {
	var died errDied
	failed := &rlm.CellError{Type: typeDied, Message: err.Error()}
	if ctx.Err() != nil {
		failed = &rlm.CellError{Type: typeCancelled, Message: "the cell was cancelled before it began"}
	} else if !errors.As(err, &died) {
		return rlm.Result{}, err
	}
	lost := e.lost
	e.lost = false
	return rlm.Result{Lost: lost, Err: failed}, nil
}

// Var implements [rlm.Environment].
func (e *Env) Var(ctx context.Context, name string) (text string, known bool, err error) {
	if e.worker == nil {
		return "", false, nil
	}
	request := finalVar{"final_var", e.next(), name}
	r := e.do(ctx, request, request.ID)
	e.lost = e.lost || r.died != nil
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if failed := r.failure(e.config.Timeout); failed != nil {
		return failed.Error(), false, nil
	}
	if r.result.Final == nil {
		return "", false, nil
	}
	return *r.result.Final, true, nil
}

// Close ends the worker and everything that it has started, and removes the session folder.
func (e *Env) Close() error {
	e.closed = true
	_ = e.stop()
	if e.folder == "" {
		return nil
	}
	err := removeAll(e.folder)
	if err == nil {
		e.folder = ""
	}
	return err
}

// stop ends the worker, if there is one, and returns how it has ended.
func (e *Env) stop() error {
	if e.worker == nil {
		return nil
	}
	e.running.Store(nil)
	err := e.worker.end()
	e.worker = nil
	return err
}

// Query answers calls of programs that the code has started, like calls of the current cell.
// Several goroutines call it, at any time.
func (e *Env) Query(ctx context.Context, q rlm.Query) []rlm.Answer {
	w := e.running.Load()
	if w == nil {
		return failed(q, errNoCell)
	}
	return w.query(ctx, q)
}

func (e *Env) next() uint64 {
	e.last++
	return e.last
}

// historyPart bounds the history in a message, in bytes before they are escaped.
const historyPart = 2 << 20

// Tell implements [rlm.Environment]. The worker reads the messages while the model is asked.
func (e *Env) Tell(history []rlm.Message) {
	e.history = history
	if e.worker == nil {
		return
	}
	var b bytes.Buffer
	told := e.synced
	if e.tellHistory(&b) != nil || !e.worker.tryPost(b.Bytes(), func() {}) {
		e.synced = told // the next cell tries again
	}
}

// tellHistory appends the part of the history that the worker does not have.
func (e *Env) tellHistory(b *bytes.Buffer) error {
	history, from := e.history, 0
	for from < min(len(history), len(e.synced)) && history[from] == e.synced[from] {
		from++
	}
	if from == len(history) && from == len(e.synced) {
		return nil
	}
	for {
		to, size := from, 0
		for to < len(history) && (to == from || size+len(history[to].Content) <= historyPart) {
			size += len(history[to].Content)
			to++
		}
		part := set{Kind: "set", Name: "history", From: from, Value: append([]rlm.Message{}, history[from:to]...)}
		if err := appendFrame(b, part); errors.Is(err, errTooLarge) {
			short := history[from]
			short.Content = short.Content[:historyPart]
			part.Value = []rlm.Message{short}
			err = appendFrame(b, part)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		if from = to; from == len(history) {
			break
		}
	}
	e.synced = history
	return nil
}

// A clock measures how long a cell has been running. It stops during calls, except for the
// work that the code does meanwhile.
type clock struct {
	// timer fires at the limit, or before it: resetting it at each call would cost more.
	timer *time.Timer
	over  func() // is called at the limit

	mu      sync.Mutex
	limit   time.Duration
	ran     time.Duration // up to since
	waited  time.Duration // during calls, up to since
	since   time.Time     // when ran and waited were updated
	calls   int
	armed   bool // timer will fire
	stopped bool
}

func newClock(limit time.Duration, over func()) *clock {
	c := &clock{over: over, limit: limit, since: time.Now(), armed: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(limit, c.fired)
	return c
}

// add adds the time since c.since to ran or waited.
func (c *clock) add() {
	now := time.Now()
	if c.calls > 0 {
		c.waited += now.Sub(c.since)
	} else {
		c.ran += now.Sub(c.since)
	}
	c.since = now
}

// change calls f, unless the clock was stopped, and sets the timer.
func (c *clock) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.add()
	f()
	if left := c.limit - c.ran; left <= 0 || c.calls == 0 && !c.armed {
		c.armed = true
		c.timer.Reset(max(0, left))
	}
}

// fired calls over if the limit is reached.
func (c *clock) fired() {
	c.mu.Lock()
	c.add()
	left := c.limit - c.ran
	if c.armed = !c.stopped && c.calls == 0 && left > 0; c.armed {
		c.timer.Reset(left)
	}
	reached := !c.stopped && left <= 0
	c.mu.Unlock()
	if reached {
		c.over()
	}
}

// began is told that a call has begun.
func (c *clock) began() { c.change(func() { c.calls++ }) }

// ended is told that a call has ended.
func (c *clock) ended() { c.change(func() { c.calls-- }) }

// worked is told how much processor time the code has used during calls. Of a wrong number,
// it counts no more than the time that has passed.
func (c *clock) worked(d time.Duration) {
	c.change(func() {
		d = min(max(0, d), c.waited)
		c.ran += d
		c.waited = 0
	})
}

// stop ends the measurement and returns its result.
func (c *clock) stop() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	c.stopped = true
	c.timer.Stop()
	return c.ran
}

// A lease lets the goroutine that reads a wire answer calls itself, because waking another
// goroutine costs more than a quick call. If a call takes longer than leaseTime, another
// goroutine reads on, and calls get their own goroutines until they are quick again.
type lease struct {
	slow atomic.Bool // calls get goroutines of their own

	mu      sync.Mutex
	since   time.Time // when the call of the reading goroutine began; zero if it is reading
	request *request  // that the call belongs to
	timer   *time.Timer
	armed   bool // timer will fire
	closed  bool // nobody reads on any more
}

const leaseTime = 2 * time.Millisecond

// serve answers a call by f. It reports whether the calling goroutine is still the reader.
func (l *lease) serve(r *request, f func()) bool {
	start := time.Now()
	if l.slow.Load() {
		r.worker.running.Go(func() {
			f()
			if time.Since(start) < leaseTime/2 {
				l.slow.Store(false)
			}
		})
		return true
	}
	l.mu.Lock()
	l.since, l.request = start, r
	if l.timer == nil {
		l.timer = time.AfterFunc(leaseTime, l.expire)
	} else if !l.armed {
		l.timer.Reset(leaseTime)
	}
	l.armed = true
	l.mu.Unlock()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.since.Equal(start) {
		return false
	}
	l.since = time.Time{}
	return true
}

// expire makes another goroutine the reader if the reader's call takes too long.
func (l *lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.closed || l.since.IsZero() {
		return
	}
	if left := leaseTime - time.Since(l.since); left > 0 {
		l.armed = true
		l.timer.Reset(left)
		return
	}
	l.since = time.Time{}
	l.slow.Store(true)
	r := l.request
	r.worker.running.Go(func() { r.worker.read(r) })
}

// end ends the lease. No other goroutine becomes the reader any more.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

const (
	folderPrefix = "wirectl-rlm-"
	lockName     = "lock"
)

// A Folder is a temporary folder. It has a lock file, which is locked until the folder is
// removed or this process has ended.
type Folder struct {
	Path string
	lock *os.File
}

// NewFolder creates a folder in the system's temporary folder.
func NewFolder() (*Folder, error) {
	for range 10 {
		path, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return nil, err
		}
		f := &Folder{Path: path}
		if f.lock, err = os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		locked, err := fd.TryLock(f.lock)
		_, gone := os.Lstat(f.lock.Name())
		if gone == nil && (locked || err != nil) { // without locks, nobody removes strays
			return f, nil //nolint:nilerr // see above
		}
		// RemoveStrays of another process was faster.
		if err := f.Remove(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the temporary folder loses its files: set TMPDIR to another one")
}

// Remove removes the folder with its files. It may be called more than once.
func (f *Folder) Remove() error {
	err := removeAll(f.Path)
	_ = f.lock.Close()
	if err != nil { // systems such as Windows keep files that are open
		err = removeAll(f.Path)
	}
	return err
}

// RemoveStrays removes the folders whose owners were killed: those with a lock file that nobody
// has locked. It ignores errors, such as those of other users' folders.
func RemoveStrays() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, path := range folders {
		name := filepath.Join(path, lockName)
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if info, err = os.Lstat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		f := Folder{path, file}
		if free, _ := fd.TryLock(file); free {
			_ = f.Remove()
		} else {
			_ = file.Close()
		}
	}
}

// removeAll removes a folder, even if code has made folders in it read-only.
func removeAll(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700) //nolint:gosec // a folder that is about to be removed
		}
		return nil
	})
	return os.RemoveAll(folder)
}
