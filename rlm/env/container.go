package env

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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

// ContainerOptions are what a container is to be.
type ContainerOptions struct {
	Image  string
	Python PythonOptions
	// Socket is the Unix socket of a proxy that programs in the container can ask.
	Socket string
	// URL is that of a proxy on this machine. The container gets a network for it, in which
	// host.docker.internal has the address Host, or the one that the engine knows if that is "".
	URL, Host string
}

// New returns an environment whose worker runs in containers of the engine. Of the Spec in
// c, Memory is used.
func (e *Engine) New(c Config, o ContainerOptions) *Env {
	c.Launcher = &launcher{e, o}
	c.Stdio = true
	c.Files = PythonFiles()
	c.ContextAt = payload
	c.Spec = Spec{Path: "python3", Args: PythonArgs(o.Python, true, c.Spec.Memory), Memory: c.Spec.Memory}
	return New(c)
}

type launcher struct {
	*Engine
	ContainerOptions
}

// Start implements [env.Launcher].
func (l *launcher) Start(ctx context.Context, s Spec) (Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // it never fails
	p := &containerProcess{
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
func (l *launcher) arguments(name string, s Spec) []string {
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
type containerProcess struct {
	engine *Engine
	name   string
	stderr bounded
	kill   sync.Once
	killed chan struct{} // closed by Kill
	ended  chan struct{} // closed when both are gone
	err    error         // valid then
}

// Wait implements [env.Process].
func (p *containerProcess) Wait() error {
	<-p.ended
	return p.err
}

// Kill implements [env.Process].
func (p *containerProcess) Kill() { p.kill.Do(func() { close(p.killed) }) }

// wait waits for the client, and removes the container if that has not ended by itself.
func (p *containerProcess) wait(cmd *exec.Cmd, clean *strings.Replacer) {
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
func (p *containerProcess) end(cmd *exec.Cmd, exited <-chan error) error {
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
func (p *containerProcess) remove() error {
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

// label is on each container, with the name of this machine: an engine may be another's.
const label = "wirectl.rlm"

// prefix begins the name of each container. Then come our process id and a random part.
const prefix = "wirectl-rlm-"

// patience is how long an engine may take for a command that is quick.
const patience = 15 * time.Second

// An Engine is docker or podman.
type Engine struct {
	path   string
	podman bool
	host   string // this machine's
}

// ErrNoEngine says that no engine is there, or that it does not answer.
var ErrNoEngine = errors.New("no container engine: neither docker nor podman answers")

// FindEngine returns the first engine on PATH that answers. It removes the containers of runs that
// were killed. An error is ErrNoEngine, with what was found instead.
func FindEngine(ctx context.Context) (*Engine, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	none := ErrNoEngine
	for _, name := range []string{"docker", "podman"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		e := &Engine{path: path, podman: name == "podman", host: host}
		if err = e.sweep(ctx); err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		none = fmt.Errorf("%w; %s: %w", none, path, err)
	}
	return nil, none
}

// sweep removes the containers of processes that are no more.
func (e *Engine) sweep(ctx context.Context) error {
	names, err := e.run(ctx, patience, "ps", "-a", "--filter", "label="+label+"="+e.host, "--format", "{{.Names}}")
	if err != nil {
		return err
	}
	strays := []string{"rm", "-f"}
	for name := range strings.FieldsSeq(names) {
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && strings.HasPrefix(name, prefix) && !alive(pid) {
			strays = append(strays, name)
		}
	}
	if len(strays) > 2 {
		_, err = e.run(ctx, patience, strays...)
	}
	return err
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Pull makes sure that an image is there. It says so before it takes long.
func (e *Engine) Pull(ctx context.Context, image string, say func(string)) error {
	if _, err := e.run(ctx, patience, "image", "inspect", "--format", "{{.Id}}", image); err == nil {
		return nil
	}
	say("pulling the image " + image)
	_, err := e.run(ctx, time.Hour, "pull", "-q", image)
	return err
}

// Gateway returns the address under which containers of the default network reach us.
func (e *Engine) Gateway(ctx context.Context) (string, error) {
	if e.podman && runtime.GOOS == "linux" && os.Getuid() > 0 {
		return "", errors.New("containers of rootless podman cannot reach it; use proxy: socket")
	}
	network, form := "bridge", "{{(index .IPAM.Config 0).Gateway}}"
	if e.podman {
		network, form = "podman", "{{(index .Subnets 0).Gateway}}"
	}
	return e.run(ctx, patience, "network", "inspect", "--format", form, network)
}

// Listen listens at the gateway. It also returns the address under which containers find us,
// or "" for the one that the engine knows.
func (e *Engine) Listen(ctx context.Context, gateway string) (l net.Listener, host string, err error) {
	var c net.ListenConfig
	if e.podman {
		c.Control = freeBind // podman makes the network for its first container
	}
	l, err = c.Listen(ctx, "tcp", net.JoinHostPort(gateway, "0"))
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // the engine is in a virtual machine, which forwards to us
		l, err = c.Listen(ctx, "tcp", "127.0.0.1:0")
		return l, "", err
	}
	return l, gateway, err
}

// run runs a command of the engine, and returns what it prints.
func (e *Engine) run(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: no answer within %v", args[0], limit))
	defer stop()
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err != nil {
		err = explained(err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), err
}

// explained adds to an error the last line that a command wrote.
func explained(err error, stderr string) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "Run 'docker ") || strings.HasPrefix(line, "See 'docker ")
	})
	if len(lines) == 0 {
		return err
	}
	return fmt.Errorf("%w: %.300s", err, strings.TrimSpace(lines[len(lines)-1]))
}
