// Package sandbox starts programs that run untrusted code, which can access only its session
// folder. The operating system is the boundary.
//
// On Linux, wirectl executes itself again as a launcher in new namespaces. The launcher builds
// a root folder with little more than the program. It restricts itself by Landlock, seccomp and
// resource limits, and then becomes the program. Any program that calls [Probe] must therefore
// call [Main] before anything else. docs/sandbox.md describes the other systems.
package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wirectl/wirectl/rlm/env"
)

// Limits of every program, besides its memory.
const (
	maxCPU       = 24 * 60 * 60 // seconds
	maxFile      = 1 << 30      // bytes
	maxOpenFiles = 256
	maxThreads   = 512
)

// A Report says which parts of the sandbox work on this machine.
type Report struct {
	Holds []string
	Lacks []string
}

// String returns the report as one line, such as "sandbox: namespaces, Landlock ABI 7,
// seccomp, rlimits; no cgroup".
func (r Report) String() string {
	line := "sandbox: " + strings.Join(r.Holds, ", ")
	for i, lack := range r.Lacks {
		if i == 0 {
			line += "; no " + lack
		} else {
			line += ", no " + lack
		}
	}
	return line
}

// An UnavailableError says that nothing on this machine can isolate a program.
type UnavailableError struct {
	Reasons []string // why, for each way that was tried
	Help    []string // what to do, in sentences without a full stop
}

func (e *UnavailableError) Error() string {
	return "nothing on this machine isolates code: " + strings.Join(e.Reasons, "; ")
}

// A Launcher starts programs in the sandbox that [Probe] has found. Any number of goroutines
// may use it.
type Launcher struct {
	report Report
	system system
}

var _ env.Launcher = (*Launcher)(nil)

// Report returns which parts of the sandbox work.
func (l *Launcher) Report() Report { return l.report }

// Start starts a program in the sandbox.
func (l *Launcher) Start(ctx context.Context, s env.Spec) (env.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !filepath.IsAbs(s.Path) || !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("start %q in %q: both must be absolute paths", s.Path, s.Dir)
	}
	if _, err := os.Stat(s.Dir); err != nil {
		return nil, fmt.Errorf("session folder: %w", err)
	}
	p, err := l.system.start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("start %s in the sandbox: %w", s.Path, err)
	}
	return p, nil
}

// A process is a program that was started.
type process struct {
	kill  func()
	ended chan struct{} // closed when the program has ended
	err   error         // valid when ended is closed
}

func (p *process) Wait() error {
	<-p.ended
	return p.err
}

func (p *process) Kill() { p.kill() }

// wired sets the streams and files of a command.
func wired(cmd *exec.Cmd, s env.Spec) {
	if s.Stdin != nil {
		cmd.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		cmd.Stdout = s.Stdout
	}
	cmd.ExtraFiles = s.Files
}
