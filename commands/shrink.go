package commands

import (
	"cmp"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/shrink"
)

func shrinkCommand(inv *invocation) *cli.Command {
	return inv.withEndpoint(&cli.Command{
		Name: "shrink", Category: speaking, Usage: "find the smallest session that still shows a fault", ArgsUsage: "IN OUT ENDPOINT",
		Description: "Plays the client of a session against a fresh server again and again, each time with\n" +
			"less, and writes the smallest session that still shows what --keep names. The server\n" +
			"runs for real in each try. The status is 3 if IN does not show it.\n\n" +
			"   wirectl shrink --keep finding:late-result in.pcapng out.ndjson -- ./server\n" +
			"   wirectl shrink --keep 'jq:.outcome==\"died\"' in.pcapng out.ndjson -- ./server",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "keep", Usage: "`WHAT` the session must show: finding:NAME (see lint), outcome:NAME, or jq:EXPR, true for a call as calls -o ndjson prints it"},
			&cli.IntFlag{Name: "runs", Value: 3, Usage: "a session must show it `N` times in a row"},
			&cli.IntFlag{Name: "max-tries", Value: 500, Usage: "start the server at most `N` times"},
			&cli.DurationFlag{Name: "max-time", Value: 10 * time.Minute, Usage: "stop after `TIME` with the smallest session so far"},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "wait at most `TIME` for a silent server; most tries wait only as long as its answers take"},
			&cli.IntFlag{Name: "jobs", Value: 1, Usage: "run `N` tries at once, if servers do not disturb each other"},
			&cli.IntFlag{Name: "conn", Usage: "shrink connection `N` of the session (default: the first that shows it)"},
			&cli.BoolFlag{Name: "allow-redacted", Usage: "allow sessions that were redacted or altered"},
		}, sessionFlags()),
		Action: inv.does(runShrink),
	})
}

func runShrink(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) < 2 || len(inv.Operands)+len(inv.Endpoint) < 3 {
		return usagef("give shrink a session, a file for the result and, after them, the server: -- CMD")
	}
	if !c.IsSet("grace") {
		_ = c.Set("grace", "200ms") // a server that hangs would hold up each try
	}
	out := inv.Operands[1]
	inv.Operands = slices.Delete(inv.Operands, 1, 2)
	p := &player{invocation: inv, c: c, side: frame.C2U}
	server, err := inv.endpoint(c, 1)
	o := shrink.Options{
		Server: server, Judge: track.Judge, Patience: c.Duration("timeout"), Runs: c.Int("runs"), MaxTries: c.Int("max-tries"),
		MaxTime: c.Duration("max-time"), Jobs: c.Int("jobs"), Limit: c.Int("limit-bytes"), Mask: capture.Secrets().Text(),
	}
	if err = cmp.Or(err, convert.CheckSave(inv.Operands[0], out), asUsage(o.Keeping(c.String("keep")))); err == nil {
		err = p.load()
	}
	if err != nil {
		return err
	}
	o.Scripts, o.Terminal = p.scripts, inv.opener().Meter
	inv.Terminable()
	inv.AtKill(func() {}) // the end of the terminal interrupts, too
	inv.Linger(5 * time.Second)
	inv.unlessQuiet(c, o.Announcement())
	result, err := shrink.Run(c.Context, o)
	switch {
	case is[*shrink.NotShownError](err):
		return &faultError{err}
	case err != nil:
		return err
	}
	inv.unlessQuiet(c, out+": "+result.Summary)
	return convert.Save(out, result.Capture)
}
