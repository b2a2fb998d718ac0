package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const newcomer = "testdata/newcomer.txtar"

// A newcomer gets from a checkout to a tested server with the commands of README.md and a
// real server and client. The home folder is new, without installed programs or
// configuration.
func TestNewcomer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the transcript needs sh")
	}
	modules := npm(t)
	checkout, err := filepath.Abs("../..")
	check(t, err)
	scripts, err := filepath.Abs("node")
	check(t, err)
	server := "#!/bin/sh\nexec " + need(t, "node") + " " + filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js") + "\n"
	testscript.Run(t, testscript.Params{
		Files: []string{newcomer},
		Setup: func(env *testscript.Env) error {
			home, project := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "project")
			runs := filepath.Join(env.WorkDir, "run")
			for _, dir := range []string{home, project, runs} {
				check(t, os.MkdirAll(dir, 0o700))
			}
			bin := filepath.Join(home, "go", "bin")
			for name, value := range map[string]string{
				"HOME": home, "GOPATH": filepath.Join(home, "go"), "XDG_RUNTIME_DIR": runs, "PATH": bin + ":" + os.Getenv("PATH"),
				"GOCACHE": goEnv(t, "GOCACHE"), "GOMODCACHE": goEnv(t, "GOMODCACHE"), "GOFLAGS": goEnv(t, "GOFLAGS"),
				"CHECKOUT": checkout, "SCRIPTS": scripts, "MODULES": modules,
			} {
				env.Setenv(name, value)
			}
			check(t, os.WriteFile(filepath.Join(project, "server"), []byte(server), 0o700))
			check(t, os.WriteFile(filepath.Join(project, "calls.txt"), nil, 0o600))
			configure(t, filepath.Join(project, ".mcp.json"), "./server")
			configure(t, filepath.Join(project, "before.json"), "./server")
			configure(t, filepath.Join(project, "recording.json"), "wirectl", "relay", "--quiet", "--capture", "golden.pcapng", "--", "./server")
			return nil
		},
	})
}

// configure writes the configuration of an MCP client.
func configure(t *testing.T, file, command string, args ...string) {
	t.Helper()
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	text, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]server{"files": {command, append([]string{}, args...)}}}, "", "  ")
	check(t, err)
	check(t, os.WriteFile(file, text, 0o600))
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	check(t, err)
	return strings.TrimSpace(string(value))
}

// The newcomer has read only README.md: every command and flag of wirectl in the transcript
// is there, except for -q, which keeps a transcript short.
func TestNewcomerHasReadREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	check(t, err)
	script, err := os.ReadFile(newcomer)
	check(t, err)
	for _, command := range regexp.MustCompile(`wirectl ([a-z]+)([^>|'\n]*)`).FindAllStringSubmatch(string(script), -1) {
		for _, word := range append(strings.Fields(command[2]), "wirectl "+command[1]) {
			if (strings.HasPrefix(word, "-") || strings.HasPrefix(word, "wirectl ")) && word != "-q" && !strings.Contains(string(readme), word) {
				t.Errorf("%s: README.md does not have %q", command[0], word)
			}
		}
	}
}
