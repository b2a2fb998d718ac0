package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

func relayCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "relay",
		Category:  between,
		Usage:     "stand between a controller and a unit, and see what passes",
		ArgsUsage: "ENDPOINT",
		Description: "Moves bytes between its standard input and output, where the controller is, and\n" +
			"ENDPOINT, the unit. The bytes are never changed or delayed by who watches, and by\n" +
			"nothing else unless --fault, --hold or --control asks for it. The exit status is that\n" +
			"of the unit's command.\n\n" +
			"   wirectl relay --capture session.pcapng -- npx server\n" +
			"   wirectl relay --print ssh build@example.com agent --stdio\n" +
			"   wirectl relay --listen tcp://127.0.0.1:7000 -- wirectl unit\n" +
			"   wirectl relay --listen grpc://127.0.0.1:7000 grpc://127.0.0.1:50051\n" +
			"   wirectl relay --listen http://127.0.0.1:7000 http://127.0.0.1:3001/mcp",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "capture", Usage: "record into `FILE`, which is replaced; - is standard output, with --listen"},
			&cli.StringFlag{Name: "capture-policy", Value: string(recorder.Spill), Usage: "what to do with frames that the file is too slow for: spill, block, drop"},
			&cli.Int64Flag{Name: "split-size", Usage: "begin a new part of the capture about every `N` bytes"},
			&cli.IntFlag{Name: "keep", Usage: "with --split-size: keep only the newest `N` parts (default: all)"},
			&cli.StringSliceFlag{Name: "redact", Usage: "keep what has the name `KEY`, such as apiKey, out of the capture"},
			&cli.StringSliceFlag{Name: "redact-value", Usage: "keep what matches `REGEX` out of the capture"},
			&cli.BoolFlag{Name: "redact-secrets", Usage: "keep what is known to be secret, such as tokens and passwords, out of the capture"},
			&cli.BoolFlag{Name: "no-tap", Usage: "open no tap, so that decode live, monitor and taps do not find it"},
			&cli.StringFlag{Name: "name", Usage: "call the tap `NAME`, rather than after the unit"},
			&cli.BoolFlag{Name: "print", Usage: "write decoded lines to standard error as frames pass"},
			&cli.DurationFlag{Name: "patience", Value: 5 * time.Second, Usage: "tell when a side lets bytes wait for that `TIME`"},
			quietFlag(),
			grpcEncodingFlag(),
			colorFlag("what --print writes"),
			&cli.BoolFlag{Name: "reflect", Usage: "between gRPC and gRPC: first ask the unit for its schemas, so that messages are shown by their names"},
			&cli.StringFlag{Name: "unit-cert", Usage: "show the unit the certificate in `FILE` (PEM), and controllers that of --tls-cert"},
			&cli.StringFlag{Name: "unit-key", Usage: "the key of --unit-cert, in `FILE` (PEM)"},
			&cli.StringFlag{Name: "unit-ca", Usage: "trust the authorities in `FILE` (PEM) about the unit, and those of --tls-ca about controllers"},
			&cli.BoolFlag{Name: "shared", Usage: "with --listen: give all controllers one unit, rather than each its own"},
		}, slices.Concat(alterFlags(), listenFlags(), streamFlags())...),
		Action: inv.relay,
	}
}

// A relaying is what the command line asks relay for.
type relaying struct {
	*invocation
	c       *cli.Context
	cfg     decode.Config
	unit    transport.Endpoint
	alter   *alteration // nil if nothing is to be changed
	watch   *watch
	warn    func(text string)
	signals <-chan os.Signal
}

func (inv *invocation) relay(c *cli.Context) error {
	v := &relaying{invocation: inv, c: c}
	if err := v.read(); err != nil {
		return err
	}
	signals, release := inv.Signals()
	defer release()
	v.signals = signals
	var err error
	if v.watch, err = v.newWatch(); err != nil {
		return err
	}
	switch unit, isHTTP := v.unit.(transport.HTTP); {
	case isHTTP:
		err = v.proxy(c.Context, unit.URL())
	case c.Bool("shared"):
		err = v.share(c.Context)
	case c.String("listen") != "":
		err = v.serve(c.Context)
	default:
		err = v.once(c.Context)
	}
	failed := v.watch.end()
	if failed != nil && v.watch.exited { // the status is that of the unit's command
		v.say("relay", fmt.Sprintf("the capture is not whole: %v", failed))
		return err
	}
	return errors.Join(err, failed)
}

// read reads operands and flags.
func (v *relaying) read() error {
	var err error
	v.warn = func(text string) { v.say("relay", text) }
	if v.c.Bool("quiet") {
		v.warn = func(string) {}
	}
	if v.c.Duration("patience") <= 0 {
		return usagef("--patience is a time such as 5s, and not %v", v.c.Duration("patience"))
	}
	if v.unit, err = v.endpoint(v.c, 0); err != nil {
		return err
	}
	if v.alter, err = alterationOf(v.c); err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return err
	}
	v.cfg, err = v.decodeConfig(v.c)
	return err
}

// check refuses what cannot be done as asked, before anything begins.
func (v *relaying) check() error {
	c := v.c
	_, isHTTP := v.unit.(transport.HTTP)
	listen, policy := c.String("listen"), recorder.Policy(c.String("capture-policy"))
	switch {
	case listen == "" && slices.Equal(v.Endpoint, []string{"stdio"}):
		return usagef("standard input and output are the controller's: take controllers with --listen, or name another unit")
	case !isHTTP && c.String("framing") == "" && isWebSocket(listen) != isWebSocket(v.unit.String()):
		return usagef("%w", relay.ErrNoFraming)
	case isHTTP && v.alter != nil:
		return usagef("--fault, --hold and --control change streams, and requests over HTTP are none")
	case !isHTTP && strings.HasPrefix(listen, "http://"):
		return usagef("--listen http:// takes requests for a unit that is reached by requests, such as http://127.0.0.1:3001/mcp, and %s is none", v.unit)
	case c.Bool("reflect") && (!isGRPC(listen) || !isGRPC(v.unit.String())):
		return usagef("--reflect asks a unit for what gRPC calls mean: it stands between --listen grpc://… and grpc://…")
	case c.Bool("shared") && (isHTTP || listen == ""):
		return usagef("--shared is about controllers that --listen takes, of a unit that is a stream")
	case c.String("capture") == "-" && listen == "":
		return usagef("--capture - would mix with what the unit writes to standard output: name a FILE, or take controllers with --listen")
	case !slices.Contains(recorder.Policies, policy):
		return usagef("--capture-policy is spill, block or drop, and not %q", policy)
	case c.Int64("split-size") < 0 || c.Int("keep") < 0:
		return usagef("--split-size and --keep are positive")
	case c.IsSet("keep") && c.Int64("split-size") == 0:
		return usagef("--keep chooses among the parts that --split-size makes: give both")
	}
	for _, name := range []string{"capture-policy", "split-size", "redact", "redact-value", "redact-secrets"} {
		if c.IsSet(name) && c.String("capture") == "" {
			return usagef("--%s is about a capture: name it with --capture", name)
		}
	}
	return checkCapture(c)
}

// isWebSocket reports whether an address is that of an end that speaks in messages.
func isWebSocket(address string) bool {
	return strings.HasPrefix(address, "ws://") || strings.HasPrefix(address, "wss://")
}

// once relays between standard input and output and one unit.
func (v *relaying) once(ctx context.Context) error {
	opts, err := v.transportOptions(v.c)
	if err != nil {
		return err
	}
	stdio, err := transport.Parse([]string{"stdio"}, opts)
	if err != nil {
		return err
	}
	unit, err := v.unit.Dial(ctx)
	if err != nil {
		return err
	}
	controller, err := stdio.Dial(ctx)
	if err != nil {
		unit.Close()
		return err
	}
	result, err := relay.Run(ctx, v.between(controller, unit, 0))
	v.watch.add(&result)
	if err != nil {
		return err
	}
	return statusOf(&result)
}

// between returns how a controller and a unit are to be relayed.
func (v *relaying) between(controller, unit transport.Conn, conn int) relay.Config {
	return relay.Config{
		Controller: controller, Unit: unit, Conn: conn, Name: v.unit.String(),
		Sink: v.watch.fan, Gate: v.watch.gate,
		Framing: v.cfg.Framing, Protocol: v.cfg.Protocol, Limit: v.cfg.Limit,
		Stderr: v.Stderr, Grace: v.c.Duration("grace"), Patience: v.c.Duration("patience"),
		Signals: v.signals, Warn: v.warn,
	}
}

// statusOf returns the status that the end of a relay gives.
func statusOf(r *relay.Result) error {
	status := 0
	switch {
	case r.Exit != nil:
		status = r.Exit.Code()
	case r.Signal != nil:
		status = (transport.Exit{Signal: r.Signal}).Code()
	}
	if status == 0 {
		return nil
	}
	return &childError{status: status}
}
