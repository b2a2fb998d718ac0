package command

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/hub/share"
)

// JoinFlag is that of commands with a broker, which may share work with others.
func JoinFlag() cli.Flag {
	return &cli.StringFlag{Name: "join", Usage: "share limits with the brokers at the hub at `URL`, and use the workers there"}
}

// Join joins brokers at a hub, as [host.Options] has it.
func Join(ctx context.Context, url string, open bool, warn func(string)) (host.Joined, error) {
	return share.Join(ctx, share.Options{URL: url, Open: open, Warn: warn})
}
