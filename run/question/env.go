package question

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/sandbox"
)

// baseMemory is the address space of an interpreter without a context.
const baseMemory = 4 << 30

// opener returns the opener of a run's environments. The size is that of the context.
func (r *run) opener(ctx context.Context, size int64) (rlm.Opener, error) {
	if r.o.Limits.Depth == 0 { // no code is run
		return closed, nil
	}
	memory := r.Memory
	if memory == 0 {
		memory = baseMemory + 4*size
	}
	open, err := r.ready, error(nil)
	if open == nil {
		if open, err = r.interpreter(ctx, r.Env, r.Python); err != nil {
			return nil, err
		}
	}
	return func(_ context.Context, of rlm.Session) (rlm.Environment, error) {
		return r.start(open, r.workers.open(r.seen, of.Ref), env.Config{
			Spec: env.Spec{Memory: memory}, Setup: r.Setup, Run: of.ID, Depth: of.Depth, Functions: of.Functions,
		})
	}, nil
}

// closed is the opener of a run that runs no code.
func closed(context.Context, rlm.Session) (rlm.Environment, error) {
	return nil, errors.New("there is no interpreter")
}

// start makes an environment, whose frames are published on conn.
func (r *run) start(open open, conn *observe.Conn, c env.Config) (rlm.Environment, error) {
	c.Tap = func(d frame.Dir, raw []byte) { conn.Frame(d, raw, 4) }
	c.Dir, c.Timeout = r.dir, r.CellTimeout
	e, end, err := open(c)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &watched{e, sync.OnceFunc(func() {
		end()
		conn.Close()
	})}, nil
}

// An open makes an environment, and a function to call after its end.
type open func(env.Config) (_ *env.Env, end func(), err error)

// interpreter returns the opener of a kind of environment, with its isolation.
func (r *run) interpreter(ctx context.Context, kind string, o env.PythonOptions) (open, error) {
	switch {
	case kind == "starlark":
		l, err := probe(ctx)
		return r.starlark(l, err)
	case kind == "container":
		return r.container(ctx, o)
	case kind == "auto" && len(r.Exec) > 0:
		return r.exec()
	}
	var isolates *sandbox.Launcher
	var nothing error
	var probing sync.WaitGroup // both probes start processes, which takes time
	probing.Go(func() { isolates, nothing = probe(ctx) })
	p, err := env.FindPython(ctx)
	probing.Wait()
	switch {
	case errors.Is(err, env.ErrNoPython) && kind == "auto":
		r.Say(fmt.Sprintf("warning: %v: the code is run as Starlark, a small language like Python: install python3 for better answers", err))
		return r.starlark(isolates, nothing)
	case errors.Is(err, env.ErrNoPython):
		return nil, cmdline.Errorf("%w: install it, such as the package python3, or use --env starlark", err)
	case err != nil:
		return nil, err
	}
	launcher, err := r.launcher(isolates, nothing)
	r.o.Metadata.EnvironmentType = "python"
	return func(c env.Config) (*env.Env, func(), error) {
		c.Launcher = launcher
		return env.NewPython(p, c, o), func() {}, nil
	}, err
}

// starlark opens wirectl's own interpreter.
func (r *run) starlark(isolates *sandbox.Launcher, nothing error) (open, error) {
	launcher, err := r.launcher(isolates, nothing)
	if r.o.Metadata.EnvironmentType = "starlark"; r.o.System == nil {
		r.o.System = prompt.Starlark
	}
	return func(c env.Config) (*env.Env, func(), error) {
		c.Launcher = launcher
		e, err := starlark.New(c)
		return e, func() {}, err
	}, err
}

// exec opens a command of the user as the environment.
func (r *run) exec() (open, error) {
	if _, err := env.NewExec(env.Config{}, r.Exec); err != nil {
		return nil, cmdline.Errorf("%w", err)
	}
	r.Say("the code is run by " + r.Exec[0] + ", and isolated as far as that does")
	r.o.Metadata.EnvironmentType = "exec"
	return func(c env.Config) (*env.Env, func(), error) {
		c.Files = env.PythonFiles()
		e, err := env.NewExec(c, r.Exec)
		return e, func() {}, err
	}, nil
}

// A watched environment calls ended when it is closed.
type watched struct {
	*env.Env
	ended func()
}

// Close implements [rlm.Environment].
func (e *watched) Close() error {
	err := e.Env.Close()
	e.ended()
	return err
}

// probe finds the sandbox of this machine. Tests replace it.
var probe = sandbox.Probe

// launcher returns the launcher that a probe has found, and reports how far it isolates.
func (r *run) launcher(l *sandbox.Launcher, err error) (env.Launcher, error) {
	var none *sandbox.UnavailableError
	switch {
	case errors.As(err, &none) && r.Unsandboxed:
		r.Say("warning: the code is not isolated: it can do anything that you can do on this machine. " + err.Error())
		return env.Plain, nil
	case errors.As(err, &none):
		return nil, cmdline.Errorf("%w: %s", err, strings.Join(none.Help, ", "))
	case err != nil:
		return nil, err
	}
	r.Say(l.Report().String())
	return l, nil
}
