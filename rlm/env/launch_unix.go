//go:build unix

package env

import (
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }
