package interop

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client of the MCP SDK on standard input and output does not notice that the reference
// server is reached over HTTP, with either transport.
func TestBridgeMCP(t *testing.T) {
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	for _, tt := range []struct{ kind, path string }{{"streamableHttp", "/mcp"}, {"sse", "/sse"}} {
		t.Run(tt.kind, func(t *testing.T) {
			port := freePort(t)
			cmd := exec.CommandContext(t.Context(), need(t, "node"), server, tt.kind)
			cmd.Env = append(os.Environ(), "PORT="+port)
			listening(t, cmd, regexp.MustCompile(`on port (\d+)`))
			file := filepath.Join(t.TempDir(), "session.pcapng")
			result := node(t, "node/mcp.cjs", "stdio", wirectl, "relay", "--no-tap", "--capture", file, "http://127.0.0.1:"+port+tt.path)
			for what, want := range map[string]any{
				"tools": true, "echo": "Echo: hello", "sum": "The sum of 2 and 3 is 5.", "cancelled": true, "progress": 4.0,
				"slow": "Long running operation completed. Duration: 1 seconds, Steps: 4.",
			} {
				if result[what] != want {
					t.Errorf("%s: %v, want %v", what, result[what], want)
				}
			}
			command(t, nil, "lint", "-q", "--fail-on", "error,warning", file)
		})
	}
}

// Client and server of the Go SDK speak version 2026-07-28 through the bridge. Headers
// repeat values from the messages, and a cancel closes the stream.
func TestBridgeGoSDK(t *testing.T) {
	cancelled := make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "upper"}, func(_ context.Context, _ *mcp.CallToolRequest, in phrase) (*mcp.CallToolResult, phrase, error) {
		return nil, phrase{strings.ToUpper(in.Text)}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ phrase) (*mcp.CallToolResult, phrase, error) {
		<-ctx.Done()
		close(cancelled)
		return nil, phrase{}, ctx.Err()
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	var mu sync.Mutex
	var tokens, methods []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tokens = append(tokens, r.Header.Get("Authorization"))
		methods = append(methods, r.Header.Get("Mcp-Protocol-Version")+" "+r.Header.Get("Mcp-Method")+" "+r.Header.Get("Mcp-Name"))
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	defer s.Close()
	defer s.CloseClientConnections()

	file := filepath.Join(t.TempDir(), "session.pcapng")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	relay := exec.CommandContext(ctx, wirectl, "relay", "-q", "--no-tap", "--capture", file, s.URL)
	relay.Env = append(os.Environ(), "WIRECTL_HEADERS=Authorization: Bearer interop")
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
	select {
	case <-cancelled:
	case <-time.After(20 * time.Second):
		t.Error("the cancel did not arrive")
	}
	check(t, session.Close())
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"2026-07-28 server/discover ", "2026-07-28 tools/call upper", "2026-07-28 tools/call wait"}; !slices.Equal(methods, want) {
		t.Errorf("the headers are %q, want %q", methods, want)
	}
	if n := len(slices.Compact(tokens)); n != 1 || tokens[0] != "Bearer interop" {
		t.Errorf("the tokens are %q", tokens)
	}
	calls, _ := command(t, nil, "calls", "-q", "-o", "ndjson", file)
	if !bytes.Contains(calls, []byte(`"name":"upper"`)) {
		t.Errorf("the calls are\n%s", calls)
	}
}
