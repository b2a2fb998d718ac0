package commands

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/diff"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/table"
)

func diffCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Category:  reading,
		Usage:     "compare two sessions, exchange by exchange",
		ArgsUsage: "A B",
		Description: "Pairs exchanges regardless of ids, and compares JSON as values. Messages that both\n" +
			"sides send at the same time may come in any order. Items of arrays are matched by\n" +
			"name, uri, id or method. A turn, a task, or a call with its retries counts as one\n" +
			"exchange. For tools, prompts and resources of an MCP server, the output says which\n" +
			"changes break clients. A transcript and a wire are compared by the calls to models\n" +
			"and tools. The status is 3 if the sessions differ.\n\n" +
			"   wirectl diff before.pcapng after.pcapng\n" +
			"   wirectl diff run:latest claude:latest\n" +
			"   wirectl diff --ignore-field 'result.*.time' before.pcapng after.pcapng",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text or ndjson"},
			&cli.StringSliceFlag{Name: "ignore-field", Usage: "ignore the payload field at `PATH`: keys joined by dots, with * for any"},
			&cli.StringSliceFlag{Name: "ignore-kind", Usage: "ignore messages of this `KIND` and their answers"},
			&cli.BoolFlag{Name: "ignore-chunks", Usage: "ignore how answers are split into parts"},
			&cli.Float64Flag{Name: "latency", Usage: "report exchanges that took over `FACTOR` times as long"},
			&cli.BoolFlag{Name: "trajectory", Usage: "compare only what models decide, and show the first decision that differs: a tool with its arguments, an answer, an end"},
			pricesFlag(),
		}, sessionFlags()...),
		Action: inv.does(runDiff, excludes("trajectory", "ignore-kind", "ignore-chunks", "latency")),
	}
}

func runDiff(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) != 2 {
		return usagef("diff takes two sessions, A and B; got %d", len(inv.Operands))
	}
	if inv.Operands[0] == "-" && inv.Operands[1] == "-" {
		return usagef("standard input can be only one of the two sessions")
	}
	for _, name := range inv.Operands {
		if sessions := source.Sessions(name); sessions != nil {
			return usagef("%s is a folder of %d sessions: name one of them, such as %s", name, len(sessions), sessions[0])
		}
	}
	options, err := diffOptions(c)
	if err != nil {
		return err
	}
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	cfg, err := pricedConfig(inv, c)
	if err != nil {
		return err
	}
	inv.reportsAtEnd = true
	if c.Bool("trajectory") {
		return diffTrajectory(inv, c, out)
	}
	var sessions [2]*diff.Session
	for i, name := range inv.Operands {
		sessions[i] = diff.NewSession(options)
		defer sessions[i].Close()
		ts := &track.Trackers{OneWay: true, Joins: true, Watcher: sessions[i].Watcher()}
		var scopes session.Scopes
		add := func(it *decode.Item) error {
			if it.Frame.Meta == nil || it.Frame.Meta.Signal != frame.Wrapping {
				sessions[i].Add(diffRecord(it, &scopes))
			}
			return nil
		}
		if _, _, err := trackSession(inv, c, name, cfg, ts, add); err != nil {
			return err
		}
		if err := sessions[i].End(); err != nil {
			return fmt.Errorf("keep %s in a temporary file: %w", label(name), err)
		}
	}
	report, err := diff.Compare(sessions[0], sessions[1])
	if err != nil {
		return err
	}
	if err := report.Write(out); err != nil {
		return err
	}
	if report.Note != "" {
		inv.unlessQuiet(c, report.Note)
	}
	if !report.Alike() {
		return &faultError{errors.New(report.Summary())}
	}
	inv.unlessQuiet(c, report.Summary())
	return nil
}

// diffTrajectory shows the first decision that differs between two runs.
func diffTrajectory(inv *invocation, c *cli.Context, out table.Output) error {
	r, err := specReader(inv, c)
	if err == nil {
		r.Ignore, err = ignoredFields(c)
	}
	if err != nil {
		return err
	}
	fork, err := r.Fork(c.Context, inv.Operands[0], inv.Operands[1])
	if err := cmp.Or(misnamed(err), fork.Write(out)); err != nil {
		return err
	}
	if fork != nil {
		return &faultError{errors.New(fork.Summary())}
	}
	inv.unlessQuiet(c, fork.Summary())
	return nil
}

// diffOptions reads the flags that say what counts as a difference.
func diffOptions(c *cli.Context) (diff.Options, error) {
	o := diff.Options{IgnoreKinds: cmdline.ListOf(c, "ignore-kind"), IgnoreChunks: c.Bool("ignore-chunks"), Latency: c.Float64("latency")}
	if c.IsSet("latency") && !(o.Latency >= 1) {
		return o, usagef("invalid --latency %v: want a factor of 1 or more", o.Latency)
	}
	var err error
	o.Ignore, err = ignoredFields(c)
	return o, err
}

// ignoredFields reads --ignore-field.
func ignoredFields(c *cli.Context) (list []jsondiff.Path, err error) {
	for _, text := range cmdline.ListOf(c, "ignore-field") {
		path, err := jsondiff.ParsePath(text)
		if err != nil {
			return nil, usagef("--ignore-field: %w", err)
		}
		list = append(list, path)
	}
	return list, nil
}

// diffRecord returns what is compared of an item, until the next.
func diffRecord(it *decode.Item, scopes *session.Scopes) diff.Record {
	conn, stream := scopes.Of(it.Frame)
	r := diff.Record{Seq: it.Seq, Time: it.Time, Conn: conn, Stream: stream, Dir: it.Frame.Dir, Frame: it.Frame, Protocol: it.Protocol, Payload: it.Payload}
	switch {
	case it.Frame.Gap:
		r.Payload = it.Frame.Raw
		return r
	case it.Err != nil && it.Err != it.Frame.Flaw:
		return r
	}
	r.Message = &it.Message
	if form, _, err := it.JSON(); err == nil && form != nil {
		r.Payload = form
	}
	return r
}
