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
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return job, err
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

// sweep ends who is left of a group whose leader has ended.
func (g *group) sweep(time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = windows.CloseHandle(g.job)
	g.job = 0
}

func exitOf(state *os.ProcessState) Exit { return Exit{Status: state.ExitCode()} }
