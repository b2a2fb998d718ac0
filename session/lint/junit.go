package lint

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// The elements of JUnit XML, as far as they are used.
type (
	testSuites struct {
		XMLName xml.Name    `xml:"testsuites"`
		Name    string      `xml:"name,attr"`
		Suites  []testSuite `xml:"testsuite"`
	}
	testSuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string    `xml:"classname,attr"`
		Name    string    `xml:"name,attr"`
		Failure *failure  `xml:"failure"`
		Skipped *struct{} `xml:"skipped"`
		Output  string    `xml:"system-out,omitempty"`
	}
	failure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a report as JUnit XML: a suite for each session and in it a
// test for each rule, which fails with the findings that break it. Findings
// that are no failures are the output of the test, and what is ignored is
// skipped.
func (r *Report) JUnit(w io.Writer) error {
	doc := testSuites{Name: "wirectl lint"}
	for _, s := range r.Sessions {
		doc.Suites = append(doc.Suites, r.suite(&s))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Report) suite(s *Session) testSuite {
	suite := testSuite{Name: s.Name}
	for _, rule := range session.Findings {
		c := r.testCase(s, rule.Name)
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Skipped != nil {
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite
}

// testCase tests a session for one rule.
func (r *Report) testCase(s *Session, name string) testCase {
	c := testCase{Class: s.Name, Name: name}
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
			c.Failure = &failure{Type: f.Severity.String(), Message: f.Rule}
		}
	}
	if n := s.Unkept[name]; n > 0 {
		lines = append(lines, "and "+render.Count(n, "finding")+" before")
	}
	if text := strings.Join(lines, "\n"); c.Failure != nil {
		c.Failure.Text = text
	} else {
		c.Output = text
	}
	return c
}
