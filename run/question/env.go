package question

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// container opens containers as environments.
func (r *run) container(ctx context.Context, how env.PythonOptions) (open, error) {
	engine, err := env.FindEngine(ctx)
	if errors.Is(err, env.ErrNoEngine) {
		return nil, cmdline.Errorf("%w; start one, or use --env python", err)
	}
	if err != nil {
		return nil, err
	}
	if err := engine.Pull(ctx, r.Image, r.Say); err != nil {
		return nil, fmt.Errorf("pull the image %s: %w", r.Image, err)
	}
	gateway := ""
	if r.Proxy == "tcp" {
		if gateway, err = engine.Gateway(ctx); err != nil {
			return nil, fmt.Errorf("find the address of this machine in the container's network: %w", err)
		}
	}
	r.o.Metadata.EnvironmentType = "container"
	r.o.Metadata.EnvironmentKwargs = map[string]any{"image": r.Image}
	return func(c env.Config) (*env.Env, func(), error) {
		o := env.ContainerOptions{Image: r.Image, Python: how}
		if r.Proxy == "" {
			return engine.New(c, o), func() {}, nil
		}
		p, err := r.listen(engine, gateway, &o)
		if err != nil {
			return nil, nil, fmt.Errorf("proxy for the container: %w", err)
		}
		e := engine.New(c, o)
		return e, r.serveProxy(p, e), nil
	}, nil
}

// An entry is where the proxy of one container listens.
type entry struct {
	net.Listener
	prefix string // a secret
}

var sockets atomic.Int64 // how many were made

// listen opens the proxy of a container, and sets its address in the container's options.
func (r *run) listen(engine *env.Engine, gateway string, o *env.ContainerOptions) (d entry, err error) {
	if r.Proxy == "socket" {
		o.Socket = filepath.Join(r.dir, fmt.Sprintf("p%d", sockets.Add(1)))
		d.Listener, err = new(net.ListenConfig).Listen(context.Background(), "unix", o.Socket)
		return d, err
	}
	if d.Listener, o.Host, err = engine.Listen(context.Background(), gateway); err != nil {
		return d, err
	}
	d.prefix = "/" + rand.Text()
	o.URL = fmt.Sprintf("http://host.docker.internal:%d%s", d.Addr().(*net.TCPAddr).Port, d.prefix)
	return d, nil
}

// The connections of a container, and the time that they have to end with it.
const (
	proxyConns = 64
	proxyEnd   = time.Second
)

// serveProxy serves the proxy until the returned function is called. Requests are answered like calls
// of the running cell.
func (r *run) serveProxy(d entry, e *env.Env) (end func()) {
	s := web.NewProxyFor(func(ctx context.Context, q web.Query) []web.Answer {
		found := e.Query(ctx, rlm.Query{Prompts: q.Prompts, Model: q.Model, Nested: q.Nested, Batch: q.Batch})
		answers := make([]web.Answer, len(found))
		for i, a := range found {
			answers[i] = web.Answer{Text: jsonscan.MustMarshal(a.Text), Err: a.Err}
		}
		return answers
	}, r.seen, web.Access{Prefix: d.prefix, AnyHost: true})
	s.MaxConns = proxyConns
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(context.Background(), d.Listener) // it fails when the proxy is closed
	}()
	return func() {
		ctx, stop := context.WithTimeout(context.Background(), proxyEnd)
		defer stop()
		s.Shutdown(ctx)
		<-ended
	}
}
