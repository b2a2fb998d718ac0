package interop

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The recorded client of MCP's reference server, played against a live one: its
// server asks for roots, sampling and elicitation, and is answered. It says the
// same, but for its environment.
func TestReplayMCP(t *testing.T) {
	node := need(t, "node")
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	play := func(flags ...string) (string, error) {
		args := append([]string{"replay", "-q", "--fast", "--timeout", "60s"}, flags...)
		cmd := exec.CommandContext(t.Context(), wirectl, append(args, "fixture:mcp-everything", "--", node, server)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String() + errs.String(), err
	}
	t.Run("kinds", func(t *testing.T) {
		t.Parallel()
		if out, err := play("--match", "kind"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("a cancel", func(t *testing.T) {
		t.Parallel()
		out, err := play("--cancel-at", "1", "--request", "20", "--settle", "1500ms")
		if err != nil || !strings.Contains(out, "      1  silent ") {
			t.Errorf("a cancelled call is to get no answer: %v\n%s", err, out)
		}
	})
}
