package host

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wirectl/wirectl/transport"
)

//go:embed python/wirectl.py
var module []byte

// A Program is what is run.
type Program struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Broker, Proxy and OpenAI are the addresses of the doors rlm, proxy and openai, "" for a
	// door that is off.
	Broker, Proxy, OpenAI string
}

// grace is how long a program may take to end after an interrupt.
const grace = 5 * time.Second

// run runs a program to its end and returns its status: 127 if there is no such
// program, 126 if it cannot be run, 128+N if signal N ended it. When ctx ends, the
// program is interrupted, and killed after a grace period.
func run(ctx context.Context, p Program) (int, error) {
	dir, err := os.MkdirTemp("", "wirectl-python")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "wirectl.py"), module, 0o600); err != nil {
		return 1, err
	}
	path, err := exec.LookPath(p.Args[0])
	if err != nil {
		return notStarted(p.Args[0], err)
	}
	cmd := exec.CommandContext(ctx, path, p.Args[1:]...)
	cmd.Args[0] = p.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	cmd.Env = environment(os.Environ(), dir, p)
	cmd.Cancel = func() error { return interrupt(cmd.Process) }
	cmd.WaitDelay = grace
	err = cmd.Run()
	return status(cmd, err)
}

func notStarted(program string, err error) (int, error) {
	e := transport.NewStartError(program, err)
	return e.Status, e
}

// environment adds the variables for the program to env.
func environment(env []string, dir string, p Program) []string {
	path := dir
	for _, v := range env {
		if old, ok := strings.CutPrefix(v, "PYTHONPATH="); ok && old != "" {
			path = dir + string(os.PathListSeparator) + old
		}
	}
	env = append(env, "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1")
	if p.Broker != "" {
		env = append(env, "WIRECTL_BROKER="+p.Broker)
	}
	if p.Proxy != "" {
		env = append(env, "WIRECTL_PROXY=http://"+p.Proxy)
	}
	if p.OpenAI != "" {
		base := "http://" + p.OpenAI
		env = append(env, "OPENAI_BASE_URL="+base+"/v1", "ANTHROPIC_BASE_URL="+base, "GOOGLE_GEMINI_BASE_URL="+base)
	}
	return env
}

func status(cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exitStatus(exit), nil
	case cmd.ProcessState != nil: // it succeeded, but a child holds its output open
		return cmd.ProcessState.ExitCode(), nil
	}
	return notStarted(cmd.Args[0], err)
}
