package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A session with a server that hangs, fails, prints and crashes. The relay warns the client
// of the MCP SDK while it waits. Afterwards calls and lint name each failure.
func TestFaultyServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	results, stderr := relayedCalls(t, file, faultyServer(t), `[{"name":"search","arguments":{"query":"a"}},
		{"name":"hang","timeout":900}, {"name":"hang","timeout":900}, {"name":"fail"}, {"name":"print"}, {"name":"crash"}]`)
	if want := []string{
		"found a", "error: MCP error -32001: Request timed out", "error: MCP error -32001: Request timed out",
		"tool error: no such table", "printed", "error: MCP error -32000: Connection closed",
	}; !slices.Equal(results, want) {
		t.Errorf("the client has %q, want %q", results, want)
	}
	if told := regexp.MustCompile(`(?m)^wirectl: relay: tools/call hang \(id \d+\) has had no answer for 0\.3 s$`).FindAllString(stderr, -1); len(told) != 2 || told[0] == told[1] {
		t.Errorf("of two calls that hang the relay tells %q", told)
	}
	if !strings.Contains(stderr, "; the unit ended with status 7\n") {
		t.Errorf("the relay does not say how the server ended:\n%s", stderr)
	}

	calls, _ := command(t, nil, "calls", "-q", "--failed", "-o", "ndjson", file)
	wantOutcomes(t, calls, "hang timed-out inferred", "hang timed-out inferred", "fail tool-error", "crash died")
	wantFindings(t, lint(t, file), map[string]string{
		"request-timeout":         `tools/call hang \(id 3\) was given up after [0-9.]+m?s: "McpError: MCP error -32001: Request timed out"`,
		"stray-output":            `this looks like a log line`,
		"died-with-open-requests": `the unit ended with status 7 while a request was open: tools/call crash \(id 7\); its last lines on standard error: "Traceback:", "no more memory"$`,
	})
}

// The reference server answers its client's calls, and its errors are named, too.
func TestFailedCallsOfServerEverything(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	server := []string{need(t, "node"), filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"}
	_, stderr := relayedCalls(t, file, server, `[{"name":"echo","arguments":{"message":"hello"}}, {"name":"no-such-tool"},
		{"name":"get-sum","arguments":{"a":"x","b":2}}, {"method":"no/such/method"},
		{"name":"trigger-long-running-operation","arguments":{"duration":30,"steps":1},"timeout":900}]`)
	if n := strings.Count(stderr, "tools/call trigger-long-running-operation (id 6) has had no answer for 0.3 s\n"); n != 1 {
		t.Errorf("the slow call is named %d times:\n%s", n, stderr)
	}
	calls, _ := command(t, nil, "calls", "-q", "--failed", "-o", "ndjson", file)
	wantOutcomes(t, calls, "no-such-tool tool-error", "get-sum tool-error", " failed", "trigger-long-running-operation timed-out inferred")
	wantFindings(t, lint(t, file), map[string]string{"request-timeout": `tools/call trigger-long-running-operation \(id 6\)`})
}

// A server whose tool requires one more argument is distinguished from its earlier version.
func TestChangedServer(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.pcapng"), filepath.Join(dir, "after.pcapng")
	server := faultyServer(t)
	steps := `[{"name":"search","arguments":{"query":"a","limit":1}}]`
	relayedCalls(t, before, server, steps)
	relayedCalls(t, after, append(server, "strict"), steps)

	tools, _ := command(t, nil, "baseline", "-q", before)
	baseline := filepath.Join(dir, "tools.json")
	check(t, os.WriteFile(baseline, tools, 0o600))
	command(t, nil, "lint", "-q", "--baseline", baseline, before)
	wantFindings(t, lint(t, after, "--baseline", baseline), map[string]string{
		"tool-drift": `^breaking: tool search: argument "limit" is now required$`,
	})
	diff := found(t, "diff", "-q", before, after)
	if want := `(?s)^tools/list 1\n  frame \d+: tool search: argument "limit" is now required \(breaking\)\n$`; !regexp.MustCompile(want).Match(diff) {
		t.Errorf("diff says\n%s, want %s", diff, want)
	}
}

// A client that writes Content-Length headers to a line-based server waits in vain, and
// lint says why.
func TestContentLengthForLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	relay := []string{"relay", "-q", "--no-tap", "--capture", file, "--"}
	p := start(t, header, wirectl, append(relay, faultyServer(t)...)...)
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}}`)
	p.end()
	if p.u2c.Len() > 0 {
		t.Errorf("the server answers %q", &p.u2c)
	}
	wantFindings(t, lint(t, file), map[string]string{"wrong-framing": `^the framing is header, not line$`})
}

// faultyServer returns the command of a server whose tools fail.
func faultyServer(t *testing.T) []string {
	t.Helper()
	return []string{need(t, "node"), "node/faulty.cjs", npm(t)}
}

// relayedCalls has a client of the MCP SDK call a server through a relay. It returns the
// result of each call, and the standard error of the relay and the server.
func relayedCalls(t *testing.T, file string, server []string, steps string) (results []string, stderr string) {
	t.Helper()
	relay := []string{steps, wirectl, "relay", "--no-tap", "--answer-patience", "300ms", "--capture", file, "--"}
	out := node(t, "node/calls.cjs", append(relay, server...)...)
	for _, result := range out["results"].([]any) {
		results = append(results, result.(string))
	}
	return results, out["stderr"].(string)
}

// found runs wirectl, which must have findings, and returns its output.
func found(t *testing.T, args ...string) []byte {
	t.Helper()
	var diagnostics bytes.Buffer
	cmd := exec.CommandContext(t.Context(), wirectl, args...)
	cmd.Stderr = &diagnostics
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("wirectl %s: %v, want status 3\n%s", strings.Join(args, " "), err, &diagnostics)
	}
	return out
}

// lint returns the messages of lint by the names of their findings, without notes.
func lint(t *testing.T, file string, flags ...string) map[string][]string {
	t.Helper()
	findings := map[string][]string{}
	for line := range bytes.Lines(found(t, append(append([]string{"lint", "-q", "-o", "ndjson"}, flags...), file)...)) {
		var f struct{ Finding, Severity, Message string }
		check(t, json.Unmarshal(line, &f))
		if f.Severity != "note" {
			findings[f.Finding] = append(findings[f.Finding], f.Message)
		}
	}
	return findings
}

// wantFindings compares the first finding of each name with a pattern.
func wantFindings(t *testing.T, got map[string][]string, want map[string]string) {
	t.Helper()
	for name, messages := range got {
		if want[name] == "" {
			t.Errorf("found %s: %q", name, messages)
		}
	}
	for name, pattern := range want {
		if len(got[name]) == 0 || !regexp.MustCompile(pattern).MatchString(got[name][0]) {
			t.Errorf("%s: %q, want %s", name, got[name], pattern)
		}
	}
}

// wantOutcomes compares the output of calls with names and outcomes.
func wantOutcomes(t *testing.T, ndjson []byte, want ...string) {
	t.Helper()
	var got []string
	for line := range bytes.Lines(ndjson) {
		var c struct {
			Name, Outcome string
			Inferred      bool
		}
		check(t, json.Unmarshal(line, &c))
		call := c.Name + " " + c.Outcome
		if c.Inferred {
			call += " inferred"
		}
		got = append(got, call)
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls are %q, want %q", got, want)
	}
}
