package lint

import (
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/session"
)

// A Policy decides which findings are reported, and which are failures.
type Policy struct {
	least  session.Severity // failures have at least this severity
	named  map[string]bool  // or one of these names
	ignore map[string]bool
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
	return !p.ignore[f.Name] && (f.Severity >= p.least || p.named[f.Name])
}

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
	return fmt.Errorf("unknown finding %q%s; there are: %s", word, nearest.Question(word, known), strings.Join(known, ", "))
}
