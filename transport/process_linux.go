package transport

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithUs makes the system kill a program when we are killed.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// running reports whether a process group has a process that has not ended. Those that have
// stay in the group until they are waited for, which may be never.
func running(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, _ := os.ReadFile(name)                                 // it may have ended
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // state, parent, group
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(group) && string(fields[0]) != "Z" {
			return true
		}
	}
	return false
}

// widest is how many programs may have wide pipes at the same time. An unprivileged user
// has 64 MiB for all pipes; beyond that, new pipes of all programs are tiny.
const widest = 16

var wide atomic.Int32

// widen enlarges the pipes to widePipe, where the system allows it. Moves are then larger, and
// fewer, than with the default of 64 KiB.
func (p *process) widen() {
	if wide.Add(1) > widest {
		wide.Add(-1)
		return
	}
	p.onExit = func() { wide.Add(-1) }
	for _, f := range []*os.File{p.stdin, p.stdout.File} {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
		}
	}
}

// unwatch removes a program's pipes from the runtime's poller. Otherwise each read or write
// of the program would wake a thread with nothing to do.
func (p *process) unwatch() {
	p.pipes.Lock()
	defer p.pipes.Unlock()
	for _, f := range []**os.File{&p.stdin, &p.stdout.File} {
		if other, err := unwatched(*f); err == nil {
			(*f).Close()
			*f = other
		}
	}
}

// unwatched returns a blocking file of the same pipe, which the runtime does not poll.
func unwatched(f *os.File) (other *os.File, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	e := c.Control(func(fd uintptr) {
		var n int
		if n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		if err = unix.SetNonblock(n, false); err != nil {
			_ = unix.Close(n)
			return
		}
		other = os.NewFile(uintptr(n), f.Name())
	})
	return other, errors.Join(e, err)
}
