package commands

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/table"
)

func tapsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "taps",
		Category:  between,
		Usage:     "list your running relays and brokers",
		ArgsUsage: " ",
		Description: "Every command that reads a session accepts a running one as tap:NAME (or a unique\n" +
			"beginning of the name), or as live: the newest tap, waiting until there is one.\n\n" +
			"   wirectl taps\n" +
			"   wirectl decode live\n" +
			"   wirectl lint tap:server-everything",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text or ndjson"},
		},
		Action: inv.does(runTaps),
	}
}

func runTaps(inv *invocation, c *cli.Context) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return err
	}
	taps, err := store.ListTaps(c.Context, dir, func(err error) { inv.say("taps", err.Error()) })
	if err != nil {
		return err
	}
	switch {
	case out.Form == table.AsNDJSON:
		return table.Write(out, nil, taps)
	case len(taps) == 0:
		fmt.Fprintln(inv.Stderr, "wirectl: no relay or broker with a tap is running; wirectl relay opens one")
	}
	return table.Write(out, store.TapColumns, taps)
}
