// Package container runs the worker of package python in a container of docker or podman.
package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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

// ErrNone says that no engine is there, or that it does not answer.
var ErrNone = errors.New("no container engine: neither docker nor podman answers")

// Find returns the first engine on PATH that answers. It removes the containers of runs that
// were killed. An error is ErrNone, with what was found instead.
func Find(ctx context.Context) (*Engine, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	none := ErrNone
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
