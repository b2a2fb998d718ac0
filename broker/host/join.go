package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/broker/service"
)

// Joined is a broker's part in what several share at a hub.
type Joined interface {
	broker.Group
	// Workers are those at the hub.
	Workers() broker.Workers
	// Report has the others told of the usage that f returns.
	Report(f func() []broker.Usage)
	Close()
}

// A Worker takes calls from brokers at a hub.
type Worker interface {
	// ID is its name there, and Offered what it offers.
	ID() string
	Offered() []string
	// Close waits until ctx ends for calls that run.
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
var errNoHub = errors.New("providers of the kind workers are found at a hub: name it with --join URL, or as join: URL in the configuration")

// share makes a configuration one of a broker that has joined.
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

// work takes calls from the brokers at the hub, if that is asked for.
func (h *Host) work(p *publish.Publisher) (Worker, error) {
	if h.options.Work == nil {
		return nil, nil
	}
	if h.hubURL() == "" {
		return nil, errors.New("a worker takes calls from a hub: name it with --join URL, or as join: URL in the configuration")
	}
	w, err := h.options.Work(h.hubURL(), h.broker, p, h.warn)
	if err == nil {
		h.log.Info("working", "as", w.ID(), "models", w.Offered())
	}
	return w, err
}

// rest lets the calls of a worker end.
func (h *Host) rest(ctx context.Context, w Worker) {
	if w != nil {
		w.Close(ctx)
	}
}

// onlyNamed closes the doors of a worker that no flag opens.
func (h *Host) onlyNamed(addrs map[string]string) {
	if h.options.Work == nil {
		return
	}
	for name := range addrs {
		if !slices.ContainsFunc(h.options.Listen, func(word string) bool { return strings.HasPrefix(word, name+"=") }) {
			addrs[name] = service.Off
		}
	}
}
