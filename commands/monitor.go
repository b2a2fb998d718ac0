package commands

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
	"github.com/wirectl/wirectl/web"
)

func monitorCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "monitor",
		Usage:     "watch a session on the terminal: ids in flight, cancels, frames, findings",
		Category:  reading,
		ArgsUsage: "[SESSION…]",
		Description: "Shows a running relay or broker, a capture, a recording, NDJSON or the bytes of one\n" +
			"direction, as it arrives; several sessions as one tree. Press ? for the keys.\n\n" +
			"   wirectl monitor                        # what is running, or was recorded\n" +
			"   wirectl monitor fixture:latis-cancel\n" +
			"   wirectl monitor --follow session.pcapng\n" +
			"   wirectl monitor run:latest             # follows it while it grows\n" +
			"   producer | wirectl monitor -\n" +
			"   wirectl monitor --web                  # in a browser",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "where", Usage: "start with the `FILTER`: a condition, as for decode --where, or one of " + strings.Join(store.Words, ", ")},
			&cli.BoolFlag{Name: "follow", Usage: "wait for more at the end of the file"},
			&cli.StringFlag{Name: "theme", Value: "auto", Usage: "colours for the background of the terminal: auto, " + strings.Join(tui.Themes, " or ")},
			pricesFlag(),
			grpcEncodingFlag(),
			colorFlag("the screen"),
		}, append(webFlags(), inputFlags()...)...),
		Action: inv.does(runMonitor),
	}
}

func runMonitor(inv *invocation, c *cli.Context) error {
	cfg, err := pricedConfig(inv, c)
	if err != nil {
		return err
	}
	if c.Bool("web") {
		return runWeb(inv, c, cfg)
	}
	if err := drawable(inv); err != nil {
		return err
	}
	screen, err := newScreen(inv, c)
	if err != nil {
		return err
	}
	cfg.Resync = true
	name, err := monitored(inv, c.Context, screen)
	if err != nil || name == "" {
		return err
	}
	with := inv.Operands[min(1, len(inv.Operands)):]
	screen.Name = source.Label(append([]string{name}, with...)...)
	isTranscript, beside := source.IsTranscript(name), ""
	grows := isTranscript || source.IsRun(name)
	if name, err = inv.opener().Resolve(name); err != nil {
		return err
	}
	if !isTranscript && len(with) == 0 {
		beside = store.NotesFile(name)
	}
	notes, err := store.OpenNotes(beside)
	if err != nil {
		return err
	}
	if screen.Filter == "" {
		screen.Filter, screen.FilterKept = notes.Kept.Filter, true
	}
	s := store.New(store.Options{Spill: !source.IsTap(name), Config: cfg})
	defer s.Close()
	s.Restore(notes.Kept)
	cfg.Notice = s.Notice
	follow := c.Bool("follow") || grows && len(with) == 0
	if chosen, ok := store.ParseSort(notes.Kept.Sort); ok {
		screen.Sort = chosen
	} else if !follow && !source.IsTap(name) && !source.MayStillRun(name, inv.Stdin) {
		screen.Sort = store.ByArrival
	}
	ctx, stop := context.WithCancel(c.Context)
	var sent sync.WaitGroup
	defer sent.Wait()
	defer stop()
	screen.Server = notes.Kept.Server
	screen.Repeat = func(args []string) (string, error) {
		sent.Add(1)
		defer sent.Done()
		return sendAside(ctx, inv.Env, args)
	}
	v := &store.Viewing{Name: name, With: with, Opener: inv.opener(), Store: s, Config: cfg, Follow: follow}
	if err := tui.Watch(c.Context, v, screen); err != nil {
		return unopened(v.Name, err)
	}
	return notes.Keep(s.Notes())
}

// sendAside runs wirectl send and returns its answer, or what it says is wrong.
func sendAside(ctx context.Context, env Env, args []string) (string, error) {
	var out, said bytes.Buffer
	env.Stdin, env.Stdout, env.Stderr, env.Terminable = strings.NewReader(""), &out, &said, func() {}
	aside := newInvocation(env)
	app := newAppOf(aside, []maker{{args[0], sendCommand}})
	args, err := aside.Arrange(app, append([]string{"wirectl", args[0], "--timeout", "30s"}, args[1:]...))
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	report(&said, err)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(strings.TrimSpace(said.String()), "wirectl: "))
	}
	return strings.TrimSpace(out.String()), nil
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
	return usagef("monitor needs a terminal, and %s: wirectl decode --follow %s shows the frames as text", why, name)
}

// monitored returns the name of what is to be shown; "" if the user chose
// nothing. Nothing named is standard input if that is redirected, and else what
// runs.
func monitored(inv *invocation, ctx context.Context, screen tui.Config) (string, error) {
	switch {
	case len(inv.Operands) > 0:
		return inv.Operands[0], nil
	case !inv.IsTerminal(inv.Stdin):
		return "-", nil
	}
	sessions, err := store.Choices(inv.Getenv)
	switch {
	case err != nil:
		return "", err
	case len(sessions) == 1 && source.IsTap(sessions[0].Input):
		return store.Await, nil // it is the one, and others may follow it
	}
	return tui.Pick(ctx, sessions, func(ctx context.Context) []store.Choice { return store.NextChoices(ctx, inv.Getenv) }, screen)
}

// newScreen reads the flags that say how to draw.
func newScreen(inv *invocation, c *cli.Context) (tui.Config, error) {
	theme, ask := c.String("theme"), false
	switch {
	case theme == "auto":
		theme, ask = tui.Background(inv.Getenv)
	case !slices.Contains(tui.Themes, theme):
		return tui.Config{}, usagef("invalid --theme %q: want auto, %s", theme, strings.Join(tui.Themes, " or "))
	}
	if _, err := store.ParseFilter(c.String("where")); err != nil {
		return tui.Config{}, usagef("--where: %w", err)
	}
	colorful, err := inv.colorful(c.String("color"), inv.Stdout)
	screen := tui.Config{
		Theme: theme, Color: colorful, Ask: ask && colorful, Filter: c.String("where"), Welcome: store.FirstVisit(inv.Getenv),
		Output: inv.Stdout, Clipboard: inv.Stdout, Speaks: methodProtocols, Write: func(name string, r *store.Records) error { return convert.Save(name, r) },
	}
	if inv.IsTerminal(inv.Stdin) {
		screen.Input = inv.Stdin
	}
	return screen, err
}

// webFlags are the flags of the command that serves the page of this machine.
func webFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "web", Usage: "serve the monitor as a web page and print its address"},
		&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "with --web: listen at `HOST:PORT`"},
		&cli.BoolFlag{Name: "remote", Usage: "with --web: allow --listen beyond loopback, without encryption"},
		&cli.BoolFlag{Name: "control", Usage: "with --web: let the page cancel, resend, hold, edit and drop frames of a relay that takes commands, and send recorded requests"},
	}
}

// runWeb serves the page of the named session, or of all sessions, until ctx ends.
func runWeb(inv *invocation, c *cli.Context, cfg decode.Config) error {
	sessions, opener := inv.Operands, inv.opener()
	for _, name := range sessions { // as the page would only tell later
		resolved, err := opener.Resolve(name)
		if _, isNone := os.Stat(resolved); err == nil && isNone != nil && name != "-" && name != "live" && !strings.Contains(name, ":") {
			var in *source.Source
			if in, err = opener.Open(c.Context, name); err == nil {
				in.Close()
			}
		}
		if err != nil {
			return unopened(name, err)
		}
	}
	l := &web.Local{Opener: opener, Config: cfg, Follow: c.Bool("follow")}
	if len(sessions) > 0 {
		l.Only, l.With = sessions[0], sessions[1:]
		l.Follow = l.Follow || len(sessions) == 1 && source.IsTranscript(l.Only)
	}
	o := web.Options{
		Library: l, Only: l.Only, Listen: c.String("listen"), Remote: c.Bool("remote"), Control: c.Bool("control"), Config: cfg, Speaks: methodProtocols,
	}
	if !o.Remote { // people elsewhere send nothing from this machine
		o.Repeat = func(ctx context.Context, args []string) (string, error) { return sendAside(ctx, inv.Env, args) }
	}
	return asTyped(o.Listen, web.Run(c.Context, o, inv.Stdout))
}
