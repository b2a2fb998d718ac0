package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lateModel serves the APIs of Anthropic, Gemini, and OpenAI's Responses. It answers a word, after
// a time.
func lateModel(t *testing.T, after time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Stream bool `json:"stream"`
		}
		_ = json.NewDecoder(r.Body).Decode(&request)
		isGemini := strings.Contains(r.URL.Path, "enerateContent")
		if !request.Stream && !strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
			w.Header().Set("Content-Type", "application/json")
			if isGemini { // it asks which model to ask
				_, _ = io.WriteString(w, `{"candidates":[{"content":{"role":"model","parts":[{"text":"{}"}]},"finishReason":"STOP"}]}`)
			} else {
				_, _ = io.WriteString(w, "{}")
			}
			return
		}
		select {
		case <-time.After(after):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(event, data string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", event, event, data)
		}
		if isGemini {
			_, _ = io.WriteString(w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Harbour"}]},"finishReason":"STOP"}]}`+"\n\n")
			return
		}
		if strings.HasSuffix(r.URL.Path, "/messages") {
			say("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"mock-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}`)
			say("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
			say("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"Harbour"}`)
			say("content_block_stop", `"index":0`)
			say("message_delta", `"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}`)
			say("message_stop", `"x":0`)
			return
		}
		const item = `"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Harbour","annotations":[]}]}`
		say("response.created", `"response":{"id":"resp_1"}`)
		say("response.output_item.done", item)
		say("response.completed", `"response":{"id":"resp_1","usage":{"input_tokens":9,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":10}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// An agent that is asked one thing on its command line answers as without a relay, however long
// its model takes, although its input has ended long before.
func TestRelayOneShot(t *testing.T) {
	for name, agent := range map[string]func(t *testing.T, model string) (argv, env []string){
		"claude": func(t *testing.T, model string) (argv, env []string) {
			return []string{program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*"), "-p", "Say it."}, claudeEnv(model)
		},
		"codex": func(t *testing.T, model string) (argv, env []string) {
			return []string{program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*"), "exec", "--skip-git-repo-check", "Say it."}, []string{"CODEX_HOME=" + codexHome(t, model)}
		},
		"gemini": func(t *testing.T, model string) (argv, env []string) {
			home := t.TempDir()
			check(t, os.Mkdir(filepath.Join(home, ".gemini"), 0o700))
			check(t, os.WriteFile(filepath.Join(home, ".gemini/settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true}}`), 0o600))
			return []string{need(t, "node"), filepath.Join(packages(t, "npm-coding"), "@google/gemini-cli/bundle/gemini.js"), "--skip-trust", "-p", "Say it."},
				[]string{"HOME=" + home, "GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + model}
		},
		"opencode": func(t *testing.T, model string) (argv, env []string) {
			program, env := opencode(t, model)
			return []string{program, "run", "--model", "mock/mock-1", "Say it."}, env
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(after time.Duration, relay ...string) (stdout string, status int) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				argv, env := agent(t, lateModel(t, after))
				argv = append(relay, argv...)
				cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
				cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader("")
				cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
				var errors strings.Builder
				cmd.Stderr = &errors
				out, _ := cmd.Output()
				if !strings.Contains(string(out), "Harbour") {
					t.Errorf("%v: status %d, %q\n%s", argv, cmd.ProcessState.ExitCode(), out, errors.String())
				}
				return string(out), cmd.ProcessState.ExitCode()
			}
			out, status := run(0)
			const late = 20 * time.Second // several times as long as --grace
			if relayed, its := run(late, wirectl, "relay", "-q", "--no-tap", "--"); relayed != out || its != status {
				t.Errorf("through a relay: status %d, %q\nwithout: status %d, %q", its, relayed, status, out)
			}
		})
	}
}
