package lint_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/table"
)

// judge returns the findings of an MCP session. Lines beginning with ">" are messages of the
// controller, others of the unit.
func judge(t testing.TB, name string, lines ...string) lint.Session {
	t.Helper()
	tr := session.New(jsonrpc.MCP, session.Options{})
	for i, line := range lines {
		f := session.Frame{Seq: int64(i + 1), Dir: frame.U2C}
		if rest, ok := strings.CutPrefix(line, ">"); ok {
			line, f.Dir = rest, frame.C2U
		}
		var m protocol.Message
		if err := jsonrpc.MCP.Parse([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(f, &m)
	}
	s := lint.Session{Name: name, Frames: int64(len(lines))}
	s.Add("mcp", tr)
	return s
}

const (
	ping    = `>{"jsonrpc":"2.0","id":1,"method":"ping"}`
	big     = `>{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`
	pong    = `{"jsonrpc":"2.0","id":1,"result":{}}`
	unasked = `{"jsonrpc":"2.0","id":"<&\u001b","result":{}}`
)

// report returns a report on two sessions, the second without findings.
func report(t testing.TB, failOn, ignore string) *lint.Report {
	t.Helper()
	policy, err := lint.NewPolicy(strings.Fields(failOn), strings.Fields(ignore))
	if err != nil {
		t.Fatal(err)
	}
	r := &lint.Report{Policy: policy}
	r.Add(judge(t, "a b.pcapng", ping, unasked, big, pong, unasked))
	r.Add(judge(t, "fixture:good", ping, pong))
	return r
}

func TestPolicy(t *testing.T) {
	for _, tt := range []struct {
		failOn, ignore string
		fails          bool
		summary        string
	}{
		{"warning", "", true, "3 findings (2 errors, 1 warning) in 7 frames and 3 exchanges"},
		{"error", "orphan", false, "1 finding (1 warning) in 7 frames and 3 exchanges"},
		{"error unsafe-id", "orphan", true, "1 finding (1 warning) in 7 frames and 3 exchanges"},
		{"unsafe-id", "unsafe-id", false, "2 findings (2 errors) in 7 frames and 3 exchanges"},
		{"note", "orphan unsafe-id", false, "no findings in 7 frames and 3 exchanges"},
		{"", "", false, "3 findings (2 errors, 1 warning) in 7 frames and 3 exchanges"},
	} {
		r := report(t, tt.failOn, tt.ignore)
		if r.Fails() != tt.fails || r.Summary() != tt.summary {
			t.Errorf("fail on %q, ignore %q: %v, %s", tt.failOn, tt.ignore, r.Fails(), r.Summary())
		}
	}
}

// Findings that trackers do not keep are still counted, and fail.
func TestUnkept(t *testing.T) {
	lines := make([]string, 5001)
	for i := range lines {
		lines[i] = strings.Replace(unasked, "<", fmt.Sprint(i), 1)
	}
	policy, err := lint.NewPolicy([]string{"error"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &lint.Report{Policy: policy}
	r.Add(judge(t, "long", lines...))
	if kept := int64(len(r.Sessions[0].Findings)); kept+r.Unkept() != 5001 || r.Unkept() == 0 {
		t.Errorf("%d kept, %d not", kept, r.Unkept())
	}
	if !strings.HasPrefix(r.Summary(), "5001 findings") {
		t.Error(r.Summary())
	}
	r.Sessions[0].Findings = nil
	if !r.Fails() {
		t.Error("what is not kept does not fail")
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := report(t, "error", "").Write(table.Output{To: &out, Form: table.AsText, Style: &render.Style{}}); err != nil {
		t.Fatal(err)
	}
	const want = `a b.pcapng:
error   orphan          frame 2: result "<&\u001b" answers nothing
        mcp: a response has the id of a request, and progress the token of a request that is active
        The request may not have been captured. If there was none, the answering side invented or changed the id.
warning unsafe-id       frame 3: ping 9007199254740993
        mcp: an integer id fits in a double
        Use smaller numbers or strings: many peers round integers over 2^53-1.
error   orphan          frame 5: result "<&\u001b" answers nothing
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// JUnit has a suite for each session and a test for each rule.
func TestJUnit(t *testing.T) {
	var out bytes.Buffer
	if err := report(t, "error", "late-result").Write(table.Output{To: &out, Form: table.AsJUnit}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Name    string  `xml:"name,attr"`
				Class   string  `xml:"classname,attr"`
				Failure *string `xml:"failure"`
				Skipped *string `xml:"skipped"`
				Output  string  `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if len(doc.Suites) != 2 || doc.Suites[1].Failures != 0 {
		t.Fatal(&out)
	}
	bad := doc.Suites[0]
	if bad.Name != "a b.pcapng" || bad.Tests != len(session.Findings) || bad.Tests != len(bad.Cases) || bad.Failures != 1 || bad.Skipped != 1 {
		t.Errorf("%s: %d tests, %d failures, %d skipped", bad.Name, bad.Tests, bad.Failures, bad.Skipped)
	}
	for _, c := range bad.Cases {
		if got, want := c.Failure != nil, c.Name == "orphan"; got != want {
			t.Errorf("%s fails: %v", c.Name, got)
		}
		if got, want := c.Skipped != nil, c.Name == "late-result"; got != want {
			t.Errorf("%s is skipped: %v", c.Name, got)
		}
		if c.Name == "orphan" && strings.Count(*c.Failure, "error: frame ") != 2 {
			t.Error(*c.Failure)
		}
		if got, want := c.Output != "", c.Name == "unsafe-id"; got != want {
			t.Errorf("%s says %q", c.Name, c.Output)
		}
	}
}

// sarif has the members that a reader of SARIF 2.1.0 relies on.
type sarif struct {
	Schema  string `json:"$schema"`
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name  string
				Rules []struct {
					ID                   string
					ShortDescription     struct{ Text string }
					Help                 struct{ Text string }
					DefaultConfiguration struct{ Level string }
				}
			}
		}
		Results []struct {
			RuleID    string
			RuleIndex *int
			Level     string
			Message   struct{ Text string }
			Locations []struct {
				PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				LogicalLocations []struct{ Name string }
			}
		}
	}
}

// levels are the levels of SARIF.
var levels = []string{"none", "note", "warning", "error"}

func TestSARIF(t *testing.T) {
	var out bytes.Buffer
	if err := report(t, "error", "").Write(table.Output{To: &out, Form: table.AsSARIF}); err != nil {
		t.Fatal(err)
	}
	var log sarif
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-2.1.0.json") || len(log.Runs) != 1 {
		t.Fatal(&out)
	}
	run := log.Runs[0]
	rules := run.Tool.Driver.Rules
	if len(rules) != len(lint.Rules) || run.Tool.Driver.Name != "wirectl" {
		t.Errorf("%d rules of %s", len(rules), run.Tool.Driver.Name)
	}
	for _, r := range rules {
		if r.ID == "" || r.ShortDescription.Text == "" || r.Help.Text == "" || !slices.Contains(levels, r.DefaultConfiguration.Level) {
			t.Errorf("%+v", r)
		}
	}
	var got []string
	for _, r := range run.Results {
		if r.RuleIndex == nil || rules[*r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || !slices.Contains(levels, r.Level) || len(r.Locations) != 1 {
			t.Fatalf("%+v", r)
		}
		at := r.Locations[0]
		if _, err := url.Parse(at.PhysicalLocation.ArtifactLocation.URI); err != nil {
			t.Error(err)
		}
		got = append(got, r.RuleID+" "+at.PhysicalLocation.ArtifactLocation.URI+" "+at.LogicalLocations[0].Name)
	}
	want := []string{"orphan a%20b.pcapng frame 2", "unsafe-id a%20b.pcapng frame 3", "orphan a%20b.pcapng frame 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An empty report has an empty list of results, as SARIF requires.
func TestSARIFOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := new(lint.Report).Write(table.Output{To: &out, Form: table.AsSARIF}); err != nil || !strings.Contains(out.String(), `"results": []`) {
		t.Error(err, &out)
	}
}

// The summary has the versions whose rules were applied.
func TestSummaryHasVersions(t *testing.T) {
	const begin = `>{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	const begun = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`
	var r lint.Report
	for range 2 {
		r.Add(judge(t, "one", begin, begun))
	}
	if got, want := r.Summary(), "no findings in 4 frames and 2 exchanges, mcp 2025-06-18"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
