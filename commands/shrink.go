package commands

import (
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/shrink"
)

func shrinkCommand(inv *invocation) *cli.Command {
	return inv.withEndpoint(&cli.Command{
		Name:      "shrink",
		Category:  speaking,
		Usage:     "find the smallest session that still shows a fault",
		ArgsUsage: "--keep WHAT IN OUT ENDPOINT",
		Description: "Plays the client of a session against a fresh server again and again, each time with\n" +
			"less, and writes the smallest session that still shows WHAT: finding:NAME (as in\n" +
			"lint), outcome:NAME, or jq:EXPR, which is true for a call as calls -o ndjson prints\n" +
			"it. The server runs for real in each try. The status is 3 if IN does not show it.\n\n" +
			"   wirectl shrink --keep finding:late-result in.pcapng small.ndjson -- npx server\n" +
			"   wirectl shrink --keep outcome:died in.pcapng small.pcapng -- ./server\n" +
			"   wirectl shrink --keep 'jq:.name==\"add\" and .code==-32603' in.pcapng o.ndjson -- ./s",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "keep", Usage: "`WHAT` the session must show: finding:NAME, outcome:NAME or jq:EXPR"},
			&cli.IntFlag{Name: "runs", Value: 3, Usage: "a session must show it `N` times in a row; more runs tell better what is flaky"},
			&cli.IntFlag{Name: "max-tries", Value: 500, Usage: "start the server at most `N` times"},
			&cli.DurationFlag{Name: "max-time", Value: 10 * time.Minute, Usage: "stop after `TIME` with the smallest session so far"},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "wait `TIME` for a silent server; most tries wait less, as long as its answers took"},
			&cli.IntFlag{Name: "jobs", Value: 1, Usage: "run `N` tries at once, if servers do not disturb each other"},
			&cli.IntFlag{Name: "conn", Usage: "shrink connection `N` of the session (default: the first that shows it)"},
			&cli.BoolFlag{Name: "allow-redacted", Usage: "allow sessions that were redacted or altered"},
		}, sessionFlags()),
		Action: inv.does(runShrink),
	})
}

func runShrink(inv *invocation, c *cli.Context) error {
	keep, err := shrink.ParseKeep(c.String("keep"))
	switch {
	case len(inv.Operands) < 2 || len(inv.Operands)+len(inv.Endpoint) < 3:
		return usagef("give shrink a session, a file for the result and, after them, the server: -- CMD")
	case c.String("keep") == "":
		return usagef("shrink needs --keep: finding:NAME, outcome:NAME or jq:EXPR")
	case err != nil:
		return usagef("invalid --keep %w", err)
	case c.Int("runs") < 1 || c.Int("max-tries") < 1 || c.Int("jobs") < 1 || c.Duration("timeout") <= 0 || c.Duration("max-time") <= 0:
		return usagef("--runs, --max-tries, --jobs, --timeout and --max-time are over 0")
	}
	in, out := inv.Operands[0], inv.Operands[1]
	if err := convert.CheckSave(in, out); err != nil {
		return err
	}
	if !c.IsSet("grace") {
		_ = c.Set("grace", "200ms") // a server that hangs would hold up each try
	}
	inv.Operands = slices.Delete(inv.Operands, 1, 2)
	p := &player{invocation: inv, c: c, side: frame.C2U}
	server, err := inv.endpoint(c, 1)
	if err == nil {
		err = p.load()
	}
	switch {
	case err != nil:
		return err
	case p.over("http", "https", "grpc", "grpcs"):
		return usagef("shrink plays servers over pipes and sockets; over HTTP and gRPC, only replay plays")
	}
	inv.Terminable()
	inv.AtKill(func() {}) // the end of the terminal interrupts, too
	inv.Linger(5 * time.Second)
	mask, terminal := capture.Secrets().Text(), inv.IsTerminal(inv.Stderr) && !c.Bool("quiet")
	inv.unlessQuiet(c, fmt.Sprintf("each of up to %[2]d tries plays against %[1]s for real", render.Safe(mask(server.String())), c.Int("max-tries")))
	line := func(text string) {
		if terminal {
			fmt.Fprintf(inv.Stderr, "\r%s\x1b[K", text)
		}
	}
	result, err := shrink.Run(c.Context, shrink.Options{
		Scripts: p.scripts, Keep: keep, Server: server, Judge: track.Judge, Patience: c.Duration("timeout"), Runs: c.Int("runs"),
		MaxTries: c.Int("max-tries"), MaxTime: c.Duration("max-time"), Jobs: c.Int("jobs"), Limit: c.Int("limit-bytes"), Mask: mask, Progress: line,
	})
	line("")
	switch {
	case is[*shrink.NotShownError](err):
		return &faultError{err}
	case err != nil:
		return err
	case result.Stopped != nil:
		inv.say(out, "perhaps not the smallest: "+result.Stopped.Error())
	}
	if err = convert.Save(out, result.Capture); err == nil && !c.Bool("quiet") {
		inv.say(out, result.Summary)
	}
	return err
}
