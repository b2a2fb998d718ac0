package commands

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/sandbox"
	"github.com/wirectl/wirectl/run/again"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/table"
)

// grace is how long a command may take to end once it was interrupted, unless it
// asks for more. What keeps it longer is a system call that nothing else interrupts, such as a write
// to a pipe that nobody reads.
const grace = time.Second

// Main runs the program with the arguments, streams and signals of the process
// and returns its exit status.
func Main() int {
	sandbox.Main()  // does not return where we are the launcher
	starlark.Main() // nor where we are the worker
	agent.Main()    // nor where we begin an isolated agent
	if hook := agent.HookOf(os.Args); hook != nil {
		hook.Play = again.PlayServer
		return hook.Run(os.Stdin, os.Stdout, os.Stderr, func() (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 8)
			signal.Notify(c, passedOn()...)
			return c, func() { signal.Stop(c) }
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	interrupts := make(chan os.Signal, 1)
	var linger atomic.Int64
	linger.Store(int64(grace))
	var atKill atomic.Pointer[func()]
	var interrupted atomic.Int32
	interrupted.Store(StatusInterrupted)
	if !Brief(os.Args) {
		signal.Notify(interrupts, os.Interrupt)
		go func() {
			if s, ok := (<-interrupts).(syscall.Signal); ok {
				interrupted.Store(128 + int32(s))
			}
			stop()
			select {
			case <-interrupts:
			case <-time.After(time.Duration(linger.Load())):
			}
			if f := atKill.Load(); f != nil {
				(*f)()
			}
			os.Exit(int(interrupted.Load()))
		}()
	}
	env := OSEnv()
	env.Linger = func(d time.Duration) { linger.Store(int64(d)) }
	env.AtKill = func(f func()) {
		atKill.Store(&f)
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(interrupts, syscall.SIGHUP)
		}
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // makes writes to a closed pipe fail instead
	}
	env.Signals = func() (<-chan os.Signal, func()) {
		c := make(chan os.Signal, 8)
		signal.Notify(c, passedOn()...)
		signal.Stop(interrupts)
		return c, func() { signal.Stop(c) }
	}
	env.Terminable = func() { signal.Notify(interrupts, syscall.SIGTERM) }
	status := Run(ctx, env, os.Args)
	if ctx.Err() != nil {
		return int(interrupted.Load())
	}
	return status
}

// sentence returns the text of an error. For a missing file it adds a suggestion.
func sentence(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return err.Error()
	}
	told := cmp.Or(missing.Path, `""`) + ": " + missing.Err.Error() + instead(missing.Path)
	return strings.Replace(err.Error(), missing.Error(), told, 1)
}

// instead suggests what a missing file may have been; "" if nothing fits.
func instead(path string) string {
	if slices.Contains(source.Fixtures(), path) {
		return " (did you mean fixture:" + path + "?)"
	}
	dir, name := filepath.Split(path)
	there, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return ": there is no folder " + dir
	}
	if meant := nearest.Of(name, mapped(there, fs.DirEntry.Name)); meant != "" {
		return " (did you mean " + dir + meant + "?)"
	}
	if history.IsID(path) {
		return ", and no recorded session has that id: wirectl sessions lists them"
	}
	return ""
}

// quietFlag is the flag of commands that print messages on standard error.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only errors on stderr"}
}

// colorFlag is the flag of commands with coloured output.
func colorFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "color", Value: "auto", Usage: "colour " + what + ": auto, always or never"}
}

// style returns the style of a command's output on a stream of the environment. Commands without
// --color colour terminals.
func (env Env) style(c *cli.Context, stream any) (*render.Style, error) {
	colorful, err := env.colorful(cmp.Or(c.String("color"), "auto"), stream)
	return render.Palette(colorful), err
}

// colorful decides, for a stream of the environment, whether its output has colour.
func (env Env) colorful(mode string, stream any) (bool, error) {
	colorful, err := render.Colorful(mode, env.Getenv, env.IsTerminal(stream))
	return colorful, asUsage(err)
}

// table returns where --output prints rows, and in which of the forms.
func (env Env) table(c *cli.Context, forms ...string) (table.Output, error) {
	out := table.Output{To: env.Stdout, Form: c.String("output"), Width: env.width(env.Stdout)}
	switch {
	case !slices.Contains(forms, out.Form):
		last := len(forms) - 1
		return out, usagef("invalid --output %q: want %s or %s", out.Form, strings.Join(forms[:last], ", "), forms[last])
	case out.Form == table.AsNDJSON, out.Form == table.AsJSON:
		out.To = env.ndjson()
	case out.Form != table.AsText:
		out.To = env.bytes()
	}
	var err error
	out.Style, err = env.style(c, env.Stdout)
	return out, err
}

// section prints a title and, below it, rows whose cells are aligned.
func (env Env) section(title string, rows [][]string) error {
	columns := make([]table.Column[[]string], 3)
	for i := range columns {
		columns[i] = table.Column[[]string]{Title: " ", Value: func(row *[]string) any { return append(*row, "", "")[i] }}
	}
	if _, err := io.WriteString(env.Stdout, title+":\n"); err != nil {
		return err
	}
	return table.Write(table.Output{To: env.Stdout, Form: table.AsText, Style: &render.Style{}, Indent: "  "}, columns, rows)
}
