package commands

import (
	"os"
	"syscall"
)

// passedOn returns the signals that a relay passes on to the command that it runs.
func passedOn() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
