package commands

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/run/latis"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/quic"
)

func unitCommand(inv *invocation) *cli.Command {
	return inv.withEndpoint(&cli.Command{
		Name:      "unit",
		Category:  speaking,
		Usage:     "act as a latis unit: accept prompts, stream answers, obey cancels",
		ArgsUsage: "[echo | script SESSION | provider MODEL | exec CMD…]",
		Description: "Serves latis on standard input and output, or at --listen or --dial. echo (default)\n" +
			"repeats prompts, script replays a recorded session, provider asks a model of the\n" +
			"broker, and exec runs a program with the prompt as its input.\n\n" +
			"   wirectl send --prompt hi latis -- wirectl unit\n" +
			"   wirectl unit --listen tcp://127.0.0.1:7000 exec tr a-z A-Z\n" +
			"   wirectl unit --misbehave cancel-silent",
		Flags: append(append(sendFlags(), listenFlags()...),
			&cli.StringFlag{Name: "dial", Usage: "connect to the controller that listens at `ADDRESS`"},
			&cli.DurationFlag{Name: "delay", Usage: "echo: answer word by word, at intervals of `TIME`"},
			&cli.StringFlag{Name: "config", Usage: "provider: read the broker's configuration from the YAML `FILE` (wirectl help serve)"},
			&cli.DurationFlag{Name: "session-ttl", Value: unit.DefaultTTL, Usage: "allow resuming a session for `TIME` after its connection ends"},
			&cli.IntFlag{Name: "max-prompts", Value: 4096, Usage: "allow `N` prompts in flight on a connection"},
			&cli.StringFlag{Name: "misbehave", Usage: "break a rule on purpose: " + unit.MisbehaviourNames()},
			quietFlag(),
		),
		Action: inv.does(runUnit, excludes("listen", "dial")),
	})
}

// unitEnd bounds how long a terminated unit takes to tell its controllers.
const unitEnd = 3 * time.Second

func runUnit(inv *invocation, c *cli.Context) error {
	log := inv.logger(c.Bool("quiet"))
	agent, err := agentOf(inv, c, log)
	if err != nil {
		return err
	}
	o := unit.Options{SessionTTL: c.Duration("session-ttl"), MaxPrompts: c.Int("max-prompts"), Log: log}
	if name := c.String("misbehave"); name != "" {
		if o.Misbehave, err = unit.MisbehaviourNamed(name); err != nil {
			return usagef("--misbehave: %w", err)
		}
	}
	inv.Terminable()
	inv.Linger(unitEnd)
	return withSender(inv, c, "wirectl unit", func(see capture.Writer) error {
		o.See = see
		return runUnitAs(inv, c, unit.New(agent, o))
	})
}

func runUnitAs(inv *invocation, c *cli.Context, u *unit.Unit) error {
	switch {
	case c.String("listen") != "":
		l, err := inv.listen(c, false)
		if err != nil {
			return err
		}
		announce(inv, c, l)
		return u.Listen(c.Context, l)
	case c.String("dial") != "":
		return serveUnit(inv, c, c.String("dial"), u.Dial)
	}
	return serveUnit(inv, c, "stdio", u.ServeOne)
}

// serveUnit serves the controller at an address.
func serveUnit(inv *invocation, c *cli.Context, address string, serve func(context.Context, transport.Endpoint) error) error {
	opts, err := inv.transportOptions(c)
	if err != nil {
		return err
	}
	if strings.HasPrefix(address, "quic://") && len(opts.Subprotocols) == 0 {
		// The peer does not see a QUIC stream before something is written to it, and a unit
		// waits for the first message. gRPC writes first.
		opts.Subprotocols = []string{quic.GRPC}
	}
	e, err := transport.Parse([]string{address}, opts)
	if err != nil {
		return usagef("%w", err)
	}
	err = serve(c.Context, e)
	if frame.IsFault(err) {
		return &faultError{fmt.Errorf("the controller broke its protocol: %w", err)}
	}
	return err
}

// agentOf returns the agent that answers prompts.
func agentOf(inv *invocation, c *cli.Context, log *slog.Logger) (unit.Agent, error) {
	name := slices.Concat(inv.Operands, inv.Endpoint, []string{"echo"})[0]
	for _, of := range []struct{ flag, agent string }{{"delay", "echo"}, {"config", "provider"}} {
		if c.IsSet(of.flag) && name != of.agent {
			return nil, usagef("--%s goes with the agent %s, not with %s", of.flag, of.agent, name)
		}
	}
	if words := inv.Endpoint; len(words) > 0 {
		switch {
		case !transport.TakesRest(words[0]):
			return nil, usagef("%s is not an agent: to connect to a controller there, use --dial %[1]s", words[0])
		case words[0] != "exec" && words[0] != "--":
			return nil, usagef("%s is not an agent: to run it, write exec %[1]s", words[0])
		case len(words) == 1 || len(inv.Operands) > 0:
			return nil, usagef("name an agent: echo, script SESSION, provider MODEL or exec CMD…")
		}
		return unit.Exec{Argv: words[1:], Log: log}, nil
	}
	switch words := inv.Operands; {
	case len(words) == 0, len(words) == 1 && words[0] == "echo":
		return unit.Echo{Delay: c.Duration("delay")}, nil
	case len(words) == 2 && words[0] == "script":
		return scriptOf(inv, c.Context, words[1])
	case len(words) == 2 && words[0] == "provider":
		return providerOf(inv, c, words[1])
	}
	return nil, usagef("unknown agent %q: want echo, script SESSION, provider MODEL or exec CMD…", strings.Join(inv.Operands, " "))
}

// scriptOf reads the session that a unit replays.
func scriptOf(inv *invocation, ctx context.Context, name string) (unit.Agent, error) {
	if err := oneWire(inv, name); err != nil {
		return nil, err
	}
	src, err := inv.openSession(ctx, name, decode.Config{Wire: true}, false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if src.Capture == nil {
		return nil, usagef("%s has only one direction, and a script needs both: use a capture, a recording or NDJSON", label(name))
	}
	s, err := unit.ReadScript(src.Capture)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label(name), err)
	}
	return s, nil
}

// providerOf returns the agent for a model of the broker.
func providerOf(inv *invocation, c *cli.Context, model string) (unit.Agent, error) {
	h, err := host.Load(hostOptions(inv, c))
	if err != nil {
		return nil, hostError(err)
	}
	b, err := broker.New(h.Config.Broker, nil)
	if err != nil {
		return nil, err
	}
	if err := b.Find(model); err != nil {
		return nil, usagef("%w", err)
	}
	return latis.Agent{Broker: b, Door: "unit", Model: model}, nil
}

// logger returns the log of servers.
func (inv *invocation) logger(quiet bool) *slog.Logger {
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(inv.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// announce prints the address of a listener.
func announce(inv *invocation, c *cli.Context, l transport.Listener) {
	inv.unlessQuiet(c, "listening at "+l.Addr())
}

// unlessQuiet prints a message, unless the user wants only errors.
func (inv *invocation) unlessQuiet(c *cli.Context, text string) {
	if !c.Bool("quiet") {
		fmt.Fprintf(inv.Stderr, "wirectl: %s\n", text)
	}
}
