package test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// console matches a transcript in a document: commands after "$ ", each followed by its
// output.
var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocuments runs the transcripts of README.md and of docs/. With -update it rewrites
// them with the current output.
func TestDocuments(t *testing.T) {
	for _, document := range documents(t) {
		t.Run(filepath.ToSlash(document)[len("../"):], func(t *testing.T) {
			t.Parallel()
			testDocument(t, document)
		})
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md"}
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The index of docs/ links to every page.
func TestIndexHasEveryPage(t *testing.T) {
	index, err := os.ReadFile("../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("%s is not in docs/README.md", page)
		}
	}
}

func testDocument(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		text = console.ReplaceAllFunc(text, func(block []byte) []byte {
			dir := t.TempDir()
			if err := checkout(dir); err != nil {
				t.Fatal(err)
			}
			return rerun(block, dir)
		})
		if err := os.WriteFile(name, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	blocks := console.FindAllSubmatch(text, -1)
	if len(blocks) == 0 {
		return
	}
	dir := t.TempDir()
	for i, block := range blocks {
		script := filepath.Join(dir, fmt.Sprintf("block_%d.txtar", i+1))
		if err := os.WriteFile(script, transcript(string(block[1])), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := params(dir)
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		err := setup(env)
		env.Setenv("COLUMNS", "") // the width of a pipe
		return err
	}
	testscript.Run(t, p)
}

// checkout copies the files of a checkout that documents and scripts use into a folder.
func checkout(dir string) error {
	return errors.Join(os.CopyFS(filepath.Join(dir, "contrib"), os.DirFS("../contrib")), os.CopyFS(filepath.Join(dir, "test/testdata/runs"), os.DirFS("testdata/runs")))
}

// transcript turns a block into a script. Standard output and standard error of a command
// are compared together, as a reader sees them.
func transcript(block string) []byte {
	var script, files strings.Builder
	for i, c := range calls(block) {
		fmt.Fprintf(&script, "exec sh run%d.sh\ncmp stdout want%d.txt\n", i, i)
		fmt.Fprintf(&files, "-- run%d.sh --\n%s\n-- want%d.txt --\n%s", i, c.script(), i, c.output)
	}
	return []byte(script.String() + files.String())
}

// A call is a command of a transcript and its expected output.
type call struct{ command, output string }

func calls(block string) []call {
	var all []call
	for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, output, _ := strings.Cut(part, "\n")
		if output != "" && !strings.HasSuffix(output, "\n") {
			output += "\n"
		}
		all = append(all, call{command, output})
	}
	return all
}

// script runs the command as it looks on a terminal. Any command may print that it waits
// for a program if the machine is busy.
func (c call) script() string {
	return "{ " + c.command + "; } 2>&1 | sed '/^wirectl: waiting for the program to end, /d'"
}

// rerun returns a block with the current output of its commands, run in dir.
func rerun(block []byte, dir string) []byte {
	out := []byte("```console\n")
	for _, c := range calls(string(console.FindSubmatch(block)[1])) {
		cmd := exec.Command("sh", "-c", c.script())
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "COLUMNS=")
		printed, _ := cmd.Output()
		out = append(out, "$ "+c.command+"\n"...)
		out = append(out, printed...)
	}
	return append(out, "```"...)
}

// The examples of policies in docs/rlm.md do what the page says.
func TestPolicyExamples(t *testing.T) {
	for _, needed := range []string{"sh", "sed", "grep"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../docs/rlm.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?ms)^```yaml\n(rlm:\n  max_depth.*?)^```$").FindSubmatch(page)
	if example == nil {
		t.Fatal("docs/rlm.md has no example of policies")
	}
	const models = `
  sub_model: sub
  env: starlark
  unsandboxed: true
default: root
models: {root: {provider: r}, sub: {provider: s}}
providers:
  r: {kind: mock, mock: {turns: [{text: "` + "```repl\\nprint(llm_query('short'), llm_query('a chapter'), 'all is ' + 'read')\\n```" + `"}]}}
  s: {kind: mock, mock: {turns: [{text: call 0123456789}, {text: FINAL(chapter 1)}]}}
`
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, append(example[1], models[1:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("wirectl", "rlm", "--config", config, "-o", "ndjson", "Ask.")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("status %d, %v", cmd.ProcessState.ExitCode(), err)
	}
	for _, want := range []string{
		`"text":"call (number)"`, `"nested":true,"prompt":"a chapter"`, `"text":"chapter 1"`, `"finish_reason":"policy_stop"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), `"event":"policy"`) {
		t.Errorf("a policy has failed:\n%s", out)
	}
}
