package commands

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session/why"
	"github.com/wirectl/wirectl/table"
)

func whyCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "why", Category: reading, Usage: "say why a session stopped, hung, failed or took long, with the evidence", ArgsUsage: "[SESSION]",
		Description: "Answers in a few sentences, with frames and times below. It only says what is sure, so\n" +
			"\"Nothing here explains it\" is an answer, too. It does the same on every system.\n\n" +
			"   wirectl why run:latest\n   wirectl why --call 17 session.pcapng\n   wirectl why --at 12.5 -o json session.pcapng",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, json or ndjson (the same on one line)"},
			&cli.StringFlag{Name: "call", Usage: "ask about the call with this `ID`, or with #N about the one of frame N"},
			&cli.StringFlag{Name: "at", Usage: "ask what was going on at this `TIME`: seconds from the beginning, or RFC 3339"},
		}, sessionFlags()...),
		Action: inv.does(runWhy),
	}
}

func runWhy(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return usagef("why takes one session; got %d: name one of them, such as %s", len(names), names[0])
	}
	out, err := inv.table(c, table.AsText, table.AsJSON, table.AsNDJSON)
	if err != nil {
		return err
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	ts := &track.Trackers{Joins: true, Asked: true}
	r, err := why.NewReader(why.Question{Call: c.String("call"), At: c.String("at"), Mask: ts.Hide})
	if err != nil {
		return usagef("--at %w", err)
	}
	ts.Watcher, ts.Event = r, r.Happened
	known := false
	result, last, err := trackSession(inv, c, names[0], cfg, ts, func(it *decode.Item) error {
		known = known || hasCalls(it)
		r.See(seen(it))
		return nil
	})
	if no := withoutCalls(names[0], "nothing to explain", &result, known, &cfg); no != nil || result.Frames == 0 && err != nil {
		return cmp.Or(err, no)
	}
	report, fault := r.Report(last, ts.Wires, ts.OfRun)
	if fault != nil {
		return usagef("%w", fault)
	}
	if err == nil && result.Frames == 0 && len(report.Answers) == 0 {
		return &source.Error{Err: fmt.Errorf("%s: nothing to explain: no call was recorded", label(names[0]))}
	}
	return cmp.Or(report.Write(out), err)
}

// seen is an item as an explanation sees it.
func seen(it *decode.Item) why.Frame {
	f := why.Frame{Frame: it.Frame, Seq: it.Seq, Time: it.Time, Protocol: it.Protocol, Body: it.Payload, Outlined: it.Outlined}
	if isMessage(it) {
		f.Message = &it.Message
	}
	return f
}
