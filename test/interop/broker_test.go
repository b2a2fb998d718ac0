package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// serve runs the broker, and returns the addresses of its doors.
func serve(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	return doors(t, exec.CommandContext(t.Context(), wirectl, append(serveAnywhere, flags...)...))
}

var serveAnywhere = []string{"serve", "--any-port", "--print-addresses", "-q", "--drain", "1s"}

// doors starts a broker, and returns the addresses of its doors.
func doors(t *testing.T, cmd *exec.Cmd) (doors map[string]string) {
	t.Helper()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &doors) != nil {
		t.Fatalf("%q, %v\n%s", line, err, &stderr)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended
	return doors
}

// aimock runs the mock of LLM backends, and returns its address.
func aimock(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	fixtures := `{"fixtures":[
		{"match":{"userMessage":"hello"},"response":{"content":"Hello from the mock."}},
		{"match":{"userMessage":"weather"},"response":{"toolCalls":[{"name":"get_weather","arguments":{"location":"Oslo"}}]}},
		{"match":{"userMessage":"limited"},"response":{"error":{"message":"slow down","type":"rate_limit_error"},"status":429}},
		{"match":{"userMessage":"cut"},"response":{"content":"This is never said to its end, since the stream is cut."},"truncateAfterChunks":2},
		{"match":{"userMessage":"broken"},"response":{"error":{"message":"oops","type":"server_error"},"status":500}}]}`
	file := filepath.Join(dir, "fixtures.json")
	check(t, os.WriteFile(file, []byte(fixtures), 0o600))
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), need(t, "node"), filepath.Join(modules, "@copilotkit/aimock/dist/cli.js"), "-p", port, "-f", file, "--log-level", "silent")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	addr := "127.0.0.1:" + port
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get("http://" + addr + "/health"); err == nil {
			resp.Body.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mock does not answer:\n%s", &output)
		}
	}
}

// brokerConfig writes a configuration with a model of each kind that calls the mock, with
// the given number of retries.
func brokerConfig(t *testing.T, addr string, retries int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(file, fmt.Appendf(nil, `default: gpt
providers:
  openai: {kind: openai, base_url: "http://%[1]s/v1", retries: %[2]d}
  anthropic: {kind: anthropic, base_url: "http://%[1]s", retries: %[2]d}
  gemini: {kind: gemini, base_url: "http://%[1]s", retries: %[2]d}
models:
  gpt: {provider: openai, model: gpt-4o}
  claude: {provider: anthropic, model: claude-sonnet-4-5}
  gemini: {provider: gemini, model: gemini-2.5-flash}
`, addr, retries), 0o600))
	return file
}

// script runs node/broker.cjs.
func script(t *testing.T, args ...string) (result map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, need(t, "node"), append([]string{"node/broker.cjs", packages(t, "npm-broker")}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &result) != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, &stderr)
	}
	return result
}

// The official SDK gets the same results through the broker from backends of all three
// kinds. Its test covers whole answers, streams, tool calls, and errors of its own types.
func TestBrokerSDK(t *testing.T) {
	doors := serve(t, "--config", brokerConfig(t, aimock(t, packages(t, "npm-broker")), 0))
	for _, model := range []string{"gpt", "claude", "gemini"} {
		got := script(t, "openai", "http://"+doors["openai"], model)
		want := map[string]any{
			"models": []any{"claude", "gemini", "gpt"}, "whole": "Hello from the mock.", "finish": "stop", "streamed": "Hello from the mock.",
			"tool": map[string]any{"name": "get_weather", "arguments": `{"location":"Oslo"}`}, "toolFinish": "tool_calls",
			"unknown": "404 model_not_found", "limited": "429 rate_limit_error",
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("%s:\n got %s\nwant %s", model, a, b)
		}
	}
}

// The same holds for Anthropic's SDK, with its own events, blocks and errors.
func TestBrokerAnthropicSDK(t *testing.T) {
	doors := serve(t, "--config", brokerConfig(t, aimock(t, packages(t, "npm-broker")), 0))
	for _, model := range []string{"gpt", "claude", "gemini"} {
		got, _ := json.Marshal(script(t, "anthropic", "http://"+doors["openai"], model))
		want := `{"end":"end_turn","finish":"end_turn",` +
			`"limited":"RateLimitError 429 rate_limit_error","limitedStream":"RateLimitError 429 rate_limit_error",` +
			`"streamed":"Hello from the mock.","streamedTool":{"id":"string","input":{"location":"Oslo"},"name":"get_weather","stop_reason":"tool_use","type":"tool_use"},` +
			`"together":[{"text":"Hello from the mock.","type":"text"}],` +
			`"tool":{"id":"string","input":{"location":"Oslo"},"name":"get_weather","stop_reason":"tool_use","type":"tool_use"},` +
			`"unknown":"NotFoundError 404 not_found_error","whole":[{"text":"Hello from the mock.","type":"text"}],"wrong":"BadRequestError 400 invalid_request_error"}`
		if string(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", model, got, want)
		}
	}
}

// The official SDKs understand the odd answers of providers, which mean the same to all of them.
func TestBrokerOddAnswers(t *testing.T) {
	text, err := os.ReadFile("../../llm/testdata/upstreams.txtar")
	check(t, err)
	files := map[string]string{}
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		name, data, _ := strings.Cut(part, " --\n")
		files[name] = strings.TrimSuffix(data, "\n")
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := strings.Split(r.URL.Path, "/")[1]
		if bytes.Contains(body, []byte(`"stream":true`)) || strings.Contains(r.URL.Path, "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			for event := range strings.SplitSeq(files[name+".sse"], "\n\n") {
				if event == "#CUT" {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, event+"\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, files[name+".json"])
	}))
	defer backend.Close()
	const paris, parisAndTime = `calls [[ID get_weather {"city":"Paris"}]]`, `calls [[ID get_weather {"city":"Paris"}] [ID get_time `
	wants := map[string][2]string{ // the kind of the provider, and what the SDKs understand
		"azure-empty-object":         {"openai", `"Hello" calls [] tokens [11 5]`},
		"chunks-without-object":      {"openai", `"Hello" calls [] tokens [11 5]`},
		"tool-calls-without-index":   {"openai", `"" ` + parisAndTime + `{"tz":"JST"}]] tokens [11 5]`},
		"tool-id-name-repeated":      {"openai", `"" ` + paris + ` tokens [11 5]`},
		"arguments-object":           {"openai", `"" ` + paris + ` tokens [11 5]`},
		"content-array":              {"openai", `"Hello" calls [] tokens [11 5]`},
		"tool-ids-empty":             {"openai", `"" calls [[ID get_weather {"city":"Paris"}] [ID get_weather {"city":"Rome"}]] tokens [11 5]`},
		"stop-with-tool-calls":       {"openai", `"" ` + paris + ` tokens [11 5]`},
		"text-in-block-start":        {"anthropic", `"Hello" calls [] tokens [9 7]`},
		"no-message-stop":            {"anthropic", `"Hello" calls [] tokens [9 7]`},
		"tool-arguments-pieces":      {"anthropic", `"" ` + paris + ` tokens [9 12]`},
		"compaction-iterations":      {"anthropic", `"Hello" calls [] tokens [1009 57]`},
		"gemini-signature":           {"gemini", `"" ` + parisAndTime + `{}]] tokens [8 17]`},
		"vllm-error-first":           {"openai", `"" failed 400 BadRequestError`},
		"openai-error-in-200":        {"openai", `"" failed 429 insufficient_quota`},
		"gemini-malformed-call":      {"gemini", `"" failed 502 Malformed function call: x`},
		"openrouter-midstream-error": {"openai", `"Hello" failed HTTP 502`},
		"error-in-tool-arguments":    {"anthropic", `"" failed overloaded_error`},
		"cut":                        {"openai", `"Hello" failed broke off`},
	}
	// What SDKs do with answers that the broker passes unchanged is their own matter.
	own := []string{"chat openai", "anthropic anthropic", "gemini gemini"}
	config, names := "providers:\n", []string{}
	models := "models:\n"
	for name, want := range wants {
		base := backend.URL + "/" + name
		if want[0] == "openai" {
			base += "/v1"
		}
		config += fmt.Sprintf("  %s: {kind: %s, base_url: %q}\n", name, want[0], base)
		models += fmt.Sprintf("  %s: {provider: %[1]s, model: up}\n", name)
		for _, form := range []string{".sse", ".json"} {
			if files[name+form] != "" {
				names = append(names, name+form)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(file, []byte(config+models), 0o600))
	doors := serve(t, "--config", file)
	for about, answer := range script(t, "odd", "http://"+doors["openai"], strings.Join(names, ",")) {
		name, api, _ := strings.Cut(about, " ")
		want := wants[name[:strings.LastIndexByte(name, '.')]]
		if slices.Contains(own, api+" "+want[0]) {
			continue
		}
		got := answer.(map[string]any)
		for _, call := range got["calls"].([]any) {
			if call := call.([]any); call[0] != "" {
				call[0] = "ID"
			}
		}
		summary := fmt.Sprintf("%q calls %v tokens %v", got["text"], got["calls"], got["tokens"])
		said, failure, failed := strings.Cut(want[1], " failed ")
		if message, _ := got["error"].(string); failed {
			ok := strings.HasPrefix(summary, said+" ")
			for _, word := range strings.SplitN(failure, " ", 2) {
				ok = ok && strings.Contains(message, word)
			}
			if !ok {
				t.Errorf("%s: got %s, failed %q; want %s", about, summary, message, want[1])
			}
		} else if summary != want[1] || message != "" {
			t.Errorf("%s: got %s %s, want %s", about, summary, message, want[1])
		}
	}
}

// A relay between an SDK and the broker shows each call as an HTTP exchange, with the
// events of a stream as its parts.
func TestBrokerWatched(t *testing.T) {
	doors := serve(t, "--config", brokerConfig(t, aimock(t, packages(t, "npm-broker")), 0))
	for sdk, stats := range map[string][]string{
		"openai":    {"6 exchanges (4 done, 2 failed)", "models ", "chat/completions "},
		"anthropic": {"8 exchanges (4 done, 4 failed)", "messages "},
	} {
		address, end := relayed(t, "http://127.0.0.1:0", "http://"+doors["openai"])
		script(t, sdk, address, "gpt")
		frames := end(true, stats...)
		if !bytes.Contains(frames, []byte(`"kind":"end"`)) {
			t.Errorf("%s: no stream has an end:\n%s", sdk, frames)
		}
	}
}

// Anthropic's SDK can count tokens, and its own headers reach a backend with the same API.
func TestBrokerCountTokens(t *testing.T) {
	versions := make(chan string, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions <- r.URL.Path + " " + r.Header.Get("Anthropic-Version")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"input_tokens":17}`)
	}))
	defer backend.Close()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(file, fmt.Appendf(nil, "providers: {p: {kind: anthropic, base_url: %q}}\nmodels: {m: {provider: p}}\n", backend.URL), 0o600))
	doors := serve(t, "--config", file)
	if got := script(t, "count", "http://"+doors["openai"], "m"); got["tokens"] != float64(17) {
		t.Errorf("got %v", got)
	}
	if got := <-versions; !strings.HasPrefix(got, "/v1/messages/count_tokens 20") {
		t.Errorf("the backend was asked %s", got)
	}
}

// An SDK that aborts a stream ends the call at the backend.
func TestBrokerAbort(t *testing.T) {
	ended := make(chan time.Time, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"so"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- time.Now()
	}))
	defer backend.Close()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(file, fmt.Appendf(nil, "providers: {p: {kind: openai, base_url: %q}}\nmodels: {m: {provider: p}}\n", backend.URL), 0o600))
	doors := serve(t, "--config", file)
	relay, end := relayed(t, "http://127.0.0.1:0", "http://"+doors["openai"])
	for _, url := range []string{"http://" + doors["openai"], relay} {
		for _, what := range []string{"abortOpenAI", "abortResponses", "abortAnthropic", "abortGemini"} {
			got := script(t, what, url, "m")
			if got["content"] != "so" {
				t.Errorf("%s: got %v", what, got)
			}
			at, _ := got["at"].(float64)
			closesSoon(t, what, ended, time.UnixMilli(int64(at)))
		}
	}
	end(false)
}

// closesSoon checks that a backend's connection is closed soon after the client's abort. It
// logs the exact time. The limit allows for a busy machine.
func closesSoon(t *testing.T, what string, ended <-chan time.Time, since time.Time) {
	t.Helper()
	select {
	case at := <-ended:
		took := at.Sub(since)
		t.Logf("%s: the backend's connection was closed after %v", what, took.Round(time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("%s: the backend's connection was closed after %v", what, took)
		}
	case <-time.After(patience):
		t.Fatalf("%s: the call goes on at the backend", what)
	}
}

// A backend with Retry-After is called again after that time, and a stream that it cuts is
// recognizable as cut.
func TestBrokerChaos(t *testing.T) {
	mock := aimock(t, packages(t, "npm-broker"))
	doors := serve(t, "--config", brokerConfig(t, mock, 1))
	ask := func(model, content string, stream bool) (int, string) {
		body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, content)
		resp, err := http.Post("http://"+doors["openai"]+"/v1/chat/completions", "application/json", strings.NewReader(body))
		check(t, err)
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			return resp.StatusCode, err.Error()
		}
		return resp.StatusCode, string(out)
	}
	for _, model := range []string{"gpt", "claude", "gemini"} {
		if status, body := ask(model, "broken", false); status != 500 || strings.Contains(body, "oops") {
			t.Errorf("%s, 500: %d %s", model, status, body)
		}
		if status, body := ask(model, "limited", false); status != 429 || strings.Contains(body, "slow down") {
			t.Errorf("%s, 429: %d %s", model, status, body)
		}
		status, body := ask(model, "cut", true)
		if body != io.ErrUnexpectedEOF.Error() && status != 502 { // if cut before the first part, the status could still be changed
			t.Errorf("%s, cut: %d %s", model, status, body)
		}
	}
	resp, err := http.Post("http://"+mock+"/__aimock/chaos", "application/json", strings.NewReader(`{"rateLimitRate":1}`))
	check(t, err)
	resp.Body.Close()
	begin := time.Now()
	if status, body := ask("gpt", "hello", false); status != 429 || time.Since(begin) < time.Second {
		t.Errorf("Retry-After: 1 was not waited for: %d %s after %v", status, body, time.Since(begin))
	}
}

// A client in Python's standard library gets the answers that the protocol promises, and a
// faulty one the answers of existing peers. 64 concurrent clients are served.
func TestBrokerPython(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, wirectl, "serve", "--any-port", "-q", "--", need(t, "python3"), "python/rlm_client.py")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var got struct {
		Friendly struct {
			Keys     [][]string
			Response string
			Many     []string
			Seconds  string
		}
		Hostile map[string]any
		Crowd   []string
		After   string
	}
	if err != nil || json.Unmarshal(out, &got) != nil {
		t.Fatalf("%v\n%s%s", err, out, &stderr)
	}
	f := got.Friendly
	want := [][]string{
		{"correlation_id", "error", "results"},
		{"error", "chat_completion"},
		{"root_model", "prompt", "response", "usage_summary", "prompt_tokens", "completion_tokens", "execution_time", "finish_reason"},
	}
	if !slices.EqualFunc(f.Keys, want, slices.Equal) || f.Response != "Echo: hi é 😀" || got.After != f.Response || f.Seconds != "float" || strings.Join(f.Many, "|") != "Echo: x|Echo: y|Echo: z" {
		t.Errorf("friendly: %+v", f)
	}
	if len(got.Crowd) > 0 {
		t.Errorf("64 clients: %v", got.Crowd)
	}
	for name, want := range map[string]any{
		"nan": "Invalid JSON payload: NaN and Infinity are not JSON", "surrogate": "Invalid JSON payload", "binary": "Invalid JSON payload", "empty": "Invalid JSON payload",
		"duplicate": "Echo: b", "deep": "WireRequest.model must be a string when present", "large": "Frame too large: 10000001 bytes (max 10000000)",
		"cut": "Connection error", "silent": nil,
	} {
		if got.Hostile[name] != want {
			t.Errorf("hostile, %s: %v, want %v", name, got.Hostile[name], want)
		}
	}
}

// jayson and curl use the nexus door.
func TestBrokerNexus(t *testing.T) {
	doors := serve(t)
	_, port, _ := strings.Cut(doors["nexus"], ":")
	got, _ := json.Marshal(script(t, "jayson", port))
	want := `{"context":{"message_count":2,"system_prompt":false},"missing":{"code":-32602,"message":"Missing required parameter: content"},` +
		`"sent":{"content":"Echo: hello","request_id":"r"},"unknown":{"code":-32601,"message":"Method not found: nothing"}}`
	if string(got) != want {
		t.Errorf("jayson:\n got %s\nwant %s", got, want)
	}
	curl := exec.CommandContext(t.Context(), need(t, "curl"), "-sS", "-w", " %{http_code}", "-d", `{"jsonrpc":"2.0","id":"c","method":"send","params":{"content":"by curl","request_id":1}}`, "http://"+doors["nexus"]+"/")
	out, err := curl.CombinedOutput()
	if want := `{"jsonrpc":"2.0","id":"c","result":{"content":"Echo: by curl","request_id":1}} 200`; err != nil || string(out) != want {
		t.Errorf("curl: %v\n got %s\nwant %s", err, out, want)
	}
}
