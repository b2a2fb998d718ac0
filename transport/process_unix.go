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

// A group is the process group of a program that we started.
type group struct {
	// shared means that the program stays in our own group, where it may use the
	// terminal: the system stops others that read from it. Then only the program is
	// signalled.
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

// left is called when the leader has ended. The system does not reuse the number of the
// group while it has members.
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

// sweep ends the rest of a group whose leader has ended.
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
