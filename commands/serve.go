package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door/admin"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/doors"
	"github.com/wirectl/wirectl/broker/lookout"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/script"
	"github.com/wirectl/wirectl/broker/service"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/internal/cmdline"
)

func serveCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Category:  speaking,
		Usage:     "route llm_query() to models: a broker with seven front doors",
		ArgsUsage: "[usage [ADDR] | PROGRAM…]",
		Description: "Without a configuration a mock answers, so that a first call works at once. With a\n" +
			"program, the broker runs beside it for as long as it runs: WIRECTL_BROKER and\n" +
			"WIRECTL_PROXY tell the program where, and Python finds a module wirectl with llm_query. With the word\n" +
			"usage it says what a broker that runs has been used for: the one at ADDR, which is\n" +
			"its door admin, HOST:PORT or PORT, or at the usual port.\n\n" +
			"   wirectl serve --config broker.yaml\n" +
			"   wirectl serve --listen openai=8080 --listen nexus=off\n" +
			"   wirectl serve -- python3 script.py\n" +
			"   wirectl serve usage",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "route as the YAML `FILE` says"},
			&cli.StringSliceFlag{Name: "listen", Usage: "where a door listens, rather than where the configuration says, as `DOOR=ADDR`; ADDR is HOST:PORT, PORT, or off. The doors are " + config.DoorNames()},
			&cli.BoolFlag{Name: "any-port", Usage: "take any free port for each door that --listen does not name"},
			&cli.BoolFlag{Name: "print-addresses", Usage: "print the addresses of the doors first, as one line of JSON"},
			&cli.BoolFlag{Name: "allow-remote", Usage: "let doors that ask for a token listen beyond this machine"},
			&cli.DurationFlag{Name: "drain", Value: 10 * time.Second, Usage: "how long calls that run may take to end when the broker is stopped, as a `TIME` such as 30s"},
			&cli.StringFlag{Name: "log", Usage: "append a line of JSON for each call to `FILE`"},
			&cli.BoolFlag{Name: "log-prompts", Usage: "with --log: prompts and responses, too"},
			&cli.StringFlag{Name: "calls", Usage: "write each call as a structured completion to `FILE`, which is replaced, a line each"},
			&cli.StringFlag{Name: "capture", Usage: "record both sides of the broker into `FILE`, which is replaced, as pcapng, with known secrets taken out"},
			&cli.BoolFlag{Name: "no-tap", Usage: "open no tap: monitor and live cannot look on"},
			&cli.StringFlag{Name: "otlp", Usage: "send spans to the OpenTelemetry collector at `URL`"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "with usage, what to print: text, ndjson"},
			quietFlag(),
		},
		Action: inv.does(runServe),
	}
}

// A serving is one run of serve.
type serving struct {
	*invocation
	c      *cli.Context
	log    *slog.Logger
	env    config.Env
	config *config.Config
	broker *broker.Broker
	out    *lookout.Lookout
	stop   context.CancelFunc // stops the service

	secrets mask.Secrets // masked in all that is written or answered
}

func runServe(inv *invocation, c *cli.Context) error {
	s, err := newServing(inv, c)
	if err != nil {
		return err
	}
	if len(s.Operands) > 0 && s.Operands[0] == "usage" {
		return s.usage(c.Context, s.Operands[1:])
	}
	if c.Bool("log-prompts") && c.String("log") == "" {
		return usagef("--log-prompts is about what --log writes: give it a FILE")
	}
	if err := checkCapture(c); err != nil {
		return err
	}
	if s.out, err = s.lookout(); err != nil {
		return err
	}
	return errors.Join(s.serve(), s.out.End())
}

// lookout returns all that the flags ask for to see what the broker does.
func (s *serving) lookout() (*lookout.Lookout, error) {
	cfg := lookout.Config{
		NoTap: s.c.Bool("no-tap"), Program: s.Operands, Capture: s.c.String("capture"), Label: convert.Labels(nil),
		Log: s.c.String("log"), LogPrompts: s.c.Bool("log-prompts"), Calls: s.c.String("calls"), OTLP: s.c.String("otlp"),
		Secrets: &s.secrets, Stdout: s.Stdout, Getenv: s.Getenv, Warn: s.warn,
	}
	if !s.c.Bool("quiet") {
		cfg.Failures = s.log
	}
	out, err := lookout.Open(cfg)
	if wrong := (*lookout.URLError)(nil); errors.As(err, &wrong) {
		return nil, usagef("%w", err)
	}
	return out, err
}

// usage prints what a broker that runs has been used for. It is the one at the
// address that is an operand, or where the flags and the configuration say.
func (s *serving) usage(ctx context.Context, operands []string) error {
	addrs, err := s.addresses()
	if err != nil {
		return err
	}
	addr := addrs["admin"]
	switch {
	case len(operands) > 1:
		return usagef("serve usage takes one address, found %s", strings.Join(operands, " "))
	case len(operands) == 1:
		if addr, err = config.Address("admin", operands[0]); err != nil {
			return usagef("serve usage: %w", err)
		}
	}
	if addr == service.Off {
		return usagef("serve usage asks the door admin, which is off; expected HOST:PORT or PORT")
	}
	list, err := admin.Usage(ctx, addr, s.tokenOf(s.config))
	if err != nil {
		return err
	}
	if s.c.String("output") == "ndjson" {
		return admin.WriteUsageNDJSON(s.ndjson(), list)
	}
	return admin.WriteUsage(s.Stdout, list)
}

// serve serves until something ends it, and shuts the doors in an orderly way.
func (s *serving) serve() (err error) {
	if s.broker, err = broker.New(s.config.Broker, s.out.Watcher()); err != nil {
		return err
	}
	s.broker.Trace(s.out.Trace)
	ctx, cancel := context.WithCancel(s.c.Context)
	defer cancel()
	s.stop = cancel
	doors, err := s.doors()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	svc, err := service.Open(ctx, doors, s.c.Bool("allow-remote"))
	if err != nil {
		return err
	}
	drain := s.c.Duration("drain")
	s.Linger(drain + shutdownTime)
	// The doors outlive an interrupt: it begins their shutdown.
	svc.Start(context.WithoutCancel(ctx))
	if err = s.tell(svc); err == nil {
		err = s.run(ctx, svc, signals)
	}
	draining, done := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer done()
	svc.Shutdown(draining)
	s.summary()
	return err
}

// summary says what was used.
func (s *serving) summary() {
	for _, u := range s.broker.Usage() {
		s.log.Info("used", "model", u.Model, "door", u.Door, "client", u.Client, "calls", u.Calls(), "ok", u.OK,
			"input_tokens", u.InputTokens, "output_tokens", u.OutputTokens)
	}
}

// shutdownTime is how long a shutdown may take after the drain.
const shutdownTime = 5 * time.Second

func newServing(inv *invocation, c *cli.Context) (*serving, error) {
	s := &serving{invocation: inv, c: c, env: config.OSEnv(), log: slog.New(slog.DiscardHandler)}
	s.env.Getenv = inv.Getenv
	if !c.Bool("quiet") {
		s.log = slog.New(slog.NewTextHandler(s.secrets.Writer(inv.Stderr), nil))
	}
	var err error
	s.config, err = s.load()
	return s, err
}

// warn tells a person.
func (s *serving) warn(text string) { fmt.Fprintf(s.secrets.Writer(s.Stderr), "wirectl: %s\n", text) }

func (s *serving) load() (*config.Config, error) {
	cfg, err := config.Load(s.c.String("config"), s.env)
	var ce *config.Error
	if errors.As(err, &ce) {
		return nil, &faultError{err}
	}
	if err == nil {
		s.secrets.Add(cfg.Secrets...)
		s.secrets.Add(s.tokenOf(cfg))
		cfg.Broker.Secrets = &s.secrets
	}
	return cfg, err
}

// tokenOf is what clients have to show, "" if there is none.
func (s *serving) tokenOf(cfg *config.Config) string {
	return cmp.Or(cfg.Token, s.Getenv("WIRECTL_TOKEN"))
}

// doors makes the front doors.
func (s *serving) doors() ([]service.Door, error) {
	addrs, err := s.addresses()
	if err != nil {
		return nil, err
	}
	return doors.New(s.broker, doors.Config{
		Addrs:  addrs,
		Access: web.Access{Token: s.tokenOf(s.config), AnyHost: s.c.Bool("allow-remote"), MaxBody: s.config.Limits.BodyBytes},
		Limits: s.config.Limits, Publisher: s.out.Publisher, Latis: s.latisUnit(), Stop: s.stop,
	}), nil
}

// addresses are where the doors listen, by the configuration and the flags.
func (s *serving) addresses() (map[string]string, error) {
	addrs, err := s.config.Addresses(cmdline.ListOf(s.c, "listen"), s.c.Bool("any-port"))
	if err != nil {
		return nil, usagef("%w", err)
	}
	return addrs, nil
}

// tell says where the doors are.
func (s *serving) tell(svc *service.Service) error {
	if s.c.Bool("print-addresses") {
		_, err := s.Stdout.Write(append(svc.AppendAddresses(nil), '\n'))
		return err
	}
	if len(s.Operands) == 0 {
		svc.Each(func(name, addr string) { s.log.Info("listening", "door", name, "addr", addr) })
	}
	return nil
}

// run waits for what ends the broker: the program's end, a signal, an interrupt,
// or a door that fails.
func (s *serving) run(ctx context.Context, svc *service.Service, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	if len(s.Operands) > 0 {
		go func() { ended <- s.program(ctx, svc) }()
	}
	for {
		select {
		case err := <-ended:
			return err
		case err := <-svc.Failed():
			return err
		case <-ctx.Done():
			return s.wait(ended)
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				s.stop()
				return s.wait(ended)
			}
			s.reload()
		}
	}
}

// wait waits for the program, if there is one, which has been told to end.
func (s *serving) wait(ended <-chan error) error {
	if len(s.Operands) == 0 {
		return nil
	}
	return <-ended
}

func (s *serving) program(ctx context.Context, svc *service.Service) error {
	status, err := script.Run(ctx, script.Program{
		Args: s.Operands, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		Broker: svc.Addr("rlm"), Proxy: svc.Addr("proxy"),
	})
	if status == statusOK {
		return err
	}
	return &childError{status, err}
}

// reload makes the configuration as it is now that of all further calls. A bad
// one changes nothing.
func (s *serving) reload() {
	cfg, err := s.load()
	if err == nil {
		err = s.broker.Reload(cfg.Broker)
	}
	if err != nil {
		s.warn(fmt.Sprintf("the configuration stays as it was: %v", err))
		return
	}
	s.log.Info("configuration reloaded", "models", strings.Join(s.broker.Models(), " "))
}
