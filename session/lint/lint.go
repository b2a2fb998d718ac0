// Package lint reports the findings of sessions as text, as NDJSON, and in two formats for
// continuous integration, JUnit XML and SARIF.
//
// Package session makes the findings. This package decides which are reported and which make a
// session fail, and writes them.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// A Policy decides which findings are reported, and which are failures.
type Policy struct {
	least  session.Severity // failures have at least this severity
	named  map[string]bool  // or one of these names
	ignore map[string]bool
	only   map[string]bool // nil for all
}

// OnlySafety makes the policy report only what may mislead a model or its user.
func (p *Policy) OnlySafety() {
	p.only = map[string]bool{"tool-drift": true}
	for _, r := range Safeties {
		p.only[r.Name] = true
	}
}

var severities = []session.Severity{session.Note, session.Warning, session.Error}

// neverFails is higher than any severity.
const neverFails = session.Error + 1

// NewPolicy returns a policy that fails the findings in failOn and ignores the findings named
// in ignore. failOn has names and severities; a severity includes higher ones.
func NewPolicy(failOn, ignore []string) (Policy, error) {
	p := Policy{least: neverFails, named: make(map[string]bool), ignore: make(map[string]bool)}
	for _, word := range failOn {
		if s, ok := severityNamed(word); ok {
			p.least = min(p.least, s)
		} else if ruleIndex(word) >= 0 {
			p.named[word] = true
		} else {
			return p, unknown(word, append(severityNames(), names()...))
		}
	}
	for _, word := range ignore {
		if ruleIndex(word) < 0 {
			return p, unknown(word, names())
		}
		p.ignore[word] = true
	}
	return p, nil
}

// fails reports whether a finding is a failure.
func (p *Policy) fails(f session.Finding) bool {
	return p.reports(f.Name) && (f.Severity >= p.least || p.named[f.Name])
}

// reports reports whether findings of a name are reported.
func (p *Policy) reports(name string) bool { return !p.ignore[name] && (p.only == nil || p.only[name]) }

func severityNamed(word string) (session.Severity, bool) {
	for _, s := range severities {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}

func severityNames() (words []string) {
	for _, s := range severities {
		words = append(words, s.String())
	}
	return words
}

// names returns the names of all findings.
func names() (words []string) {
	for _, r := range Rules {
		words = append(words, r.Name)
	}
	return words
}

func unknown(word string, known []string) error {
	return fmt.Errorf("unknown finding %q%s; docs/findings.md lists them", word, nearest.Question(word, known))
}

// A Session holds the findings of one session.
type Session struct {
	// Name is the name of its file.
	Name string
	// Frames and Exchanges count the judged frames and exchanges.
	Frames, Exchanges int64
	// Findings are in the order of the frames that broke the rules.
	Findings []session.Finding
	// Unkept counts, by name, the findings that trackers no longer keep.
	Unkept map[string]int64
	// Versions are the protocols, with the versions whose rules were applied.
	Versions []string
}

// Add adds the findings of the tracker of a protocol.
func (s *Session) Add(protocol string, t *session.Tracker) {
	if s.Unkept == nil {
		s.Unkept = make(map[string]int64)
	}
	for _, v := range t.Versions() {
		s.Versions = append(s.Versions, protocol+" "+v)
	}
	stats := t.Stats()
	s.Exchanges += stats.Opened
	for name, n := range stats.Findings {
		s.Unkept[name] += n
	}
	for f := range t.Findings() {
		s.Findings = append(s.Findings, f)
		s.Unkept[f.Name]--
	}
	s.sortFindings()
}

// AddFindings adds findings that no tracker has made.
func (s *Session) AddFindings(list []session.Finding) {
	s.Findings = append(s.Findings, list...)
	s.sortFindings()
}

func (s *Session) sortFindings() {
	slices.SortStableFunc(s.Findings, func(a, b session.Finding) int { return cmp.Compare(last(a.Frames), last(b.Frames)) })
}

func last(frames []int64) int64 {
	if len(frames) == 0 {
		return 0
	}
	return frames[len(frames)-1]
}

// A Report holds the findings of sessions, except ignored ones.
type Report struct {
	Sessions []Session
	Policy   Policy
	Contract Contract
}

// Add adds a session without its ignored findings.
func (r *Report) Add(s Session) {
	s.Findings = slices.DeleteFunc(s.Findings, func(f session.Finding) bool { return !r.Policy.reports(f.Name) })
	for name, n := range s.Unkept {
		if n == 0 || !r.Policy.reports(name) {
			delete(s.Unkept, name)
		}
	}
	r.Sessions = append(r.Sessions, s)
}

// Fails reports whether there are findings that fail.
func (r *Report) Fails() bool {
	for _, s := range r.Sessions {
		if slices.ContainsFunc(s.Findings, r.Policy.fails) {
			return true
		}
		for name := range s.Unkept {
			if r.Policy.fails(session.Finding{Name: name, Severity: severityOf(name)}) {
				return true
			}
		}
	}
	return false
}

// Unkept returns how many findings were counted but not kept.
func (r *Report) Unkept() (total int64) {
	for _, s := range r.Sessions {
		for _, n := range s.Unkept {
			total += n
		}
	}
	return total
}

// maxVersions bounds the versions that the summary lists.
const maxVersions = 8

// Summary counts findings, frames and exchanges, and names the protocol versions whose rules
// were applied: "1 finding (1 error) in 7 frames and 2 exchanges, mcp 2025-06-18".
func (r *Report) Summary() string {
	var by [session.Error + 1]int64
	var frames, exchanges int64
	var versions []string
	for _, s := range r.Sessions {
		frames += s.Frames
		exchanges += s.Exchanges
		versions = append(versions, s.Versions...)
		for _, f := range s.Findings {
			by[f.Severity]++
		}
		for name, n := range s.Unkept {
			by[severityOf(name)] += n
		}
	}
	text := fmt.Sprintf("%s in %s and %s", inWords(by), render.Count(frames, "frame"), render.Count(exchanges, "exchange"))
	slices.Sort(versions)
	versions = slices.Compact(versions)
	for _, v := range versions[:min(len(versions), maxVersions)] {
		text += ", " + render.Safe(v)
	}
	return text
}

// inWords writes "no findings", or "3 findings (1 error, 2 notes)".
func inWords(by [session.Error + 1]int64) string {
	var total int64
	var parts []string
	for _, s := range slices.Backward(severities) {
		if n := by[s]; n > 0 {
			total += n
			parts = append(parts, render.Count(n, s.String()))
		}
	}
	if total == 0 {
		return "no findings"
	}
	return render.Count(total, "finding") + " (" + strings.Join(parts, ", ") + ")"
}

// severityOf returns the severity of the rule with that name.
func severityOf(name string) session.Severity { return Rules[ruleIndex(name)].Severity }

// ruleIndex returns the index of a rule in Rules.
func ruleIndex(name string) int {
	return slices.IndexFunc(Rules, func(r session.Rule) bool { return r.Name == name })
}
