package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/wirectl/wirectl"

// floors are the trees of the project: the cellar, then the ground floor, and so
// on up. A package belongs to the floor of the longest tree that its path lies in.
var floors = [][]string{
	{"direct", "inflate", "nearest", "proto", "wait", "yamlfile"},
	{"frame", "fixtures", "completions"},
	{"protocol", "transport"},
	{"session", "query", "capture", "render", "jsondiff"},
	{"relay", "broker", "unit", "client", "replay", "theory", "lint", "stats", "diff", "decode", "encode", "convert", "wrap"},
	{"store"},
	{"tui", "report", "demo"},
	{"commands"},
	{".", "bench", "fixtures/gen", "completions/gen"},
}

// place returns the floor and the tree of a package; the tree is "" if nobody
// placed the package.
func place(pkg string) (floor int, tree string) {
	for n, trees := range floors {
		for _, t := range trees {
			if (pkg == t || strings.HasPrefix(pkg, t+"/")) && len(t) > len(tree) {
				floor, tree = n, t
			}
		}
	}
	return floor, tree
}

// allowed says why a package may not import another; nil if it may. Within one
// tree everything may be imported.
func allowed(pkg, imported string) error {
	from, tree := place(pkg)
	to, importedTree := place(imported)
	switch {
	case tree == "":
		return fmt.Errorf("%s is on no floor: give it a place in floors", pkg)
	case tree != importedTree && to >= from:
		return fmt.Errorf("%s imports %s, which is on no lower floor", pkg, imported)
	}
	return nil
}

// Every package imports only what lies below it, so that each can be read, and
// used, without what is built on it. Tests may import anything.
func TestFloors(t *testing.T) {
	for file, packages := range imports(t) {
		for _, imported := range packages {
			if err := allowed(path.Dir(file), imported); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestFloorsForbid(t *testing.T) {
	for _, tt := range []struct {
		pkg, imported string
		ok            bool
	}{
		{"protocol/latis", "frame", true},
		{"protocol/latis", "protocol", true},
		{"frame", "protocol/latis", false},   // upward
		{"capture/ndjson", "session", false}, // sideways
		{"fixtures", "fixtures/gen", false},  // up to the program of its own tree
		{"elsewhere", "frame", false},        // nobody placed it
	} {
		if err := allowed(tt.pkg, tt.imported); (err == nil) != tt.ok {
			t.Errorf("%s imports %s: %v, want allowed %t", tt.pkg, tt.imported, err, tt.ok)
		}
	}
}

// imports returns, for each Go file of the module and whatever platform it is
// for, the packages of the module that it imports. Its own package is among
// them, so that one without imports is looked at too.
func imports(t *testing.T) map[string][]string {
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && outside(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		found[name] = []string{path.Dir(name)}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
				found[name] = append(found[name], rest)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// outside reports whether the go command takes a folder for no part of the module.
func outside(dir string) bool {
	base := filepath.Base(dir)
	if slices.Contains([]string{"testdata", "vendor", "node_modules"}, base) || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
