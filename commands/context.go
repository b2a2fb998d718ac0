package commands

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/table"
)

func contextCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "context", Category: reading, ArgsUsage: "[SESSION…]", Action: inv.does(runContext),
		Usage: "show what models were given: prompts, tools, messages, results, and why a cache missed",
		Description: "Lists the calls of models of captures, runs and transcripts, by conversation: the\nsize of what each was given, what is new and what is gone, and why the provider's\ncache served less than before.\n\n" +
			"   wirectl context session.pcapng\n   wirectl context --call 12 run:latest\n   wirectl context --diff 11,12 claude:latest",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, json or ndjson"},
			&cli.StringFlag{Name: "call", Usage: "list all items of the call `N`: its number, #FRAME, or the id of its answer"},
			&cli.StringFlag{Name: "web", Usage: "write an HTML page to `FILE`, with a bar for each call, as report does"},
			&cli.StringFlag{Name: "diff", Usage: "list what only one of two calls has, `A,B`"},
		}, sessionFlags()...),
	}
}

func runContext(inv *invocation, c *cli.Context) error {
	if c.String("web") != "" {
		return runReport(inv, c)
	}
	names, err := inv.sources()
	out, wrong := inv.table(c, table.AsText, table.AsJSON, table.AsNDJSON)
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	inv.reportsAtEnd = true
	ts, first := &track.Trackers{OneWay: true, Unjudged: true, Contexts: &context.Log{Keep: true}}, time.Time{}
	failed := inv.each(names, func(_ int, name string) error {
		some := false
		result, _, err := trackSession(inv, c, name, decode.Config{}, ts, func(it *decode.Item) error {
			first, some = it.First, some || isMessage(it)
			return nil
		})
		return cmp.Or(err, unread(name, &result, some, ts))
	})
	if isUnread(failed) {
		return failed
	}
	view := ts.Contexts.View(first)
	chosen, err := view.Choose(c.String("call"), c.String("diff"))
	if err != nil {
		return usagef("%w", err)
	}
	err = view.Show(out, chosen)
	if errors.Is(err, context.ErrNone) {
		err = cmp.Or(failed, fmt.Errorf("%s: %w", strings.Join(mapped(names, label), ", "), err))
	}
	return cmp.Or(err, failed)
}
