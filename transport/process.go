package transport

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/internal/wait"
)

// Code is the exit as one status, as shells have it: 128+N for signal N.
func (e Exit) Code() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return e.Status
}

func (e Exit) String() string {
	if e.Signal != nil {
		return "ended by signal: " + e.Signal.String()
	}
	return "ended with status " + strconv.Itoa(e.Status)
}

// A process is a program that we started, in a process group of its own.
//
// It has pipes rather than a socket pair, because programs expect pipes: /dev/stdin
// cannot be opened if it is a socket, bash then takes itself for a remote shell, and
// splice and tee need a pipe. Closing one pipe is a half-close.
type process struct {
	command *command
	os      *os.Process
	group   *group

	stdin          *os.File
	stdout, stderr output
	pipes          sync.Mutex // held to replace them, and to interrupt their reads

	endRequested atomic.Bool   // its group has been asked to end
	exited       chan struct{} // closed when the program has ended
	exit         Exit          // valid then
	err          error

	ending sync.Once
	onExit func()
}

// start starts the program of a command.
func start(c *command) (*process, error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return nil, NewStartError(c.argv[0], err)
	}
	p := &process{command: c, exited: make(chan struct{}), onExit: func() {}}
	pipes, err := newPipes()
	if err != nil {
		return nil, err
	}
	p.stdin = pipes[0].w
	p.stdout, p.stderr = output{File: pipes[1].r, process: p}, output{File: pipes[2].r, process: p}
	p.widen()
	p.group = newGroup(c.prompts)
	started := make(chan error, 1)
	go func() {
		// The system may end a program together with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		p.os, err = os.StartProcess(path, c.argv, &os.ProcAttr{
			Env:   c.opts.Env,
			Files: []*os.File{pipes[0].r, pipes[1].w, pipes[2].w},
			Sys:   p.group.attributes(),
		})
		if err == nil {
			err = p.group.adopt(p.os)
		}
		if started <- err; err == nil {
			p.wait()
		}
	}()
	err = <-started
	pipes[0].r.Close()
	pipes[1].w.Close()
	pipes[2].w.Close()
	if err != nil {
		p.closePipes()
		p.onExit()
		return nil, NewStartError(c.argv[0], err)
	}
	return p, nil
}

// NewStartError explains the error of looking up or starting a program.
func NewStartError(program string, err error) *StartError {
	e := &StartError{Program: program, Status: 126, Err: err}
	lookup, notFound := errors.AsType[*exec.Error](err)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		e.Err = path.Err
	}
	if notFound {
		e.Err = lookup.Err
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		e.Status, e.Err, e.Hint = 127, errors.New("command not found"), "it is in the working directory: write ./"+program
	case notFound && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)):
		e.Status, e.Err, e.Hint = 127, errors.New("command not found"), "check the name and PATH"
	case errors.Is(err, fs.ErrNotExist):
		e.Hint = "the interpreter that its first line names is missing"
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "it is not executable: try chmod +x"
	case errors.Is(err, syscall.ENOEXEC):
		e.Hint = "it is not a program for this machine; a script begins with a line such as #!/bin/sh"
	}
	return e
}

type pipe struct{ r, w *os.File }

// newPipes makes the pipes of standard input, output and error.
func newPipes() (pipes [3]pipe, err error) {
	for i := range pipes {
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			for _, p := range pipes[:i] {
				p.r.Close()
				p.w.Close()
			}
			return pipes, err
		}
	}
	return pipes, nil
}

func (p *process) closePipes() {
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

// wait waits for the program to end, so that it never becomes a zombie.
func (p *process) wait() {
	state, err := p.os.Wait()
	if err == nil {
		p.exit = exitOf(state)
		p.exit.Told = p.endRequested.Load()
	}
	p.err = err
	p.group.left()
	p.onExit()
	close(p.exited)
	p.pipes.Lock()
	defer p.pipes.Unlock()
	p.stdout.interrupt()
	p.stderr.interrupt()
}

func (p *process) Read(b []byte) (int, error)  { return p.stdout.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.stdin.Write(b) }
func (p *process) CloseWrite() error           { return p.stdin.Close() }
func (p *process) CloseRead() error            { return p.stdout.Close() }
func (p *process) Stderr() io.Reader           { return untilEnd{&p.stderr} }
func (p *process) Pid() int                    { return p.os.Pid }
func (p *process) Forward(s os.Signal) error   { return p.group.forward(s) }

func (p *process) Signal(s os.Signal) error {
	if s == terminate || s == os.Kill {
		p.endRequested.Store(true)
	}
	return p.group.signal(s)
}

// Outlived reports false while the program is running.
func (p *process) Outlived() bool {
	select {
	case <-p.exited:
		return !p.endRequested.Load() && p.group.lives()
	default:
		return false
	}
}

// Wait also returns an error if the program that leads to the endpoint, such as ssh,
// failed itself.
func (p *process) Wait() (Exit, error) {
	<-p.exited
	if f := p.command.failure; p.err == nil && f != nil && p.exit.Signal == nil && p.exit.Status == f.Status {
		return p.exit, f
	}
	return p.exit, p.err
}

// An output is what a program writes. It ends after the bytes that were there when the program
// exited: what the program has started may hold it open for as long as it likes.
type output struct {
	*os.File
	process *process
	late    int // bytes read since then
}

func (o *output) Read(b []byte) (n int, err error) {
	select {
	case <-o.process.exited:
	default:
		if n, err = o.File.Read(b); n > 0 || err == nil || !isInterrupt(err) {
			return n, err
		}
	}
	if o.late < widePipe {
		n, err = readNow(o.File, b)
		o.late += max(n, 0)
	}
	if n <= 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// widePipe is the largest size of the pipes to and from a program, in bytes.
const widePipe = 1 << 20

// untilEnd closes an output at its end.
type untilEnd struct{ file *output }

func (r untilEnd) Read(b []byte) (int, error) {
	n, err := r.file.Read(b)
	if err != nil {
		r.file.Close()
	}
	return n, err
}

// Descriptors returns the pipes of standard output and input. Call it before anything is
// read or written; from then on, only the end of the program interrupts Read and Write.
func (p *process) Descriptors() (read, write syscall.RawConn, err error) {
	p.unwatch()
	if read, err = p.stdout.SyscallConn(); err != nil {
		return nil, nil, err
	}
	write, err = p.stdin.SyscallConn()
	return read, write, err
}

// Close closes the program's standard input and gives it time to end. After that it
// terminates, and then kills, the process group. It leaves processes alone that the program
// has left behind when it exited by itself.
func (p *process) Close() error {
	p.ending.Do(p.endProcess)
	return nil
}

// lateStderr is how long standard error can still be read after the program has ended.
const lateStderr = 2 * time.Second

func (p *process) endProcess() {
	p.stdin.Close()
	grace := p.command.opts.grace()
	if !wait.Done(p.exited, grace) {
		p.stdout.Close() // it may be blocked on a write
		_ = p.Signal(terminate)
		if !wait.Done(p.exited, grace) {
			_ = p.Signal(os.Kill)
		}
	}
	<-p.exited
	if p.endRequested.Load() {
		p.group.sweep(min(grace, sweepGrace))
	} else {
		p.group.release()
	}
	p.stdout.Close()
	time.AfterFunc(lateStderr, func() { p.stderr.Close() })
}

// sweepGrace is how long the rest of a group may take to end after its leader.
const sweepGrace = time.Second

// Start starts a program like the endpoint "exec".
func Start(ctx context.Context, argv []string, opts Options) (Process, error) {
	endpoint, err := Parse(append([]string{"exec"}, argv...), opts)
	if err != nil {
		return nil, err
	}
	conn, err := endpoint.Dial(ctx)
	if err != nil {
		return nil, err
	}
	process, ok := conn.(Process)
	if !ok {
		return nil, errors.Join(errors.New("exec has not started a process"), conn.Close())
	}
	return process, nil
}
