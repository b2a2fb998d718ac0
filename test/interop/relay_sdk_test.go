package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP in the environment makes a server of the test program, by the Go SDK:
// what it says on standard output is for its client alone.
const serveMCP = "WIRECTL_INTEROP_SERVE_MCP"

type phrase struct {
	Text string `json:"text"`
}

// serveGoSDK serves two tools until its client leaves: one answers, and the other
// waits for the cancel.
func serveGoSDK() error {
	server := mcp.NewServer(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "upper"}, func(_ context.Context, _ *mcp.CallToolRequest, in phrase) (*mcp.CallToolResult, phrase, error) {
		return nil, phrase{strings.ToUpper(in.Text)}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ phrase) (*mcp.CallToolResult, phrase, error) {
		<-ctx.Done()
		return nil, phrase{}, ctx.Err()
	})
	return server.Run(context.Background(), &mcp.StdioTransport{})
}

// Client and server of the Go SDK do not notice the relay between them; and the
// capture has the calls, the cancel, and nothing that is wrong.
func TestRelayGoSDK(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	file := filepath.Join(t.TempDir(), "session.pcapng")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	relay := exec.CommandContext(ctx, wirectl, "relay", "-q", "--no-tap", "--capture", file, "--", self)
	relay.Env = append(os.Environ(), serveMCP+"=1")
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: relay}, nil)
	check(t, err)
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "upper", Arguments: phrase{"hello"}})
	check(t, err)
	if got := result.Content[0].(*mcp.TextContent).Text; got != `{"text":"HELLO"}` {
		t.Errorf("upper says %s", got)
	}
	short, leave := context.WithTimeout(ctx, 200*time.Millisecond)
	defer leave()
	if _, err := session.CallTool(short, &mcp.CallToolParams{Name: "wait", Arguments: phrase{}}); err == nil {
		t.Error("a cancelled call has a result")
	}
	check(t, session.Ping(ctx, nil))
	check(t, session.Close())

	stats, _ := command(t, nil, "stats", "-q", file)
	if !strings.Contains(string(stats), " tools/call ") || !strings.Contains(string(stats), "notifications/cancelled") {
		t.Errorf("the capture lacks a call or the cancel:\n%s", stats)
	}
	for _, want := range []string{"kind==tools/call", "phase==cancel"} {
		if out, _ := command(t, nil, "decode", "-q", "--where", want, file); len(out) == 0 {
			t.Errorf("no frame has %s", want)
		}
	}
	command(t, nil, "lint", "-q", "--fail-on", "error", file)
}

// The client of the ACP SDK and its example agent do not notice the relay between
// them: a turn with a permission, and one that is cancelled.
func TestRelayACP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	agent := filepath.Join(npm(t), "@agentclientprotocol/sdk/dist/examples/agent.js")
	result := node(t, "node/acp.mjs", wirectl, "relay", "-q", "--no-tap", "--capture", file, "--", need(t, "node"), agent)
	for what, want := range map[string]any{"first": "end_turn", "second": "cancelled", "permissions": 1.0, "exit": 0.0} {
		if result[what] != want {
			t.Errorf("%s: %v, want %v", what, result[what], want)
		}
	}
	stats, _ := command(t, nil, "stats", "-q", file)
	if !strings.Contains(string(stats), "confirmed session/prompt") {
		t.Errorf("no cancel was confirmed:\n%s", stats)
	}
	command(t, nil, "lint", "-q", "--fail-on", "error,warning", file)
}
