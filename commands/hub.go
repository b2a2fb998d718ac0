package commands

import (
	"context"
	"net/http"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/command"
	"github.com/wirectl/wirectl/hub/server"
	"github.com/wirectl/wirectl/web"
)

func hubCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "hub", Category: between, Usage: "collect the sessions of many machines", ArgsUsage: "[token NAME]",
		Description: "Runs a hub. Relays and brokers send it their sessions (--hub), and commands read\n" +
			"these as hub:SESSION. token prints the credentials for a client on another machine.\n\n" +
			"   wirectl hub\n" +
			"   wirectl hub --nats nats://nats.example:4222 --creds hub.creds\n" +
			"   wirectl hub token --publish build-7 > build-7.token",
		Flags: command.HubFlags(), Action: inv.does(runHub),
	}
}

func runHub(inv *invocation, c *cli.Context) error {
	inv.Terminable()
	inv.Linger(server.EndTime)
	page := func(ctx context.Context, conn *hub.Conn, listen string, metrics http.Handler) error {
		return web.Run(ctx, web.Options{Library: hub.Library{Conn: conn}, Listen: listen, Metrics: metrics, Control: c.Bool("control")}, inv.Stdout)
	}
	return command.Run(c.Context, c, inv.Operands, inv.Getenv, inv.Stdout, page, inv.saysHub)
}

func (inv *invocation) saysHub(text string) { inv.say("hub", text) }
