// Package host runs a broker with its configuration, doors, observers, and a program that
// uses it.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/prices"
)

// Options say how a broker runs.
type Options struct {
	Config  string // the file; "" is the built-in configuration
	Getenv  func(string) string
	Listen  []string // where doors listen: DOOR=ADDR
	AnyPort bool
	Remote  bool          // doors may listen beyond this machine
	Drain   time.Duration // how long running calls may take at the end
	Quiet   bool

	Observers      ObserverConfig
	Program        []string // runs with the broker; empty is none
	PrintAddresses bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Latis returns the server of connections to the doors for latis.
	Latis func(*broker.Broker, *slog.Logger) web.Serve
	// Join joins other brokers at the hub of an address; nil joins none. JoinURL is that
	// address, "" for the one in the configuration.
	Join    func(ctx context.Context, url string, open bool, warn func(string)) (Joined, error)
	JoinURL string
	// Work makes the broker a worker, which takes calls from the hub; nil does not.
	Work func(url string, b *broker.Broker, p *observe.Publisher, warn func(string)) (Worker, error)
	// RLM makes a model that is a recursive language model; see [config.Env]. It may be nil.
	RLM func(h *Host, of *config.Config, model string, settings []config.Setting) (provider.Provider, error)
	// Linger requests time to end after an interrupt.
	Linger func(time.Duration)
}

// A Host runs a broker.
type Host struct {
	// doorConfig is the configuration as it was loaded.
	Config *config.Config

	options Options
	log     *slog.Logger
	broker  *broker.Broker
	seen    *observe.Publisher
	secrets mask.Secrets // masked in all output
	stop    context.CancelFunc
	spent   *spentFile // nil if nothing is kept
	joined  Joined     // nil if there is no hub
}

// An AddressError says that the address of a door is invalid.
type AddressError struct{ Err error }

func (e *AddressError) Error() string { return e.Err.Error() }
func (e *AddressError) Unwrap() error { return e.Err }

// Load reads the configuration.
func Load(o Options) (*Host, error) {
	h := &Host{options: o, log: slog.New(slog.DiscardHandler)}
	if !o.Quiet {
		h.log = slog.New(slog.NewTextHandler(h.secrets.Writer(o.Stderr), nil))
	}
	var err error
	h.Config, err = h.load()
	return h, err
}

func (h *Host) load() (*config.Config, error) {
	env := config.OSEnv()
	env.Getenv = h.options.Getenv
	if h.options.RLM != nil {
		env.RLM = func(of *config.Config, model string, settings []config.Setting) (provider.Provider, error) {
			return h.options.RLM(h, of, model, settings)
		}
	}
	cfg, err := config.Load(h.options.Config, env)
	if err == nil {
		cfg.Token = cmp.Or(cfg.Token, env.Getenv("WIRECTL_TOKEN"))
		h.secrets.Add(cfg.Secrets...)
		h.secrets.Add(cfg.Token)
		cfg.Broker.Secrets = &h.secrets
		err = h.price(cfg)
	}
	return cfg, err
}

// price adds the user's prices to models without one, if budgets need them.
func (h *Host) price(cfg *config.Config) error {
	if !cfg.Broker.Budgets() {
		return nil
	}
	list, err := prices.Load("", h.options.Getenv)
	if err != nil {
		return err
	}
	for i := range cfg.Broker.Models {
		m := &cfg.Broker.Models[i]
		for _, name := range cfg.Facts(m.Name).Names {
			if price, ok := list[name]; ok && m.Price == nil {
				m.Price = &price
			}
		}
	}
	return nil
}

// keepSpent stores the use of budgets in a file, if there are any and it is not stored yet.
func (h *Host) keepSpent(cfg *config.Config) error {
	if h.spent != nil || h.joined != nil || !cfg.Broker.Budgets() {
		return nil
	}
	name, err := cfg.Spent, error(nil)
	if name == "" {
		if name, err = spentName(h.options.Getenv); err != nil {
			return err
		}
	}
	h.spent, err = keepSpent(name, h.broker, h.warn)
	return err
}

// Addresses are where the doors listen, by the configuration and the options.
func (h *Host) Addresses() (map[string]string, error) {
	addrs, err := h.Config.Addresses(h.options.Listen, h.options.AnyPort)
	if err != nil {
		return nil, &AddressError{err}
	}
	return addrs, nil
}

// warn tells a person.
func (h *Host) warn(text string) {
	fmt.Fprintf(h.secrets.Writer(h.options.Stderr), "wirectl: %s\n", text)
}

// Run serves until something ends it, and then shuts the doors gracefully. It returns the
// status of the program, if there is one.
func (h *Host) Run(ctx context.Context) (int, error) {
	out, err := h.observers()
	if err != nil {
		return 0, err
	}
	status, err := h.serve(ctx, out)
	return status, errors.Join(err, out.End())
}

func (h *Host) observers() (*observers, error) {
	cfg := h.options.Observers
	cfg.Program, cfg.Secrets, cfg.Stdout, cfg.Getenv, cfg.Warn = h.options.Program, &h.secrets, h.options.Stdout, h.options.Getenv, h.warn
	if !h.options.Quiet {
		cfg.Failures = h.log
	}
	return openObservers(cfg)
}

// Inside runs f with a broker without doors, for this process alone. Its traffic is on the
// tap and in the capture. Budgets do not apply: they are for brokers with doors.
func (h *Host) Inside(f func(*broker.Broker, *observe.Publisher) error) error {
	out, err := h.observers()
	if err != nil {
		return err
	}
	if err = h.join(context.Background()); err != nil {
		return errors.Join(err, out.End())
	}
	defer h.leave()
	b, err := broker.New(h.Config.Broker.WithoutBudgets(), out.Watcher())
	if err == nil {
		h.report(b)
		b.Trace(out.Trace)
		err = f(b, out.Publisher)
	}
	return errors.Join(err, out.End())
}

// Calls returns the serving broker and its publisher, for a provider that makes calls itself.
func (h *Host) Calls() (*broker.Broker, *observe.Publisher) { return h.broker, h.seen }

// Log returns the log of the serving broker.
func (h *Host) Log() *slog.Logger { return h.log }

// Getenv returns a variable of the environment.
func (h *Host) Getenv(name string) string { return h.options.Getenv(name) }

// Capture records both sides of the broker into a file; "" is none.
func (h *Host) Capture(file string) { h.options.Observers.Capture = file }

// Control lets viewers of the tap control c.
func (h *Host) Control(c tap.Controller) { h.options.Observers.Control = c }

// Hide returns text without the secrets of the configuration.
func (h *Host) Hide(text string) string { return string(h.secrets.Hide([]byte(text))) }

func (h *Host) serve(ctx context.Context, out *observers) (status int, err error) {
	if err := h.join(ctx); err != nil {
		return 0, err
	}
	defer h.leave()
	if h.broker, err = broker.New(h.Config.Broker, out.Watcher()); err != nil {
		return 0, err
	}
	h.report(h.broker)
	h.seen = out.Publisher
	if err := h.keepSpent(h.Config); err != nil {
		return 0, err
	}
	defer func() { h.spent.Close() }()
	h.broker.Trace(out.Trace)
	ctx, h.stop = context.WithCancel(ctx)
	defer h.stop()
	addrs, err := h.Addresses()
	if err != nil {
		return 0, err
	}
	h.onlyNamed(addrs)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	svc, err := OpenDoors(ctx, newDoors(h.broker, doorConfig{
		Addrs:  addrs,
		Access: web.Access{Token: h.Config.Token, Clients: h.Config.Clients, AnyHost: h.options.Remote, MaxBody: h.Config.Limits.BodyBytes},
		Limits: h.Config.Limits, Publisher: out.Publisher, Latis: h.options.Latis(h.broker, h.log), Stop: h.stop,
	}), h.options.Remote)
	if err != nil {
		return 0, err
	}
	worker, err := h.work(out.Publisher)
	if err != nil {
		return 0, errors.Join(err, svc.Close())
	}
	h.options.Linger(h.options.Drain + shutdownTime)
	// The doors outlive an interrupt: it begins their shutdown.
	svc.Start(context.WithoutCancel(ctx))
	if err = h.tell(svc); err == nil {
		status, err = h.wait(ctx, svc, signals)
	}
	draining, done := context.WithTimeout(context.WithoutCancel(ctx), h.options.Drain)
	defer done()
	if worker != nil {
		worker.Close(draining)
	}
	svc.Shutdown(draining)
	for _, u := range h.broker.Usage() {
		h.log.Info("used", "model", u.Model, "door", u.Door, "client", u.Client, "calls", u.Calls(), "ok", u.OK,
			"input_tokens", u.InputTokens, "output_tokens", u.OutputTokens)
	}
	return status, err
}

// shutdownTime is how long a shutdown may take after the drain.
const shutdownTime = 5 * time.Second

// tell prints or logs the addresses of the doors.
func (h *Host) tell(svc *Service) error {
	if h.options.PrintAddresses {
		_, err := h.options.Stdout.Write(append(svc.Addresses(), '\n'))
		return err
	}
	if len(h.options.Program) == 0 {
		svc.Each(func(name, addr string) { h.log.Info("listening", "door", name, "addr", addr) })
	}
	return nil
}

// wait waits for the end of the program, a signal, an interrupt, or the failure of a door. If
// there is a program, it waits for it after an interrupt, too.
func (h *Host) wait(ctx context.Context, svc *Service, signals <-chan os.Signal) (int, error) {
	hasProgram := len(h.options.Program) > 0
	var status int
	var failed error
	ended := make(chan struct{})
	if hasProgram {
		go func() {
			defer close(ended)
			status, failed = run(ctx, Program{
				Args: h.options.Program, Stdin: h.options.Stdin, Stdout: h.options.Stdout, Stderr: h.options.Stderr,
				Broker: svc.Addr("rlm"), Proxy: svc.Addr("proxy"), OpenAI: svc.Addr("openai"),
			})
		}()
	}
	for {
		select {
		case <-ended:
			return status, failed
		case err := <-svc.Failed():
			return 0, err
		case <-ctx.Done():
			if !hasProgram {
				return 0, nil
			}
			<-ended // the program was told to end
			return status, failed
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				h.stop()
			} else {
				h.reload()
			}
		}
	}
}

// reload reads the configuration again, for all new calls. An invalid one changes nothing.
func (h *Host) reload() {
	cfg, err := h.load()
	if err == nil {
		err = h.share(cfg)
	}
	if err == nil {
		err = h.keepSpent(cfg)
	}
	if err == nil {
		err = h.broker.Reload(cfg.Broker)
	}
	if err != nil {
		h.warn(fmt.Sprintf("the configuration is unchanged: %v", err))
		return
	}
	h.log.Info("configuration reloaded", "models", strings.Join(h.broker.Models(), " "))
}

// Joined is a broker's connection to the state that brokers share at a hub.
type Joined interface {
	broker.Group
	// Workers are those at the hub.
	Workers() broker.Workers
	// Report tells the others the usage that f returns.
	Report(f func() []broker.Usage)
	Close()
}

// A Worker takes calls from brokers at a hub.
type Worker interface {
	// ID is its name at the hub, and Offered lists its models.
	ID() string
	Offered() []string
	// Close waits for running calls until ctx ends.
	Close(ctx context.Context)
}

// hubURL is the address of the hub, "" if there is none.
func (h *Host) hubURL() string { return cmp.Or(h.options.JoinURL, h.Config.Join) }

// join joins the brokers at the hub, if any.
func (h *Host) join(ctx context.Context) (err error) {
	if h.hubURL() != "" && h.options.Join != nil && h.options.Work == nil {
		if h.joined, err = h.options.Join(ctx, h.hubURL(), h.Config.OpenOnHubLoss, h.warn); err != nil {
			return err
		}
	}
	return h.share(h.Config)
}

// errNoHub: a provider of the kind workers has no hub to find them at.
var errNoHub = errors.New("providers of the kind workers need a hub: name it with --join URL, or as join: URL in the configuration")

// share adds the hub's shared state and workers to a configuration.
func (h *Host) share(cfg *config.Config) error {
	if h.joined != nil {
		cfg.Broker.Group, cfg.Broker.Workers = h.joined, h.joined.Workers()
	}
	for _, m := range cfg.Broker.Models {
		for _, r := range m.Routes {
			switch {
			case r.Backend.Provider != nil:
			case h.joined == nil:
				return errNoHub
			default:
				r.Backend.Provider = cfg.Broker.Workers
			}
		}
	}
	return nil
}

func (h *Host) report(b *broker.Broker) {
	if h.joined != nil {
		h.joined.Report(b.Usage)
	}
}

func (h *Host) leave() {
	if h.joined != nil {
		h.joined.Close()
	}
}

// work starts taking calls from the hub if the broker is a worker.
func (h *Host) work(p *observe.Publisher) (Worker, error) {
	if h.options.Work == nil {
		return nil, nil
	}
	if h.hubURL() == "" {
		return nil, errors.New("a worker needs a hub: name it with --join URL, or as join: URL in the configuration")
	}
	w, err := h.options.Work(h.hubURL(), h.broker, p, h.warn)
	if err == nil {
		h.log.Info("working", "as", w.ID(), "models", w.Offered())
	}
	return w, err
}

// onlyNamed closes the doors of a worker that no flag names.
func (h *Host) onlyNamed(addrs map[string]string) {
	if h.options.Work == nil {
		return
	}
	for name := range addrs {
		if !slices.ContainsFunc(h.options.Listen, func(word string) bool { return strings.HasPrefix(word, name+"=") }) {
			addrs[name] = Off
		}
	}
}
