package transport

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// terminate asks a program to end: it is CTRL_BREAK, the only event that
// Windows sends to one group of processes.
const terminate = syscall.SIGTERM

// A group is a process group and a job: the group takes CTRL_BREAK, and the job
// ends every process in it at once, also when we end.
type group struct {
	pid int
	mu  sync.Mutex
	job windows.Handle
}

func newGroup(bool) *group { return new(group) }

func (g *group) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// adopt puts a program into the job. What it starts before that stays outside.
func (g *group) adopt(p *os.Process) error {
	g.pid = p.Pid
	job, err := newJob()
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	h, err := windows.OpenProcess(access, false, uint32(p.Pid))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, h)
		_ = windows.CloseHandle(h)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return errors.Join(err, p.Kill())
	}
	g.job = job
	return nil
}

// newJob makes a job that ends its processes when it is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	return job, limitJob(job, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
}

func limitJob(job windows.Handle, flags uint32) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = flags
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

func (g *group) left() {}

func (g *group) signal(s os.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.job == 0:
		return os.ErrProcessDone
	case s == os.Kill:
		return windows.TerminateJobObject(g.job, 1)
	case s == os.Interrupt, s == terminate:
		return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.pid))
	}
	return errors.ErrUnsupported
}

// forward does nothing: the console has sent the event to the program, too.
func (g *group) forward(os.Signal) error { return nil }

// lives reports whether others of a job live on after the program.
func (g *group) lives() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var info struct { // JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
		_      [4]uint64 // times
		_, _   uint32
		Active uint32
		_      uint32
	}
	err := windows.QueryInformationJobObject(g.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.Active > 0
}

// release leaves the rest of a job alone.
func (g *group) release() {
	g.mu.Lock()
	job := g.job
	g.mu.Unlock()
	_ = limitJob(job, 0)
	g.sweep(0)
}

// sweep ends who is left of a group whose leader has ended.
func (g *group) sweep(time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = windows.CloseHandle(g.job)
	g.job = 0
}

func exitOf(state *os.ProcessState) Exit { return Exit{Status: state.ExitCode()} }

// interrupt ends a read that waits for more. It repeats that, because the read may be about to
// begin.
func (o *output) interrupt() {
	go func() {
		for handled(o.File, func(h windows.Handle) { _ = windows.CancelIoEx(h, nil) }) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

func isInterrupt(err error) bool { return errors.Is(err, windows.ERROR_OPERATION_ABORTED) }

var peekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// readNow reads what is there. It returns nothing if nothing is.
func readNow(f *os.File, b []byte) (n int, err error) {
	var there uint32
	handled(f, func(h windows.Handle) {
		_, _, _ = peekNamedPipe.Call(uintptr(h), 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0)
	})
	for b = b[:min(uint32(len(b)), there)]; len(b) > 0; {
		if n, err = f.Read(b); !isInterrupt(err) {
			break
		}
	}
	return n, err
}

// handled calls use with the handle of a file, and reports whether it is open.
func handled(f *os.File, use func(windows.Handle)) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return false
	}
	return c.Control(func(fd uintptr) { use(windows.Handle(fd)) }) == nil
}
