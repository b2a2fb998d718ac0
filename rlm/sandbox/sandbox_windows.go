package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/wirectl/wirectl/rlm/env"
)

// A system is a job object. It limits memory, processes and time, and ends the programs with
// this process. It hides neither files nor the network, and the report says so. It is untested,
// because no machine of the project runs Windows.
type system struct{}

// Probe creates a job object, as [Launcher.Start] does.
func Probe(ctx context.Context) (*Launcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	job, err := newJob(0)
	if err != nil {
		return nil, &UnavailableError{Reasons: []string{"job object: " + err.Error()}, Help: []string{"accept the risk with --unsandboxed"}}
	}
	_ = windows.CloseHandle(job)
	return &Launcher{report: Report{
		Holds: []string{"job object"},
		Lacks: []string{"isolation of files", "isolation of the network"},
	}}, nil
}

// start starts a program and puts it into a job. Until then, it runs no untrusted code, because
// that arrives on its standard input.
func (system) start(_ context.Context, s env.Spec) (env.Process, error) {
	if len(s.Files) > 0 {
		return nil, errors.New("descriptors cannot be passed on Windows")
	}
	job, err := newJob(s.Memory)
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	closeJob := sync.OnceFunc(func() { _ = windows.CloseHandle(job) }) // ends the processes in the job
	cmd := exec.Command(s.Path, s.Args...)                             //nolint:noctx // it outlives the context
	wired(cmd, s)
	cmd.Dir = s.Dir
	cmd.Env = append([]string{}, s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	p, err := begin(cmd, closeJob, closeJob)
	if err != nil {
		closeJob()
		return nil, err
	}
	var assigned error
	err = cmd.Process.WithHandle(func(h uintptr) {
		assigned = windows.AssignProcessToJobObject(job, windows.Handle(h))
	})
	if err = errors.Join(err, assigned); err != nil {
		_ = cmd.Process.Kill()
		_ = p.Wait()
		return nil, fmt.Errorf("job object: %w", err)
	}
	return p, nil
}

// newJob creates a job of one process that cannot leave it. The process ends when the job is
// closed, even if that is because this process has ended.
func newJob(memory int64) (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION |
		windows.JOB_OBJECT_LIMIT_PROCESS_TIME
	info.BasicLimitInformation.ActiveProcessLimit = 1
	info.BasicLimitInformation.PerProcessUserTimeLimit = maxCPU * 10_000_000 // in 100 ns
	if memory > 0 {
		info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
		info.ProcessMemoryLimit = uintptr(memory)
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}
