package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/run/again"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/transport"
)

func runCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Category:  between,
		Usage:     "start an agent, and record what it says to its models and servers",
		ArgsUsage: "AGENT…",
		Description: "The agent runs as it would alone, and its exit status is returned. What it says to\n" +
			"model APIs passes through a proxy that exists only for this run, and is recorded\n" +
			"without known secrets. Nothing is written until the agent has ended. Flags after the\n" +
			"agent's name are the agent's. docs/run.md says what is seen of which agent.\n\n" +
			"   wirectl run claude\n" +
			"   wirectl run codex exec \"fix the test\"\n" +
			"   wirectl run -- python my_agent.py\n" +
			"   wirectl calls run:latest",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "record", Value: string(history.Full), Usage: "what to record: full, metadata or none"},
			&cli.StringSliceFlag{Name: "hosts", Usage: "also open connections to `HOST[:PORT]`, which may have * in it; repeatable, or separated by commas"},
			&cli.BoolFlag{Name: "base-url", Usage: "move the base URLs of model APIs to a relay, for programs that use no proxy"},
			&cli.BoolFlag{Name: "linger", Usage: "keep the proxy for processes that the agent leaves, until they end"},
			pinFlag(),
			&cli.StringFlag{Name: "hub", Usage: "also send the run to the hub at `URL`; WIRECTL_HUB alone sends nothing"},
			&cli.StringFlag{Name: "hub-level", Value: string(history.Metadata), Usage: "send only metadata, or everything except known secrets: metadata, full"},
			quietFlag(),
		},
		Action: inv.does(runAgent, needs("hub-level", "hub")),
	}
}

// interruptIgnored says that we were started with SIGINT ignored, as shells start commands in the background.
var interruptIgnored = signal.Ignored(os.Interrupt)

func runAgent(inv *invocation, c *cli.Context) error {
	level := history.Level(c.String("record"))
	switch {
	case !slices.Contains(agent.Levels, level):
		return usagef("invalid --record %q: want full, metadata or none", level)
	case level == agent.None && pinMode(c) != "":
		return usagef("--pin needs a record: leave out --record none")
	}
	for _, host := range cmdline.ListOf(c, "hosts") {
		if strings.ContainsAny(host, "/ ") || host == "" {
			return usagef("invalid --hosts %q: want HOST or HOST:PORT, such as api.example.com or *.example.com", host)
		}
	}
	send, err := sendsRun(inv, c)
	if err != nil {
		return err
	}
	return startAgent(inv, c, func(o agent.Options) (int, error) {
		o.Level, o.Hosts, o.Linger, o.Send, o.Pin = level, cmdline.ListOf(c, "hosts"), c.Bool("linger"), send, pinMode(c)
		return agent.Run(c.Context, o)
	})
}

// startAgent has run start the agent on the command line, and returns its status as an error.
func startAgent(inv *invocation, c *cli.Context, run func(agent.Options) (int, error)) error {
	command := inv.Endpoint
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return usagef("name an agent, such as claude, or -- and a command")
	}
	signals, release := inv.Signals()
	defer release()
	if interruptIgnored {
		signal.Ignore(os.Interrupt) // by the agent, too
	}
	status, err := run(agent.Options{
		Command: command, Level: history.Full, BaseURL: c.Bool("base-url"), Quiet: c.Bool("quiet"), Getenv: inv.Getenv, Environ: os.Environ(),
		Stdin: inv.Stdin, Stdout: inv.Stdout, Stderr: inv.Stderr, Signals: signals, Version: buildVersion(),
	})
	if e, ok := errors.AsType[*transport.StartError](err); ok && e.Status == 127 {
		names := mapped(agent.Kinds, func(k agent.Kind) string { return k.Name })
		e.Err = fmt.Errorf("%w%s", e.Err, nearest.Question(command[0], names))
	}
	if status != statusOK {
		return &childError{status, err}
	}
	return err
}

// sendsRun returns the function that sends the record of a run to a hub; nil if none is named.
func sendsRun(inv *invocation, c *cli.Context) (func(context.Context, string) error, error) {
	if c.String("hub") == "" {
		return nil, nil
	}
	s := hub.Sending{Kind: "run", Level: history.Level(c.String("hub-level"))}
	var err, invalid error
	if s.Address, invalid = hub.ParseAddress(c.String("hub")); invalid == nil && !slices.Contains(history.Levels, s.Level) {
		invalid = fmt.Errorf("invalid --hub-level %q: want metadata or full", s.Level)
	}
	if invalid != nil {
		return nil, usagef("%w", invalid)
	}
	s.State, err = hub.State(inv.Getenv)
	return func(ctx context.Context, folder string) error {
		s.Say, s.Warn = func(string) {}, func(string) {} // nothing is written meanwhile; what is missing in the end is an error
		run, err := source.OpenRun(ctx, folder, decode.Config{Resync: true}, true)
		if err != nil {
			return err
		}
		defer run.Close()
		return s.SendAll(ctx, run, run.Agent)
	}, err
}

// rerunFlags are the flags of replay for a run.
func rerunFlags() []cli.Flag {
	const category = "A run with its agent"
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Category: category, Value: again.Recorded, Usage: "who answers model calls: recorded, live, or the model API at `URL`, with the key in " + again.KeyVariable},
		&cli.StringFlag{Name: "model-name", Category: category, Usage: "with a live model: ask it by this `NAME`"},
		&cli.IntFlag{Name: "from", Category: category, Usage: "with a live model: play the first `N` turns from the record"},
		&cli.StringSliceFlag{Name: "tools", Category: category, Usage: "which servers of tools run for real: recorded (none), live, or `SERVER=live`; repeatable, or separated by commas"},
		&cli.BoolFlag{Name: "isolate", Category: category, Usage: "give the agent a network that has only the proxy (Linux)"},
		&cli.BoolFlag{Name: "base-url", Category: category, Usage: "move the base URLs of model APIs to a relay, for programs that use no proxy"},
	}
}

// playedRun returns the folder of the run that replay is to play with an agent; "" if it is to do something else.
func playedRun(inv *invocation) (string, error) {
	if len(inv.Operands) != 1 || len(inv.Endpoint) == 0 || inv.Endpoint[0] != "--" {
		return "", nil
	}
	folder, err := inv.opener().RunFolder(inv.Operands[0])
	return folder, misnamed(err)
}

// rerun plays a run with its agent.
func rerun(inv *invocation, c *cli.Context, folder string) error {
	for _, name := range []string{"as", "match", "timeout", "ignore-field", "ignore-kind", "ignore-chunks", "to", "conn", "clients", "cancel-at", "repeat", "listen", "output", "keep-going"} {
		if c.IsSet(name) {
			return usagef("--%s does not go with a run and its agent", name)
		}
	}
	o := again.Options{Folder: folder, ModelName: c.String("model-name"), From: c.Int("from"), Isolate: c.Bool("isolate"), Speed: c.Float64("speed")}
	if err := cmp.Or(o.ParseModel(c.String("model")), o.ParseTools(cmdline.ListOf(c, "tools"))); err != nil {
		return asUsage(err)
	}
	switch {
	case (c.IsSet("from") || c.IsSet("model-name")) && !o.ModelLive:
		return usagef("--from and --model-name need --model live or --model URL")
	case o.From < 0 || !(o.Speed > 0):
		return usagef("--from takes a number of turns, and --speed a factor over 0")
	case c.Bool("fast"):
		o.Speed = 0
	}
	err := startAgent(inv, c, func(options agent.Options) (int, error) {
		o.Agent = options
		return again.Run(c.Context, o)
	})
	if is[*again.OptionError](err) {
		return asUsage(err)
	}
	if departed := (*again.DepartureError)(nil); errors.As(err, &departed) {
		if c.Bool("quiet") {
			return &faultError{departed}
		}
		return &childError{statusFault, nil} // the last line says it
	}
	return err
}
