// Package quiet keeps Bubble Tea from talking to the terminal whenever the
// program starts, whatever it was started for. When it is initialized, Bubble
// Tea asks the terminal for its background colour and waits for the answer,
// for seconds where none comes, and takes what was typed ahead for one. It does
// not ask a terminal that is dumb: so that is what it finds.
//
// Packages are initialized in the order of their paths as soon as what they
// import has been: this one imports nothing but os and is earlier than what
// Bubble Tea imports from golang.org. A test in interop looks at the terminal.
package quiet

import "os"

var term, known = os.LookupEnv("TERM")

func init() { _ = os.Setenv("TERM", "dumb") }

// Restore gives TERM back its value. It is to be called once Bubble Tea has
// been initialized.
func Restore() {
	if known {
		_ = os.Setenv("TERM", term)
	} else {
		_ = os.Unsetenv("TERM")
	}
}
