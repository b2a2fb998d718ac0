package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// quotedName matches a name in backquotes.
var quotedName = regexp.MustCompile("`([^`]+)`")

// The page of rules names existing tests, transcripts and findings for both sides of each
// rule. It names every finding of a protocol.
func TestRulesAreShown(t *testing.T) {
	page, err := os.ReadFile("rules.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, heading := 0, ""
	shown := map[[2]string]bool{} // a protocol and a finding
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| rule") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		if len(cells) != 3 {
			t.Errorf("a row has %d cells: %s", len(cells), line)
			continue
		}
		of := heading
		if names, _, ok := strings.Cut(strings.TrimSpace(cells[0]), ": "); ok && names != "All" {
			of = names
		}
		for _, cell := range cells[1:] {
			for _, p := range strings.Split(of, ", ") {
				p, _, _ = strings.Cut(p, " ") // without the version
				for _, name := range quotedName.FindAllStringSubmatch(cell, -1) {
					shown[[2]string{p, name[1]}] = true
				}
			}
			names := quotedName.FindAllStringSubmatch(cell, -1)
			if len(names) == 0 {
				t.Errorf("nothing shows a side of %q", cells[0])
			}
			for _, name := range names {
				if !isShown(t, name[1]) {
					t.Errorf("%q: there is no %s", cells[0], name[1])
				}
			}
		}
	}
	for _, p := range all.List() {
		for _, source := range all.Rules(p).Sources {
			if !shown[[2]string{p.Name(), source[0]}] {
				t.Errorf("%s: no row has %s: %s", p.Name(), source[0], source[1])
			}
		}
	}
	if rows < 70 {
		t.Errorf("there are %d rules", rows)
	}
}

// isShown reports whether there is a test, a transcript or a finding of that name.
func isShown(t *testing.T, name string) bool {
	t.Helper()
	if strings.HasSuffix(name, ".txtar") {
		_, err := os.Stat(filepath.Join("transcripts", name))
		return err == nil
	}
	dir, test, isTest := strings.Cut(name, ".")
	if !isTest {
		return slices.ContainsFunc(session.Findings[:], func(r session.Rule) bool { return r.Name == name })
	}
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(source), "\nfunc "+test+"(")
	})
}
