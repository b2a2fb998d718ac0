package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Launcher starts untrusted programs. It decides what they can access.
type Launcher interface {
	// Start starts a program. The caller still has to close the files of s. When ctx ends,
	// Start gives up, but a program that was started goes on.
	Start(ctx context.Context, s Spec) (Process, error)
}

// A Spec is a program to start, with what it needs.
type Spec struct {
	Path string   // of the program, absolute
	Args []string // after its name
	Env  []string // its whole environment, as NAME=VALUE
	Dir  string   // the session folder: its working directory, which it may write to
	Read []string // other files and folders that it may read: its installation, the context
	// Stdin and Stdout may be nil, for the null device. Standard error is always the null
	// device.
	Stdin, Stdout *os.File
	Files         []*os.File // descriptors from 3 on; not on Windows
	Memory        int64      // limit of its address space, in bytes; 0 for none
}

// A Process is a program that was started, with everything that it has started.
type Process interface {
	// Wait waits until the program has ended. It returns how it ended; nil after a clean end.
	// Several goroutines may call it.
	Wait() error
	// Kill kills the program and everything that it has started. It does not wait. It may be
	// called at any time, even after the program has ended.
	Kill()
}

// Plain starts programs without any isolation.
var Plain Launcher = plain{}

// NewExec returns an environment whose worker is a command of the user, such as one on
// another machine. The command speaks repl on its standard streams. It is not isolated, and
// gets this process's environment. docs/rlm-environments.md describes it.
func NewExec(c Config, args []string) (*Env, error) {
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	c.Launcher, c.Stdio = Plain, true
	c.Spec = Spec{Path: path, Args: args[1:], Env: os.Environ()}
	return New(c), nil
}
