package commands

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/convert"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/tui"
	"github.com/wirectl/wirectl/tui/store"
)

func monitorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "monitor",
		Usage:     "see a session on the terminal: ids in flight, cancels, frames, findings",
		Category:  reading,
		ArgsUsage: "[SESSION]",
		Description: "Draws a capture, a recording, NDJSON or the bytes of one direction, from a file or\n" +
			"standard input, while it comes. The key ? shows what there is to do.\n\n" +
			"   wirectl monitor fixture:latis-cancel\n" +
			"   wirectl monitor --follow session.pcapng\n" +
			"   producer | wirectl monitor -",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "where", Usage: "begin with that filter: a `CONDITION` as of decode, or late, findings, open and so on"},
			&cli.BoolFlag{Name: "follow", Usage: "at the end of the file wait for more"},
			&cli.StringFlag{Name: "theme", Value: "auto", Usage: "colours for the background of the terminal: auto, " + strings.Join(tui.Themes, " or ")},
			grpcEncodingFlag(),
			&cli.StringFlag{Name: "color", Value: "auto", Usage: "colour the screen: auto, always or never"},
		}, streamFlags()...),
		Action: inv.monitor,
	}
}

func (inv *invocation) monitor(c *cli.Context) error {
	name, err := inv.monitored()
	if err != nil {
		return err
	}
	screen, err := inv.screen(c, name)
	if err != nil {
		return err
	}
	cfg, err := inv.decodeConfig(c)
	if err != nil {
		return err
	}
	cfg.Workers, cfg.Resync = 1, true
	s := store.New(store.Options{Spill: true, Config: cfg})
	defer s.Close()
	cfg.Notice = s.Notice

	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	src, err := inv.openSession(ctx, name, cfg, c.Bool("follow"))
	if err != nil {
		return located(name, nil, err)
	}
	defer src.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed(ctx, s, src.Input, cfg)
	}()
	err = tui.Run(c.Context, s, screen)
	stop()
	<-done
	return err
}

// monitored returns the name of what is to be shown.
func (inv *invocation) monitored() (string, error) {
	names, err := inv.sources()
	switch {
	case err != nil:
		return "", err
	case len(names) > 1:
		return "", usagef("monitor shows one session, and here are %d", len(names))
	case !inv.IsTerminal(inv.Stdout):
		return "", usagef("monitor draws on a terminal, and standard output is none: wirectl decode --follow %s shows the frames as text", names[0])
	}
	return names[0], nil
}

// screen reads the flags that say how to draw.
func (inv *invocation) screen(c *cli.Context, name string) (tui.Config, error) {
	theme := c.String("theme")
	switch {
	case theme == "auto":
		theme = inv.background()
	case !slices.Contains(tui.Themes, theme):
		return tui.Config{}, usagef("--theme is auto, %s, and not %q", strings.Join(tui.Themes, " or "), theme)
	}
	if _, err := store.ParseFilter(c.String("where")); err != nil {
		return tui.Config{}, usagef("--where: %w", err)
	}
	colorful, err := inv.colorful(c.String("color"), inv.Stdout)
	screen := tui.Config{
		Name: label(name), Theme: theme, Color: colorful, Filter: c.String("where"),
		Output: inv.Stdout, Clipboard: inv.Stdout, Write: writeRecords,
	}
	if inv.IsTerminal(inv.Stdin) {
		screen.Input = inv.Stdin
	}
	return screen, err
}

// background is the theme for the terminal, as far as its environment tells.
func (inv *invocation) background() string {
	// "15;0": the number of the foreground's colour and of the background's.
	colors := strings.Split(inv.Getenv("COLORFGBG"), ";")
	switch colors[len(colors)-1] {
	case "7", "15":
		return "light"
	}
	return "dark"
}

// feed hands a session to the store, to its end.
func feed(ctx context.Context, s *store.Store, in decode.Input, cfg decode.Config) {
	if in.Capture != nil {
		in.Capture = &overheard{in.Capture, s}
	}
	s.Begin(in)
	_, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return s.View })
	cut := errors.Is(err, capture.ErrCut) || ctx.Err() != nil
	s.End(err, cut)
}

// overheard is a capture whose events are told to a store.
type overheard struct {
	capture.Reader
	store *store.Store
}

// Next reads the next record.
func (o *overheard) Next(r *capture.Record) error {
	err := o.Reader.Next(r)
	if err == nil && r.Kind != capture.Frame {
		o.store.Event(r)
	}
	return err
}

// Buffered reports whether Next would not wait.
func (o *overheard) Buffered() bool {
	live, ok := o.Reader.(capture.Live)
	return !ok || live.Buffered()
}

// writeRecords writes records in the format that the name of the file tells.
func writeRecords(name string, r tui.Records) error {
	format, zstd := convert.FormatOf(name)
	switch {
	case format == convert.NDJSON:
		return convert.WriteFile(name, func(w io.Writer) error {
			_, err := decode.Run(context.Background(), decode.Input{Capture: r}, w, decode.Config{Workers: 1}, decode.NDJSON)
			return err
		})
	case format == convert.Pcapng && zstd:
		return convert.WriteFile(name, func(w io.Writer) error { return convert.WriteZstd(w, r, nil) })
	case format == convert.Pcapng:
		return convert.WriteFile(name, func(w io.Writer) error { return convert.WritePcapng(w, r, nil) })
	}
	return convert.WriteRaw(name, r)
}
