package commands

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/run/agent"
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
	command := inv.Endpoint
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	level := history.Level(c.String("record"))
	switch {
	case len(command) == 0:
		return usagef("name an agent, such as claude, or -- and a command")
	case !slices.Contains(agent.Levels, level):
		return usagef("invalid --record %q: want full, metadata or none", level)
	case level == agent.None && pinMode(c) != "":
		return usagef("--pin needs a record: leave out --record none")
	}
	send, err := sendsRun(inv, c)
	if err != nil {
		return err
	}
	signals, release := inv.Signals()
	defer release()
	if interruptIgnored {
		signal.Ignore(os.Interrupt) // by the agent, too
	}
	status, err := agent.Run(c.Context, agent.Options{
		Command: command, Level: level, Hosts: cmdline.ListOf(c, "hosts"), BaseURL: c.Bool("base-url"), Linger: c.Bool("linger"),
		Quiet: c.Bool("quiet"), Pin: pinMode(c), Getenv: inv.Getenv, Environ: os.Environ(), Stdin: inv.Stdin, Stdout: inv.Stdout, Stderr: inv.Stderr,
		Signals: signals, Version: buildVersion(), Send: send,
	})
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
