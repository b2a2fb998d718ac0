package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An agent that was given wirectl mcp by its install asks it, in the middle of its run, why a call has failed. It is told
// which call and how, at the level full in the server's words, and nothing about its own questions.
func TestAgentsAskWhy(t *testing.T) {
	for _, level := range []string{"metadata", "full"} {
		for _, a := range hookedAgents[:2] {
			t.Run(a.name+" "+level, func(t *testing.T) {
				configure := a.configure
				a.configure = func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
					env, command = configure(t, home, door, server, web)
					install := exec.CommandContext(t.Context(), wirectl, "mcp", "install", a.name, "--yes", "--level="+level)
					install.Env = append([]string{"HOME=" + home}, env...)
					if out, err := install.CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					if at := slices.Index(command, "--allowedTools"); at >= 0 {
						command[at+1] += ",mcp__wirectl__why,mcp__wirectl__calls"
					}
					return env, command
				}
				call := func(server, tool, arguments string) string {
					name := strings.NewReplacer("%s__%s", server+"__"+tool).Replace(a.tool)
					return "So., tool_calls: [{name: " + name + ", arguments: " + arguments + "}]"
				}
				cmd, _ := a.hook(t, filepath.Join(t.TempDir(), "log"), hookedTurn{"look around", call("lab", "look", "{at: vault}")},
					hookedTurn{"vault is locked", call("wirectl", "why", "{}")}, hookedTurn{"verdict", call("wirectl", "calls", `{where: "kind==tools/call"}`)},
					hookedTurn{"outcome", "All is done."})
				// Codex does not pass the folder of the records on to its servers.
				cmd.Env = slices.DeleteFunc(cmd.Env, func(pair string) bool { return strings.HasPrefix(pair, "XDG_STATE_HOME=") })
				cmd.Dir = filepath.Join(cmd.Dir, "work")
				check(t, os.Mkdir(cmd.Dir, 0o700))
				if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "All is done.") {
					t.Fatalf("%v\n%s", err, out)
				}
				decode := exec.CommandContext(t.Context(), wirectl, "decode", "-q", "-o", "ndjson", "run:latest")
				decode.Env, decode.Dir = cmd.Env, cmd.Dir
				frames, err := decode.Output()
				check(t, err)
				var answers []string // of the server, and whether the model was given them
				given := 0
				for line := range strings.Lines(string(frames)) {
					var f struct {
						Dir     string
						Payload struct {
							Result struct{ StructuredContent json.RawMessage }
						}
					}
					_ = json.Unmarshal([]byte(line), &f) // of an answer
					switch {
					case f.Payload.Result.StructuredContent != nil:
						answers = append(answers, string(f.Payload.Result.StructuredContent))
					case f.Dir == "c2u" && strings.Contains(line, "recorded from a wire"):
						given++
					}
				}
				if len(answers) != 2 || given < 2 {
					t.Fatalf("there are %d answers, and %d requests with them:\n%s", len(answers), given, frames)
				}
				why, list := answers[0], answers[1]
				if !regexp.MustCompile(`"verdict":"[\w-]+".*"name":"look".*"outcome":"tool-error"`).MatchString(why) || strings.Contains(why, "the vault is locked") != (level == "full") {
					t.Errorf("it is told %s", why)
				}
				if !strings.Contains(list, `"wire":"lab"`) || strings.Contains(list, "wirectl\"") {
					t.Errorf("the calls are %s", list)
				}
			})
		}
	}
}

// MCP's conformance suite passes, but for the scenarios that want features of its own server: tools, prompts and resources
// with their names, and questions to the client.
func TestConformanceOfMCP(t *testing.T) {
	const token = "a-token-of-the-test"
	cmd := exec.CommandContext(t.Context(), wirectl, "mcp", "--listen", "127.0.0.1:0")
	home := t.TempDir()
	cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "WIRECTL_MCP_TOKEN=" + token}
	address, _ := listening(t, cmd, regexp.MustCompile(`listening at (\S+)`))
	target, err := url.Parse(strings.TrimSuffix(address, "/mcp"))
	check(t, err)
	// The suite has no way to send a token.
	door := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	defer door.Close()
	verdicts := conformance(t, door.URL+"/mcp")
	passed := regexp.MustCompile(`✓ ([\w-]+):`).FindAllStringSubmatch(verdicts, -1)
	var names []string
	for _, m := range passed {
		names = append(names, m[1])
	}
	want := "server-initialize logging-set-level ping tools-list server-sse-multiple-streams resources-list prompts-list dns-rebinding-protection"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s pass, and not %s:\n%s", got, want, verdicts)
	}
	for _, m := range regexp.MustCompile(`✗ ([\w-]+):`).FindAllStringSubmatch(verdicts, -1) {
		if !regexp.MustCompile(`^(completion|tools-call|elicitation|resources-(read|templates|subscribe|unsubscribe)|prompts-get)`).MatchString(m[1]) {
			t.Errorf("%s fails:\n%s", m[1], verdicts)
		}
	}
}

// The answers on a session of a gibibyte have 8 KiB at most, and the memory for them is bounded. A call that is cancelled
// in the middle of it ends at once.
func TestAnswersOnLongSession(t *testing.T) {
	home := t.TempDir()
	records := filepath.Join(home, ".local/state/wirectl/sessions")
	check(t, os.MkdirAll(records, 0o700))
	env := []string{"HOME=" + home}
	const size, long = 1 << 30, 100 << 10
	convert := exec.CommandContext(t.Context(), wirectl, "convert", "--keep-secrets", "-", filepath.Join(records, "abcdef.pcapng"))
	convert.Env = env
	in, err := convert.StdinPipe()
	check(t, err)
	check(t, convert.Start())
	out := bufio.NewWriterSize(in, 1<<20)
	text := strings.Repeat("what was said, ", long/15)
	for i, n := 1, 0; n < size; i++ {
		for _, line := range []string{
			fmt.Sprintf(`"dir":"c2u","payload":{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"look","arguments":{"text":%q}}}`, i, text),
			fmt.Sprintf(`"dir":"u2c","payload":{"jsonrpc":"2.0","id":%d,"result":{"isError":%t,"content":[{"type":"text","text":%q}]}}`, i, i%100 == 0, text),
		} {
			written, err := fmt.Fprintf(out, `{"time":"2026-11-01T10:00:%02d.%03dZ","conn":1,"framing":"line","protocol":"mcp",%s}`+"\n", i/1000%60, i%1000, line)
			check(t, err)
			n += written
		}
	}
	check(t, out.Flush())
	check(t, in.Close())
	check(t, convert.Wait())
	check(t, os.WriteFile(filepath.Join(records, "abcdef.json"), fmt.Appendf(nil, `{"id":"abcdef","started":"2026-11-01T10:00:00Z","ended":"2026-11-01T11:00:00Z","folder":%q,"level":"full"}`, home), 0o600))

	cmd := exec.CommandContext(t.Context(), wirectl, "mcp", "--level", "full")
	cmd.Dir, cmd.Env = home, env
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	check(t, err)
	defer s.Close()
	for _, c := range []struct {
		tool      string
		arguments map[string]any
	}{
		{"sessions", nil},
		{"why", nil},
		{"calls", nil},
		{"frame", map[string]any{"frame": 1001}},
		{"lint", nil},
		{"search", map[string]any{"text": "what was said"}},
		{"search", map[string]any{"text": "nowhere"}},
	} {
		began := time.Now()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments})
		check(t, err)
		b, err := json.Marshal(r)
		check(t, err)
		t.Logf("%s %v: %d bytes, %v, peak %d MiB", c.tool, c.arguments, len(b), time.Since(began).Round(time.Millisecond), peak(t, cmd.Process.Pid)>>20)
		if r.IsError || len(b) > 8<<10 {
			t.Errorf("%s %v: %d bytes: %.500s", c.tool, c.arguments, len(b), b)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "lint"}); err == nil {
		t.Error("a cancelled call is answered")
	}
	if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "calls", Arguments: map[string]any{"limit": 1}}); err != nil || r.IsError {
		t.Errorf("after a cancelled call: %v", err)
	}
	if most := peak(t, cmd.Process.Pid); most > 512<<20 {
		t.Errorf("the server has used %d MiB", most>>20)
	}
}

// peak returns the most memory that a process has used.
func peak(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // not Linux
	}
	if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text); m != nil {
		bytes, err = strconv.ParseInt(string(m[1]), 10, 64)
		check(t, err)
	}
	return bytes << 10
}
