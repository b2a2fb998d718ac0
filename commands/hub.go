package commands

import (
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/hub/command"
	"github.com/wirectl/wirectl/hub/server"
)

func hubCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "hub", Category: between, Usage: "bring the sessions of many machines together", ArgsUsage: "[token NAME]",
		Description: "Runs a hub: relays and brokers send it what passes (--hub), and commands read that as\n" +
			"hub:SESSION. token prints the credentials that a client from beyond this machine needs.\n\n" +
			"   wirectl hub\n" +
			"   wirectl hub --nats nats://nats.example:4222 --creds hub.creds\n" +
			"   wirectl hub token --publish build-7 > build-7.token",
		Flags: command.HubFlags(), Action: inv.does(runHub),
	}
}

func runHub(inv *invocation, c *cli.Context) error {
	inv.Terminable()
	inv.Linger(server.EndTime)
	return command.Run(c.Context, c, inv.Operands, inv.Getenv, inv.Stdout, inv.saysHub)
}

func (inv *invocation) saysHub(text string) { inv.say("hub", text) }
