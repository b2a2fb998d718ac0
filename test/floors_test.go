package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/test/kit/page"
)

const module = "github.com/wirectl/wirectl"

// floors are the folders at the root, from the cellar up.
var floors = [][]string{
	{"internal"},
	{"frame", "fixtures", "completions", "llm", "table"},
	{"protocol", "transport"},
	{"session", "capture", "source"},
	{"decode", "relay", "broker", "rlm", "peer"},
	{"store", "run"},
	{"tui", "web", "hub"},
	{"commands"},
	{".", "test"},
}

// programs are the generators, and what only tests import. They may import anything, and nothing
// imports them.
var programs = []string{"completions/gen", "fixtures/gen", "test/kit", "test/screenshot"}

// A package imports only packages on lower floors, so that each can be read and used
// without the packages built on it. Folders on the same floor do not import each other.
// Packages inside a folder may import each other, and tests may import anything.
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

// The page on the architecture says what each package does, in the words of its comment.
func TestFoldersAreDescribed(t *testing.T) {
	about := map[string]string{}
	sources(t, parser.ParseComments|parser.PackageClauseOnly, func(name string, file *ast.File) {
		if _, text, ok := strings.Cut(strings.Join(strings.Fields(file.Doc.Text()), " "), "Package "+file.Name.Name+" "); ok {
			about[path.Dir(name)] = sentence.FindStringSubmatch(text)[1]
		}
	})
	var rows [][]string
	for n, folders := range slices.Backward(floors) {
		for _, top := range folders {
			for _, dir := range slices.Sorted(maps.Keys(about)) {
				if folder(dir) == top && (dir == top || top != "protocol" && top != "source") {
					rows = append(rows, []string{strconv.Itoa(n), "`" + dir + "`", about[dir]})
				}
			}
		}
	}
	page.Check(t, "../docs/architecture.md", "folders", page.Table([]string{"floor", "package", "what it does"}, rows))
}

var sentence = regexp.MustCompile(`^(.*?)[:.](?: |$)`)

// The house can be surveyed: few folders at the root, and few pairs of them of which one imports
// the other. Runs of models and hubs, which tie many folders together, are not counted there.
func TestHouseIsSmall(t *testing.T) {
	const mostFolders, mostPairs = 25, 80
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	folders := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() || strings.HasPrefix(e.Name(), ".") })
	if len(folders) > mostFolders {
		t.Errorf("there are %d folders at the root: want at most %d", len(folders), mostFolders)
	}
	pairs := map[string]bool{}
	for file, imported := range imports(t) {
		from := folder(path.Dir(file))
		for _, pkg := range imported {
			if to := folder(pkg); from != to && !slices.Contains([]string{"hub", "rlm", "run"}, from) && !slices.Contains([]string{"hub", "rlm", "run"}, to) {
				pairs[from+" → "+to] = true
			}
		}
	}
	if len(pairs) > mostPairs {
		t.Errorf("%d pairs of folders: want at most %d\n%s", len(pairs), mostPairs, strings.Join(slices.Sorted(maps.Keys(pairs)), "\n"))
	}
}

// speakers may name a concrete protocol, because they speak it, or play one end of it.
var speakers = []string{
	"broker", "commands", "fixtures/gen", "peer", "rlm", "run", "test",
	"source",        // its readers make messages of the protocols in files
	"decode/spans",  // OpenTelemetry has conventions for single protocols
	"relay/wrap",    // the settings of clients have a key for MCP
	"store/runs.go", // the wires of a run of wirectl rlm
}

// Nothing else outside protocol/ names a concrete protocol, so that a new one is a folder and a line.
// Those of bytes, JSON, protobuf and carriers are not concrete: they stand for unknown ones.
func TestProtocolsAreNamedInTheirFolders(t *testing.T) {
	general := []string{"all", "carried", "opaque", "protobuf", "schema"}
	var names []string
	for _, p := range all.List() {
		if all.Depth(p) == all.Told && !slices.Contains(general, p.Name()) {
			names = append(names, strconv.Quote(p.Name()))
		}
	}
	sources(t, parser.SkipObjectResolution, func(name string, file *ast.File) {
		isIn := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
		if isIn("protocol") || slices.ContainsFunc(speakers, isIn) {
			return
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if rest, ok := strings.CutPrefix(imported, module+"/protocol/"); ok {
				if folder, _, _ := strings.Cut(rest, "/"); !slices.Contains(general, folder) {
					t.Errorf("%s imports protocol/%s", name, rest)
				}
			}
		}
		check := func(e ast.Expr) {
			if text, ok := e.(*ast.BasicLit); ok && slices.Contains(names, text.Value) {
				t.Errorf("%s compares with the protocol %s", name, text.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				check(n.X)
				check(n.Y)
			case *ast.CaseClause:
				for _, e := range n.List {
					check(e)
				}
			}
			return true
		})
	})
}

// Commands translate flags into calls of packages: there is little of them, and nothing that all
// hang on. Only generated code uses the inside of protobuf.
func TestCommandsAreSmall(t *testing.T) {
	const mostLines, mostMethods = 6500, 20
	lines, methods := 0, map[string]int{}
	sources(t, parser.ParseComments|parser.SkipObjectResolution, func(name string, file *ast.File) {
		for _, spec := range file.Imports {
			if !ast.IsGenerated(file) && strings.HasSuffix(spec.Path.Value, `/protoimpl"`) {
				t.Errorf("%s imports %s", name, spec.Path.Value)
			}
		}
		if path.Dir(name) != "commands" {
			return
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")]++
			}
		}
	})
	if lines > mostLines {
		t.Errorf("commands has %d lines: want at most %d", lines, mostLines)
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods: want at most %d", name, n, mostMethods)
		}
	}
}

// folder returns the folder at the root that holds a package.
func folder(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// imports returns, for each source, the packages of the module that it imports.
func imports(t *testing.T) map[string][]string {
	found := map[string][]string{}
	sources(t, parser.ImportsOnly, func(name string, file *ast.File) {
		found[name] = nil
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if rest, ok := strings.CutPrefix(imported, module+"/"); ok {
				found[name] = append(found[name], rest)
			}
		}
	})
	return found
}

// usual are the names of methods in Go's own libraries, with their private forms, and in
// interfaces of ours that many types implement.
var usual = []string{
	"Close", "CloseWrite", "Error", "Next", "Read", "Reset", "String", "Unwrap", "Write", "close", "read", "run", "write",
	"About", "Encoding", "Name", "Parse", "Session", "interpret",
}

// A name that many types have says too little: addFrame says more than add.
func TestMethodNames(t *testing.T) {
	const most = 12
	receivers := map[string]map[string]bool{}
	sources(t, parser.ParseComments|parser.SkipObjectResolution, func(name string, file *ast.File) {
		if ast.IsGenerated(file) {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || slices.Contains(usual, f.Name.Name) {
				continue
			}
			receiver, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
			if receivers[f.Name.Name] == nil {
				receivers[f.Name.Name] = map[string]bool{}
			}
			receivers[f.Name.Name][path.Dir(name)+"."+receiver] = true
		}
	})
	for name, of := range receivers {
		if len(of) > most {
			t.Errorf("%d types have a method %s: want at most %d\n\t%s", len(of), name, most, strings.Join(slices.Sorted(maps.Keys(of)), "\n\t"))
		}
	}
}

// sources parses each Go file of the module, for any platform, except tests.
func sources(t *testing.T, mode parser.Mode, each func(name string, file *ast.File)) {
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && outside(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, mode)
		if err == nil {
			each(name, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outside reports whether a folder has no package on a floor: a generator, a separate
// module, or a folder that the go command ignores.
func outside(dir string) bool {
	base := path.Base(dir)
	if slices.Contains(programs, dir) || base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join("..", dir, "go.mod"))
	return err == nil
}
