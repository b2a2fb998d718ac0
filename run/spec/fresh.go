package spec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/run/agent"
)

// Ended is a command that has been run.
type Ended struct {
	Run  history.Run
	Left string // what the agent asked that the record does not have; "" for nothing
	tail string // the end of its output
}

// Parting is how long an agent may take to end after its time is over.
const Parting = 10 * time.Second

// start runs the command of a spec as wirectl run does it, or as wirectl replay plays a run again, in a process of its own:
// each has its folder and its record.
func start(ctx context.Context, s *Spec, getenv func(string) string, environ []string) (*Ended, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.Folder); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"wirectl", "run"}, s.Flags)
	if s.Replay != "" {
		args = slices.Concat([]string{"wirectl", "replay"}, s.Flags, []string{s.Replay})
	}
	timed, stop := context.WithTimeoutCause(ctx, s.Timeout, errTimeout)
	defer stop()
	var out, messages tail
	cmd := exec.CommandContext(timed, program)
	cmd.Args = slices.Concat(args, []string{"--"}, s.Command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.Folder, agent.Original(environ), &out, &messages, Parting
	cmd.Cancel = func() error { return endGroup(cmd, syscall.SIGTERM) }
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = cmd.Wait()                     // the record has its status
	_ = endGroup(cmd, syscall.SIGKILL) // nothing outlives a test
	run, found := recorded(getenv, cmd.Process.Pid)
	said := messages.last("wirectl")
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !found && timed.Err() != nil:
		return nil, fmt.Errorf("did not end within %v", s.Timeout)
	case !found && said == "":
		return nil, fmt.Errorf("left no record (status %d)", cmd.ProcessState.ExitCode())
	case !found:
		return nil, errors.New(said)
	}
	ended := &Ended{Run: run, tail: cmp.Or(out.last(""), messages.last("!wirectl"))}
	if s.Replay != "" && cmd.ProcessState.ExitCode() != run.Status {
		ended.Left = said
	}
	if timed.Err() != nil {
		return ended, fmt.Errorf("did not end within %v", s.Timeout)
	}
	return ended, nil
}

var errTimeout = errors.New("the time is over")

// recorded returns the newest run of a process.
func recorded(getenv func(string) string, pid int) (history.Run, bool) {
	runs, _ := history.Runs(getenv)
	runs = slices.DeleteFunc(runs, func(r history.Run) bool { return r.PID != pid })
	if len(runs) == 0 {
		return history.Run{}, false
	}
	return slices.MaxFunc(runs, func(a, b history.Run) int { return a.Started.Compare(b.Started) }), true
}

// A tail keeps the end of what a process writes.
type tail struct{ text []byte }

const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-maxTail):]...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = slices.Delete(t.text, 0, over)
	}
	return len(p), nil
}

// last returns the last line that begins with a prefix, or does not if that begins with an exclamation mark, without secrets.
func (t *tail) last(prefix string) (last string) {
	prefix, not := strings.CutPrefix(prefix, "!")
	for line := range bytes.Lines(t.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && bytes.HasPrefix(line, []byte(prefix)) != not {
			last = string(line)
		}
	}
	if prefix != "" && !not {
		_, last, _ = strings.Cut(last, ": ")
	}
	return render.Safe(render.Shorten(capture.Secrets().Text()(last), 4*maxShown))
}
