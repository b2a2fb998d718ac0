package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/store"
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
		Action: inv.monitor,
	}
}

func (inv *invocation) monitor(c *cli.Context) error {
	if err := inv.drawable(); err != nil {
		return err
	}
	screen, err := inv.screen(c)
	if err != nil {
		return err
	}
	cfg, err := inv.decodeConfig(c)
	if err != nil {
		return err
	}
	cfg.Resync = true
	name, err := inv.monitored(c.Context, screen)
	if err != nil || name == "" {
		return err
	}
	screen.Name = label(name)
	if name == "live" {
		screen.Waiting = "waiting: try wirectl relay -- PROGRAM or wirectl serve"
	}
	notes, err := openNotes(name)
	if err != nil {
		return err
	}
	if screen.Filter == "" {
		screen.Filter = notes.kept.Filter
	}
	s := store.New(store.Options{Spill: !isTap(name), Config: cfg})
	defer s.Close()
	s.Restore(notes.kept)
	cfg.Notice = s.Notice
	if err := inv.watchOn(c, name, s, screen, cfg); err != nil {
		return err
	}
	return located(notes.file, nil, notes.keep(s.Notes()))
}

// watchOn draws what comes from a source until the user has enough.
func (inv *invocation) watchOn(c *cli.Context, name string, s *store.Store, screen tui.Config, cfg decode.Config) error {
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	var wire *liveWire
	open := func() (*opened, error) { return inv.openSession(ctx, name, cfg, c.Bool("follow")) }
	if isTap(name) {
		wire = newLiveWire(s)
		screen.Wire, screen.Next = wire, true
		open = func() (*opened, error) { return inv.openWire(ctx, name, wire, cfg) }
	}
	var src *opened
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
			feed(ctx, s, src.Input, cfg, wire)
			src.close()
			if src = nil; wire != nil {
				src = inv.openNext(ctx, name == "live", wire, cfg)
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
	if r, ok := in.Capture.(capture.Placed); !ok || r.Place() < 0 || isTap(name) || name == "-" {
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
func (inv *invocation) openWire(ctx context.Context, name string, w *liveWire, cfg decode.Config) (*opened, error) {
	src, err := inv.openTap(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	return onWire(name, src, w, cfg)
}

// openNext looks on at the tap that follows the one of a wire, once there is one;
// nil if the user has enough.
func (inv *invocation) openNext(ctx context.Context, any bool, w *liveWire, cfg decode.Config) *opened {
	last := w.end()
	for {
		dir, err := tap.Dir(inv.Getenv)
		if err != nil {
			return nil
		}
		conn, err := tap.Next(ctx, dir, last, any)
		if err != nil {
			return nil
		}
		last = conn.Info
		if src, err := onWire("tap:"+last.Name, looking(ctx, conn), w, cfg); err == nil {
			return src
		}
	}
}

// onWire opens what passes a tap.
func onWire(name string, src *source, w *liveWire, cfg decode.Config) (*opened, error) {
	conn, _ := src.Reader.(*tap.Conn)
	w.begin(conn)
	in, err := decode.Open(src, cfg)
	if err != nil {
		src.close()
		return nil, unopened(name, err)
	}
	return &opened{in, src.close}, nil
}

// draws reports whether standard output is a terminal that can be drawn on.
func (env Env) draws() bool { return env.IsTerminal(env.Stdout) && env.Getenv("TERM") != "dumb" }

// drawable says why the monitor cannot draw.
func (inv *invocation) drawable() error {
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
func (inv *invocation) monitored(ctx context.Context, screen tui.Config) (string, error) {
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
		choices = append(choices, tui.Choice{Name: t.Name, About: age(time.Since(t.Started)) + "  " + t.Controller + " ⇄ " + t.Unit})
	}
	i, err := tui.Pick(ctx, choices, screen)
	if err != nil || i < 0 {
		return "", err
	}
	return "tap:" + taps[i].Name, nil
}

// screen reads the flags that say how to draw.
func (inv *invocation) screen(c *cli.Context) (tui.Config, error) {
	theme, ask := c.String("theme"), false
	switch {
	case theme == "auto":
		theme, ask = inv.background(), inv.tellsBackground()
	case !slices.Contains(tui.Themes, theme):
		return tui.Config{}, usagef("--theme is auto, %s, and not %q", strings.Join(tui.Themes, " or "), theme)
	}
	if _, err := store.ParseFilter(c.String("where")); err != nil {
		return tui.Config{}, usagef("--where: %w", err)
	}
	colorful, err := inv.colorful(c.String("color"), inv.Stdout)
	screen := tui.Config{
		Theme: theme, Color: colorful, Ask: ask && colorful, Filter: c.String("where"),
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

// tellsBackground reports whether the terminal may be asked for its background. Old
// consoles would print the question, and screen has no background of its own.
func (inv *invocation) tellsBackground() bool {
	name := inv.Getenv("TERM")
	silent := name == "" || name == "linux" || strings.HasPrefix(name, "screen") && inv.Getenv("TMUX") == ""
	return !silent && runtime.GOOS != "windows"
}

// feed hands a session to the store, to its end.
func feed(ctx context.Context, s *store.Store, in decode.Input, cfg decode.Config, w *liveWire) {
	if in.Capture != nil {
		in.Capture = newOverheard(in.Capture, s, w)
	}
	_ = s.Take(ctx, in, cfg) // the screen says it
}

// overheard is a capture whose events are told to a store, and if it is a tap,
// what passes to its wire, which numbers its connections.
type overheard struct {
	capture.Reader
	live   capture.Live   // the reader, if it is one, or nil
	placed capture.Placed // the same
	store  *store.Store
	wire   *liveWire // or nil
}

func newOverheard(r capture.Reader, s *store.Store, w *liveWire) *overheard {
	o := &overheard{Reader: r, store: s, wire: w}
	o.live, _ = r.(capture.Live)
	o.placed, _ = r.(capture.Placed)
	return o
}

// Next reads the next record.
func (o *overheard) Next(r *capture.Record) error {
	err := o.Reader.Next(r)
	if o.Session().Altered {
		o.store.Alter()
	}
	if err != nil || o.wire != nil && o.wire.hear(r) {
		return err
	}
	if o.wire != nil {
		o.wire.number(r)
	}
	if r.Kind != capture.Frame {
		o.store.Event(r)
	}
	return nil
}

// Place is where the record at hand begins; see [capture.Placed].
func (o *overheard) Place() int64 {
	if o.placed == nil {
		return -1
	}
	return o.placed.Place()
}

// Buffered reports whether Next would not wait.
func (o *overheard) Buffered() bool { return o.live == nil || o.live.Buffered() }

// writeRecords writes records in the format that the name of the file tells: the
// folder of a recording if it has no extension, or is there.
func writeRecords(name string, r tui.Records) error {
	format, zstd := convert.FormatOf(name)
	info, err := os.Stat(name)
	isFolder := format == convert.Raw || err == nil && info.IsDir() || format == "" && filepath.Ext(name) == ""
	switch {
	case isFolder:
		return convert.WriteRaw(name, r)
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
	return fmt.Errorf("%s: the name ends in none of .ndjson, .jsonl, .pcapng and .pcapng.zst; a folder has no extension", name)
}
