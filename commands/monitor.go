package commands

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/store/live"
	"github.com/wirectl/wirectl/tui"
)

func monitorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "monitor",
		Usage:     "see a session on the terminal: ids in flight, cancels, frames, findings",
		Category:  reading,
		ArgsUsage: "[SESSION]",
		Description: "Draws what passes a relay or a broker, a capture, a recording, NDJSON or the bytes\n" +
			"of one direction, while it comes. The key ? shows what there is to do.\n\n" +
			"   wirectl monitor                        # what runs: a relay, a broker\n" +
			"   wirectl monitor fixture:latis-cancel\n" +
			"   wirectl monitor --follow session.pcapng\n" +
			"   producer | wirectl monitor -",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "where", Usage: "begin with that filter: a `CONDITION` as of decode, or one of " + strings.Join(store.Words, ", ")},
			&cli.BoolFlag{Name: "follow", Usage: "at the end of the file wait for more"},
			&cli.StringFlag{Name: "theme", Value: "auto", Usage: "colours for the background of the terminal: auto, " + strings.Join(tui.Themes, " or ")},
			grpcEncodingFlag(),
			colorFlag("the screen"),
		}, streamFlags()...),
		Action: inv.does(runMonitor),
	}
}

func runMonitor(inv *invocation, c *cli.Context) error {
	if err := drawable(inv); err != nil {
		return err
	}
	screen, err := newScreen(inv, c)
	if err != nil {
		return err
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	cfg.Resync = true
	name, err := monitored(inv, c.Context, screen)
	if err != nil || name == "" {
		return err
	}
	screen.Name = label(name)
	if name == "live" {
		screen.Waiting = "waiting: try wirectl relay -- PROGRAM or wirectl serve"
	}
	notes, err := store.OpenNotes(notesFile(name))
	if err != nil {
		return err
	}
	if screen.Filter == "" {
		screen.Filter = notes.Kept.Filter
	}
	s := store.New(store.Options{Spill: !source.IsTap(name), Config: cfg})
	defer s.Close()
	s.Restore(notes.Kept)
	cfg.Notice = s.Notice
	if err := watchOn(inv, c, name, s, screen, cfg); err != nil {
		return err
	}
	return notes.Keep(s.Notes())
}

// notesFile is the file beside a session that has what the user made of it. A session
// that is neither a file nor a folder is gone when it has ended, and has none: "".
func notesFile(name string) string {
	if source.IsTap(name) || name == "-" || strings.HasPrefix(name, "fixture:") {
		return ""
	}
	return filepath.Clean(name) + ".notes.json"
}

// watchOn draws what comes from a source until the user has enough.
func watchOn(inv *invocation, c *cli.Context, name string, s *store.Store, screen tui.Config, cfg decode.Config) error {
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	var wire *live.Wire
	open := func() (*source.Session, error) { return inv.openSession(ctx, name, cfg, c.Bool("follow")) }
	if source.IsTap(name) {
		wire = live.NewWire(s)
		screen.Wire, screen.Next = wire, true
		open = func() (*source.Session, error) { return openWire(inv, ctx, name, wire, cfg) }
	}
	var src *source.Session
	if name != "live" { // which may be waited for
		var err error
		if src, err = open(); err != nil {
			return err
		}
		if file := captureFile(name, src.Input); file != nil {
			defer file.Close()
			s.ReadAgain(pcapng.NewRandom(file, cfg.Limit))
		}
	}
	// What reads keeps all processors busy. A key is answered by threads that
	// have slept, which the system lets run at once if they may.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if src == nil {
			var err error
			if src, err = open(); err != nil {
				s.End(err, true)
				return
			}
		}
		for src != nil {
			live.Feed(ctx, s, src.Input, cfg, wire)
			src.Close()
			if src = nil; wire != nil {
				src = openNext(inv, ctx, name == "live", wire, cfg)
			}
		}
	}()
	err := tui.Run(c.Context, s, screen)
	stop()
	<-done
	return err
}

// captureFile opens the file that a capture is read from once more; nil if it
// cannot be returned to.
func captureFile(name string, in decode.Input) *os.File {
	if r, ok := in.Capture.(capture.Placed); !ok || r.Place() < 0 || source.IsTap(name) || name == "-" {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil
	}
	return file
}

// openWire looks on at a tap, through which its wire can be changed.
func openWire(inv *invocation, ctx context.Context, name string, w *live.Wire, cfg decode.Config) (*source.Session, error) {
	conn, err := inv.opener().DialTap(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	src, err := onWire(ctx, conn, w, cfg)
	return src, unopened(name, err)
}

// openNext looks on at the tap that follows the one of a wire, once there is one;
// nil if the user has enough.
func openNext(inv *invocation, ctx context.Context, any bool, w *live.Wire, cfg decode.Config) *source.Session {
	for {
		dir, err := tap.Dir(inv.Getenv)
		if err != nil {
			return nil
		}
		conn, err := w.Next(ctx, dir, any)
		if err != nil {
			return nil
		}
		if src, err := onWire(ctx, conn, w, cfg); err == nil {
			return src
		}
	}
}

// onWire opens what passes a tap.
func onWire(ctx context.Context, conn *tap.Conn, w *live.Wire, cfg decode.Config) (*source.Session, error) {
	return source.Tap(ctx, conn).Session(func(io.Reader) (decode.Input, error) { return w.Open(conn, cfg) })
}

// draws reports whether standard output is a terminal that can be drawn on.
func (env Env) draws() bool { return env.IsTerminal(env.Stdout) && env.Getenv("TERM") != "dumb" }

// drawable says why the monitor cannot draw.
func drawable(inv *invocation) error {
	if inv.draws() {
		return nil
	}
	why, name := "standard output is none", "SESSION"
	if inv.IsTerminal(inv.Stdout) {
		why = "TERM says that this one is dumb"
	}
	if len(inv.Operands) > 0 {
		name = inv.Operands[0]
	}
	return usagef("monitor draws on a terminal, and %s: wirectl decode --follow %s shows the frames as text", why, name)
}

// monitored returns the name of what is to be shown; "" if the user chose
// nothing. Nothing named is standard input if that is redirected, and else what
// runs.
func monitored(inv *invocation, ctx context.Context, screen tui.Config) (string, error) {
	switch {
	case len(inv.Operands) > 1:
		return "", usagef("monitor shows one session, and here are %d", len(inv.Operands))
	case len(inv.Operands) == 1:
		return inv.Operands[0], nil
	case !inv.IsTerminal(inv.Stdin):
		return "-", nil
	}
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return "", err
	}
	taps, err := tap.List(dir, nil)
	if err != nil || len(taps) < 2 {
		return "live", err
	}
	var choices []tui.Choice
	for _, t := range taps {
		choices = append(choices, tui.Choice{Name: t.Name, About: live.Age(t) + "  " + t.Controller + " ⇄ " + t.Unit})
	}
	i, err := tui.Pick(ctx, choices, screen)
	if err != nil || i < 0 {
		return "", err
	}
	return "tap:" + taps[i].Name, nil
}

// newScreen reads the flags that say how to draw.
func newScreen(inv *invocation, c *cli.Context) (tui.Config, error) {
	theme, ask := c.String("theme"), false
	switch {
	case theme == "auto":
		theme, ask = background(inv), tellsBackground(inv)
	case !slices.Contains(tui.Themes, theme):
		return tui.Config{}, usagef("--theme is auto, %s, and not %q", strings.Join(tui.Themes, " or "), theme)
	}
	if _, err := store.ParseFilter(c.String("where")); err != nil {
		return tui.Config{}, usagef("--where: %w", err)
	}
	colorful, err := inv.colorful(c.String("color"), inv.Stdout)
	screen := tui.Config{
		Theme: theme, Color: colorful, Ask: ask && colorful, Filter: c.String("where"),
		Output: inv.Stdout, Clipboard: inv.Stdout, Write: func(name string, r tui.Records) error { return convert.Save(name, r) },
	}
	if inv.IsTerminal(inv.Stdin) {
		screen.Input = inv.Stdin
	}
	return screen, err
}

// background is the theme for the terminal, as far as its environment tells.
func background(inv *invocation) string {
	// "15;0": the number of the foreground's colour and of the background's.
	colors := strings.Split(inv.Getenv("COLORFGBG"), ";")
	switch colors[len(colors)-1] {
	case "7", "15":
		return "light"
	}
	return "dark"
}

// tellsBackground reports whether the terminal may be asked for its background. Old
// consoles would print the question, and screen has no background of its own.
func tellsBackground(inv *invocation) bool {
	name := inv.Getenv("TERM")
	silent := name == "" || name == "linux" || strings.HasPrefix(name, "screen") && inv.Getenv("TMUX") == ""
	return !silent && runtime.GOOS != "windows"
}
