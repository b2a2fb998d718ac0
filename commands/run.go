// Package commands is the command line: it turns flags into values, calls one
// function of a package below, prints what comes back and chooses the exit
// status. There is a file for each command, and no logic in any.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/transport"
)

// The exit statuses of every command.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
	statusFault  = 3 // the peer or the input broke its protocol
	statusLimit  = 4 // a limit ended a run of rlm, whose best answer was printed
	// StatusInterrupted is that of a command that a signal ended, and
	// StatusTerminated that of one that SIGTERM did.
	StatusInterrupted = 130
	StatusTerminated  = 143
)

// An invocation is one run of wirectl: its environment, and what stands among and
// behind the flags.
type invocation struct {
	Env
	cmdline.Line
	// reportsAtEnd says that nothing is printed before all input was read.
	reportsAtEnd bool
	// schemes are endpoints for what is to be played alone.
	schemes []transport.Scheme
}

func newInvocation(env Env) *invocation {
	return &invocation{Env: env, Line: cmdline.Line{
		BeginsEndpoint: func(word string) bool { return transport.TakesRest(word) || transport.IsWord(word) },
	}}
}

// does returns the action of a command.
func (inv *invocation) does(run func(*invocation, *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error { return run(inv, c) }
}

// Run runs the command line args, of which the first is the program's name,
// and returns the exit status.
func Run(ctx context.Context, env Env, args []string) int {
	inv := newInvocation(env)
	if len(args) > 1 && args[1] == completeWord {
		return status(completer(inv).Complete(env.Stdout, newApp(inv), args[2:]))
	}
	if len(args) == 1 {
		_, err := io.WriteString(env.Stdout, firstSteps)
		report(env.Stderr, err)
		return status(err)
	}
	args = respelled(args)
	app := newAppFor(inv, args)
	args, err := inv.Arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if exit := cli.ExitCoder(nil); errors.As(err, &exit) && cmdline.IsHelp(args[1]) {
		err = cmdline.UnknownCommand(app, args[len(args)-1])
	}
	if ctx.Err() != nil {
		return StatusInterrupted
	}
	report(env.Stderr, err)
	return status(err)
}

const firstSteps = `wirectl shows what passes between AI agents, their tools and their models.

  wirectl wrap                           put it in front of a client's MCP server
  wirectl monitor                        see the session live
  wirectl calls fixture:mcp-everything   list calls and failures, here of a recorded session

wirectl demo plays an example. wirectl help lists all commands.
`

// respelled returns a command line that names its command by the name that the
// command has, for two that are written otherwise.
func respelled(args []string) []string {
	switch {
	case len(args) > 1 && args[1] == "--version":
		return slices.Replace(slices.Clone(args), 1, 2, "version")
	case len(args) > 2 && args[1] == "serve" && args[2] == "theory":
		return slices.Replace(slices.Clone(args), 1, 3, "theory", "serve")
	}
	return args
}

// status chooses the exit status for the outcome of a command.
func status(err error) int {
	var usage *cmdline.Error
	var fault *faultError
	var start *transport.StartError
	var child *childError
	switch {
	case err == nil, isBrokenPipe(err):
		return statusOK
	case errors.As(err, &usage):
		return statusUsage
	case errors.As(err, &fault):
		return statusFault
	case errors.As(err, &start): // as shells have it
		return start.Status
	case errors.As(err, &child):
		return child.status
	default:
		return statusFailed
	}
}

// report prints an error for a person.
func report(w io.Writer, err error) {
	var child *childError
	if errors.As(err, &child) && child.err == nil {
		return // the program has said what there was to say
	}
	if err != nil && !isBrokenPipe(err) {
		// An error may quote the wire, and w may be a terminal.
		fmt.Fprintf(w, "wirectl: %s\n", render.Safe(sentence(err)))
	}
}

// isBrokenPipe reports whether the reader of our output has gone, as head does
// when it has enough. That is nothing to complain about, unlike a peer that has.
func isBrokenPipe(err error) bool {
	var peer *net.OpError
	return !errors.As(err, &peer) && (errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe))
}

// usagef returns an error that says that wirectl was called wrongly.
func usagef(format string, args ...any) error { return cmdline.Errorf(format, args...) }

// A faultError says that the input, or a peer, broke its protocol.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// A childError says that the program that was run ended with a status, which is
// ours, too. The error is nil if the program ran.
type childError struct {
	status int
	err    error
}

func (e *childError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("the program ended with status %d", e.status)
	}
	return e.err.Error()
}

func (e *childError) Unwrap() error { return e.err }

// The groups of commands.
const (
	reading  = "Read what was recorded"
	between  = "Stand in the middle"
	speaking = "Be one end"
	about    = "About wirectl"
)

var help = cmdline.Help{
	Groups: []string{reading, between, speaking, about}, // in their order
	ExitStatus: "0: success. 1: failure. 2: usage error. 3: the peer or the input broke its protocol. " +
		"4: a limit ended rlm, which printed its best answer. 126: a program cannot run. 127: it was not found. 130: interrupted. " +
		"relay and serve return the status of the program that they run.",
}

func init() { help.Install() }

// Manual returns a page on wirectl and one on each command, from what help says.
func Manual() []cmdline.Page { return help.Manual(newApp(newInvocation(Env{}))) }

// A maker makes one command.
type maker struct {
	name string
	make func(*invocation) *cli.Command
}

// Brief reports whether the command line args is of a command that prints what it
// knows and ends. An interrupt may end it as it ends any process: to catch one
// takes threads, and those more time than such a command.
func Brief(args []string) bool {
	return len(args) > 1 && (args[1] == "version" || args[1] == "completion")
}

// makers are of every command, in the order in which help lists them.
var makers = []maker{
	{"decode", decodeCommand},
	{"encode", encodeCommand},
	{"convert", convertCommand},
	{"lint", lintCommand},
	{"calls", callsCommand},
	{"baseline", baselineCommand},
	{"stats", statsCommand},
	{"diff", diffCommand},
	{"monitor", monitorCommand},
	{"report", reportCommand},
	{"sessions", sessionsCommand},
	{"demo", demoCommand},
	{"relay", func(inv *invocation) *cli.Command { return inv.withEndpoint(relayCommand(inv)) }},
	{"taps", tapsCommand},
	{"hub", hubCommand},
	{"wrap", wrapCommand},
	{"unwrap", unwrapCommand},
	{"send", sendCommand},
	{"unit", unitCommand},
	{"serve", serveCommand},
	{"rlm", rlmCommand},
	{"replay", replayCommand},
	{"theory", theoryCommand},
	{"list", listCommand},
	{"completion", completionCommand},
	{"doctor", doctorCommand},
	{"version", versionCommand},
}

// newApp returns the application, with every command.
func newApp(inv *invocation) *cli.App { return newAppOf(inv, makers) }

// newAppFor returns the application as the command line args needs it: with the
// one command that it names, if it does. Many have dozens of flags, and to make
// them all takes longer than what some commands do.
func newAppFor(inv *invocation, args []string) *cli.App {
	named := slices.IndexFunc(makers, func(m maker) bool { return len(args) > 1 && m.name == args[1] })
	if named < 0 {
		return newApp(inv)
	}
	return newAppOf(inv, makers[named:named+1])
}

func newAppOf(inv *invocation, makers []maker) *cli.App {
	app := &cli.App{
		Name:  "wirectl",
		Usage: "see what AI agents, their tools and their models say to each other",
		Description: "Try it on a recorded session, then on a dump of yours:\n\n" +
			"   wirectl decode fixture:mcp-everything\n" +
			"   wirectl decode < dump.bin\n\n" +
			"wirectl help COMMAND describes a command.",
		Writer:                 inv.Stdout,
		ErrWriter:              inv.Stderr,
		HideVersion:            true,
		UseShortOptionHandling: true,
		// Headers, patterns and JSON have commas in them; see cmdline.ListOf.
		DisableSliceFlagSeparator: true,
		// The status is chosen by status alone: left to itself the library
		// exits in the middle of Run for any error that has an exit code.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   cmdline.WrongUsage,
	}
	for _, m := range makers {
		c := m.make(inv)
		c.OnUsageError = cmdline.WrongUsage
		c.HideHelpCommand = true
		c.UseShortOptionHandling = true
		app.Commands = append(app.Commands, c)
	}
	return app
}
