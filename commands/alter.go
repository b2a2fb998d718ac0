package commands

import (
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/commands/watch"
	"github.com/wirectl/wirectl/internal/yamlfile"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/session/query"
)

// alterFlags are the flags that ask for what passes to be changed.
func alterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "fault", Value: &faultRules{}, Usage: "inject faults by `RULE`, such as 'delay 200ms when kind==result'; repeatable"},
		&cli.StringFlag{Name: "fault-file", Usage: "inject faults by the rules in the YAML `FILE`"},
		&cli.Uint64Flag{Name: "fault-seed", Usage: "seed random faults with `N`; the same seed makes the same faults (default: from --fault-file, or 0)"},
		&cli.StringFlag{Name: "hold", Usage: "hold frames that match `EXPR` until they are released over the tap"},
		&cli.BoolFlag{Name: "control", Usage: "let viewers of the tap hold frames, resend them, and send frames and cancels"},
		&cli.BoolFlag{Name: "hub-control", Usage: "let viewers at the hub do the same, if their token has --control"},
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

// alteration reads the flags that ask for changes into the options.
func alteration(c *cli.Context, o *watch.Options) error {
	o.Control, o.HubControl = c.Bool("control") || c.IsSet("hold"), c.Bool("hub-control")
	rules, _ := c.Generic("fault").(*faultRules)
	plan := &fault.Plan{}
	if name := c.String("fault-file"); name != "" {
		data, err := yamlfile.Read(name)
		if err != nil {
			return err
		}
		if plan, err = fault.ParseFile(data); err != nil {
			return usagef("%s: %w", name, err)
		}
	}
	plan.Rules = append(plan.Rules, rules.rules...)
	if c.IsSet("fault-seed") {
		plan.Seed = c.Uint64("fault-seed")
	}
	if len(plan.Rules) > 0 {
		o.Faults = plan
	}
	if expr := c.String("hold"); expr != "" {
		var err error
		if o.Hold, err = query.Parse(expr, fault.Fields); err != nil {
			return usagef("--hold: %w", err)
		}
	}
	if o.Control && c.Bool("no-tap") {
		return usagef("--hold and --control need the tap: leave out --no-tap")
	}
	return nil
}
