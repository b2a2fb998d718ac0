//go:build unix

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a relay passes on to the command that it runs. SIGPIPE
// is among them so that a write to standard output that nobody reads is an error,
// and not the end.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
}
