// Package page compares the tables of pages that tests know with the pages.
package page

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Update is whether expected output and the tables of pages are rewritten.
var Update = flag.Bool("update", false, "rewrite expected output, and the tables in the documentation")

// Check compares what a page has between <!-- name --> and <!-- end with a table. With -update, it
// writes the table there.
func Check(t *testing.T, page, name, table string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n).*?(<!-- end)`)
	if !between.Match(old) {
		t.Fatalf("%s has no place for %s", page, name)
	}
	want := between.ReplaceAllFunc(old, func(found []byte) []byte {
		parts := between.FindSubmatch(found)
		return slices.Concat(parts[1], []byte("\n"+table+"\n"), parts[2])
	})
	if bytes.Equal(old, want) {
		return
	}
	if !*Update {
		t.Fatalf("the table of %s in %s is out of date: run this test with -update", name, page)
	}
	if err := os.WriteFile(page, want, 0o666); err != nil {
		t.Fatal(err)
	}
}

// Table writes rows of cells. Rows in a sequence that differ only in the first cell become one.
func Table(head []string, rows [][]string) string {
	lines := [][]string{head, slices.Repeat([]string{"---"}, len(head))}
	for _, row := range rows {
		if last := lines[len(lines)-1]; len(lines) > 2 && slices.Equal(last[1:], row[1:]) {
			last[0] += ", " + row[0]
			continue
		}
		lines = append(lines, slices.Clone(row))
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
	}
	return b.String()
}
