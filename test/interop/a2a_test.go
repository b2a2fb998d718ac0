package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Client and agent of the A2A SDK do not notice the relay between them, in any version and
// binding. The capture has each task as an operation: a completed one, a cancelled one, and
// one whose client disconnects and reconnects. It has no findings.
func TestRelayA2A(t *testing.T) {
	kinds := map[string][]string{
		"0.3": {"message/stream", "tasks/cancel", "tasks/resubscribe", "message/send"},
		"1.0": {"SendStreamingMessage", "CancelTask", "SubscribeToTask", "SendMessage"},
	}
	for _, binding := range []string{"JSONRPC", "HTTP+JSON", "GRPC"} {
		for version, kind := range kinds {
			t.Run(binding+" "+version, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "session.pcapng")
				said := speakA2A(t, file, version, binding)
				want := map[string]string{"count": "working 1 2 3 completed", "wait": "working 1 canceled", "hold": "working 1", "resubscribe": "working 2 3 completed"}
				if diff := cmp.Diff(want, said); diff != "" {
					t.Errorf("the client got (-want +got):\n%s", diff)
				}
				calls := []string{
					kind[0] + " " + version + " done", kind[0] + " " + version + " cancelled confirmed", kind[0] + " " + version + " done",
					kind[3] + " " + version + " done", "└ " + kind[1] + " " + version + " done", "└ " + kind[2] + " " + version + " done",
				}
				slices.Sort(calls)
				if diff := cmp.Diff(calls, callsA2A(t, file)); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if findings, _ := command(t, nil, "lint", "-q", "--fail-on", "note", file); len(findings) > 0 {
					t.Errorf("%s", findings)
				}
			})
		}
	}
}

// speakA2A runs client and agent with a relay between them, and returns the client's
// results.
func speakA2A(t *testing.T, file, version, binding string) (said map[string]string) {
	t.Helper()
	modules := packages(t, "npm-a2a")
	script := func(ctx context.Context, role string, address ...string) *exec.Cmd {
		return exec.CommandContext(ctx, need(t, "node"), append([]string{"node/a2a.mjs", modules, role, version, binding}, address...)...)
	}
	scheme := "http://"
	if binding == "GRPC" {
		scheme = "grpc://"
	}
	port, _ := listening(t, script(t.Context(), "serve"), regexp.MustCompile(`on port (\d+)`))
	relay := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", scheme+"127.0.0.1:0", "--capture", file, scheme+"127.0.0.1:"+port)
	address, stop := listening(t, relay, listeningOn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := script(ctx, "client", strings.TrimPrefix(address, "grpc://"))
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	stop()
	if err != nil || json.Unmarshal(out, &said) != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	return said
}

// callsA2A returns the output of wirectl calls for a capture, including links between
// operations. The order differs from the client's, because several connections are captured
// as their frames arrive.
func callsA2A(t *testing.T, file string) (lines []string) {
	t.Helper()
	out, _ := command(t, nil, "calls", "-q", "--exchanges", "-o", "ndjson", file)
	for line := range bytes.Lines(out) {
		var c struct {
			Operation                      int
			Kind, Version, Outcome, Cancel string
		}
		check(t, json.Unmarshal(line, &c))
		words := []string{c.Kind, c.Version, c.Outcome, c.Cancel}
		if c.Operation != 0 {
			words = slices.Insert(words, 0, "└")
		}
		lines = append(lines, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	slices.Sort(lines)
	return lines
}
