//go:build unix

package host

import (
	"os"
	"os/exec"
	"syscall"
)

func interrupt(p *os.Process) error { return p.Signal(os.Interrupt) }

func exitStatus(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}
