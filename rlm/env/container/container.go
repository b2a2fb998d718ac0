package container

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
)

// DefaultImage has a Python, and little else.
const DefaultImage = "python:3.12-slim"

// What the code finds in a container.
const (
	session = "/workspace"
	payload = "/context"
	socket  = "/wirectl.sock"
)

// maxProcesses is how many processes and threads a container may have.
const maxProcesses = 512

// Options are what a container is to be.
type Options struct {
	Image  string
	Python python.Options
	// Socket is the Unix socket of a proxy that programs in the container can ask.
	Socket string
	// URL is that of a proxy on this machine. The container gets a network for it, in which
	// host.docker.internal has the address Host, or the one that the engine knows if that is "".
	URL, Host string
}

// New returns an environment whose worker runs in containers of the engine. Of the Spec in
// c, Memory is used.
func (e *Engine) New(c env.Config, o Options) *env.Env {
	c.Launcher = &launcher{e, o}
	c.Stdio = true
	c.Files = python.Files()
	c.ContextAt = payload
	c.Spec = env.Spec{Path: "python3", Args: python.Args(o.Python, true, c.Spec.Memory), Memory: c.Spec.Memory}
	return env.New(c)
}

type launcher struct {
	*Engine
	Options
}

// Start implements [env.Launcher].
func (l *launcher) Start(ctx context.Context, s env.Spec) (env.Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // it never fails
	p := &process{
		engine: l.Engine, name: fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), hex.EncodeToString(random)),
		killed: make(chan struct{}), ended: make(chan struct{}),
	}
	cmd := exec.Command(l.path, l.arguments(p.name, s)...) //nolint:noctx // it outlives ctx, and Kill ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, &p.stderr
	cmd.WaitDelay = time.Second
	cmd.Dir = s.Dir // podman leaves a file there when the memory is used up
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.wait(cmd, strings.NewReplacer(append(hidden(s.Read), s.Dir, session)...))
	return p, nil
}

// hidden are pairs of a path of this machine and what the code may know of it.
func hidden(paths []string) (pairs []string) {
	for _, path := range paths {
		pairs = append(pairs, path, payload)
	}
	return pairs
}

// arguments are those of the engine that run a program in a container.
func (l *launcher) arguments(name string, s env.Spec) []string {
	network := "none"
	if l.URL != "" {
		network = map[bool]string{false: "bridge", true: "podman"}[l.podman]
	}
	args := []string{
		"run", "-i", "--rm", "--name", name, "--label", label + "=" + l.host, "--pull", "never", "--log-driver", "none",
		"--network", network, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--stop-timeout", "0", // podman's rm -f waits that long for a program that ignores SIGTERM
		"--pids-limit", strconv.Itoa(maxProcesses), "--tmpfs", "/tmp", "-v", s.Dir + ":" + session, "-w", session,
	}
	if s.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(s.Memory, 10))
	}
	if uid := os.Getuid(); uid > 0 && l.podman { // files of the session belong to us
		args = append(args, "--userns", "keep-id")
	} else if uid >= 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%d", uid, os.Getgid()))
	}
	for _, path := range s.Read {
		args = append(args, "--mount", mount(path, payload)+",readonly")
	}
	if l.Socket != "" {
		args = append(args, "--mount", mount(l.Socket, socket), "-e", "WIRECTL_PROXY=unix://"+socket)
	}
	if l.URL != "" {
		args = append(args, "--add-host", "host.docker.internal:"+cmp.Or(l.Host, "host-gateway"), "-e", "WIRECTL_PROXY="+l.URL)
	}
	return append(append(args, l.Image, s.Path), s.Args...)
}

// mount describes a mount as a line of CSV.
func mount(from, to string) string {
	return fmt.Sprintf(`type=bind,"source=%s",target=%s`, strings.ReplaceAll(from, `"`, `""`), to)
}

// A process is a container, and the client of the engine that is connected to it.
type process struct {
	engine *Engine
	name   string
	stderr bounded
	kill   sync.Once
	killed chan struct{} // closed by Kill
	ended  chan struct{} // closed when both are gone
	err    error         // valid then
}

// Wait implements [env.Process].
func (p *process) Wait() error {
	<-p.ended
	return p.err
}

// Kill implements [env.Process].
func (p *process) Kill() { p.kill.Do(func() { close(p.killed) }) }

// wait waits for the client, and removes the container if that has not ended by itself.
func (p *process) wait(cmd *exec.Cmd, clean *strings.Replacer) {
	defer close(p.ended)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	var err error
	select {
	case err = <-exited:
		if err != nil { // it may be the client alone that has ended
			_ = p.remove()
		}
	case <-p.killed:
		err = p.end(cmd, exited)
	}
	if err != nil {
		p.err = explained(err, clean.Replace(p.stderr.String()))
	}
}

// end removes the container, which ends the client. That one is killed only if it does not end,
// since podman's would leave half of what it does.
func (p *process) end(cmd *exec.Cmd, exited <-chan error) error {
	defer func() { _ = p.remove() }() // the client may have made it since, or removed only a part
	for range 10 {
		if p.remove() != nil {
			break
		}
		select {
		case err := <-exited:
			return err
		case <-time.After(100 * time.Millisecond): // it may be about to make it
		}
	}
	_ = cmd.Process.Kill()
	return <-exited
}

// remove removes the container, which may not be there.
func (p *process) remove() error {
	_, err := p.engine.run(context.Background(), patience, "rm", "-f", p.name)
	return err
}

// maxSaid is how much of what the engine says is kept, in bytes.
const maxSaid = 16 << 10

// A bounded buffer forgets what is too much.
type bounded struct{ bytes.Buffer }

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	_, err := b.Buffer.Write(p[:min(len(p), max(0, maxSaid-b.Len()))])
	return len(p), err
}
