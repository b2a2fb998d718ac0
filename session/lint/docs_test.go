package lint_test

import (
	"slices"
	"testing"

	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/why"
	"github.com/wirectl/wirectl/test/kit/page"
)

// The page of findings lists exactly the rules of contracts.
func TestPageOfContractsIsComplete(t *testing.T) {
	var rows [][]string
	for _, r := range slices.Concat(lint.Contracts[:], join.Rules[:], why.Rules[:], lint.Safeties[:]) {
		rows = append(rows, []string{"`" + r.Name + "`", r.Severity.String(), r.Rule, r.Do})
	}
	page.Check(t, "../../docs/findings.md", "contracts", page.Table([]string{"name", "severity", "the rule", "what to do"}, rows))
	names := make(map[string]bool)
	for _, r := range lint.Rules {
		if names[r.Name] || r.Name == "" || r.Rule == "" || r.Do == "" {
			t.Errorf("%q is incomplete or there twice", r.Name)
		}
		names[r.Name] = true
	}
}
