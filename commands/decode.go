package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/table"
)

func decodeCommand(inv *invocation) *cli.Command {
	var verbose int
	return &cli.Command{
		Name:      "decode",
		Category:  reading,
		Usage:     "show the frames of a stream as text, NDJSON or raw bytes",
		ArgsUsage: "[FILE…]",
		Description: "Reads files, captures, fixture:NAME, a running session (tap:NAME, live) or standard\n" +
			"input, detects framing and protocol, and prints each frame.\n\n" +
			"   wirectl decode < dump.bin\n" +
			"   wirectl decode -v --where 'kind==tools/call' fixture:mcp-everything/c2s.bin\n" +
			"   wirectl decode -o ndjson dump.bin | jq .payload",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, ndjson or raw"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Count: &verbose, Usage: "with text: also show payloads; -vv adds a hex dump"},
			&cli.BoolFlag{Name: "payload", Usage: "print only the payloads, unchanged (escaped on a terminal)"},
			&cli.BoolFlag{Name: "count", Usage: "print the number of frames and bytes by kind"},
			&cli.StringFlag{Name: "where", Usage: "show only frames that match the `CONDITION`: FIELD==VALUE, !=, ~ (contains), joined by and"},
			&cli.StringFlag{Name: "jq", Usage: "print the output of the jq filter `EXPR` for each frame's NDJSON object"},
			&cli.Int64Flag{Name: "head", Usage: "stop after `N` frames"},
			&cli.Int64Flag{Name: "skip", Usage: "skip the first `N` frames"},
			&cli.BoolFlag{Name: "follow", Usage: "wait for more at the end of a file"},
			&cli.BoolFlag{Name: "resync", Usage: "skip invalid bytes and resume at the next plausible frame"},
			grpcEncodingFlag(),
			&cli.StringFlag{Name: "time", Value: string(decode.Relative), Usage: "how to print times: rel (since the first frame), delta (since the previous frame), abs, utc"},
			colorFlag("the output"),
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "do not print the detected format"},
		}, inputFlags()...),
		Action: inv.does(func(inv *invocation, c *cli.Context) error { return runDecode(inv, c, verbose) },
			excludes("count", "jq"), excludes("count", "output raw"),
			excludes("payload", "count", "jq", "output").Because("--payload prints payloads and nothing else: leave out --count, --jq and --output"),
			excludes("jq", "output raw").Because("--jq prints JSON: leave out --output raw"),
			excludes("jq", "output text").Because("--jq prints JSON: leave out --output text")),
	}
}

func grpcEncodingFlag() cli.Flag {
	return &cli.StringFlag{Name: "grpc-encoding", Value: decode.Compressions[0], Usage: "compression of gRPC messages: " + strings.Join(decode.Compressions, ", ")}
}

func runDecode(inv *invocation, c *cli.Context, verbose int) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if err := followsOne(c, names); err != nil {
		return err
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	if cfg.Match, err = frameCondition(c.String("where")); err != nil {
		return err
	}
	newView, err := decodeView(inv, c, verbose)
	if err != nil {
		return err
	}
	if c.Bool("count") {
		cfg.Counter = new(decode.Counter)
	}
	if c.IsSet("head") && cfg.Head == 0 {
		names = nil
	}
	total, err := decodeAll(inv, c, names, cfg, newView)
	if cfg.Counter != nil { // also after an interrupt of --follow
		if cerr := printCounts(inv, c, cfg.Counter.Sum()); cerr != nil {
			return cerr
		}
	}
	switch {
	case total.Faults == 0:
	case err == nil:
		return &faultError{total.FaultError()}
	case isUnread(err): // it does not mention the faults
		report(inv.Stderr, total.FaultError())
	}
	return err
}

// decodeAll decodes the inputs one after the other. If there are several, each is a connection.
func decodeAll(inv *invocation, c *cli.Context, names []string, cfg decode.Config, newView func() decode.View) (decode.Result, error) {
	var total decode.Result
	err := inv.each(names, func(i int, name string) error {
		if total.Enough {
			return nil
		}
		if len(names) > 1 {
			cfg.Conn = i + 1
		}
		result, err := decodeOne(inv, c, name, cfg, newView)
		if result.First != nil {
			result.First = decode.AdvisePassed(fmt.Errorf("%s: %w", label(name), result.First), result.Framing)
		}
		total.Merge(&result)
		cfg.FirstSeq = max(cfg.FirstSeq, result.NextSeq)
		cfg.Skip -= result.Passed
		if c.IsSet("head") {
			cfg.Head -= result.Shown
		}
		total.Enough = result.Enough
		return err
	})
	return total, err
}

func decodeOne(inv *invocation, c *cli.Context, name string, cfg decode.Config, newView func() decode.View) (decode.Result, error) {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	cfg.Notice, cfg.Note, cfg.Interrupt = inv.notice(c, name), remarks(inv, c, name), cancel
	cfg.Wire = c.String("output") == "raw"
	src, err := inv.openSession(ctx, name, cfg, c.Bool("follow"))
	if err != nil {
		return decode.Result{}, err
	}
	defer src.Close()
	out := inv.output(c)
	if c.IsSet("jq") {
		out = inv.ndjson()
	}
	result, err := decode.Run(c.Context, src.Input, out, cfg, newView)
	if err == nil {
		tellEmpty(&result, cfg.Notice)
	}
	return result, located(name, result.Framing, err)
}

// notice returns the function that prints notices on an input; nil with --quiet.
func (inv *invocation) notice(c *cli.Context, name string) func(text string) {
	if c.Bool("quiet") {
		return nil
	}
	return func(text string) { inv.say(name, text) }
}

// remarks returns the function that prints the notes in a capture; nil with --quiet.
func remarks(inv *invocation, c *cli.Context, name string) func(seq int64, rec *capture.Record) {
	if c.Bool("quiet") {
		return nil
	}
	return decode.Remarks(func(seq int64, text string) { inv.say(name, fmt.Sprintf("before frame %d: %s", seq, text)) })
}

// printLine prints a line of a jq filter, which may quote the wire.
func (inv *invocation) printLine(line string) { fmt.Fprintln(inv.Stderr, render.Safe(line)) }

// say prints a message about an input.
func (inv *invocation) say(name, text string) {
	fmt.Fprintf(inv.Stderr, "wirectl: %s\n", render.Safe(label(name)+": "+text))
}

// located adds the input to an error and, if it is a fault of the input, what to try.
func located(name string, framing frame.Framing, err error) error {
	switch {
	case err == nil || isBrokenPipe(err):
		return err
	case errors.Is(err, decode.ErrNoMessage):
		return usagef("%s: %w", label(name), err)
	case frame.IsFault(err), errors.Is(err, frame.ErrUnknown), capture.IsFault(err):
		return &faultError{decode.Advise(fmt.Errorf("%s: %w", label(name), err), framing)}
	case is[*frame.Error](err), is[*capture.Error](err), decode.IsForeign(err), errors.Is(err, capture.ErrCut):
		return &source.Error{Err: fmt.Errorf("%s: %w", label(name), err)}
	}
	return err
}

// maxWorkers bounds the workers of decode: more would only wait for input and use memory.
const maxWorkers = 8

// decodeConfig reads the flags that say how to read.
func decodeConfig(c *cli.Context) (decode.Config, error) {
	stream, err := streamOf(c)
	if err != nil {
		return decode.Config{}, err
	}
	kind, err := carrierOf(c)
	if err != nil {
		return decode.Config{}, err
	}
	cfg := decode.Config{
		Framing: stream.framing, Protocol: stream.protocol, Carrier: kind, Calls: stream.calls(),
		Limit:       c.Int("limit-bytes"),
		Resync:      c.Bool("resync"),
		Compression: c.String("grpc-encoding"),
		Keylog:      c.String("keylog"), Field: c.String("field"),
		Skip: c.Int64("skip"), Head: c.Int64("head"), Lines: printsLines(c),
		Workers: min(runtime.GOMAXPROCS(0), maxWorkers),
		Reframe: convert.Reframe(convert.EncodeConfig{}),
	}
	if cfg.Skip < 0 || cfg.Head < 0 {
		return cfg, usagef("invalid --skip or --head: want 0 or more frames")
	}
	if !slices.Contains(decode.Compressions, cfg.Compression) {
		return cfg, usagef("invalid --grpc-encoding %q: want one of %s", cfg.Compression, strings.Join(decode.Compressions, ", "))
	}
	if jq := c.String("jq"); strings.Contains(jq, "debug") || strings.Contains(jq, "stderr") {
		cfg.Workers = 1 // their lines must be in the order of the frames
	}
	if p := stream.protocol; c.Bool("count") && p != nil && p.Encoding() == protocol.Opaque {
		cfg.Workers = 1 // handing a batch over would cost more than counting it
	}
	return cfg, nil
}

// pricesFlag is the flag with the prices of tokens.
func pricesFlag() cli.Flag {
	return &cli.StringFlag{Name: "prices", Usage: "read token prices from `FILE` (default: prices.yaml in wirectl's configuration folder)"}
}

// pricedConfig is decodeConfig for commands that show what calls cost.
func pricedConfig(inv *invocation, c *cli.Context) (decode.Config, error) {
	cfg, err := decodeConfig(c)
	if err == nil {
		cfg.Prices, err = prices.LoadBook(c.String("prices"), inv.Getenv)
	}
	return cfg, err
}

// followsOne checks that --follow has only one input.
func followsOne(c *cli.Context, names []string) error {
	if c.Bool("follow") && len(names) > 1 {
		return usagef("--follow waits at the end of the first input and never reaches %s: name one input", label(names[1]))
	}
	return nil
}

// frameCondition returns the condition of --where; nil if there is none.
func frameCondition(expr string) (func(*decode.Item) bool, error) {
	if expr == "" {
		return nil, nil
	}
	where, err := query.Parse(expr, decode.Fields)
	if err == nil {
		return func(it *decode.Item) bool { return where.Match(it) }, nil
	}
	if _, other := query.Parse(expr, calls.Fields); other == nil {
		return nil, usagef("--where: %w; frames have no outcome: use wirectl calls --where", err)
	}
	return nil, usagef("--where: %w", err)
}

// decodeView reads the flags that say what to print.
func decodeView(inv *invocation, c *cli.Context, verbose int) (func() decode.View, error) {
	view, err := outputView(inv, c, verbose)
	switch {
	case err != nil:
		return nil, err
	case (verbose > 0 || c.IsSet("time")) && !printsLines(c): // an invalid time is reported first
		return nil, usagef("--verbose and --time change text output: leave them out with --count, --jq, --payload and --output ndjson or raw")
	case c.IsSet("jq"):
		program, err := query.CompileJQ(c.String("jq"), inv.printLine)
		if err != nil {
			return nil, usagef("--jq: %w", err)
		}
		return func() decode.View { return decode.Filtered(c.Context, program) }, nil
	case c.Bool("payload"):
		return decode.Payload, nil
	}
	return view, nil
}

// printsLines reports whether frames are to be printed as text.
func printsLines(c *cli.Context) bool {
	return c.String("output") == "text" && !c.Bool("count") && !c.Bool("payload") && !c.IsSet("jq")
}

// outputView returns the view that --output names.
func outputView(inv *invocation, c *cli.Context, verbose int) (func() decode.View, error) {
	out, err := inv.table(c, table.AsText, table.AsNDJSON, "raw")
	if err != nil {
		return nil, err
	}
	clock := decode.Clock(c.String("time"))
	if !slices.Contains(decode.Clocks, clock) {
		return nil, usagef("invalid --time %q: want rel, delta, abs or utc", clock)
	}
	switch out.Form {
	case table.AsNDJSON:
		return decode.NDJSON, nil
	case "raw":
		return decode.Raw, nil
	}
	return decode.Text{Width: out.Width, Verbose: verbose, Clock: clock, Style: out.Style}.View, nil
}

// printCounts prints the counts of kinds.
func printCounts(inv *invocation, c *cli.Context, sum decode.Sum) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil || out.Form == table.AsNDJSON {
		return cmp.Or(err, out.Document(sum))
	}
	out.Indent = "  "
	return table.Write(out, []table.Column[decode.Count]{
		{Title: "frames", Right: true, Value: func(k *decode.Count) any { return k.Frames }},
		{Title: "bytes", Right: true, Value: func(k *decode.Count) any { return k.Bytes }},
		{Title: " ", Cell: func(k *decode.Count) string { return strings.TrimRight(k.Protocol+" "+k.Kind, " ") }},
	}, append([]decode.Count{{Protocol: "all", Frames: sum.Frames, Bytes: sum.Bytes}}, sum.Kinds...))
}
