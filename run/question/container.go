package question

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
)

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
