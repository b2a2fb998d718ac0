package lint

import (
	"io"
	"strings"

	"github.com/wirectl/wirectl/internal/junit"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// JUnit writes a report as JUnit XML: a suite for each session, with a test for each rule. A
// test fails with the findings that break its rule. Findings that are not failures are the
// output of the test, and ignored ones are skipped.
func (r *Report) JUnit(w io.Writer) error {
	doc := junit.Suites{Name: "wirectl lint"}
	for _, s := range r.Sessions {
		doc.List = append(doc.List, r.suite(&s))
	}
	return doc.Write(w)
}

func (r *Report) suite(s *Session) junit.Suite {
	suite := junit.Suite{Name: s.Name}
	rules := session.Findings[:]
	if !r.Contract.IsEmpty() {
		rules = Rules
	}
	for _, rule := range rules {
		suite.Append(r.testCase(s, rule.Name))
	}
	return suite
}

// testCase tests a session for one rule.
func (r *Report) testCase(s *Session, name string) junit.Case {
	c := junit.Case{Class: s.Name, Name: name}
	if r.Policy.ignore[name] {
		c.Skipped = &struct{}{}
		return c
	}
	several := s.severalConns()
	var lines []string
	for _, f := range s.Findings {
		if f.Name != name {
			continue
		}
		lines = append(lines, f.Severity.String()+": "+where(&f, several)+": "+render.Safe(f.Message))
		if c.Failure == nil && r.Policy.fails(f) {
			c.Failure = &junit.Failure{Type: f.Severity.String(), Message: f.Rule}
		}
	}
	if n := s.Unkept[name]; n > 0 {
		lines = append(lines, "and "+render.Count(n, "finding")+" before")
	}
	if len(lines) > 0 {
		lines = append(lines, Rules[ruleIndex(name)].Do)
	}
	if text := strings.Join(lines, "\n"); c.Failure != nil {
		c.Failure.Text = text
	} else {
		c.Output = text
	}
	return c
}
