// Package junit writes reports as JUnit XML, which continuous integration reads.
package junit

import (
	"encoding/xml"
	"io"
)

// Suites is a whole report.
type Suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	List    []Suite  `xml:"testsuite"`
}

// A Suite is a set of tests.
type Suite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Cases    []Case `xml:"testcase"`
}

// A Case is a test. It has passed unless it has failed or was skipped.
type Case struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Failure *Failure  `xml:"failure"`
	Skipped *struct{} `xml:"skipped"`
	Output  string    `xml:"system-out,omitempty"`
}

// A Failure says why a test failed.
type Failure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Append adds a test, and counts it.
func (s *Suite) Append(c Case) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

// Write writes the report.
func (s *Suites) Write(w io.Writer) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
