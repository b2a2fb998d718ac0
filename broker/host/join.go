package host

import (
	"cmp"
	"context"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
)

// Joined is a broker's part in what several share at a hub.
type Joined interface {
	broker.Group
	// Report has the others told of the usage that f returns.
	Report(f func() []broker.Usage)
	Close()
}

// join joins the hub that the options or the configuration name, if any.
func (h *Host) join(ctx context.Context) (err error) {
	if url := cmp.Or(h.options.JoinURL, h.Config.Join); url != "" && h.options.Join != nil {
		if h.joined, err = h.options.Join(ctx, url, h.Config.OpenOnHubLoss, h.warn); err != nil {
			return err
		}
	}
	return h.share(h.Config)
}

// share makes a configuration one of a broker that has joined.
func (h *Host) share(cfg *config.Config) error {
	if h.joined != nil {
		cfg.Broker.Group = h.joined
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
