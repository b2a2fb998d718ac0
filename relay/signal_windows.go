package relay

import "os"

// brokenPipe is the signal of a write that nobody can read. Windows has none.
var brokenPipe os.Signal = os.Kill

// fromTerminal reports whether a process has already received a signal from the console.
func fromTerminal(int, os.Signal) bool { return true }
