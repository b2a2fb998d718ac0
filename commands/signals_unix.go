//go:build unix

package commands

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn returns the signals that a relay passes on to the command that it runs. SIGPIPE
// is among them so that a write to standard output that nobody reads is an error,
// and not the end. A hangup is not where it is ignored, as below nohup.
func passedOn() []os.Signal {
	signals := []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
	}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
