//go:build unix

package transport

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// terminate asks a program to end.
const terminate = syscall.SIGTERM

// A group is a process group of which a program that we started is the leader.
type group struct {
	// shared says that the program stays in our own group, where it may use the
	// terminal: the system stops any other that reads from it. Then it is the only
	// one that is signalled.
	shared bool
	pid    int
	empty  atomic.Bool // the leader has ended, and left nobody
}

// newGroup returns the group for a program that is about to start.
func newGroup(prompts bool) *group { return &group{shared: prompts && hasTerminal()} }

// hasTerminal reports whether we have a terminal at which a person can be asked.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func (g *group) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !g.shared}
}

func (g *group) adopt(p *os.Process) error {
	g.pid = p.Pid
	return nil
}

// left is told that the leader has ended. The system gives its number to no
// other group while somebody is left in this one, and to anybody afterwards.
func (g *group) left() {
	if g.shared || syscall.Kill(-g.pid, 0) != nil {
		g.empty.Store(true)
	}
}

func (g *group) signal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return errors.ErrUnsupported
	}
	if g.empty.Load() {
		return os.ErrProcessDone
	}
	target := -g.pid
	if g.shared {
		target = g.pid
	}
	err := syscall.Kill(target, number)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// sweep ends who is left in a group whose leader has ended.
func (g *group) sweep(grace time.Duration) {
	if g.signal(terminate) != nil {
		return
	}
	const first, longest = time.Millisecond, 50 * time.Millisecond
	deadline := time.Now().Add(grace)
	for pause := first; time.Now().Before(deadline); pause = min(2*pause, longest) {
		time.Sleep(pause)
		if g.signal(syscall.Signal(0)) != nil {
			return
		}
	}
	_ = g.signal(os.Kill)
}

func exitOf(state *os.ProcessState) Exit {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Signal: ws.Signal()}
	}
	return Exit{Status: state.ExitCode()}
}
