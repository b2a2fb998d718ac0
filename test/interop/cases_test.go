package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Servers that misbehave as real ones were reported to do, behind a relay: what they send is
// what a client gets without the relay, and each file of testdata/cases/golden has the right
// findings and calls. See run.py there for the ways to run one.
func TestCases(t *testing.T) {
	const folder = "testdata/cases"
	for _, args := range []string{
		"stdio os-small --limit-bytes 65536", "stdio oversize", "stdio osclient --limit-bytes 65536",
		"stdio forklive", "stdio forkcrash", "stdio noeof -q --grace 1s", "stdio crlfbom", "stdio bomsrv",
		"stdio lspchars", "stdio glue", "stdio idstr", "stdio stray",
		"bridge pings", "bridge restart", "bridge auth401", "bridge e429", "bridge html200", "bridge n200null",
		"bridge redir307", "bridge ssezoo", "bridge ssecr", "bridge ssegzip", "bridge noct", "bridge pretty",
		"proxy html200", "proxy n200null", "proxy get200json", "proxy version400", "keepalive html200",
	} {
		words := strings.Fields(args)
		name := words[0] + "-" + words[1]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), need(t, "python3"), append([]string{filepath.Join(folder, "run.py")}, words...)...)
			cmd.Env = append(os.Environ(), "WIRECTL="+wirectl, "PYTHONDONTWRITEBYTECODE=1")
			cmd.Stderr = t.Output()
			got, err := cmd.Output()
			check(t, err)
			golden := filepath.Join(folder, "golden", name+".txt")
			if os.Getenv("UPDATE") != "" {
				check(t, os.WriteFile(golden, got, 0o666))
			}
			want, err := os.ReadFile(golden)
			check(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
