package test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// block replaces the generated text between two comments of a page, or checks it.
func block(t *testing.T, page, name, want string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n).*?(<!-- end -->\n)`)
	if !between.Match(old) {
		t.Fatalf("%s has no block of %s", page, name)
	}
	now := between.ReplaceAll(old, []byte("${1}"+want+"${2}"))
	switch {
	case bytes.Equal(old, now):
	case !*update:
		t.Errorf("the block of %s in %s is stale: go test ./test -run TestPages -update", name, page)
	default:
		if err := os.WriteFile(page, now, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// README quotes three figures of docs/performance.md.
func TestPagesQuoteFigures(t *testing.T) {
	page, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	figure := func(name string) any {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(name) + ` \| ([0-9.,]+(?: [a-zµA-Z]+)?)`).FindSubmatch(page)
		if row == nil {
			t.Fatalf("docs/performance.md has no figure %q", name)
		}
		return string(row[1])
	}
	block(t, "../README.md", "figures", fmt.Sprintf(
		"In the last run, on two cores, it decoded MCP %v times as fast as `jq -c`, kept %v in memory for 10 GiB,\nand added %v times as much to a round trip as a relay in C: [performance](docs/performance.md).\n",
		figure("mcp to NDJSON, to jq -c"),
		figure("10 GiB of mcp on standard input to NDJSON: peak memory"),
		figure("added to the p50 of a 100-byte round trip on one processor, to what a relay in C adds by poll"),
	))
}

// docs/testing.md gives a lower bound for the number of tests of each kind. The log has the
// exact numbers.
func TestPagesCountTests(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, root, name, text string }{
		{"test functions", "..", "*_test.go", `(?m)^func Test`},
		{"of them with real peers", "interop", "*_test.go", `(?m)^func Test`},
		{"fuzz targets", "..", "*_test.go", `(?m)^func Fuzz`},
		{"transcripts of commands", "transcripts", "*.txtar", `\A`},
		{"commands in these pages, whose output is compared", "../docs", "*.md", `(?m)^\$ `},
		{"annotated byte vectors", "../fixtures/vectors", "*.hex", `\A`},
		{"recorded or made sessions", "../fixtures/sessions", "*", ``},
		{"rules of protocols, each with its tests", ".", "rules.md", "(?m)^\\| .*`"},
	} {
		n, said := count(t, c.root, c.name, c.text), 0
		t.Logf("%5d %s", n, c.what)
		row := regexp.MustCompile(`(?m)^\| ([0-9,]+) \| ` + regexp.QuoteMeta(c.what) + ` \|$`).FindSubmatch(page)
		if row != nil {
			said, _ = strconv.Atoi(strings.ReplaceAll(string(row[1]), ",", ""))
		}
		if said > n || 2*said < n {
			t.Errorf("docs/testing.md says %d %s: there are %d", said, c.what, n)
		}
	}
}

// count counts the matches of text in the files that match name. If text is empty, it counts
// the paths that match name.
func count(t *testing.T, root, name, text string) (n int) {
	t.Helper()
	if text == "" {
		all, err := filepath.Glob(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	of := regexp.MustCompile(text)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}
		if match, _ := filepath.Match(name, filepath.Base(path)); err != nil || !match || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		n += len(of.FindAll(content, -1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
