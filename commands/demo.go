package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/run/demo"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/store/live"
	"github.com/wirectl/wirectl/tui"
)

func demoCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Category:  reading,
		Usage:     "watch half a minute of agent traffic in the monitor",
		ArgsUsage: " ",
		Description: "A controller, two units and a broker talk over loopback, with relays in between: ids " +
			"in flight at once, cancels that are obeyed, crossed and ignored, a unit that does not " +
			"read. Without a terminal, the frames are printed.\n\n" +
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
	if len(inv.Operands) > 0 {
		return usagef("demo takes no operands; got %q", inv.Operands[0])
	}
	if c.Float64("pace") <= 0 {
		return usagef("invalid --pace %v: want a positive number", c.Float64("pace"))
	}
	if err := checkCapture(c); err != nil {
		return err
	}
	if name := c.String("capture"); name != "" {
		return recordDemo(c, name)
	}
	if inv.draws() {
		return monitorDemo(inv, c)
	}
	style, err := inv.style(c, inv.Stdout)
	if err != nil {
		return err
	}
	return demo.Play(c.Context, c.Float64("pace"), func(in decode.Input, _ func()) error {
		view := decode.Text{Width: inv.width(inv.Stdout), Clock: decode.Relative, Style: style}
		_, err := decode.Run(c.Context, in, inv.Stdout, decode.Config{Workers: 1}, view.View)
		return err
	})
}

func recordDemo(c *cli.Context, name string) error {
	f, err := output.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(demo.Write(c.Context, f, c.Float64("pace")), f.Close())
}

func monitorDemo(inv *invocation, c *cli.Context) error {
	screen, err := newScreen(inv, c)
	if err != nil {
		return err
	}
	screen.Name = "demo"
	cfg := decode.Config{Workers: 1}
	s := store.New(store.Options{Config: cfg})
	defer s.Close()
	return demo.Play(c.Context, c.Float64("pace"), func(in decode.Input, stop func()) error {
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			live.Feed(c.Context, s, in, cfg, live.NewWire(s))
		}()
		err := tui.Run(c.Context, s, screen)
		stop()
		<-fed
		return err
	})
}
