package transport

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// widePipe is the size of the pipes to and from a program, in bytes: fewer and
// larger moves than the 64 KiB that pipes have.
const widePipe = 1 << 20

// widest is how many programs have wide pipes at the same time. A user without
// privileges has 64 MiB for all pipes; beyond, every new pipe of any of the user's
// programs is a tiny one.
const widest = 16

var wide atomic.Int32

// widen enlarges the pipes, where the system allows it.
func (p *process) widen() {
	if wide.Add(1) > widest {
		wide.Add(-1)
		return
	}
	p.onExit = func() { wide.Add(-1) }
	for _, f := range []*os.File{p.stdin, p.stdout} {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
		}
	}
}

// unwatch has the runtime no longer wait for a program's pipes. It watches files of
// its own making from when they are opened, and each time the program has read or
// written it would wake a thread that finds nothing to do.
func (p *process) unwatch() {
	for _, f := range []**os.File{&p.stdin, &p.stdout} {
		if other, err := unwatched(*f); err == nil {
			(*f).Close()
			*f = other
		}
	}
}

// unwatched returns a file of the same pipe. Where reads and writes wait, the runtime
// does not.
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
