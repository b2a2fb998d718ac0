package commands

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store/live"
)

func tapsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "taps",
		Category:  between,
		Usage:     "list the relays and brokers of yours that can be looked at",
		ArgsUsage: " ",
		Description: "Each has a tap, which any command that reads a session takes: by its name or the\n" +
			"beginning of it, or as live, which is the newest and is waited for.\n\n" +
			"   wirectl taps\n" +
			"   wirectl decode live\n" +
			"   wirectl lint tap:server-everything",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text or ndjson"},
		},
		Action: inv.does(runTaps),
	}
}

func runTaps(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) > 0 {
		return usagef("taps takes no operands, and %q is one", inv.Operands[0])
	}
	write, ok := map[string]func(*invocation, []live.Tap) error{"text": tapTable, "ndjson": tapLines}[c.String("output")]
	if !ok {
		return usagef("--output is text or ndjson, and not %q", c.String("output"))
	}
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return err
	}
	taps, err := live.List(c.Context, dir, func(err error) { inv.say("taps", err.Error()) })
	if err != nil {
		return err
	}
	return write(inv, taps)
}

func tapLines(inv *invocation, lines []live.Tap) error {
	out := json.NewEncoder(inv.ndjson())
	out.SetEscapeHTML(false)
	for _, l := range lines {
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func tapTable(inv *invocation, lines []live.Tap) error {
	if len(lines) == 0 {
		fmt.Fprintln(inv.Stderr, "wirectl: nothing runs that has a tap; wirectl relay opens one")
		return nil
	}
	w := tabwriter.NewWriter(inv.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPID\tAGE\tPROTOCOL\tFRAMES\tENDPOINTS")
	for _, l := range lines {
		ends := fmt.Sprintf("%s ⇄ %s", l.Controller, l.Unit)
		if l.Altered {
			ends += " (altered)"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\n", l.Name, l.Pid, live.Age(l.Info), strings.Join(l.Protocols, ", "), l.Frames, render.Safe(ends))
	}
	return w.Flush()
}
