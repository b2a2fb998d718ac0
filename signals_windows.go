package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a relay passes on to the command that it runs.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}
