//go:build unix

package relay

import (
	"os"
	"syscall"
)

// brokenPipe is the signal of a write that nobody can read.
var brokenPipe os.Signal = syscall.SIGPIPE

// fromTerminal reports whether a process that was not put into a group of its
// own has had a signal from the terminal already, as all of the foreground has.
func fromTerminal(pid int, sig os.Signal) bool {
	if sig != os.Interrupt && sig != syscall.SIGQUIT && sig != syscall.SIGHUP {
		return false
	}
	group, err := syscall.Getpgid(pid)
	return err == nil && group == syscall.Getpgrp()
}
