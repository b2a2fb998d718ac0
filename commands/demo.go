package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/commands/demo"
	"github.com/wirectl/wirectl/decode"
)

func demoCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Category:  reading,
		Usage:     "watch a short example in the monitor, with captions",
		ArgsUsage: " ",
		Description: "A turn of an agent on three wires: its editor asks, a model streams answers and calls tools, " +
			"the user presses Esc, and a tool goes on. Real programs on loopback, with relays in between. " +
			"Without a terminal, the frames are printed.\n\n" +
			"   wirectl demo\n" +
			"   wirectl demo --capture demo.pcapng && wirectl lint demo.pcapng",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "capture", Usage: "record to `FILE` (overwrites) instead of showing it"},
			&cli.Float64Flag{Name: "pace", Value: 1, Usage: "play `FACTOR` times as slowly: 0.1 is ten times as fast"},
			&cli.StringFlag{Name: "theme", Value: "auto", Usage: "colours for the background of the terminal: auto, dark or light"},
			colorFlag("the output"),
		},
		Action: inv.does(runDemo),
	}
}

func runDemo(inv *invocation, c *cli.Context) error {
	if c.Float64("pace") <= 0 {
		return usagef("invalid --pace %v: want a positive number", c.Float64("pace"))
	}
	if err := checkCapture(c); err != nil {
		return err
	}
	if name := c.String("capture"); name != "" {
		return demo.Record(c.Context, name, c.Float64("pace"))
	}
	if inv.draws() {
		return monitorDemo(inv, c)
	}
	style, err := inv.style(c, inv.Stdout)
	if err != nil {
		return err
	}
	err = demo.Print(c.Context, c.Float64("pace"), inv.Stdout, decode.Text{Width: inv.width(inv.Stdout), Clock: decode.Relative, Style: style})
	return errors.Join(err, offer(inv.Env, inv.Stdout))
}

func monitorDemo(inv *invocation, c *cli.Context) error {
	screen, err := newScreen(inv, c)
	if err != nil {
		return err
	}
	if err := demo.Monitor(c.Context, c.Float64("pace"), screen); err != nil {
		return err
	}
	return offer(inv.Env, inv.Stderr)
}
