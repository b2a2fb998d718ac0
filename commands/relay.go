package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/commands/watch"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/relay/serve"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

func relayCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "relay",
		Category:  between,
		Usage:     "relay between a controller (client) and a unit (server), and show the frames",
		ArgsUsage: "ENDPOINT",
		Description: "Moves bytes between its standard input and output (the controller) and ENDPOINT (the\n" +
			"unit). Watching never changes or delays them; only --fault, --hold and --control do.\n" +
			"The exit status is that of the unit's command.\n\n" +
			"   wirectl relay --capture session.pcapng -- npx server\n" +
			"   wirectl relay --print ssh build@example.com agent --stdio\n" +
			"   wirectl relay --listen tcp://127.0.0.1:7000 -- wirectl unit\n" +
			"   wirectl relay --listen grpc://127.0.0.1:7000 grpc://127.0.0.1:50051\n" +
			"   wirectl relay --listen http://127.0.0.1:7000 http://127.0.0.1:3001/mcp\n" +
			"   wirectl relay http://127.0.0.1:3001/mcp\n\n" +
			"The last one lets an MCP client on standard input and output use a server over HTTP.\n" +
			"Headers, such as a token, come from WIRECTL_HEADERS, lines of NAME: VALUE.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "capture", Usage: "record to `FILE` (overwrites); - is stdout, with --listen"},
			&cli.StringFlag{Name: "capture-policy", Value: string(journal.Spill), Usage: "what to do with frames if the file is too slow: spill, block, drop"},
			&cli.Int64Flag{Name: "split-size", Usage: "start a new part of the capture about every `N` bytes"},
			&cli.IntFlag{Name: "keep", Usage: "with --split-size: keep only the newest `N` parts (default: all)"},
			&cli.StringSliceFlag{Name: "redact", Usage: "redact values with the name `KEY`, such as apiKey, in the capture"},
			&cli.StringSliceFlag{Name: "redact-value", Usage: "redact values that match `REGEX` in the capture"},
			&cli.BoolFlag{Name: "redact-secrets", Usage: "redact known secrets, such as tokens and passwords, in the capture"},
			&cli.StringFlag{Name: "record", Usage: "record the session for wirectl sessions: metadata or full"},
			&cli.StringFlag{Name: "client", Usage: "with --record: store `NAME` as the name of a client that does not name itself"},
			pinFlag(),
			&cli.BoolFlag{Name: "no-tap", Usage: "do not open a tap for decode live, monitor and taps"},
			&cli.StringFlag{Name: "name", Usage: "name the tap `NAME` (default: the unit's name)"},
			&cli.BoolFlag{Name: "print", Usage: "print decoded frames on stderr as they pass"},
			&cli.DurationFlag{Name: "patience", Value: 5 * time.Second, Usage: "warn if a side does not read for `TIME`"},
			&cli.DurationFlag{Name: "answer-patience", Value: 10 * time.Second, Usage: "warn once about each request unanswered for `TIME`; 0 turns this off"},
			&cli.StringFlag{Name: "otlp", Usage: "export spans and metrics to the OpenTelemetry collector at `URL`"},
			quietFlag(),
			grpcEncodingFlag(),
			colorFlag("what --print writes"),
			&cli.BoolFlag{Name: "reflect", Usage: "from gRPC to gRPC: fetch the unit's schemas by reflection to show field names"},
			&cli.StringFlag{Name: "unit-cert", Usage: "present the certificate in `FILE` (PEM) to the unit; --tls-cert is for controllers"},
			&cli.StringFlag{Name: "unit-key", Usage: "read the private key of --unit-cert from `FILE` (PEM)"},
			&cli.StringFlag{Name: "unit-ca", Usage: "trust the CAs in `FILE` (PEM) for the unit; --tls-ca is for controllers"},
			&cli.BoolFlag{Name: "shared", Usage: "with --listen: connect all controllers to one unit instead of one each"},
		}, slices.Concat(alterFlags(), sendFlags(), listenFlags(), streamFlags())...),
		Action: inv.does(runRelay, needs("capture-policy split-size", "capture FILE"),
			needs("keep", "split-size").Because("--keep needs --split-size: it keeps the newest parts"),
			needs("client", "record").Because("--client needs --record metadata or --record full"),
			excludes("no-tap", "hold", "control").Because("--hold and --control need the tap: leave out --no-tap")),
	}
}

// A relaying is what the command line asks relay for.
type relaying struct {
	*invocation
	c       *cli.Context
	options watch.Options
	server  *serve.Server
	sends   *hub.Sending // to a hub; or nil
}

func runRelay(inv *invocation, c *cli.Context) error {
	v := &relaying{invocation: inv, c: c}
	if err := v.read(); err != nil {
		return err
	}
	signals, release := inv.Signals()
	defer release()
	v.options.Signals = signals
	w, err := watch.New(v.options)
	if err != nil {
		return err
	}
	v.server = w.Server
	result, err := v.run(c.Context)
	if err == nil {
		err = statusOf(&result)
	}
	failed := w.Close(result.Exit)
	if failed != nil && v.server.Exited() { // the status is that of the unit's command
		v.say("relay", fmt.Sprintf("the capture is incomplete: %v", failed))
		return err
	}
	return errors.Join(err, failed)
}

// run relays in the way that was asked for.
func (v *relaying) run(ctx context.Context) (relay.Result, error) {
	s, none := v.server, relay.Result{}
	if unit, isHTTP := v.options.Unit.(transport.HTTP); isHTTP {
		return v.proxy(ctx, unit.URL())
	}
	if v.options.Bridged {
		defer s.Bridge(v.options.Unit.(*mcphttp.Endpoint))()
	}
	if v.c.String("listen") == "" {
		opts, err := v.transportOptions(v.c)
		if err != nil {
			return none, err
		}
		stdio, err := transport.Parse([]string{"stdio"}, opts)
		if err != nil {
			return none, err
		}
		return s.Once(ctx, stdio)
	}
	l, err := v.listen(v.c, !v.c.Bool("shared"))
	if err != nil {
		return none, err
	}
	defer l.Close()
	if v.c.Bool("shared") {
		return s.Share(ctx, l)
	}
	if v.c.Bool("reflect") {
		s.Reflect(ctx)
	}
	v.options.Warn("listening on " + l.Addr())
	return s.Serve(ctx, l)
}

// proxy stands between HTTP clients and the server that is the unit.
func (v *relaying) proxy(ctx context.Context, target *url.URL) (relay.Result, error) {
	address := strings.TrimPrefix(v.c.String("listen"), "http://")
	opts, err := v.unitOptions(v.c)
	if err != nil {
		return relay.Result{}, err
	}
	l, err := transport.Listen(ctx, "tcp://"+strings.TrimSuffix(address, "/"), opts)
	if failed, ok := errors.AsType[*transport.Error](err); ok {
		failed.Endpoint = v.c.String("listen") // as it was typed
	}
	if err != nil {
		return relay.Result{}, err
	}
	v.options.Warn("listening on http://" + strings.TrimPrefix(l.Addr(), "tcp://"))
	cfg := httpproxy.Config{Listener: l, Target: target, Transport: opts}
	if pins := v.options.Pins; pins != nil {
		note := func(n *capture.Record) {
			if v.options.Refuses && v.server.Altered != nil {
				v.server.Altered()
			}
			v.server.Relay.Sink.Write(n)
		}
		cfg.Guard = func(conn int) func(frame.Dir, []byte) ([]byte, error) {
			return pins.Guard(carrier.HTTP1, conn, target.String(), note).Pass
		}
	}
	return v.server.Proxy(ctx, cfg)
}

// read reads operands and flags.
func (v *relaying) read() error {
	c := v.c
	alarm := func(text string) { v.say("relay", text) }
	v.options = watch.Options{
		Controller: cmp.Or(c.String("listen"), "stdio"), Command: v.Endpoint,
		Grace: c.Duration("grace"), Patience: c.Duration("patience"), AnswerPatience: c.Duration("answer-patience"),
		Quiet: c.Bool("quiet"), Name: c.String("name"), OTLP: c.String("otlp"), NoTap: c.Bool("no-tap"),
		Capture: c.String("capture"), Level: history.Level(c.String("record")), Client: c.String("client"),
		Recorder: journal.Config{SplitSize: c.Int64("split-size"), Keep: c.Int("keep")}, Policy: journal.Policy(c.String("capture-policy")),
		Stdout: v.Stdout, Stderr: v.Stderr, Getenv: v.Getenv, Warn: alarm, Alarm: alarm,
	}
	o := &v.options
	if o.Quiet {
		o.Warn = func(string) {}
	}
	if o.Patience <= 0 {
		return usagef("invalid --patience %v: want a duration such as 5s", o.Patience)
	}
	if o.AnswerPatience < 0 {
		return usagef("invalid --answer-patience %v: want a duration such as 10s, or 0 for never", o.AnswerPatience)
	}
	var err error
	if o.Unit, err = v.endpoint(c, 0); err != nil {
		return err
	}
	if unit, ok := o.Unit.(transport.HTTP); ok && !strings.HasPrefix(c.String("listen"), "http://") {
		if o.Unit, err = v.bridge(unit); err != nil {
			return err
		}
		o.Bridged = !c.Bool("shared") // which renames ids
	}
	if err = alteration(c, o); err != nil {
		return err
	}
	if err = v.pins(); err != nil {
		return err
	}
	if v.sends, err = sendingOf(v.invocation, c); err != nil {
		return err
	}
	if err = v.check(); err != nil {
		return err
	}
	if o.Config, err = decodeConfig(c); err != nil {
		return err
	}
	if _, isHTTP := o.Unit.(transport.HTTP); o.Pins != nil && !isHTTP {
		o.Config.Framing, o.Config.Protocol = cmp.Or[frame.Framing](o.Config.Framing, frame.Line), jsonrpc.MCP
	}
	if o.Redaction, err = redactionOf(c, o.Config, c.Bool("redact-secrets")); err != nil {
		return err
	}
	if v.sends != nil {
		v.sends.Redaction = o.Redaction
		o.Send = v.sends.Open // of v.sends as it is by now
	}
	o.Print, err = v.printed()
	return err
}

// pins reads --pin into the options.
func (v *relaying) pins() error {
	mode := pinMode(v.c)
	if mode == "" {
		return nil
	}
	store, err := pin.Open(v.Getenv)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	o := &v.options
	o.Server, o.Refuses = pin.Named(v.Endpoint, dir), mode == pin.Refuse
	o.Pins = pin.NewWatch(store, mode, jsonrpc.MCP, o.Alarm)
	return nil
}

// printed is what --print has printed of each frame; nil if nothing is.
func (v *relaying) printed() (decode.View, error) {
	if !v.c.Bool("print") {
		return nil, nil
	}
	style, err := v.style(v.c, v.Stderr)
	return decode.Text{Width: v.width(v.Stderr), Clock: decode.Relative, Style: style}.View(), err
}

// check refuses what cannot be done as asked, before anything begins.
func (v *relaying) check() error {
	c, o := v.c, &v.options
	_, isHTTP := o.Unit.(transport.HTTP)
	listen := c.String("listen")
	switch {
	case listen == "" && slices.Equal(v.Endpoint, []string{"stdio"}):
		return usagef("standard input and output already belong to the controller: use --listen, or name another unit")
	case !isHTTP && c.String("framing") == "" && isWebSocket(listen) != isWebSocket(o.Unit.String()):
		return usagef("%w", relay.ErrNoFraming)
	case o.HubControl && v.sends == nil: // which the environment can name, too
		return usagef("--hub-control needs --hub URL")
	case isHTTP && (o.Faults != nil || o.Control || o.HubControl):
		return usagef("--fault, --hold, --control and --hub-control work on streams, not on HTTP requests")
	case !isHTTP && strings.HasPrefix(listen, "http://"):
		return usagef("--listen http:// needs a unit with an HTTP URL, such as http://127.0.0.1:3001/mcp; got %s", o.Unit)
	case c.Bool("reflect") && (!isGRPC(listen) || !isGRPC(o.Unit.String())):
		return usagef("--reflect needs gRPC on both sides: --listen grpc://… and a unit at grpc://…")
	case c.Bool("shared") && (isHTTP || listen == ""):
		return usagef("--shared needs --listen, and a unit that is a stream")
	case o.Capture == "-" && listen == "":
		return usagef("--capture - would mix with the unit's output: name a FILE, or use --listen")
	case !slices.Contains(journal.Policies, o.Policy):
		return usagef("invalid --capture-policy %q: want spill, block or drop", o.Policy)
	case o.Recorder.SplitSize < 0 || o.Recorder.Keep < 0:
		return usagef("invalid --split-size or --keep: want a number over 0")
	case c.IsSet("record") && !slices.Contains(history.Levels, o.Level):
		return usagef("invalid --record %q: want metadata or full", o.Level)
	}
	for _, name := range []string{"redact", "redact-value", "redact-secrets"} {
		if c.IsSet(name) && o.Capture == "" && v.sends == nil && o.OTLP == "" {
			return usagef("--%s needs --capture FILE", name)
		}
	}
	return checkCapture(c)
}

// isWebSocket reports whether an address is that of an end that speaks in messages.
func isWebSocket(address string) bool {
	return strings.HasPrefix(address, "ws://") || strings.HasPrefix(address, "wss://")
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

// alterFlags are the flags that ask for what passes to be changed.
func alterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "fault", Value: &fault.Rules{}, Usage: "inject faults by `RULE`, such as 'delay 200ms when kind==result'; repeatable"},
		&cli.StringFlag{Name: "fault-file", Usage: "inject faults by the rules in the YAML `FILE`"},
		&cli.Uint64Flag{Name: "fault-seed", Usage: "seed random faults with `N`; the same seed makes the same faults (default: from --fault-file, or 0)"},
		&cli.StringFlag{Name: "hold", Usage: "hold frames that match `EXPR` until they are released over the tap"},
		&cli.BoolFlag{Name: "control", Usage: "let viewers of the tap hold frames, resend them, and send frames and cancels"},
		&cli.BoolFlag{Name: "hub-control", Usage: "let viewers at the hub do the same, if their token has --control"},
	}
}

// alteration reads the flags that ask for changes into the options.
func alteration(c *cli.Context, o *watch.Options) error {
	o.Control, o.HubControl = c.Bool("control") || c.IsSet("hold"), c.Bool("hub-control")
	rules, _ := c.Generic("fault").(*fault.Rules)
	plan := &fault.Plan{}
	if name := c.String("fault-file"); name != "" {
		data, err := yamlfile.Read(name)
		if err != nil {
			return err
		}
		if plan, err = fault.ParseFile(data); err != nil {
			return usagef("%s: %w", name, err)
		}
	}
	plan.Rules = append(plan.Rules, *rules...)
	if c.IsSet("fault-seed") {
		plan.Seed = c.Uint64("fault-seed")
	}
	if len(plan.Rules) > 0 {
		o.Faults = plan
	}
	if expr := c.String("hold"); expr != "" {
		var err error
		if o.Hold, err = query.Parse(expr, fault.Fields); err != nil {
			return usagef("--hold: %w", err)
		}
	}
	return nil
}

// bridge returns the unit that speaks in lines to a server of MCP over HTTP. Its headers
// are those of --header, and those in the environment, which no list of processes shows.
func (v *relaying) bridge(unit transport.HTTP) (transport.Endpoint, error) {
	opts, err := v.unitOptions(v.c)
	if err != nil {
		return nil, err
	}
	if err := wrap.AddHeaders(opts.Header, v.Getenv); err != nil {
		return nil, usagef("%w", err)
	}
	client, err := opts.HTTPClient(unit.String())
	if err != nil {
		return nil, err
	}
	return &mcphttp.Endpoint{
		URL: unit.URL(), Options: mcphttp.Options{Client: client, Header: opts.Header},
		Notice: func(text string) {
			v.server.Note(text)
			v.options.Warn(render.Safe(text))
		},
	}, nil
}
