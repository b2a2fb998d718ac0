package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
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
		Action: inv.taps,
	}
}

func (inv *invocation) taps(c *cli.Context) error {
	if len(inv.Operands) > 0 {
		return usagef("taps takes no operands, and %q is one", inv.Operands[0])
	}
	write, ok := map[string]func([]tapLine) error{"text": inv.tapTable, "ndjson": inv.tapLines}[c.String("output")]
	if !ok {
		return usagef("--output is text or ndjson, and not %q", c.String("output"))
	}
	dir, err := tap.Dir(inv.Getenv)
	if err != nil {
		return err
	}
	taps, err := tap.List(dir, func(err error) { inv.say("taps", err.Error()) })
	if err != nil {
		return err
	}
	var lines []tapLine
	for _, info := range slices.Backward(taps) {
		line, err := glance(c.Context, dir, info)
		if gone := (*tap.NotFoundError)(nil); errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("tap:%s: %w", info.Name, err)
		}
		lines = append(lines, line)
	}
	return write(lines)
}

// A tapLine is what is printed of a tap.
type tapLine struct {
	tap.Info
	// Protocols are those that its frames are of; the one in Info was named.
	Protocols []string `json:"protocols,omitempty"`
	Frames    int64    `json:"frames"`
	Bytes     int64    `json:"bytes"`
	Altered   bool     `json:"altered,omitempty"`
}

// glanced is how many frames of a tap are looked at for their protocol.
const glanced = 64

// glance looks at what has passed a tap.
func glance(ctx context.Context, dir string, info tap.Info) (tapLine, error) {
	past, err := tap.Glance(ctx, dir, info.Name, glanced)
	if err != nil {
		return tapLine{}, err
	}
	defer past.Close()
	line := tapLine{Info: info, Frames: past.Hello.Frames, Bytes: past.Hello.Bytes, Altered: past.Hello.Altered}
	s := store.New(store.Options{})
	defer s.Close()
	_ = s.Take(ctx, decode.Input{Capture: past}, decode.Config{Workers: 1}) // what was broken off has told something
	for _, wire := range s.Overview().Protocols {
		name, _, _ := strings.Cut(wire, "/")
		if !slices.Contains(line.Protocols, name) {
			line.Protocols = append(line.Protocols, name)
		}
	}
	if len(line.Protocols) == 0 && info.Protocol != "" {
		line.Protocols = []string{info.Protocol}
	}
	return line, nil
}

func (inv *invocation) tapLines(lines []tapLine) error {
	out := json.NewEncoder(inv.ndjson())
	out.SetEscapeHTML(false)
	for _, l := range lines {
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func (inv *invocation) tapTable(lines []tapLine) error {
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
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%s\n", l.Name, l.Pid, age(time.Since(l.Started)), strings.Join(l.Protocols, ", "), l.Frames, render.Safe(ends))
	}
	return w.Flush()
}

// age is a time in its largest unit, such as 3m.
func age(d time.Duration) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if d >= unit.of {
			return fmt.Sprintf("%d%s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%ds", max(0, d/time.Second))
}
