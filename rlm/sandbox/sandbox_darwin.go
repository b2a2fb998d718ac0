package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/wirectl/wirectl/rlm/env"
)

// A system is sandbox-exec. It is untested, because no machine of the project runs macOS.
type system struct{ program string }

// Probe looks for sandbox-exec, and runs a trivial program in it.
func Probe(ctx context.Context) (*Launcher, error) {
	const path = "/usr/bin/sandbox-exec"
	out, err := exec.CommandContext(ctx, path, "-p", "(version 1)(allow default)", "/usr/bin/true").CombinedOutput()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &UnavailableError{
			Reasons: []string{strings.TrimSpace(fmt.Sprintf("%s: %v: %s", path, err, out))},
			Help:    []string{"accept the risk with --unsandboxed"},
		}
	}
	return &Launcher{
		report: Report{Holds: []string{"sandbox-exec"}, Lacks: []string{"limit of memory", "limit of threads"}},
		system: system{path},
	}, nil
}

// start starts a program. The program cannot fork, so killing its process is enough.
func (y system) start(_ context.Context, s env.Spec) (env.Process, error) {
	cmd := exec.Command(y.program, append([]string{"-p", profile(s), s.Path}, s.Args...)...) //nolint:noctx // it outlives the context
	wired(cmd, s)
	cmd.Dir = s.Dir
	cmd.Env = append([]string{}, s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p, err := begin(cmd, func() { _ = cmd.Process.Kill() }, func() {})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// profile returns the profile for sandbox-exec.
func profile(s env.Spec) string {
	var b strings.Builder
	// system.sb is Apple's list of what every program needs to start.
	b.WriteString("(version 1)(deny default)(import \"system.sb\")(allow process-exec*)(deny process-fork)(deny network*)" +
		"(allow signal (target self))(allow file-read-metadata)(allow file-read* (subpath \"/usr/share/zoneinfo\"))")
	for _, path := range append([]string{s.Path}, s.Read...) {
		fmt.Fprintf(&b, "(allow file-read* (subpath %s))", quoted(path))
	}
	fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %s))", quoted(s.Dir))
	// A symbolic link could mislead programs that later open files of the session folder.
	b.WriteString("(deny file-write-create (vnode-type SYMLINK))")
	return b.String()
}

// quoted returns a string in the syntax of the profile.
func quoted(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return strconv.Quote(path)
}
