package commands

import (
	"io"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
)

// Env is everything of the world outside that a command may touch.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv looks up an environment variable.
	Getenv func(string) string
	// IsTerminal reports whether a stream of this Env is a terminal.
	IsTerminal func(stream any) bool
	// Width is the width of the terminal behind a stream of this Env in cells, 0 if
	// there is none.
	Width func(stream any) int
	// Linger asks for more time to end in after an interrupt than a command has
	// otherwise.
	Linger func(time.Duration)
	// AtKill has f called where an interrupt did not end the command in time, or a second
	// one came, before the process is ended. From then on, the end of the terminal
	// interrupts, too, and the end of a pipe does not end the process.
	AtKill func(f func())
	// Terminable has SIGTERM end the command as an interrupt does.
	Terminable func()
	// Signals takes over the signals that would end the process, for a command
	// that passes them on, until release is called.
	Signals func() (c <-chan os.Signal, release func())
	// Filter is what commands may see of sessions; nil is all.
	Filter *source.Filter
}

// OSEnv returns the Env of the process.
func OSEnv() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv:     os.Getenv,
		IsTerminal: isTerminal,
		Width:      widthOf,
		Linger:     func(time.Duration) {},
		AtKill:     func(func()) {},
		Terminable: func() {},
		Signals:    func() (<-chan os.Signal, func()) { return nil, func() {} },
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func widthOf(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// ndjson is where NDJSON goes: standard output, but a terminal gets nothing that
// it would act on.
func (env Env) ndjson() io.Writer {
	if env.IsTerminal(env.Stdout) {
		return render.Records(env.Stdout)
	}
	return env.Stdout
}

// bytes is ndjson for bytes as they are on the wire.
func (env Env) bytes() io.Writer {
	if env.IsTerminal(env.Stdout) {
		return render.Bytes(env.Stdout)
	}
	return env.Stdout
}

// output is where goes what --output and --payload name.
func (env Env) output(c *cli.Context) io.Writer {
	switch {
	case c.Bool("payload") || c.String("output") == "raw":
		return env.bytes()
	case c.String("output") == "ndjson":
		return env.ndjson()
	}
	return env.Stdout
}

// width is how wide a line of output on a stream may be, in cells: as wide as its
// terminal, or as COLUMNS asks for. 0 sets no bound: what no terminal shows is not cut.
func (env Env) width(stream any) int {
	if w := env.Width(stream); w > 0 {
		return w
	}
	if w, err := strconv.Atoi(env.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return 0
}
