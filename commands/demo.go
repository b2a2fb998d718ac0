package commands

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/commands/demo"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
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
		return recordDemo(c, name)
	}
	if inv.draws() {
		return monitorDemo(inv, c)
	}
	style, err := inv.style(c, inv.Stdout)
	if err != nil {
		return err
	}
	return demo.Play(c.Context, c.Float64("pace"), nil, func(in decode.Input, _ func()) error {
		view := decode.Text{Width: inv.width(inv.Stdout), Clock: decode.Relative, Style: style}
		var captions []byte // before the next frame
		cfg := decode.Config{Workers: 1, Event: func(rec *capture.Record) {
			if rec.Kind == capture.Note && rec.Conn == 0 {
				captions = fmt.Appendf(captions, "» %s\n", rec.Text)
			}
		}}
		frames := view.View()
		_, err := decode.Run(c.Context, in, inv.Stdout, cfg, func() decode.View {
			return func(dst []byte, it *decode.Item) ([]byte, error) {
				dst, captions = append(dst, captions...), nil
				return frames(dst, it)
			}
		})
		_, failed := inv.Stdout.Write(append(captions, '\n'))
		return errors.Join(err, failed, offer(inv.Env, inv.Stdout))
	})
}

func recordDemo(c *cli.Context, name string) error {
	f, err := output.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(demo.Write(c.Context, f, c.Float64("pace"), nil), f.Close())
}

func monitorDemo(inv *invocation, c *cli.Context) error {
	screen, err := newScreen(inv, c)
	if err != nil {
		return err
	}
	screen.Name, screen.Captions, screen.Welcome = "demo", true, false
	cfg := decode.Config{Workers: 1}
	s := store.New(store.Options{Config: cfg})
	defer s.Close()
	return demo.Play(c.Context, c.Float64("pace"), s.Notice, func(in decode.Input, stop func()) error {
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			store.Feed(c.Context, s, in, cfg, store.NewWire(s))
		}()
		err := tui.Run(c.Context, s, screen)
		stop()
		<-fed
		if err == nil {
			err = offer(inv.Env, inv.Stderr)
		}
		return err
	})
}
