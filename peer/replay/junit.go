package replay

import (
	"fmt"

	"github.com/wirectl/wirectl/internal/junit"
	"github.com/wirectl/wirectl/internal/render"
)

// JUnit returns a run as a suite: a test for each recorded frame of the peer, and one for
// each frame that was not recorded.
func (r *Result) JUnit(name string) junit.Suite {
	suite := junit.Suite{Name: name}
	for _, c := range r.Cases {
		test := junit.Case{Class: name, Name: render.Safe(c.Name)}
		if d := c.Divergence; d != nil {
			text := string(d.AppendLines(nil, 0, new(render.Style)))
			test.Failure = &junit.Failure{Type: string(d.What), Message: render.Safe(d.Text), Text: text}
		}
		if c.Skipped {
			test.Skipped = &struct{}{}
		}
		suite.Append(test)
	}
	return suite
}

// AppendLines appends the short form of a divergence: its text and the changes.
func (d *Divergence) AppendLines(b []byte, width int, style *render.Style) []byte {
	b = append(style.Error.Append(b, render.Safe(d.Text)), '\n')
	return d.appendChanges(b, width, style)
}

// DifferenceText describes the first difference and counts the others.
func (r *Result) DifferenceText() string {
	first := r.Divergence().Text
	if r.Differences == 1 {
		return first
	}
	return fmt.Sprintf("%s; the first: %s", render.Count(r.Differences, "difference"), first)
}
