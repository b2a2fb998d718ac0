//go:build unix

package spec

import (
	"os/exec"
	"syscall"
)

// apart starts a command in a group of its own.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup sends a signal to all processes of the group that are left.
func endGroup(cmd *exec.Cmd, signal syscall.Signal) error {
	return syscall.Kill(-cmd.Process.Pid, signal)
}
