package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// natscli builds the NATS command line.
func natscli(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "install", "github.com/nats-io/natscli/nats@v0.5.1")
	build.Dir, build.Env = dir, append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("%v\n%s", err, out)
	}
	names, err := filepath.Glob(filepath.Join(dir, "nats*"))
	check(t, err)
	return names[0]
}

var (
	hubAt     = regexp.MustCompile(`the hub is at (\S+)`)
	sendingAs = regexp.MustCompile(`as hub:(\S+)`)
)

// The NATS command line works on a hub: it shows the streams and buckets, and their
// contents.
func TestNATSCommandLine(t *testing.T) {
	nats := natscli(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	address, stop := listening(t, exec.CommandContext(t.Context(), wirectl, "hub", "--listen", "127.0.0.1:0", "--page="), hubAt)
	defer stop()
	_, said := command(t, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), "relay", "--no-tap", "--hub", address, "--hub-policy", "lossless", "--", "cat")
	id := sendingAs.FindStringSubmatch(said)
	if id == nil {
		t.Fatalf("a relay says %s", said)
	}
	ask := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), nats, append([]string{"--server", address, "--no-context"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("nats %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	ask("server", "check", "connection")
	var info struct {
		State struct{ Messages int }
	}
	if text := ask("stream", "info", "WIRECTL", "--json"); json.Unmarshal([]byte(text), &info) != nil || info.State.Messages == 0 {
		t.Errorf("the stream is %s", text)
	}
	if text := ask("stream", "subjects", "WIRECTL"); !strings.Contains(text, id[1]) {
		t.Errorf("the subjects are %s, and not of %s", text, id[1])
	}
	if text := ask("kv", "ls"); !strings.Contains(text, "wirectl_sessions") {
		t.Errorf("the buckets are %s", text)
	}
}
