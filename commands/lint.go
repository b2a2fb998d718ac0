package commands

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/why"
)

func lintCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Category:  reading,
		Usage:     "report protocol rules that a session broke",
		ArgsUsage: "[SESSION…]",
		Description: "Reads captures, recordings, NDJSON or the bytes of one direction, and checks the\n" +
			"messages against the rules of their protocol. The status is 3 if a rule is broken.\n\n" +
			"   wirectl lint session.pcapng\n" +
			"   wirectl lint --fail-on error,late-result --ignore unsafe-id session.pcapng\n" +
			"   wirectl lint -o sarif session.pcapng > wirectl.sarif\n" +
			"   wirectl lint --baseline tools.json --max-duration tools/call=2s live.pcapng",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, ndjson, junit or sarif"},
			&cli.StringSliceFlag{Name: "fail-on", Value: cli.NewStringSlice("warning"), Usage: "exit with status 3 for `WHAT`: error, warning or note (and anything worse), or the name of a finding"},
			&cli.StringSliceFlag{Name: "ignore", Usage: "do not report this `FINDING`"},
			&cli.BoolFlag{Name: "safety", Usage: "report only what may mislead a model or its user: hidden text, shadowed tools, tokens in URLs"},
			&cli.StringSliceFlag{Name: "expect-tool", Usage: "require that the MCP server lists the tool `NAME`"},
			&cli.StringSliceFlag{Name: "forbid-tool", Usage: "require that the MCP server does not list the tool `NAME`"},
			&cli.StringSliceFlag{Name: "max-duration", Usage: "limit the duration of a kind of exchange: `KIND=TIME`, such as tools/call=2s"},
			&cli.IntFlag{Name: "max-definition-bytes", Usage: "limit each tool definition to `N` bytes of compact JSON"},
			&cli.StringFlag{Name: "baseline", Usage: "require the tools in `FILE`, written by wirectl baseline"},
		}, sessionFlags()...),
		Action: inv.does(runLint),
	}
}

// sessionFlags are the flags of commands that read whole sessions.
func sessionFlags() []cli.Flag {
	return append([]cli.Flag{
		grpcEncodingFlag(),
		colorFlag("the output"),
		quietFlag(),
	}, inputFlags()...)
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
	if c.Bool("safety") {
		policy.OnlySafety()
	}
	terms, err := lintContract(inv, c)
	if err != nil {
		return err
	}
	report := &lint.Report{Policy: policy, Contract: terms}
	out, err := inv.table(c, lint.Forms...)
	if err != nil {
		return err
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	inv.reportsAtEnd = true
	failed := inv.each(names, func(_ int, name string) error {
		s, err := lintOne(inv, c, name, cfg, &terms)
		if err == nil || s.Frames > 0 {
			report.Add(s)
		}
		return err
	})
	if failed != nil && (len(names) == 1 || !isOfInput(failed)) {
		return failed
	}
	if err := report.Write(out); err != nil {
		return err
	}
	return cmp.Or(failed, verdict(inv, c, report))
}

func lintOne(inv *invocation, c *cli.Context, name string, cfg decode.Config, terms *lint.Contract) (lint.Session, error) {
	check := lint.NewCheck(terms)
	ts := &track.Trackers{Forms: true, Joins: true, Asked: true}
	reader, err := why.NewReader(why.Question{Mask: ts.Hide})
	if err != nil {
		return lint.Session{}, err
	}
	explains := terms.IsEmpty() // a check marks exchanges, and so does the reader
	if ts.Watcher, ts.Event = reader, reader.Happened; !explains {
		ts.Watcher, ts.Event = check, nil
	}
	known := false // some of it is of a protocol with rules
	add, safety := messages(check.AddMessage), new(lint.Safety)
	var drifts lint.Drifts
	cfg.Note = func(before int64, rec *capture.Record) {
		if n, ok := tap.ParseNote(rec); ok && n.Tap == tap.Drift {
			drifts.AddNote(before, rec.Conn, n.Changes, n.Pin)
		}
	}
	result, last, err := trackSession(inv, c, name, cfg, ts, func(it *decode.Item) error {
		if explains {
			reader.See(seen(it))
		}
		known = known || hasCalls(it)
		drifts.AddFrame(it.Seq, it.Frame.Conn, &it.Message)
		safety.AddFrame(it.Seq, all.Of(it.Protocol), it.Frame, &it.Message, it.Payload, ts.Wires[[2]int{it.Frame.Conn}])
		return add(it)
	})
	s := lint.Session{Name: label(name), Frames: result.Frames}
	for _, t := range ts.List {
		s.Add(t.Protocol.Name(), t.Tracker)
	}
	s.AddCheck(check, ts.Timed)
	s.AddSafety(safety)
	s.AddDrifts(&drifts)
	if explains {
		s.AddFindings(reader.Findings(last, ts.Wires, ts.OfRun))
	}
	if err == nil && len(s.Findings) == 0 {
		err = withoutCalls(name, "nothing to judge", &result, known, &cfg)
	}
	return s, err
}

// lintContract reads the flags of the contract.
func lintContract(inv *invocation, c *cli.Context) (lint.Contract, error) {
	terms := lint.Contract{
		Expect: cmdline.ListOf(c, "expect-tool"), Forbid: cmdline.ListOf(c, "forbid-tool"), MaxDuration: make(map[string]time.Duration),
		MaxDefinition: c.Int("max-definition-bytes"),
	}
	if c.IsSet("max-definition-bytes") && terms.MaxDefinition <= 0 {
		return terms, usagef("invalid --max-definition-bytes %d: want a number over 0", terms.MaxDefinition)
	}
	for _, name := range terms.Forbid {
		if slices.Contains(terms.Expect, name) {
			return terms, usagef("tool %s is both expected and forbidden: give either --expect-tool or --forbid-tool", name)
		}
	}
	for _, text := range cmdline.ListOf(c, "max-duration") {
		kind, limit, err := lint.ParseDuration(text)
		if err != nil {
			return terms, usagef("invalid --max-duration %w", err)
		}
		terms.MaxDuration[kind] = limit
	}
	name := c.String("baseline")
	if name == "" {
		return terms, nil
	}
	text, err := inv.readFile(c.Context, name)
	if err != nil {
		return terms, misnamed(err)
	}
	terms.Baseline, err = contract.ReadBaseline(text)
	if err != nil {
		return terms, usagef("%s is not a baseline: %w; write one with wirectl baseline SESSION > %[1]s", name, err)
	}
	return terms, nil
}

// verdict prints the summary on standard error, and fails if there are failures.
func verdict(inv *invocation, c *cli.Context, r *lint.Report) error {
	summary := r.Summary()
	if n := r.Unkept(); n > 0 {
		summary += "; of these " + render.Count(n, "earlier one") + " not shown"
	}
	if r.Fails() {
		return &faultError{errors.New(summary)}
	}
	inv.unlessQuiet(c, summary)
	return nil
}
