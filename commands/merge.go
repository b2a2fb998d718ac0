package commands

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/merge"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/table"
)

func mergeCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Category:  reading,
		Usage:     "compare captures of the same connections from both of their ends",
		ArgsUsage: "A B [OUT]",
		Description: "Pairs the frames of two captures, one from each side of a gateway, a proxy or a\n" +
			"network, estimates how their clocks differ, and tells what left one end and never\n" +
			"reached the other, what was changed on the way, and what was held. Ids may differ.\n" +
			"OUT gets the frames of the controller's end with both times and these findings. The\n" +
			"status is 3 if there are any.\n\n" +
			"   wirectl merge client.pcapng server.pcapng\n" +
			"   wirectl merge client.pcapng server.pcapng both.pcapng",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text or ndjson"},
			&cli.DurationFlag{Name: "delay", Value: time.Second, Usage: "a frame is delayed if it was held for `TIME` or longer"},
		}, sessionFlags()...),
		Action: inv.does(runMerge),
	}
}

func runMerge(inv *invocation, c *cli.Context) error {
	if n := len(inv.Operands); n != 2 && n != 3 {
		return usagef("merge takes two captures, A and B, and optionally OUT; got %s", render.Count(int64(n), "operand"))
	}
	names, out := [2]string(inv.Operands), inv.Operands[2:]
	o := merge.Options{Names: names, Opener: inv.opener(), Delay: c.Duration("delay"), Mask: capture.Secrets().Text()}
	if err := o.Check(out...); err != nil {
		return err
	}
	form, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	if o.Config, err = decodeConfig(c); err != nil {
		return err
	}
	report, err := merge.Compare(c.Context, o)
	if err == nil && len(out) > 0 {
		err = report.Save(c.Context, out[0])
	}
	if in := (*merge.InputError)(nil); errors.As(err, &in) {
		return unopened(names[in.Side], in.Err)
	} else if err != nil {
		return err
	}
	if report.Cut != nil {
		inv.unlessQuiet(c, report.Cut.Error())
	}
	if err := report.Write(form); err != nil {
		return err
	}
	if summary := report.Summary(); summary != "" {
		return &faultError{errors.New(summary)}
	}
	inv.unlessQuiet(c, report.Clean())
	return nil
}
