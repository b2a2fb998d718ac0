package commands

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/run/latis"
	"github.com/wirectl/wirectl/run/question"
	"github.com/wirectl/wirectl/table"
)

func serveCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Category:  speaking,
		Usage:     "serve model APIs: a broker with routes, limits, budgets and a mock",
		ArgsUsage: "[usage [ADDR] | PROGRAM…]",
		Description: "Without a configuration, a mock answers, so a first call works at once. With a\n" +
			"PROGRAM, the broker runs as long as the program, which finds it by WIRECTL_BROKER,\n" +
			"WIRECTL_PROXY, the Python module wirectl (llm_query), and the base URLs of OpenAI,\n" +
			"Anthropic and Gemini clients. usage prints the usage of the broker whose\n" +
			"admin door is at ADDR (HOST:PORT or PORT).\n\n" +
			"   wirectl serve --config broker.yaml\n" +
			"   wirectl serve --listen openai=8080 --listen nexus=off\n" +
			"   wirectl serve -- python3 script.py\n" +
			"   wirectl serve --worker --join nats://hub.example:4222 --models 'llama-*'\n" +
			"   wirectl serve usage",
		Flags: append(append(sendFlags(), workFlags()...),
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read the configuration from the YAML `FILE`"},
			&cli.StringSliceFlag{Name: "listen", Usage: "override where a door listens with `DOOR=ADDR`; ADDR is HOST:PORT, PORT or off. Doors are " + config.DoorNames()},
			&cli.BoolFlag{Name: "any-port", Usage: "use any free port for doors that --listen does not name"},
			&cli.BoolFlag{Name: "print-addresses", Usage: "print the addresses of the doors first, as one line of JSON"},
			&cli.BoolFlag{Name: "allow-remote", Usage: "let doors that require a token listen beyond loopback"},
			&cli.DurationFlag{Name: "drain", Value: 10 * time.Second, Usage: "on shutdown, wait `TIME`, such as 30s, for running calls"},
			&cli.StringFlag{Name: "log", Usage: "append one JSON line per call to `FILE`"},
			&cli.BoolFlag{Name: "log-prompts", Usage: "with --log: include prompts and responses"},
			&cli.StringFlag{Name: "calls", Usage: "write each call to `FILE` as a structured completion, one per line (overwrites)"},
			&cli.StringFlag{Name: "capture", Usage: "record both sides of the broker to the pcapng `FILE` (overwrites), with known secrets redacted"},
			&cli.BoolFlag{Name: "no-tap", Usage: "do not open a tap for monitor and live"},
			&cli.StringFlag{Name: "otlp", Usage: "export spans and metrics to the OpenTelemetry collector at `URL`"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "with usage, what to print: text, ndjson"},
			quietFlag(),
		),
		Action: inv.does(runServe, needs("log-prompts", "log FILE"),
			needs("models parallel", "worker").Because("--models and --parallel need --worker")),
	}
}

func runServe(inv *invocation, c *cli.Context) error {
	o := hostOptions(inv, c)
	var err error
	if o.Observers.Send, err = senderOf(inv, c); err != nil {
		return err
	}
	if err := joinHub(c, &o); err != nil {
		return err
	}
	h, err := host.Load(o)
	if err != nil {
		return hostError(err)
	}
	if len(inv.Operands) > 0 && inv.Operands[0] == "usage" {
		return serveUsage(inv, c, h)
	}
	if err := checkCapture(c); err != nil {
		return err
	}
	status, err := h.Run(c.Context)
	if status != statusOK {
		return &childError{status, err}
	}
	return hostError(err)
}

// hostOptions reads the flags.
func hostOptions(inv *invocation, c *cli.Context) host.Options {
	return host.Options{
		Config: c.String("config"), Getenv: inv.Getenv, Listen: cmdline.ListOf(c, "listen"), AnyPort: c.Bool("any-port"),
		Remote: c.Bool("allow-remote"), Drain: c.Duration("drain"), Quiet: c.Bool("quiet"),
		Observers: host.ObserverConfig{
			NoTap: c.Bool("no-tap"), Capture: c.String("capture"), Label: convert.Labels(nil),
			Log: c.String("log"), LogPrompts: c.Bool("log-prompts"), Calls: c.String("calls"), OTLP: c.String("otlp"),
		},
		Program: inv.Operands, PrintAddresses: c.Bool("print-addresses"),
		Stdin: inv.Stdin, Stdout: inv.Stdout, Stderr: inv.Stderr, Latis: latis.Door, RLM: question.Models(buildVersion()), Linger: inv.Linger,
	}
}

// hostError marks an error if the command line or the configuration is to blame.
func hostError(err error) error {
	if is[*host.AddressError](err) {
		return usagef("%w", err)
	}
	if is[*config.Error](err) {
		return &faultError{err}
	}
	return err
}

// serveUsage prints the usage of a running broker: the one at the address in the operands, or else
// at that of the flags and the configuration.
func serveUsage(inv *invocation, c *cli.Context, h *host.Host) error {
	addrs, err := h.Addresses()
	if err != nil {
		return hostError(err)
	}
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	addr, operands := addrs["admin"], inv.Operands[1:]
	switch {
	case len(operands) > 1:
		return usagef("serve usage takes one address; got %s", strings.Join(operands, " "))
	case len(operands) == 1:
		if addr, err = config.Address("admin", operands[0]); err != nil {
			return usagef("serve usage: %w", err)
		}
	}
	if addr == host.Off {
		return usagef("serve usage needs the address of an admin door: want HOST:PORT or PORT")
	}
	list, err := web.Usage(c.Context, addr, h.Config.Token)
	if err != nil {
		return err
	}
	switch {
	case out.Form == table.AsNDJSON:
		return table.Write(out, nil, list)
	case len(list) == 0:
		inv.say("serve usage", "no calls yet")
	}
	return table.Write(out, usageColumns, list)
}

var usageColumns = []table.Column[broker.Usage]{
	{Title: "model", Least: 12, Value: func(u *broker.Usage) any { return u.Model }},
	{Title: "door", Drop: 2, Value: func(u *broker.Usage) any { return u.Door }},
	{Title: "client", Drop: 5, Value: func(u *broker.Usage) any { return u.Client }},
	{Title: "calls", Value: func(u *broker.Usage) any { return u.Calls() }},
	{Title: "ok", Drop: 4, Value: func(u *broker.Usage) any { return u.OK }},
	{Title: "failed", Value: func(u *broker.Usage) any { return u.Failed + u.Refused }},
	{Title: "cancelled", Drop: 3, Value: func(u *broker.Usage) any { return u.Cancelled }},
	{Title: "tokens in", Value: func(u *broker.Usage) any { return u.InputTokens }},
	{Title: "out", Value: func(u *broker.Usage) any { return u.OutputTokens }},
	{Title: "seconds", Drop: 1, Cell: func(u *broker.Usage) string { return strconv.FormatFloat(u.Seconds, 'f', 3, 64) }},
}
