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

	"github.com/wirectl/wirectl/decode/source"
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
	statusLimit  = 4 // a limit ended a run of rlm; its best answer was printed
	// StatusInterrupted is the status after an interrupt. After another signal it is 128 and its number.
	StatusInterrupted = 130
)

// An invocation is one run of wirectl: its environment, and the words of its command line
// besides flags.
type invocation struct {
	Env
	cmdline.Line
	// reportsAtEnd says that nothing is printed before all input has been read.
	reportsAtEnd bool
	// schemes are endpoints for replayed sessions.
	schemes []transport.Scheme
	// seen is what the inputs have told, if there are several.
	seen *source.Seen
	// runs is [Run], for a command that runs others.
	runs func(context.Context, Env, []string) int
}

func newInvocation(env Env) *invocation {
	return &invocation{Env: env, Line: cmdline.Line{
		BeginsEndpoint: func(word string) bool { return transport.TakesRest(word) || transport.IsWord(word) },
	}}
}

// does returns the action of a command, whose flags have rules. A command with blank ArgsUsage takes
// no operands.
func (inv *invocation) does(run func(*invocation, *cli.Context) error, rules ...cmdline.Rule) cli.ActionFunc {
	return func(c *cli.Context) error {
		if len(inv.Operands) > 0 && c.Command.ArgsUsage == " " {
			return usagef("%s takes no operands; got %q", c.Command.Name, inv.Operands[0])
		}
		for _, rule := range append(rules, sharedRules...) {
			if err := rule.Check(c); err != nil {
				return err
			}
		}
		return run(inv, c)
	}
}

func needs(flags string, others ...string) cmdline.Rule {
	return cmdline.Rule{Flags: flags, Others: others}
}

func excludes(flags string, others ...string) cmdline.Rule {
	return cmdline.Rule{Flags: flags, Excludes: true, Others: others}
}

// sharedRules are about the flags that several commands have.
var sharedRules = []cmdline.Rule{
	needs("message", "proto", "descriptor-set").Because("--message needs a schema: give --proto FILE or --descriptor-set FILE"),
	needs("import-path", "proto FILE", "descriptor-set"),
	needs("tls-cert", "tls-key").Because("give both --tls-cert and --tls-key"),
	needs("tls-key", "tls-cert").Because("give both --tls-cert and --tls-key"),
	needs("unit-cert", "unit-key").Because("give both --unit-cert and --unit-key"),
	needs("unit-key", "unit-cert").Because("give both --unit-cert and --unit-key"),
	excludes("insecure", "tls-ca", "unit-ca", "tls-pin").Because("--insecure does not go with --tls-ca or --tls-pin: give one of them"),
}

// Run runs a command line, which begins with the program's name, and returns the exit status.
func Run(ctx context.Context, env Env, args []string) int {
	inv := newInvocation(env)
	inv.runs = Run
	if len(args) > 1 && args[1] == completeWord {
		return status(completer(inv).Complete(env.Stdout, newApp(inv), args[2:]))
	}
	if len(args) == 1 {
		err := welcome(env)
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

// respelled replaces two alternative spellings of commands.
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
	var start *transport.StartError
	var child *childError
	switch {
	case err == nil, isBrokenPipe(err):
		return statusOK
	case is[*cmdline.Error](err):
		return statusUsage
	case is[*faultError](err):
		return statusFault
	case errors.As(err, &start): // as in shells
		return start.Status
	case errors.As(err, &child):
		return child.status
	default:
		return statusFailed
	}
}

// report prints an error for a person.
func report(w io.Writer, err error) {
	if child, ok := errors.AsType[*childError](err); ok && child.err == nil {
		return // the program has reported its error
	}
	if err != nil && !isBrokenPipe(err) {
		// An error may quote the wire, and w may be a terminal.
		fmt.Fprintf(w, "wirectl: %s\n", render.Safe(sentence(err)))
	}
}

// isBrokenPipe reports whether the reader of our output has closed it, as head does. That is not
// an error, unlike a peer that has gone.
func isBrokenPipe(err error) bool {
	var peer *net.OpError
	return !errors.As(err, &peer) && (errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe))
}

// is reports whether err is or wraps an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// usagef returns a usage error.
func usagef(format string, args ...any) error { return cmdline.Errorf(format, args...) }

// asUsage makes err, unless it is nil, a usage error.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usagef("%w", err)
}

// A faultError says that the input or a peer broke its protocol.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// A childError says that a child process ended with a status, which becomes our own. The error
// is nil if the program ran.
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
		"relay, run and serve return the status of the program that they run.",
}

func init() { help.Install() }

// Manual returns a page on wirectl and one on each command, made from the help.
func Manual() []cmdline.Page { return help.Manual(newApp(newInvocation(Env{}))) }

// A maker builds a command.
type maker struct {
	name string
	make func(*invocation) *cli.Command
}

// Brief reports whether a command line is of a command that only prints something. The default
// handling of interrupts is enough for it: to catch them would take longer than the command.
func Brief(args []string) bool {
	return len(args) > 1 && (args[1] == "version" || args[1] == "completion")
}

// makers build all commands, in the order of the help.
var makers = []maker{
	{"decode", decodeCommand},
	{"encode", encodeCommand},
	{"convert", convertCommand},
	{"lint", lintCommand},
	{"calls", callsCommand},
	{"why", whyCommand},
	{"context", contextCommand},
	{"baseline", baselineCommand},
	{"stats", statsCommand},
	{"diff", diffCommand},
	{"test", testCommand},
	{"merge", mergeCommand},
	{"monitor", monitorCommand},
	{"report", reportCommand},
	{"sessions", sessionsCommand},
	{"mcp", mcpCommand},
	{"demo", demoCommand},
	{"run", runCommand},
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
	{"shrink", shrinkCommand},
	{"theory", theoryCommand},
	{"list", listCommand},
	{"completion", completionCommand},
	{"doctor", doctorCommand},
	{"version", versionCommand},
}

// newApp returns the application, with every command.
func newApp(inv *invocation) *cli.App { return newAppOf(inv, makers) }

// newAppFor returns the application for a command line, with only the command that it names, if
// any. Many commands have dozens of flags, and building all takes longer than running some.
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
		Description: "Start your agent with it, or try it on a recorded session:\n\n" +
			"   wirectl run claude\n" +
			"   wirectl why run:latest\n" +
			"   wirectl calls fixture:mcp-everything\n\n" +
			"wirectl alone names the commands that fit this machine; wirectl help COMMAND describes one.",
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
