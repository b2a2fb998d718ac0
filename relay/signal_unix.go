//go:build unix

package relay

import (
	"os"
	"syscall"
)

// brokenPipe is the signal for a write to a pipe without readers.
var brokenPipe os.Signal = syscall.SIGPIPE

// fromTerminal reports whether a process has already received a signal from the terminal, as
// all processes in the foreground do. A process in its own process group has not.
func fromTerminal(pid int, sig os.Signal) bool {
	if sig != os.Interrupt && sig != syscall.SIGQUIT && sig != syscall.SIGHUP {
		return false
	}
	group, err := syscall.Getpgid(pid)
	return err == nil && group == syscall.Getpgrp()
}
