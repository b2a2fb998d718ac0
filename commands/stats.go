package commands

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/stats"
	"github.com/wirectl/wirectl/table"
)

func statsCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Category:  reading,
		Usage:     "summarize sessions: counts, latencies, streaming, cancels",
		ArgsUsage: "[SESSION…]",
		Description: "Summarizes captures, recordings, NDJSON or the bytes of one direction, all together,\n" +
			"by kind of message and by name. Latencies come from the times in a capture.\n\n" +
			"   wirectl stats session.pcapng\n" +
			"   wirectl stats -o json a.pcapng | jq '.kinds[] | select(.latency_ms.p99 > 99)'",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "what to print: text, json or ndjson (the same on one line)"},
			pricesFlag(),
		}, sessionFlags()...),
		Action: inv.does(runStats),
	}
}

func runStats(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	out, err := inv.table(c, table.AsText, table.AsJSON, table.AsNDJSON)
	if err != nil {
		return err
	}
	ts, offer, sums, failed := countAll(inv, c, names)
	if failed != nil && (len(names) == 1 || !isOfInput(failed)) {
		return failed
	}
	report := stats.New()
	for _, t := range ts.List {
		report.Add(t.Protocol.Name(), t.Tracker, ts.Timed)
	}
	report.AddTools(stats.ToolsOf(offer))
	sums.AddTo(report)
	if out.Form == table.AsText {
		return cmp.Or(report.Text(out), failed)
	}
	return cmp.Or(out.Document(report), failed)
}

// countAll reads all sessions into the same trackers, and returns the tools that servers
// offer, too.
func countAll(inv *invocation, c *cli.Context, names []string) (*track.Trackers, *contract.Offer, *join.Sums, error) {
	cfg, err := pricedConfig(inv, c)
	if err != nil {
		return nil, nil, nil, err
	}
	inv.reportsAtEnd = true
	offer := &contract.Offer{SizesAlone: true}
	log, sums := &calls.Log{Also: offer.Changed}, new(join.Sums)
	ts := &track.Trackers{OneWay: true, Watcher: log, Contexts: &context.Log{Keep: true}}
	labels := source.Labels(names)
	err = inv.each(names, func(i int, name string) error {
		var run []*calls.Call
		log.Show = func(c *calls.Call) {
			if ts.OfRun {
				run = append(run, c)
			} else {
				sums.Sum(labels[i], c)
			}
		}
		some, known := false, false // of it are messages, or of a protocol that has calls
		add := messages(offer.AddMessage)
		result, last, err := trackSession(inv, c, name, cfg, ts, func(it *decode.Item) error {
			some, known = some || isMessage(it), known || hasCalls(it)
			return add(it)
		})
		if err == nil { // of a capture, the frames tell something
			err = counted(inv, c, name, &result, some, known || ts.Timed, ts, &cfg)
		}
		cfg.FirstSeq = max(cfg.FirstSeq, result.NextSeq)
		log.Finish(last)
		sums.AddRun(labels[i], join.Tree(run, ts.Wires, true))
		return err
	})
	return ts, offer, sums, err
}
