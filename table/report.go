package table

import (
	"encoding/xml"
	"io"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Suites is a report as JUnit XML, which continuous integration reads.
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

// A Rule is a rule in a report as SARIF.
type Rule struct {
	Name, About, Help string
	Level             string // error, warning or note
}

// A Result says that a rule was broken.
type Result struct {
	Rule           int // its index
	Level, Message string
	URI            string   // of the file
	Places         []string // in the file
	Kind           string   // of the places
	Properties     Object
}

// SARIF writes a log of SARIF 2.1.0 with one run. Members are named as in the specification.
func SARIF(w io.Writer, rules []Rule, results []Result) error {
	described, found := []Object{}, []Object{}
	for _, r := range rules {
		described = append(described, Object{
			"id", r.Name, "shortDescription",
			Object{"text", r.About},
			"help",
			Object{"text", r.Help},
			"defaultConfiguration",
			Object{"level", r.Level},
		})
	}
	for _, r := range results {
		at := Object{"physicalLocation", Object{"artifactLocation", Object{"uri", r.URI}}}
		var places []Object
		for _, name := range r.Places {
			places = append(places, Object{"name", name, "kind", r.Kind})
		}
		if places != nil {
			at = append(at, "logicalLocations", places)
		}
		found = append(found, Object{
			"ruleId", rules[r.Rule].Name, "ruleIndex", r.Rule, "level", r.Level, "message",
			Object{"text", r.Message},
			"locations",
			[]Object{at},
			"properties", r.Properties,
		})
	}
	driver := Object{"name", "wirectl", "informationUri", "https://github.com/wirectl/wirectl", "rules", described}
	enc := jsonscan.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(Object{
		"$schema", "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0",
		"runs",
		[]Object{{"tool", Object{"driver", driver}, "results", found}},
	})
}
