// Package quiet keeps Bubble Tea from talking to the terminal whenever the program starts,
// for any command. When it is initialized, Bubble Tea asks the terminal for its background
// colour, waits for the answer, for seconds if none comes, and takes early input for one.
// It does not ask a dumb terminal: so this package makes the terminal look like one.
//
// Packages are initialized in the order of their paths as soon as their imports are: this
// one imports only os, and comes before the imports of Bubble Tea from golang.org. A test
// in interop looks at the terminal.
package quiet

import "os"

var term, hadTerm = os.LookupEnv("TERM")

func init() { _ = os.Setenv("TERM", "dumb") }

// Restore restores the value of TERM. It must be called once Bubble Tea has been
// initialized.
func Restore() {
	if hadTerm {
		_ = os.Setenv("TERM", term)
	} else {
		_ = os.Unsetenv("TERM")
	}
}
