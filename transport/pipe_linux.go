package transport

import (
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
