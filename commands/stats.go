package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/stats"
)

// statsOutputs are the values of --output.
var statsOutputs = []string{"text", "json", "ndjson"}

func statsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Category:  reading,
		Usage:     "sum up sessions: counts, latencies, streaming, cancels",
		ArgsUsage: "[SESSION…]",
		Description: "Reads captures, recordings, NDJSON or the bytes of one direction, and sums up what\n" +
			"all of them hold, by kind of message. Times are those of a capture.\n\n" +
			"   wirectl stats session.pcapng\n" +
			"   wirectl stats -o json a.pcapng | jq '.kinds[] | select(.latency_ms.p99 > 99)'",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, json or ndjson (the same on one line)"},
		}, sessionFlags()...),
		Action: inv.does(runStats),
	}
}

func runStats(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if !slices.Contains(statsOutputs, c.String("output")) {
		return usagef("--output is text, json or ndjson, and not %q", c.String("output"))
	}
	colorful, err := inv.colorful(c.String("color"), inv.Stdout)
	if err != nil {
		return err
	}
	ts, failed := countAll(inv, c, names)
	if failed != nil && (len(names) == 1 || !isOfInput(failed)) {
		return failed
	}
	report := stats.New()
	for _, t := range ts.List {
		report.Add(t.Protocol.Name(), t.Tracker, ts.Timed)
	}
	if c.String("output") == "text" {
		return cmp.Or(report.Text(inv.Stdout, inv.width(), render.Palette(colorful)), failed)
	}
	enc := json.NewEncoder(inv.ndjson())
	enc.SetEscapeHTML(false)
	if c.String("output") == "json" {
		enc.SetIndent("", "  ")
	}
	return cmp.Or(enc.Encode(report), failed)
}

// countAll reads all sessions into the same trackers.
func countAll(inv *invocation, c *cli.Context, names []string) (*track.Trackers, error) {
	cfg, err := decodeConfig(c)
	if err != nil {
		return nil, err
	}
	inv.reportsAtEnd = true
	ts := &track.Trackers{OneWay: true}
	err = inv.each(names, func(_ int, name string) error {
		result, err := trackSession(inv, c, name, cfg, ts)
		if err == nil && result.Faults > 0 && !c.Bool("quiet") {
			inv.say(name, fmt.Sprintf("%s; wirectl lint says which", faultCount(result)))
		}
		cfg.FirstSeq = max(cfg.FirstSeq, result.NextSeq)
		return err
	})
	return ts, err
}
