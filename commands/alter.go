package commands

import (
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/session/query"
)

// alterFlags are the flags that ask for what passes to be changed.
func alterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "fault", Value: &faultRules{}, Usage: "break frames on purpose by `RULE`, such as 'delay 200ms when kind==result'; may be repeated"},
		&cli.StringFlag{Name: "fault-file", Usage: "break frames on purpose by the rules in `FILE`, in YAML"},
		&cli.Uint64Flag{Name: "fault-seed", Usage: "draw what faults leave to chance from the seed `N`: the same one makes the same faults (default: that of --fault-file, or 0)"},
		&cli.StringFlag{Name: "hold", Usage: "let frames that match `EXPR` wait until they are let go over the tap"},
		&cli.BoolFlag{Name: "control", Usage: "let viewers of the tap send frames, cancels and frames once more, and hold"},
	}
}

// faultRules are the values of --fault.
type faultRules struct{ rules []fault.Rule }

func (f *faultRules) Set(text string) error {
	r, err := fault.Parse(text)
	if err == nil {
		f.rules = append(f.rules, r)
	}
	return err
}

func (f *faultRules) String() string { return "" }

// An alteration is what the command line asks to be changed.
type alteration struct {
	faults  *fault.Plan
	hold    *query.Where
	control bool // viewers may change things
}

// alterationOf reads the flags; it returns nil if nothing is to be changed.
func alterationOf(c *cli.Context) (*alteration, error) {
	a := &alteration{control: c.Bool("control") || c.IsSet("hold")}
	rules, _ := c.Generic("fault").(*faultRules)
	plan := &fault.Plan{}
	if name := c.String("fault-file"); name != "" {
		data, err := yamlfile.Read(name)
		if err != nil {
			return nil, err
		}
		if plan, err = fault.ParseFile(data); err != nil {
			return nil, usagef("%s: %w", name, err)
		}
	}
	plan.Rules = append(plan.Rules, rules.rules...)
	if c.IsSet("fault-seed") {
		plan.Seed = c.Uint64("fault-seed")
	}
	if len(plan.Rules) > 0 {
		a.faults = plan
	}
	if expr := c.String("hold"); expr != "" {
		var err error
		if a.hold, err = query.Parse(expr, fault.Fields); err != nil {
			return nil, usagef("--hold: %w", err)
		}
	}
	if a.control && c.Bool("no-tap") {
		return nil, usagef("--hold and --control are served by the tap, and --no-tap turns it off")
	}
	if a.faults == nil && !a.control {
		return nil, nil
	}
	return a, nil
}

// fromTheStart reports whether all of the session is altered, and not only from
// when a viewer asks for it.
func (a *alteration) fromTheStart() bool { return a != nil && (a.faults != nil || a.hold != nil) }

// newGate returns what changes what passes; nil if nothing is to be changed.
func (w *watch) newGate(a *alteration) *relay.Gate {
	if a == nil {
		return nil
	}
	cfg := relay.GateConfig{Faults: a.faults, Hold: a.hold, Sink: w.fan, Altered: w.altered}
	if w.hub != nil {
		cfg.Find = w.hub.Find
	}
	return relay.NewGate(cfg)
}

// altered marks what is kept as altered.
func (w *watch) altered() {
	if w.hub != nil {
		w.hub.Alter()
	}
	if w.recorder != nil {
		w.recorder.Alter()
	}
}
