package env

import (
	"context"
	"os"
)

// A Launcher starts programs whose code nobody has checked. It decides what they can
// reach.
type Launcher interface {
	// Start starts a program. The files of s are still the caller's, who closes them.
	// When ctx ends, Start gives up; a program that was started goes on.
	Start(ctx context.Context, s Spec) (Process, error)
}

// A Spec says what is to be started, and what it needs.
type Spec struct {
	Path string   // of the program, absolute
	Args []string // after its name
	Env  []string // its whole environment, as NAME=VALUE
	Dir  string   // the session folder: the working directory, which it may write
	Read []string // files and folders that it may read besides: its installation, the context
	// Stdin and Stdout are the null device if nil. Standard error is always the null
	// device.
	Stdin, Stdout *os.File
	Files         []*os.File // descriptors from 3 on; not on Windows
	Memory        int64      // limit of its address space, in bytes; 0 for none
}

// A Process is a program that was started, with all that it has started itself.
type Process interface {
	// Wait waits until the program has ended. It returns nil after a clean end, and
	// otherwise says how it ended. It may be called by several goroutines.
	Wait() error
	// Kill ends the program and all that it has started, at once. It does not wait. It
	// may be called at any time, also after the program has ended.
	Kill()
}

// Plain starts programs without any isolation.
var Plain Launcher = plain{}
