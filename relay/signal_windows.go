package relay

import "os"

// brokenPipe is the signal of a write that nobody can read. Windows has none.
var brokenPipe os.Signal = os.Kill

// fromTerminal reports whether a process has had a signal from the console
// already.
func fromTerminal(int, os.Signal) bool { return true }
