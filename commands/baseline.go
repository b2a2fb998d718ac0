package commands

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/table"
)

func baselineCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "baseline",
		Category:  reading,
		Usage:     "write the tools of a session's MCP server, for lint --baseline",
		ArgsUsage: "[SESSION | list | diff ID | accept ID…]",
		Description: "Writes names, descriptions, schemas and annotations of the tools listed last, as\n" +
			"sorted JSON, so that changes can be reviewed line by line. list, diff and accept are\n" +
			"about the pins of --pin: baselines of servers as they were first seen, what the\n" +
			"servers have offered instead since, and to make that the pin.\n\n" +
			"   wirectl baseline session.pcapng > tools.json\n" +
			"   wirectl lint --baseline tools.json later.pcapng\n" +
			"   wirectl baseline list\n" +
			"   wirectl baseline diff 3f9a1c\n" +
			"   wirectl baseline accept 3f9a1c",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "how list and diff print: text or ndjson"},
		}, sessionFlags()...),
		Action: inv.does(runBaseline),
	}
}

func runBaseline(inv *invocation, c *cli.Context) error {
	if len(inv.Operands) > 0 && slices.Contains([]string{"list", "diff", "accept"}, inv.Operands[0]) {
		return runPins(inv, c, inv.Operands[0], inv.Operands[1:])
	}
	names, err := inv.sources()
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return usagef("baseline takes one SESSION; got %d", len(names))
	}
	if c.IsSet("output") {
		return usagef("--output is for baseline list and diff; to write a file: wirectl baseline SESSION > FILE")
	}
	cfg, err := decodeConfig(c)
	if err != nil {
		return err
	}
	inv.reportsAtEnd = true
	var offer contract.Offer
	if _, _, err := trackSession(inv, c, names[0], cfg, &track.Trackers{Watcher: &offer}, messages(offer.AddMessage)); err != nil {
		return err
	}
	switch {
	case !offer.Any():
		return errNoTools
	case contract.Masked(offer.Tools()):
		return errMasked
	case offer.Cut() && !c.Bool("quiet"):
		inv.say(names[0], "the list of tools is incomplete: its next page is not in the session")
	}
	return (&contract.Baseline{Tools: offer.Tools()}).Write(inv.Stdout)
}

var errMasked = errors.New("the definitions of the tools are redacted: record a session with --record full or --capture FILE")

var errNoTools = errors.New("no tools were listed: record a session in which the client asks for tools/list, " +
	"as with wirectl send -o ndjson mcp tools/list '{}' -- SERVER")

// runPins lists pins, shows what has changed, or accepts that.
func runPins(inv *invocation, c *cli.Context, verb string, ids []string) error {
	out, err := inv.table(c, table.AsText, table.AsNDJSON)
	if err != nil {
		return err
	}
	store, err := pin.Open(inv.Getenv)
	if err != nil {
		return err
	}
	switch {
	case verb == "list" && len(ids) > 0:
		return usagef("write wirectl baseline list, baseline diff ID or baseline accept ID")
	case verb != "list" && len(ids) == 0, verb == "diff" && len(ids) > 1:
		return usagef("baseline %s needs the ID of a pin, which wirectl baseline list shows", verb)
	case verb == "diff":
		p, err := store.Find(ids[0])
		if err != nil {
			return err
		}
		return diffPin(inv, out, &p)
	case verb == "list":
		list, err := store.List()
		if err == nil && len(list) == 0 {
			inv.say("baseline", "no pins in "+store.Dir+"; wirectl wrap --pin and wirectl run --pin make them")
			return nil
		}
		return cmp.Or(err, table.Write(out, pinColumns, list))
	}
	for _, id := range ids {
		p, err := store.Accept(id)
		if err != nil {
			return err
		}
		inv.say("baseline", "pin "+p.ID+" now has "+render.Count(int64(len(p.Baseline.Tools)), "tool")+" of "+p.Server())
	}
	return nil
}

var pinColumns = []table.Column[pin.Pin]{
	{Name: "id", Title: "ID", Value: func(p *pin.Pin) any { return p.ID }},
	{Name: "state", Title: "STATE", Value: func(p *pin.Pin) any { return p.State() }},
	{Name: "tools", Title: "TOOLS", Right: true, Value: func(p *pin.Pin) any { return p.Tools() }},
	{Name: "client", Title: "CLIENT", Least: 6, Value: func(p *pin.Pin) any { return p.Client() }},
	{Name: "server", Title: "SERVER", Least: 20, Value: func(p *pin.Pin) any { return p.Server() }},
}

var pinChangeColumns = []table.Column[contract.Change]{
	{Name: "severity", Title: "SEVERITY", Value: func(d *contract.Change) any { return d.Severity().String() }},
	{Name: "class", Title: "CLASS", Value: func(d *contract.Change) any { return string(d.Class) }},
	{Name: "tool", Value: func(d *contract.Change) any { return d.Item }},
	{Name: "change", Title: "CHANGE", Value: func(d *contract.Change) any { return d.Text }},
	{Name: "before", Value: func(d *contract.Change) any { return json.RawMessage(d.A) }},
	{Name: "after", Value: func(d *contract.Change) any { return json.RawMessage(d.B) }},
}

// diffPin prints what a server has offered instead of its pin.
func diffPin(inv *invocation, out table.Output, p *pin.Pin) error {
	if p.Fault != nil {
		return fmt.Errorf("%w; remove it, or accept what its server has offered since with wirectl baseline accept %s", p.Fault, p.ID)
	}
	if p.Changed == nil {
		inv.say("baseline", "pin "+p.ID+": its server has offered nothing else since")
		return nil
	}
	err := table.Write(out, pinChangeColumns, p.Baseline.Drift(p.Changed.Tools))
	inv.say("baseline", "wirectl baseline accept "+p.ID+":"+p.Digest+" accepts this for "+p.Server())
	return err
}

// pinFlag returns --pin, whose value may be left out.
func pinFlag() cli.Flag {
	return cmdline.OptionalFlag{GenericFlag: &cli.GenericFlag{Name: "pin", Value: new(pinValue), Usage: "keep the tools of MCP servers as first seen, and warn if they change; --pin=refuse answers tools/list with an error then"}}
}

type pinValue struct{ mode pin.Mode }

func (v *pinValue) String() string   { return string(v.mode) }
func (v *pinValue) IsBoolFlag() bool { return true }

func (v *pinValue) Set(text string) error {
	v.mode = pin.Mode(text)
	switch {
	case text == "true":
		v.mode = pin.Warn
	case text == "false":
		v.mode = ""
	case !slices.Contains(pin.Modes, v.mode):
		return fmt.Errorf("want warn or refuse, got %q", text)
	}
	return nil
}

// pinMode returns the value of --pin; "" if it is not given.
func pinMode(c *cli.Context) pin.Mode {
	if v, ok := c.Generic("pin").(*pinValue); ok {
		return v.mode
	}
	return ""
}
