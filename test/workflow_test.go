package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/testscript"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The commands of the workflow in docs/ci.md pass with a server that meets the agreed
// baseline, and fail with others. Steps that only work in CI are skipped.
func TestWorkflow(t *testing.T) {
	page, err := os.ReadFile("../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	block := yamlBlock.FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/ci.md has no workflow")
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, If, Run, Uses string }
		}
	}
	if err := yaml.Unmarshal(block[1], &workflow); err != nil {
		t.Fatal(err)
	}
	var script, files strings.Builder
	script.WriteString("[!exec:sh] skip\nexec chmod +x server\nexec sh -e record.sh\n")
	run := func(name, status string) {
		fmt.Fprintf(&script, "%s exec sh -e %s.sh\n", status, name)
	}
	var names []string
	for i, step := range workflow.Jobs["contract"].Steps {
		if step.Run == "" || strings.HasPrefix(step.Name, "Install") {
			continue
		}
		name := fmt.Sprintf("step%d", i)
		fmt.Fprintf(&files, "-- %s.sh --\n%s\n", name, step.Run)
		run(name, "")
		names = append(names, name)
	}
	if len(names) != 4 {
		t.Fatalf("%d steps run wirectl", len(names))
	}
	script.WriteString("grep 'failures=\"0\"' lint.xml\ngrep 'failures=\"0\"' replay.xml\ngrep 'frame [0-9]+, result 2 to tools/call 2' replay.xml\n")
	script.WriteString("# The server has another tool, and another answer.\ncp changed server\nexec chmod +x server\nexec sh -e change.sh\n")
	for i, status := range []string{"", "!", "!", "!"} {
		run(names[i], status)
	}
	script.WriteString("stdout 'tool removed: echo'\nstdout 'wirectl baseline SESSION'\ngrep 'tool echo is not among' lint.xml\ngrep 'result.content.0.text' replay.xml\n")
	files.WriteString(`-- server --
#!/bin/sh
exec wirectl replay -q --fast --as unit --repeat fixture:mcp-everything
-- changed --
#!/bin/sh
exec wirectl replay -q --fast --as unit --repeat changed.ndjson
-- record.sh --
wirectl send -q mcp tools/list '{}' -- wirectl relay -q --capture agreed.pcapng -- ./server
wirectl baseline -q agreed.pcapng > tools.json
wirectl send -q mcp tools/call '{"name":"get-sum","arguments":{"a":40,"b":2}}' -- wirectl relay -q --capture golden.pcapng -- ./server
-- change.sh --
wirectl decode -q -o ndjson fixture:mcp-everything | sed 's/"name":"echo","title"/"name":"ecco","title"/; s/The sum of 40 and 2 is 42/43/g' > changed.ndjson
`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "workflow.txtar"), []byte(script.String()+files.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, params(dir))
}
