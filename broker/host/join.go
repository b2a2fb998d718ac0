package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/observe"
)

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
