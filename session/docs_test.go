package session_test

import (
	"testing"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/test/kit/page"
)

// The page of findings lists exactly the findings of the program.
func TestPageOfFindingsIsComplete(t *testing.T) {
	var rows [][]string
	for _, r := range session.Findings {
		rows = append(rows, []string{"`" + r.Name + "`", r.Severity.String(), r.Rule, r.Do})
	}
	page.Check(t, "../docs/findings.md", "findings", page.Table([]string{"name", "severity", "the rule", "what to do"}, rows))
}

// Protocols only word rules that exist.
func TestProtocolsWordRulesThatThereAre(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range session.Findings {
		if names[r.Name] || r.Name == "" || r.Rule == "" || r.Do == "" {
			t.Errorf("%q is incomplete or there twice", r.Name)
		}
		names[r.Name] = true
	}
	for _, p := range all.List() {
		for _, source := range all.Rules(p).Sources {
			if name := source[0]; !names[name] {
				t.Errorf("%s has a rule for %q, which is never found", p.Name(), name)
			}
		}
	}
}
