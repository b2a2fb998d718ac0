package lint

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/table"
)

// Forms are the forms of a report.
var Forms = []string{table.AsText, table.AsNDJSON, table.AsJUnit, table.AsSARIF}

// Write writes a report in one of the forms.
func (r *Report) Write(out table.Output) error {
	switch out.Form {
	case table.AsNDJSON:
		return table.Write(out, nil, r.rows())
	case table.AsJUnit:
		return r.junit(out)
	case table.AsSARIF:
		return r.sarif(out)
	}
	return r.asText(out)
}

// A row is a finding in NDJSON. It has its session if there are several.
type row struct {
	session.Finding
	Do      string `json:"do"`
	Conn    int    `json:"conn,omitempty"`
	Session string `json:"session,omitempty"`
}

func (r *Report) rows() (list []row) {
	for _, s := range r.Sessions {
		name := s.Name
		if len(r.Sessions) == 1 {
			name = ""
		}
		for _, f := range s.Findings {
			list = append(list, row{f, Rules[ruleIndex(f.Name)].Do, f.Conn, name})
		}
	}
	return list
}

// asText has a line per finding. The first finding of each name is followed by the rule and advice
// for fixing it.
func (r *Report) asText(out table.Output) error {
	explained := make(map[string]bool)
	style := out.Style
	var b []byte
	column := func(text string, width int, paint render.Paint) {
		b = fmt.Appendf(paint.Append(b, text), "%*s", max(width-len(text), 0)+1, "")
	}
	for _, s := range r.Sessions {
		if len(r.Sessions) > 1 && len(s.Findings) > 0 {
			b = append(style.Kind.Append(b, render.Safe(s.Name)+":"), '\n')
		}
		several := s.severalConns()
		for _, f := range s.Findings {
			paint := style.Dim
			switch f.Severity {
			case session.Error:
				paint = style.Error
			case session.Warning:
				paint = style.ID
			}
			column(f.Severity.String(), severityWidth, paint)
			column(f.Name, nameWidth, style.Kind)
			b = fmt.Appendf(style.ID.Append(b, where(&f, several)), ": %s\n", render.Safe(f.Message))
			if explained[f.Name] {
				continue
			}
			explained[f.Name] = true
			for _, text := range []string{f.Rule, Rules[ruleIndex(f.Name)].Do} {
				column("", severityWidth, render.Paint{})
				b = append(style.Dim.Append(b, render.Safe(text)), '\n')
			}
		}
	}
	_, err := out.To.Write(b)
	return err
}

// The widths of the columns of text, in cells.
const (
	severityWidth = 7
	nameWidth     = 15
)

// junit has a suite for each session, with a test for each rule. A test fails with the findings that
// break its rule. Findings that are not failures are the output of the test, and ignored ones are
// skipped.
func (r *Report) junit(out table.Output) error {
	doc := table.Suites{Name: "wirectl lint"}
	rules := slices.DeleteFunc(slices.Clone(Rules), func(rule session.Rule) bool {
		isOfProtocol := slices.ContainsFunc(session.Findings[:], func(other session.Rule) bool { return other.Name == rule.Name })
		isFound := slices.ContainsFunc(r.Sessions, func(s Session) bool {
			return slices.ContainsFunc(s.Findings, func(f session.Finding) bool { return f.Name == rule.Name })
		})
		return r.Contract.IsEmpty() && !isOfProtocol && !isFound && !r.Policy.only[rule.Name]
	})
	for _, s := range r.Sessions {
		suite := table.Suite{Name: s.Name}
		for _, rule := range rules {
			suite.Append(r.testCase(&s, rule.Name))
		}
		doc.List = append(doc.List, suite)
	}
	return doc.Write(out.To)
}

// testCase tests a session for one rule.
func (r *Report) testCase(s *Session, name string) table.Case {
	c := table.Case{Class: s.Name, Name: name}
	if !r.Policy.reports(name) {
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
			c.Failure = &table.Failure{Type: f.Severity.String(), Message: f.Rule}
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

// sarif has one run. The location of a result is the session's file, and in it the frames concerned.
// These are logical locations, because frames have numbers and no lines.
func (r *Report) sarif(out table.Output) error {
	var rules []table.Rule
	for _, rule := range Rules {
		rules = append(rules, table.Rule{Name: rule.Name, About: rule.Rule, Help: rule.Do, Level: rule.Severity.String()})
	}
	var results []table.Result
	for _, s := range r.Sessions {
		uri := s.Name
		if !strings.HasPrefix(uri, "fixture:") { // which is a URI already
			uri = (&url.URL{Path: filepath.ToSlash(s.Name)}).String()
		}
		for _, f := range s.Findings {
			result := table.Result{
				Rule: ruleIndex(f.Name), Level: f.Severity.String(), Message: render.Safe(f.Message), URI: uri, Kind: "frame",
				Properties: table.Object{"frames", f.Frames, "conn", table.Count(int64(f.Conn)), "rule", f.Rule},
			}
			for _, n := range f.Frames {
				result.Places = append(result.Places, "frame "+strconv.FormatInt(n, 10))
			}
			results = append(results, result)
		}
	}
	return table.SARIF(out.To, rules, results)
}

// severalConns reports whether there are findings of different connections.
func (s *Session) severalConns() bool {
	first := slices.IndexFunc(s.Findings, ofConn)
	return first >= 0 && slices.ContainsFunc(s.Findings, func(f session.Finding) bool { return ofConn(f) && f.Conn != s.Findings[first].Conn })
}

// ofConn reports whether a finding is about one connection. The findings of a contract may be
// about the whole session; their number is 0.
func ofConn(f session.Finding) bool { return f.Conn != 0 }

// where writes the frames of a finding and, if conn is set, its connection: "frames 1, 7 of
// connection 2".
func where(f *session.Finding, conn bool) string {
	if len(f.Frames) == 0 {
		return "the session"
	}
	text := "frame "
	if len(f.Frames) > 1 {
		text = "frames "
	}
	for i, n := range f.Frames {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	if conn && ofConn(*f) {
		text += " of connection " + strconv.Itoa(f.Conn)
	}
	return text
}
