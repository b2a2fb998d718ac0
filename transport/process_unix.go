//go:build unix

package transport

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	a := &syscall.SysProcAttr{Setpgid: !g.shared}
	endWithUs(a)
	return a
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

// forward sends the program a signal that we received. A terminal sends its signals to all
// processes in the foreground: it has not reached the group if that is not ours.
func (g *group) forward(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	switch {
	case !ok:
		return errors.ErrUnsupported
	case !fromTerminal(number):
	case g.shared:
		return nil
	default:
		return g.signal(s)
	}
	if g.empty.Load() {
		return os.ErrProcessDone
	}
	return syscall.Kill(g.pid, number)
}

// fromTerminal reports whether a signal is one that a terminal sends, and we are in its
// foreground.
func fromTerminal(s syscall.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT && s != syscall.SIGHUP {
		return false
	}
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// lives reports whether others of a group live on after its leader.
func (g *group) lives() bool { return g.signal(syscall.Signal(0)) == nil && running(g.pid) }

// release leaves the rest of a group alone.
func (g *group) release() {}

// sweep ends the rest of a group whose leader has ended.
func (g *group) sweep(grace time.Duration) {
	if g.signal(terminate) != nil {
		return
	}
	const first, longest = time.Millisecond, 50 * time.Millisecond
	deadline := time.Now().Add(grace)
	for pause := first; time.Now().Before(deadline); pause = min(2*pause, longest) {
		time.Sleep(pause)
		if !g.lives() {
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

// interrupt ends a read that waits for more.
func (o *output) interrupt() { _ = o.SetReadDeadline(time.Unix(1, 0)) }

func isInterrupt(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// readNow reads what is there. It returns nothing if nothing is.
func readNow(f *os.File, b []byte) (n int, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := c.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b) }); e != nil {
		return 0, e
	}
	if err == unix.EAGAIN {
		err = nil
	}
	return n, err
}
