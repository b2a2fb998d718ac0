package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// pi is aborted in mid-sentence. It closes the connection to its model, reports how the
// agent ended, and then answers.
func TestRelayPi(t *testing.T) {
	modules := packages(t, "npm-coding")
	model, left := slowModel(t)
	config := t.TempDir()
	check(t, os.WriteFile(filepath.Join(config, "models.json"), fmt.Appendf(nil,
		`{"providers":{"mock":{"baseUrl":%q,"api":"anthropic-messages","apiKey":"x","models":[{"id":"mock-1"}]}}}`, model), 0o600))
	file := filepath.Join(t.TempDir(), "session.pcapng")
	r := relayAgent(t, file, []string{"PI_CODING_AGENT_DIR=" + config}, need(t, "node"), filepath.Join(modules, "@mariozechner/pi-coding-agent/dist/cli.js"),
		"--mode", "rpc", "--provider", "mock", "--model", "mock-1", "--no-session", "--offline")
	r.say(`{"type":"get_state"}`)
	r.hear(`"command":"get_state","success":true`)
	r.say(`{"id":"a","type":"prompt","message":"hi"}`)
	r.hear(`text_delta`)
	r.say(`{"type":"follow_up","message":"more"}`)
	r.hear(`"command":"follow_up","success":true`)
	r.say(`{"type":"abort"}`)
	if reason := r.hear(`"agent_end".*"stopReason":"([^"]*)"`); reason != "aborted" {
		t.Errorf("the agent is %s", reason)
	}
	r.hear(`"command":"abort","success":true`)
	<-left
	r.leave()
	interrupted(t, file, "pi", "prompt")
}

// opencode returns the program of opencode, and an environment in which it asks a model.
func opencode(t *testing.T, model string) (path string, env []string) {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	home := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(home, ".config/opencode"), 0o700))
	check(t, os.WriteFile(filepath.Join(home, ".config/opencode/opencode.json"), fmt.Appendf(nil, `{"autoupdate":false,"share":"disabled","provider":{
		"mock":{"npm":"@ai-sdk/anthropic","options":{"baseURL":"%s/v1","apiKey":"x"},"models":{"mock-1":{"limit":{"context":100000,"output":1000}}}}
	}}`, model), 0o600))
	return program(t, "npm-coding", "opencode-"+runtime.GOOS+"-"+arch+"/bin/opencode*"),
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
}

// startOpencode starts an opencode server that asks a model, and returns its address.
func startOpencode(t *testing.T, model string) string {
	t.Helper()
	path, env := opencode(t, model)
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), path, "serve", "--port", port, "--hostname", "127.0.0.1")
	cmd.Dir, cmd.Env = t.TempDir(), env
	listening(t, cmd, regexp.MustCompile(`listening on (\S+)`))
	return "http://127.0.0.1:" + port
}

// Both ways to prompt opencode are aborted in mid-sentence, through a relay. The turn
// begins on one connection, is reported on another, and is aborted on a third.
func TestRelayOpencode(t *testing.T) {
	model, left := slowModel(t)
	file := filepath.Join(t.TempDir(), "session.pcapng")
	address, stop := listening(t, exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", "http://127.0.0.1:0", "--capture", file, startOpencode(t, model)), listeningOn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func(method, path, body string) *http.Response {
		request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(body))
		check(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		check(t, err)
		return response
	}
	say := func(path, body string) string {
		response := ask("POST", path, body)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		check(t, err)
		return fmt.Sprint(response.StatusCode, " ", string(text))
	}
	events := ask("GET", "/event", "")
	defer events.Body.Close()
	lines := bufio.NewReader(events.Body)
	hear := func(what string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if strings.Contains(line, what) {
				return
			}
			if err != nil {
				t.Fatalf("%v before %s came", err, what)
			}
		}
	}
	hear(`"server.connected"`)
	var session struct {
		ID string `json:"id"`
	}
	_, created, _ := strings.Cut(say("/session", `{}`), " ")
	check(t, json.Unmarshal([]byte(created), &session))
	path := "/session/" + session.ID
	const prompt = `{"model":{"providerID":"mock","modelID":"mock-1"},"parts":[{"type":"text","text":"hi"}]}`

	answer := make(chan string, 1)
	go func() { answer <- say(path+"/message", prompt) }()
	hear(`"message.part.delta"`)
	if got := say(path+"/abort", ""); got != "200 true" {
		t.Errorf("the abort is answered by %s", got)
	}
	if got := <-answer; !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "MessageAbortedError") {
		t.Errorf("the prompt is answered by %s", got)
	}
	hear(`"session.idle"`)
	if got := say(path+"/prompt_async", prompt); got != "204 " {
		t.Errorf("the prompt is accepted by %s", got)
	}
	hear(`"message.part.delta"`)
	say(path+"/abort", "")
	hear(`"session.idle"`)
	<-left
	<-left
	http.DefaultClient.CloseIdleConnections()
	stop()
	stats, _ := command(t, nil, "stats", "-q", file)
	for _, kind := range []string{"POST /session/:id/message", "POST /session/:id/prompt_async"} {
		if !bytes.Contains(stats, []byte("confirmed opencode "+kind+" ")) {
			t.Errorf("no cancel of %s was confirmed:\n%s", kind, stats)
		}
	}
	command(t, nil, "lint", "-q", "--fail-on", "error,warning,note", file)
}

// The AG-UI client does not notice a relay. An interrupted run and its resume are one
// operation, and a run whose client disconnects is cancelled.
func TestRelayAGUI(t *testing.T) {
	modules := packages(t, "npm-coding")
	server, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/agui.mjs", modules, "serve"), listeningOn)
	address, end := relayed(t, "http://127.0.0.1:0", server)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, need(t, "node"), "node/agui.mjs", modules, "ask", address).Output()
	if want := `{"pay":"interrupt","resume":"success","stop":"cancelled","long":"none"}`; err != nil || strings.TrimSpace(string(out)) != want {
		t.Fatalf("the client saw %s (%v), want %s", out, err, want)
	}
	ndjson := end(true, "agui: ", "2 cancelled", "1 done")
	count(t, ndjson, map[string]int{`"kind":"run"`: 4, `"kind":"RUN_FINISHED"`: 3})
}

// A recorded AG-UI run is replayed by both sides over HTTP. The client does not notice that
// the agent is a recording, and the agent answers a recorded client in the same way.
func TestReplayAGUI(t *testing.T) {
	modules, node := packages(t, "npm-coding"), need(t, "node")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	file := filepath.Join(t.TempDir(), "session.pcapng")
	server, _ := listening(t, exec.CommandContext(ctx, node, "node/agui.mjs", modules, "serve"), listeningOn)
	agent := strings.TrimSuffix(server, "/agent")
	relay, stop := listening(t, exec.CommandContext(ctx, wirectl, "relay", "--no-tap", "--listen", "http://127.0.0.1:0", "--capture", file, agent), listeningOn)
	ask := func(address string) {
		t.Helper()
		out, err := exec.CommandContext(ctx, node, "node/agui.mjs", modules, "ask", address+"/agent").Output()
		if want := `{"pay":"interrupt","resume":"success","stop":"cancelled","long":"none"}`; err != nil || strings.TrimSpace(string(out)) != want {
			t.Fatalf("the client saw %s (%v), want %s", out, err, want)
		}
	}
	ask(relay)
	stop()
	mock, _ := listening(t, exec.CommandContext(ctx, wirectl, "replay", "--fast", "--as", "unit", "--listen", "http://127.0.0.1:0", file), at)
	ask(mock)
	command(t, nil, "replay", "-q", "--fast", "--match", "kind", file, agent)
}
