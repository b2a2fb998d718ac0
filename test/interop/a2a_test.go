package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Client and agent of the A2A SDK do not notice the relay between them, in any version and
// binding. The capture has each task as an operation: a completed one, a cancelled one, and
// one whose client disconnects and reconnects. It has no findings.
func TestRelayA2A(t *testing.T) {
	kinds := map[string][]string{
		"0.3": {"message/stream", "tasks/cancel", "tasks/resubscribe", "message/send", "tasks/get"},
		"1.0": {"SendStreamingMessage", "CancelTask", "SubscribeToTask", "SendMessage", "GetTask"},
	}
	for _, binding := range []string{"JSONRPC", "HTTP+JSON", "GRPC"} {
		for version, kind := range kinds {
			t.Run(binding+" "+version, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "session.pcapng")
				said := speakA2A(t, file, version, binding)
				want := map[string]string{
					"count": "working 1 2 3 completed", "wait": "working 1 canceled", "hold": "working 1", "resubscribe": "working 2 3 completed",
					"ask": "working input-required", "more": "working completed", "task": "3 parts", "unknown": "not found", "late": "not cancelable",
				}
				if diff := cmp.Diff(want, said); diff != "" {
					t.Errorf("the client got (-want +got):\n%s", diff)
				}
				calls := []string{
					kind[0] + " " + version + " done", kind[0] + " " + version + " cancelled confirmed", kind[0] + " " + version + " done",
					kind[3] + " " + version + " done", "└ " + kind[1] + " " + version + " done", "└ " + kind[2] + " " + version + " done",
					kind[0] + " " + version + " done", "└ " + kind[0] + " " + version + " done",
					"└ " + kind[4] + " " + version + " done", kind[4] + " " + version + " failed", "└ " + kind[1] + " " + version + " failed",
				}
				if binding != "GRPC" {
					calls = append(calls, "GET /.well-known/agent-card.json done")
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
	return relayA2A(t, file, version, binding, agentA2A(t, version, binding))
}

// relayA2A is speakA2A for an agent that runs.
func relayA2A(t *testing.T, file, version, binding, agent string) (said map[string]string) {
	t.Helper()
	scheme, _, _ := strings.Cut(agent, ":")
	relay := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", scheme+"://127.0.0.1:0", "--capture", file, agent)
	address, stop := listening(t, relay, listeningOn)
	defer stop()
	if scheme == "http" {
		resp, err := http.Post(agent+"/public?url="+address, "", nil) //nolint:noctx // it ends with the agent
		check(t, err)
		check(t, resp.Body.Close())
	}
	return clientA2A(t, version, binding, address)
}

// scriptA2A returns the command of a role.
func scriptA2A(ctx context.Context, t *testing.T, role, version, binding string, address ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(ctx, need(t, "node"), append([]string{"node/a2a.mjs", packages(t, "npm-a2a"), role, version, binding}, address...)...)
}

// agentA2A starts an agent and returns its address.
func agentA2A(t *testing.T, version, binding string) string {
	t.Helper()
	port, _ := listening(t, scriptA2A(t.Context(), t, "serve", version, binding), regexp.MustCompile(`on port (\d+)`))
	if binding == "GRPC" {
		return "grpc://127.0.0.1:" + port
	}
	return "http://127.0.0.1:" + port
}

// clientA2A runs a client and returns its results.
func clientA2A(t *testing.T, version, binding, address string) (said map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := scriptA2A(ctx, t, "client", version, binding, strings.TrimPrefix(address, "grpc://"))
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, err := client.Output()
	if err != nil || json.Unmarshal(out, &said) != nil {
		t.Errorf("%v\n%s%s", err, out, &stderr)
	}
	return said
}

// A recorded session of the SDK over HTTP, which begins with the agent's card, is replayed in
// both directions. The client is replayed against the agent as recorded, and with a cancel at
// every point of the task that waits for it. The agent is replayed for the client, which does
// not notice, once and any number of times, also at the same time as another client.
func TestReplayA2A(t *testing.T) {
	for _, binding := range []string{"JSONRPC", "HTTP+JSON", "GRPC"} {
		for _, version := range []string{"0.3", "1.0"} {
			t.Run(binding+" "+version, func(t *testing.T) {
				file, agent := filepath.Join(t.TempDir(), "session.pcapng"), agentA2A(t, version, binding)
				want := relayA2A(t, file, version, binding, agent)
				frames, scheme := "35", "http://"
				if binding == "GRPC" { // without the card, and with a head and a status for each call
					frames, scheme = "40", "grpc://"
				}
				if out, said := command(t, nil, "replay", "--timeout", "60s", file, agent); !strings.Contains(said, frames+" received as recorded; version "+version) {
					t.Errorf("%s%s", out, said)
				}
				for _, after := range []string{"0", "1"} {
					points, said := command(t, nil, "replay", "--fast", "--cancel-at", after, "--request", frameOf(t, file, "wait"), file, agent)
					if !strings.Contains(said, "cancelled at 1 of 1 points, 1 confirmed") {
						t.Errorf("%s%s", points, said)
					}
				}
				for _, flags := range [][]string{{"--fast"}, {"--fast", "--repeat"}} {
					unit := exec.CommandContext(t.Context(), wirectl, slices.Concat([]string{"replay", "--as", "unit", "--listen", scheme + "127.0.0.1:0"}, flags, []string{file})...)
					mock, stop := listening(t, unit, regexp.MustCompile(`listening at (\S+)`))
					ask := func() {
						if diff := cmp.Diff(want, clientA2A(t, version, binding, mock)); diff != "" {
							t.Errorf("%v: the client got (-want +got):\n%s", flags, diff)
						}
					}
					ask()
					var others sync.WaitGroup
					others.Go(ask)
					if slices.Contains(flags, "--repeat") {
						others.Go(ask)
					}
					others.Wait()
					stop()
				}
			})
		}
	}
}

// Send follows a task of an agent of either version to its end, and cancels one.
func TestSendA2A(t *testing.T) {
	for _, version := range []string{"0.3", "1.0"} {
		t.Run(version, func(t *testing.T) {
			agent := agentA2A(t, version, "JSONRPC") + "/agent"
			for _, tt := range []struct {
				flags        []string
				answer, ends string
			}{
				{[]string{"--prompt", "count"}, "123", "completed"},
				{[]string{"--prompt", "wait", "--cancel-after", "1"}, "1", "canceled"},
			} {
				out, said := command(t, nil, slices.Concat([]string{"send"}, tt.flags, []string{"a2a", agent})...)
				if strings.TrimSpace(string(out)) != tt.answer || !strings.Contains(said, tt.ends) {
					t.Errorf("%v: got %q and %q, want %s, %s", tt.flags, out, said, tt.answer, tt.ends)
				}
			}
		})
	}
}

// frameOf returns the number of the first frame with a text, whole: parts of it may be in the bytes, which are base64.
func frameOf(t *testing.T, file, text string) string {
	t.Helper()
	out, _ := command(t, nil, "decode", "-q", "-o", "ndjson", file)
	for line := range bytes.Lines(out) {
		var f struct{ Seq json.Number }
		if check(t, json.Unmarshal(line, &f)); bytes.Contains(line, []byte(`"`+text+`"`)) {
			return f.Seq.String()
		}
	}
	t.Fatalf("no frame has %s", text)
	return ""
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
