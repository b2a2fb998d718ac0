package lint_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/lint"
)

var update = flag.Bool("update", false, "rewrite the table of contracts in the documentation")

var contracts = regexp.MustCompile(`(?s)(<!-- contracts -->\n).*(<!-- end of contracts -->\n)`)

// The page of findings lists exactly the rules of contracts.
func TestPageOfContractsIsComplete(t *testing.T) {
	const page = "../../docs/findings.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprint(&b, "\n| name | severity | the rule | what to do |\n| --- | --- | --- | --- |\n")
	names := make(map[string]bool)
	for _, r := range slices.Concat(lint.Contracts[:], join.Rules[:], lint.Safeties[:]) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Severity, r.Rule, r.Do)
	}
	for _, r := range lint.Rules {
		if names[r.Name] || r.Name == "" || r.Rule == "" || r.Do == "" {
			t.Errorf("%q is incomplete or there twice", r.Name)
		}
		names[r.Name] = true
	}
	fmt.Fprintln(&b)
	want := contracts.ReplaceAll(old, []byte("${1}"+b.String()+"${2}"))
	if bytes.Equal(old, want) {
		return
	}
	if !*update {
		t.Fatal("the table is out of date: run go test ./session/lint -update")
	}
	if err := os.WriteFile(page, want, 0o666); err != nil {
		t.Fatal(err)
	}
}
