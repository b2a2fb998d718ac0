package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

type plain struct{}

// Start starts the program in a process group of its own.
func (plain) Start(ctx context.Context, s Spec) (Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	cmd := exec.Command(s.Path, s.Args...) //nolint:noctx // it outlives ctx, and its group is killed with it
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.Dir, s.Env, s.Files
	if s.Stdin != nil {
		cmd.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		cmd.Stdout = s.Stdout
	}
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	p := &process{os: cmd.Process, ended: make(chan struct{})}
	go func() { // ends with the program
		defer close(p.ended)
		p.err = cmd.Wait()
		killGroup(p.os) // processes that it has left
	}()
	return p, nil
}

// A process is the leader of a process group.
type process struct {
	os    *os.Process
	ended chan struct{} // closed when the leader has ended
	err   error         // valid then
}

func (p *process) Wait() error {
	<-p.ended
	return p.err
}

// Kill kills the group, unless its number may already belong to another group.
func (p *process) Kill() {
	select {
	case <-p.ended:
	default:
		killGroup(p.os)
	}
}
