package test

import (
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

// floors are the folders at the root, from the cellar up.
var floors = [][]string{
	{"internal"},
	{"frame", "fixtures", "completions"},
	{"protocol", "transport"},
	{"session", "capture"},
	{"decode", "relay", "broker", "rlm", "peer"},
	{"store", "run"},
	{"tui", "web", "hub"},
	{"commands"},
	{".", "test"},
}

// programs are the generators. They may import anything, and nothing imports them.
var programs = []string{"completions/gen", "fixtures/gen"}

// A package imports only packages on lower floors, so that each can be read, and
// used, without what is built on it. Folders on the same floor do not import each
// other; inside a folder everything may be imported. Tests may import anything.
func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for n, folders := range floors {
		for _, folder := range folders {
			floor[folder] = n
		}
	}
	for file, imported := range imports(t) {
		from := folder(path.Dir(file))
		if _, ok := floor[from]; !ok {
			t.Errorf("%s is on no floor: give %s a place in floors", file, from)
		}
		for _, pkg := range imported {
			to := folder(pkg)
			if from != to && floor[to] >= floor[from] {
				t.Errorf("%s imports %s, which is on no lower floor", file, pkg)
			}
		}
	}
}

// folder returns the folder at the root that holds a package.
func folder(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// imports returns, for each Go file of the module and whatever platform it is
// for, the packages of the module that it imports.
func imports(t *testing.T) map[string][]string {
	found := map[string][]string{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && outside(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		found[name] = nil
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

// outside reports whether a folder holds no package of the floors: a program
// that generates files, a module of its own, or what the go command ignores.
func outside(dir string) bool {
	base := path.Base(dir)
	if slices.Contains(programs, dir) || base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join("..", dir, "go.mod"))
	return err == nil
}
