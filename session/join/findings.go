package join

import (
	"cmp"
	"fmt"
	"time"

	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/table"
)

// Rules lists the rules for runs, in the order of the document.
var Rules = [...]session.Rule{
	{
		Name: "cancel-lost", Severity: session.Warning, Rule: "what belongs to a cancelled turn, or was given up, is cancelled on every wire",
		Do: "See in wirectl calls --cancelled where the cancel ended: that program must pass it on to the next.",
	},
	{
		Name: "outlived-run", Severity: session.Warning, Rule: "what an agent has started ends with it",
		Do: "End the process in its parent, or start it outside of the run if it is to stay.",
	},
}

// grace is how long after a cancel, or the end of the agent, something may still end by itself.
const grace = time.Second

// Findings returns the broken rules in a tree that [Tree] has returned.
func Findings(tree []*calls.Call) (found []session.Finding) {
	for i, c := range tree {
		if given := c.Place.GivenUp; !given.IsZero() && endOf(c).After(given.Add(grace)) {
			found = append(found, finding(0, c, fmt.Sprintf("%s %s after the model was told that it failed", title(c), wentOn(c, given))))
		}
		switch {
		case c.Place.Turn && c.Stopped:
			end := i + 1
			for end < len(tree) && tree[end].Place.Depth > 0 {
				end++
			}
			found = append(found, lost(tree[i+1:end])...)
		case c.Protocol == processes && c.Kind == "agent" && c.Outcome != session.Open:
			found = append(found, outlived(tree, c)...)
		}
	}
	return found
}

// processes is the name of the protocol of package process.
const processes = "process"

func endOf(c *calls.Call) time.Time { return c.Start.Add(c.Duration) }

// lost returns the findings that calls of a cancelled turn went on.
func lost(turn []*calls.Call) (found []session.Finding) {
	var first, last *calls.Call // that were cancelled
	for _, s := range turn {
		if !s.Stopped || s.Place.Agent {
			continue
		}
		if first == nil || stoppedAt(s).Before(stoppedAt(first)) {
			first = s
		}
		if last == nil || stoppedAt(s).After(stoppedAt(last)) {
			last = s
		}
	}
	for _, c := range turn {
		if first == nil || c.Stopped || c.Place.Agent || !c.Start.Before(stoppedAt(first)) || !endOf(c).After(stoppedAt(last).Add(grace)) {
			continue
		}
		found = append(found, finding(0, c, fmt.Sprintf("%s %s after %s was cancelled", title(c), wentOn(c, stoppedAt(first)), title(first))))
	}
	return found
}

// wentOn says how long a call went on after a time.
func wentOn(c *calls.Call, after time.Time) string {
	if c.Outcome == session.Open {
		return "went on"
	}
	return "went on for " + table.Millis(endOf(c).Sub(after)).String()
}

// outlived returns the findings about what went on after an agent had ended.
func outlived(tree []*calls.Call, agent *calls.Call) (found []session.Finding) {
	for _, c := range tree {
		if c != agent && !c.Place.Turn && !c.Place.Agent && c.Start.Before(endOf(agent)) && c.Outcome != session.Open && endOf(c).After(endOf(agent).Add(grace)) {
			found = append(found, finding(1, c, fmt.Sprintf("%s ended %s after %s", title(c), table.Millis(endOf(c).Sub(endOf(agent))), title(agent))))
		}
	}
	return found
}

func finding(rule int, c *calls.Call, message string) session.Finding {
	return session.Finding{
		Name: Rules[rule].Name, Severity: Rules[rule].Severity, Frames: []int64{c.Frame}, Conn: c.Conn,
		Rule: "run: " + Rules[rule].Rule, Message: message,
	}
}

// title names a call, with its wire.
func title(c *calls.Call) string {
	name := cmp.Or(c.Name, c.Kind)
	if c.Wire != "" {
		name += " on " + c.Wire
	}
	return name
}
