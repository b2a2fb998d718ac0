package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Homebrew accepts no patterns, so the release names every page of the manual.
func TestReleaseNamesEveryManPage(t *testing.T) {
	config, err := os.ReadFile("../goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../completions/man/*.1")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if page = filepath.ToSlash(page)[len("../"):]; !strings.Contains(string(config), "- "+page+"\n") {
			t.Errorf("goreleaser.yaml lacks %s among the manpages of the cask", page)
		}
	}
}
