package session_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

var update = flag.Bool("update", false, "rewrite the table of findings in the documentation")

const page = "../docs/findings.md"

var table = regexp.MustCompile(`(?s)(<!-- findings -->\n).*(<!-- end -->\n)`)

// The page of findings lists exactly the findings of the program.
func TestPageOfFindingsIsComplete(t *testing.T) {
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := table.ReplaceAll(old, []byte("${1}"+findingsTable()+"${2}"))
	if bytes.Equal(old, want) {
		return
	}
	if !*update {
		t.Fatal("the table is out of date: run go test ./session -update")
	}
	if err := os.WriteFile(page, want, 0o666); err != nil {
		t.Fatal(err)
	}
}

func findingsTable() string {
	var b bytes.Buffer
	fmt.Fprint(&b, "\n| name | severity | the rule | what to do |\n| --- | --- | --- | --- |\n")
	for _, r := range session.Findings {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Severity, r.Rule, r.Do)
	}
	fmt.Fprintln(&b)
	return b.String()
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
