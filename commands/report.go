package commands

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/store"
	page "github.com/wirectl/wirectl/web"
)

func reportCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Category:  reading,
		Usage:     "write a session as an HTML page: lanes, frames, findings, statistics",
		ArgsUsage: "SESSION…",
		Description: "Writes one HTML file that needs neither a server nor a network; several sessions are one\n" +
			"tree. Known secrets are removed, since reports are made to be shared.\n\n" +
			"   wirectl report -o report.html session.pcapng",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "-", Usage: "write the page to `FILE`; - is standard output"},
			&cli.BoolFlag{Name: "keep-secrets", Usage: "keep known secrets, such as tokens and passwords"},
			shareFlag(),
			pricesFlag(),
			grpcEncodingFlag(),
			quietFlag(),
		}, inputFlags()...),
		Action: inv.does(runReport, excludes("keep-secrets", "share")),
	}
}

func runReport(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	out, view := c.String("output"), ""
	if c.String("web") != "" { // of the command context
		out, view = c.String("web"), "context"
	}
	switch {
	case len(names) > max(1, len(inv.Operands)):
		return usagef("report takes no folder of several sessions; got %d: name some of them, such as %s", len(names), names[0])
	case out == "-" && inv.IsTerminal(inv.Stdout):
		return usagef("refusing to write HTML to a terminal: give -o report.html, or redirect standard output")
	}
	cfg, err := pricedConfig(inv, c)
	if err != nil {
		return err
	}
	options := page.Kept
	options.Config = cfg
	s := store.New(options)
	defer s.Close()
	if err := keepSession(inv, c, names, cfg, s); err != nil {
		return err
	}
	o := s.Overview()
	known := o.Timed || o.Exchanges > 0 || slices.ContainsFunc(o.Protocols, func(name string) bool {
		name, _, _ = strings.Cut(name, "/")
		p, err := all.Named(name)
		return err == nil && all.Depth(p) >= all.RPC
	})
	if err := withoutCalls(names[0], "nothing to report", &decode.Result{Frames: o.Frames}, known, &cfg); err != nil {
		return err
	}
	switch {
	case c.Bool("quiet"):
	case o.Frames == 0:
		inv.say(names[0], noFrames)
	case o.Dropped+o.Gone > 0:
		inv.say(names[0], fmt.Sprintf("the page shows the end of the session: %s and %s before it are left out", render.Count(o.Gone, "call"), render.Count(o.Dropped, "frame")))
	}
	write := func(w io.Writer) error {
		return page.Write(w, s, strings.Join(source.Labels(names), " + "), view, methodProtocols)
	}
	if out == "-" {
		return write(inv.Stdout)
	}
	return convert.WriteFile(out, write)
}

// keepSession reads a session into the store, without its secrets.
func keepSession(inv *invocation, c *cli.Context, names []string, cfg decode.Config, s *store.Store) error {
	name := names[0]
	cfg.Resync = true
	cfg.Notice = inv.notice(c, name)
	v := &conversion{invocation: inv, c: c, in: name, with: names[1:], cfg: cfg}
	r, done, err := v.open(c.Context)
	if err != nil {
		return err
	}
	defer done()
	if !c.Bool("keep-secrets") {
		x := capture.Secrets()
		x.Protocol, x.Calls = cfg.Protocol, cfg.Calls
		if c.Bool("share") {
			share, err := v.shared(&x)
			if err != nil {
				return err
			}
			defer func() { v.note(share.Summary()) }()
		}
		x.Blind = capture.BlindSpot(cfg.Notice)
		r = convert.Redact(r, x)
	}
	ofRun := slices.ContainsFunc(names, func(name string) bool { run, _ := inv.opener().RunFolder(name); return run != "" })
	err = s.Take(c.Context, decode.Input{Capture: r, OfRun: ofRun, Joins: len(names) > 1}, cfg)
	switch {
	case is[*faultError](err): // of a stream; it has the position
		return err
	case errors.Is(err, capture.ErrCut):
		inv.say(name, err.Error())
		return nil
	}
	return located(name, nil, err)
}
