package commands

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

func callsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "calls",
		Category:  reading,
		Usage:     "list the calls of a session: tool, duration, bytes, outcome",
		ArgsUsage: "[SESSION…]",
		Description: "Reads captures, recordings, NDJSON, the bytes of one direction, a running session, or\n" +
			"files of agents (a transcript of Claude Code or Codex, or a folder of them), and lists\n" +
			"each request with its answer: in order of start, or, while it runs, in order of end. An agent's turn, a task, or a call with its retries is one\n" +
			"call.\n\n" +
			"   wirectl calls session.pcapng\n" +
			"   wirectl calls --where 'failed and name==search' live\n" +
			"   wirectl calls --slowest 10 -o csv session.pcapng > slow.csv",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, ndjson or csv"},
			&cli.BoolFlag{Name: "exchanges", Usage: "also list the exchanges of each call: retries, polls, requests from the unit"},
			&cli.BoolFlag{Name: "events", Usage: "also list lines on standard error, starts and exits of processes, and ends of connections"},
			&cli.BoolFlag{Name: "wide", Usage: "keep all columns on a narrow terminal, and cut none"},
			&cli.BoolFlag{Name: "prompts", Usage: "the same as wirectl context"},
			&cli.BoolFlag{Name: "failed", Usage: "list only failed calls: error, tool error, timeout, or server exit"},
			&cli.BoolFlag{Name: "cancelled", Usage: "list only cancelled calls, even if they were answered"},
			&cli.IntFlag{Name: "slowest", Usage: "list only the `N` slowest calls, slowest first"},
			&cli.StringFlag{Name: "where", Usage: "list only calls that match `EXPR`: FIELD==VALUE, !=, ~ (contains), >, failed, cancelled, inferred, joined by and"},
			&cli.BoolFlag{Name: "follow", Usage: "wait for more at the end of a file, and list calls as they end"},
			pricesFlag(),
		}, sessionFlags()...),
		Action: inv.does(runCalls),
	}
}

func runCalls(inv *invocation, c *cli.Context) error {
	if c.Bool("prompts") && c.String("output") == table.AsText {
		return runContext(inv, c)
	}
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if err := followsOne(c, names); err != nil {
		return err
	}
	cfg, err := pricedConfig(inv, c)
	if err != nil {
		return err
	}
	live := c.Bool("follow") || len(names) == 1 && source.MayStillRun(names[0], inv.Stdin)
	choice, err := callChoice(c)
	if err != nil {
		return err
	}
	out, err := inv.table(c, table.AsText, table.AsNDJSON, table.AsCSV)
	if err != nil {
		return err
	}
	list := calls.NewList(out, choice, live && choice.Slowest == 0)
	if c.Bool("wide") {
		list.Widen()
	}
	list.Unfolded = c.Bool("exchanges")
	failed := listCalls(inv, c, names, cfg, live, list)
	if err := list.Finish(); err != nil {
		return err
	}
	switch {
	case isUnread(failed) && list.IsEmpty():
	case failed == nil && list.Slowest > 0 && list.Untimed():
		return usagef("--slowest needs times, and this input has none")
	case !c.Bool("quiet"):
		fmt.Fprintf(inv.Stderr, "wirectl: %s\n", list.Summary())
	}
	return failed
}

// listCalls reads all sessions into the list.
func listCalls(inv *invocation, c *cli.Context, names []string, cfg decode.Config, live bool, list *calls.List) error {
	log := &calls.Log{Show: list.Show, Live: live, Unfold: list.Unfolded}
	ts := &track.Trackers{OneWay: true, Watcher: log, Joins: len(names) > 1, Asked: true}
	var joined []*calls.Call
	log.Show = func(c *calls.Call) {
		if ts.Joins && !live {
			joined = append(joined, c)
		} else {
			list.Show(c)
		}
	}
	wires := source.WireNames(names)
	err := inv.each(names, func(i int, name string) error {
		before, of := len(joined), ""
		if len(names) > 1 {
			of = wires[i]
		}
		if c.Bool("events") {
			ts.Event = func(e session.Event) { list.Happened(e, log.First, of) }
		}
		cfg.Note = remarks(inv, c, name)
		some, known := false, false // of it are messages, or of a protocol that has calls
		result, last, err := trackSession(inv, c, name, cfg, ts, func(it *decode.Item) error {
			some, known = some || isMessage(it), known || hasCalls(it)
			log.First = it.First
			return list.Err()
		})
		log.Finish(last)
		if err == nil {
			err = counted(inv, c, name, &result, some, known, ts, &cfg)
		}
		cfg.FirstSeq = max(cfg.FirstSeq, result.NextSeq)
		for _, c := range joined[before:] {
			if c.Session = of; of != "" {
				c.Wire = of
			}
		}
		return cmp.Or(err, list.Err())
	})
	for _, c := range join.Tree(joined, ts.Wires, ts.OfRun) {
		list.Show(c)
	}
	return err
}

// counted is the error for a session that has no calls. It tells of faults.
func counted(inv *invocation, c *cli.Context, name string, result *decode.Result, some, known bool, ts *track.Trackers, cfg *decode.Config) error {
	if err := cmp.Or(unread(name, result, some, ts), withoutCalls(name, "no calls", result, known, cfg)); err != nil {
		return err
	}
	if result.Faults > 0 && !c.Bool("quiet") {
		inv.say(name, result.FaultCount()+"; wirectl lint lists them")
	}
	return nil
}

// callChoice reads the flags that choose.
func callChoice(c *cli.Context) (calls.Choice, error) {
	choice := calls.Choice{Failed: c.Bool("failed"), Cancelled: c.Bool("cancelled"), Slowest: c.Int("slowest")}
	if c.IsSet("slowest") && choice.Slowest < 1 {
		return choice, usagef("invalid --slowest %d: want a number from 1", choice.Slowest)
	}
	if expr := c.String("where"); expr != "" {
		where, err := query.Parse(expr, calls.Fields)
		if err != nil {
			return choice, usagef("--where: %w", err)
		}
		choice.Where = where
	}
	return choice, nil
}
