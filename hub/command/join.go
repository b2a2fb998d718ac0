package command

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/hub/share"
	"github.com/wirectl/wirectl/internal/cmdline"
)

// JoinFlag returns the flag of commands whose broker may join others.
func JoinFlag() cli.Flag {
	return &cli.StringFlag{Name: "join", Usage: "share limits with the brokers at the hub at `URL`, and use its workers"}
}

// WorkFlags returns the flags of a broker that may work for others.
func WorkFlags() []cli.Flag {
	return []cli.Flag{
		JoinFlag(),
		&cli.BoolFlag{Name: "worker", Usage: "with --join: take calls from the brokers at the hub instead of opening doors"},
		&cli.StringSliceFlag{Name: "models", Usage: "with --worker: offer the models that match `PATTERN`, such as 'llama-*' (default: all in the configuration)"},
		&cli.IntFlag{Name: "parallel", Value: 4, Usage: "with --worker: take at most `N` calls at once"},
	}
}

// Join makes a broker join others, or work for them, if the flags say so.
func Join(c *cli.Context, o *host.Options) error {
	o.JoinURL, o.Join = c.String("join"), join
	switch {
	case c.Command.Name != "serve":
		return nil // --parallel is another flag there
	case !c.Bool("worker") && (c.IsSet("models") || c.IsSet("parallel")):
		return cmdline.Errorf("--models and --parallel need --worker")
	case !c.Bool("worker"):
		return nil
	case c.Int("parallel") < 1:
		return cmdline.Errorf("invalid --parallel %d: want a number from 1", c.Int("parallel"))
	}
	o.Work = func(url string, b *broker.Broker, p *observe.Publisher, warn func(string)) (host.Worker, error) {
		models, err := share.Offers(b, cmdline.ListOf(c, "models"))
		if err != nil {
			return nil, cmdline.Errorf("%w", err)
		}
		return share.Work(share.WorkOptions{URL: url, Broker: b, Publisher: p, Models: models, Parallel: c.Int("parallel"), Warn: warn})
	}
	return nil
}

func join(ctx context.Context, url string, open bool, warn func(string)) (host.Joined, error) {
	return share.Join(ctx, share.Options{URL: url, Open: open, Warn: warn})
}
