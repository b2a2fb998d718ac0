package commands

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/lint"
)

func lintCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Category:  reading,
		Usage:     "say which rules of its protocol a session broke",
		ArgsUsage: "[SESSION…]",
		Description: "Reads captures, recordings, NDJSON or the bytes of one direction, and judges what\n" +
			"the messages mean together. The status is 3 when something was found.\n\n" +
			"   wirectl lint session.pcapng\n" +
			"   wirectl lint --fail-on error,late-result --ignore unsafe-id session.pcapng\n" +
			"   wirectl lint -o sarif session.pcapng > wirectl.sarif",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, ndjson, junit or sarif"},
			&cli.StringSliceFlag{Name: "fail-on", Value: cli.NewStringSlice("warning"), Usage: "what makes the status 3: `WHAT` is error, warning or note, which include what is worse, or the name of a finding"},
			&cli.StringSliceFlag{Name: "ignore", Usage: "do not report this `FINDING`"},
		}, sessionFlags()...),
		Action: inv.does(runLint),
	}
}

// sessionFlags are the flags of commands that read sessions as a whole.
func sessionFlags() []cli.Flag {
	return append([]cli.Flag{
		grpcEncodingFlag(),
		colorFlag("the output"),
		quietFlag(),
	}, streamFlags()...)
}

func runLint(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	policy, err := lint.NewPolicy(cmdline.ListOf(c, "fail-on"), cmdline.ListOf(c, "ignore"))
	if err != nil {
		return usagef("%w", err)
	}
	report := &lint.Report{Policy: policy}
	write, err := lintOutput(inv, c, report)
	if err != nil {
		return err
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	inv.reportsAtEnd = true
	failed := inv.each(names, func(_ int, name string) error {
		s, err := lintOne(inv, c, name, cfg)
		if err == nil || s.Frames > 0 {
			report.Add(s)
		}
		return err
	})
	if failed != nil && (len(names) == 1 || !isOfInput(failed)) {
		return failed
	}
	if err := write(inv.output(c)); err != nil {
		return err
	}
	return cmp.Or(failed, verdict(inv, c, report))
}

func lintOne(inv *invocation, c *cli.Context, name string, cfg decode.Config) (lint.Session, error) {
	ts := track.Trackers{Forms: true}
	result, err := trackSession(inv, c, name, cfg, &ts)
	s := lint.Session{Name: label(name), Frames: result.Frames}
	for _, t := range ts.List {
		s.Add(t.Tracker)
	}
	return s, err
}

// lintOutput reads the flags that say how to print.
func lintOutput(inv *invocation, c *cli.Context, r *lint.Report) (func(io.Writer) error, error) {
	switch c.String("output") {
	case "text":
		colorful, err := inv.colorful(c.String("color"), inv.Stdout)
		return func(w io.Writer) error { return r.Text(w, render.Palette(colorful)) }, err
	case "ndjson":
		return r.NDJSON, nil
	case "junit":
		return r.JUnit, nil
	case "sarif":
		return r.SARIF, nil
	}
	return nil, usagef("--output is text, ndjson, junit or sarif, and not %q", c.String("output"))
}

// verdict says on standard error what was found, and fails if it was too much.
func verdict(inv *invocation, c *cli.Context, r *lint.Report) error {
	summary := r.Summary()
	if n := r.Unkept(); n > 0 {
		summary += "; of these " + render.Count(n, "earlier one") + " not shown"
	}
	if r.Fails() {
		return &faultError{errors.New(summary)}
	}
	if !c.Bool("quiet") {
		fmt.Fprintf(inv.Stderr, "wirectl: %s\n", summary)
	}
	return nil
}
