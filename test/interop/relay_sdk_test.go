package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP in the environment turns the test program into a server with the Go SDK. Only
// its client may see its standard output.
const serveMCP = "WIRECTL_INTEROP_SERVE_MCP"

type phrase struct {
	Text string `json:"text"`
}

// goServer has four tools: one answers, one waits for the cancel, one asks for input, and
// one changes the list of tools.
func goServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "upper"}, func(_ context.Context, _ *mcp.CallToolRequest, in phrase) (*mcp.CallToolResult, phrase, error) {
		return nil, phrase{strings.ToUpper(in.Text)}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ phrase) (*mcp.CallToolResult, phrase, error) {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second): // over HTTP the SDK may not notice a disconnect
		}
		return nil, phrase{}, ctx.Err()
	})
	object := map[string]any{"type": "object"}
	server.AddTool(&mcp.Tool{Name: "book", InputSchema: object}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.InputResponses["confirm"] != nil {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "booked"}}}, nil
		}
		ask := mcp.InputRequestMap{"confirm": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: object}}
		return &mcp.CallToolResult{InputRequests: ask, RequestState: "asked"}, nil
	})
	server.AddTool(&mcp.Tool{Name: "change", InputSchema: object}, func(_ context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		mcp.AddTool(server, &mcp.Tool{Name: "more"}, func(context.Context, *mcp.CallToolRequest, phrase) (*mcp.CallToolResult, phrase, error) {
			return nil, phrase{}, nil
		})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "changed"}}}, nil
	})
	return server
}

// serveGoSDK serves until its client disconnects.
func serveGoSDK() error { return goServer().Run(context.Background(), &mcp.StdioTransport{}) }

// Client and server of the Go SDK do not notice the relay between them. The capture has the
// calls and the cancel, and no findings.
func TestRelayGoSDK(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "session.pcapng")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			relay := exec.CommandContext(ctx, wirectl, "relay", "-q", "--no-tap", "--capture", file, "--", self)
			relay.Env = append(os.Environ(), serveMCP+"=1")
			speakGoSDK(t, ctx, &mcp.CommandTransport{Command: relay}, version)
			judgeMCP(t, file, "notifications/cancelled", retriesOf[version])
		})
	}
}

// The same holds over HTTP.
func TestRelayGoSDKOverHTTP(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			server := goServer()
			unit := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
				&mcp.StreamableHTTPOptions{Stateless: version == "2026-07-28"}))
			defer unit.Close()
			file := filepath.Join(t.TempDir(), "session.pcapng")
			cmd := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", "http://127.0.0.1:0", "--capture", file, unit.URL)
			address, stop := listening(t, cmd, listeningOn)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			speakGoSDK(t, ctx, &mcp.StreamableClientTransport{Endpoint: address}, version)
			stop()
			judgeMCP(t, file, "cancelled", retriesOf[version])
		})
	}
}

// speakGoSDK makes a call, one that asks for input, one that is cancelled, and one that
// makes the server notify it of a change.
func speakGoSDK(t *testing.T, ctx context.Context, transport mcp.Transport, version string) {
	t.Helper()
	changed := make(chan struct{}, 8)
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	check(t, err)
	for _, call := range []struct {
		name string
		with any
		want string
	}{
		{"upper", phrase{"hello"}, `{"text":"HELLO"}`},
		{"book", map[string]any{}, "booked"},
		{"change", map[string]any{}, "changed"},
	} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: call.name, Arguments: call.with})
		check(t, err)
		if got := result.Content[0].(*mcp.TextContent).Text; got != call.want {
			t.Errorf("%s says %s", call.name, got)
		}
	}
	select {
	case <-changed:
	case <-ctx.Done():
		t.Error("no change was told")
	}
	short, leave := context.WithTimeout(ctx, 200*time.Millisecond)
	defer leave()
	if _, err := session.CallTool(short, &mcp.CallToolParams{Name: "wait", Arguments: phrase{}}); err == nil {
		t.Error("a cancelled call has a result")
	}
	_, err = session.ListTools(ctx, nil)
	check(t, err)
	check(t, session.Close())
}

// retriesOf is the number of retries of a call that asks for input, by version. In the
// older one the server sends a request instead.
var retriesOf = map[string]int{"2025-11-25": 0, "2026-07-28": 1}

// judgeMCP checks a capture with retried calls and a cancelled one. It has the calls, as
// operations, and no findings.
func judgeMCP(t *testing.T, file, cancelled string, want int) {
	t.Helper()
	stats, _ := command(t, nil, "stats", "-q", file)
	if !strings.Contains(string(stats), "\ntools/call ") || !strings.Contains(string(stats), cancelled) {
		t.Errorf("the capture lacks a call or the cancel:\n%s", stats)
	}
	calls, _ := command(t, nil, "calls", "-q", "--exchanges", "-o", "ndjson", file)
	retries := 0
	for line := range strings.Lines(string(calls)) {
		if strings.Contains(line, `"operation":`) && strings.Contains(line, `"kind":"tools/call"`) {
			retries++
		}
	}
	if retries != want {
		t.Errorf("%d retries, want %d:\n%s", retries, want, calls)
	}
	command(t, nil, "lint", "-q", "--fail-on", "error", file)
}

// Client and server of the TypeScript SDK speak 2026-07-28 through the relay. They make a
// call that asks for input, a subscription that its client ends, and a cancelled call.
func TestRelayTypeScriptSDK(t *testing.T) {
	file := filepath.Join(t.TempDir(), "session.pcapng")
	speak := func(t *testing.T, args ...string) {
		t.Helper()
		result := node(t, "node/mcp26.mjs", append([]string{"client"}, args...)...)
		for what, want := range map[string]any{"reached": "in eu", "tools": "book,change,reach,wait", "booked": "booked Ariel", "changed": true, "cancelled": true, "ended": "local"} {
			if result[what] != want {
				t.Errorf("%s: %v, want %v", what, result[what], want)
			}
		}
	}
	t.Run("stdio", func(t *testing.T) {
		speak(t, "stdio", wirectl, "relay", "-q", "--no-tap", "--capture", file, "--", need(t, "node"), "node/mcp26.mjs", npm(t), "serve-stdio")
		judgeMCP(t, file, "notifications/cancelled", 1)
	})
	t.Run("HTTP", func(t *testing.T) {
		port, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/mcp26.mjs", npm(t), "serve-http"), regexp.MustCompile(`on port (\d+)`))
		cmd := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", "http://127.0.0.1:0", "--capture", file, "http://127.0.0.1:"+port+"/mcp")
		address, stop := listening(t, cmd, listeningOn)
		speak(t, "http", address)
		stop()
		judgeMCP(t, file, "cancelled", 2) // one is due to its headers
	})
	t.Run("send", func(t *testing.T) {
		out, _ := command(t, nil, "send", "-q", "--stateless", "--input", `confirm={"action":"accept","content":{"yes":true}}`, "mcp", "tools/call", `{"name":"book","arguments":{"ship":"Ariel"}}`,
			"--", need(t, "node"), "node/mcp26.mjs", npm(t), "serve-stdio")
		if !strings.Contains(string(out), "booked Ariel") {
			t.Errorf("the server says %s", out)
		}
	})
}

// The client of the ACP SDK and its example agent do not notice the relay between them. One
// turn asks for a permission, and one is cancelled.
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
