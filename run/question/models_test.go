package question_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/run/question"
)

// serve runs a broker, and returns its doors.
func serve(t *testing.T, config string) (doors map[string]string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	r, w := io.Pipe()
	h, err := host.Load(host.Options{
		Config: name, Getenv: func(name string) string {
			return map[string]string{"TOKEN": "alice's", "HOME": home, "LocalAppData": home}[name]
		},
		AnyPort: true, PrintAddresses: true, Stdout: w, Stderr: io.Discard, Quiet: true,
		Observers: host.ObserverConfig{NoTap: true}, RLM: question.Models("test"), Linger: func(time.Duration) {},
		Latis:  func(*broker.Broker, *slog.Logger) web.Serve { return nil },
		Listen: []string{"rlm=off", "proxy=off", "nexus=off", "latis=off", "latis_ws=off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx)
		_ = w.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &doors) != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return doors
}

// complete asks for a chat completion, as alice. It returns the status and the body.
func complete(ctx context.Context, doors map[string]string, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+doors["openai"]+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer alice's")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// silent is a provider that never answers. It tells of requests that come, and of their ends.
func silent(t *testing.T) (url string, begun, ended chan struct{}) {
	t.Helper()
	begun, ended = make(chan struct{}, 16), make(chan struct{}, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s.URL, begun, ended
}

// A client that leaves cancels the run and what it has asked of providers, in a turn and in
// a call of the code.
func TestModelCancelled(t *testing.T) {
	for where, of := range map[string]string{"turn": "model: silent", "call": "model: root, sub_model: silent"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", where, stream), func(t *testing.T) {
				needPython(t)
				url, begun, ended := silent(t)
				doors := serve(t, fmt.Sprintf(`
providers:
  s: {kind: openai, base_url: %q}
  r: {kind: mock, mock: {turns: [{text: "`+"```repl\\nllm_query('x')\\n```"+`"}]}}
models:
  silent: {provider: s}
  root: {provider: r}
  deep: {rlm: {unsandboxed: true, %s}}
default: root
`, url, of))
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, _, err := complete(ctx, doors, fmt.Sprintf(`{"model":"deep","stream":%t,"messages":[{"role":"user","content":"q"}]}`, stream))
					left <- err
				}()
				await(t, begun, "the provider is asked")
				cancel()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Errorf("the client got %v", err)
				}
				await(t, ended, "the provider's connection is closed")
			})
		}
	}
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("not within a minute: " + what)
	}
}

// What the client is told was used is the sum of the run's calls. The accounts have each
// call once, and so have the budgets of the client and of the model.
func TestModelUsage(t *testing.T) {
	needPython(t)
	doors := serve(t, `
providers:
  e: {kind: mock, mock: {prefix: ""}}
  r:
    kind: mock
    mock:
      turns:
        - text: "`+"```repl\\nprint(llm_query_batched(['a', 'b']))\\n```"+`"
        - text: FINAL(done)
        - text: "`+"```repl\\nprint(llm_query('a'))\\n```"+`"
models:
  cheap: {provider: e, price: {input: 1000, output: 1000}}
  smart: {provider: r, price: {input: 1000, output: 1000}}
  deep: {rlm: {model: smart, sub_model: cheap, unsandboxed: true}, budget: {cost: 1000}}
default: smart
clients: {alice: {token: {env: TOKEN}, budget: {calls: 6, cost: 1000}}}
`)
	const body = `{"model":"deep","messages":[{"role":"user","content":"q"}]}`
	status, text, err := complete(t.Context(), doors, body)
	var got struct {
		Usage struct {
			In  int64 `json:"prompt_tokens"`
			Out int64 `json:"completion_tokens"`
		}
	}
	if err != nil || status != 200 || json.Unmarshal([]byte(text), &got) != nil || !strings.Contains(text, `"done"`) {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	var usage struct {
		Usage []broker.Usage `json:"usage"`
	}
	admin(t, doors, "/usage", &usage)
	calls := map[string]int64{}
	var in, out int64
	for _, u := range usage.Usage {
		calls[u.Model] += u.OK
		in, out = in+u.InputTokens, out+u.OutputTokens
	}
	if calls["deep"] != 1 || calls["smart"] != 2 || calls["cheap"] != 2 || in != got.Usage.In || out != got.Usage.Out || in == 0 {
		t.Errorf("calls %v, %d + %d tokens; the client was told %+v", calls, in, out, got.Usage)
	}
	var budgets struct {
		Budgets []broker.BudgetState `json:"budgets"`
	}
	admin(t, doors, "/budgets", &budgets)
	for _, b := range budgets.Budgets {
		wantCalls := map[string]int64{"client alice": 5, "model deep": 1}[b.Of]
		if wantCalls == 0 || b.Spent.Calls != wantCalls || b.Spent.Tokens != in+out || math.Abs(b.Spent.Cost-float64(in+out)/1000) > 1e-6 {
			t.Errorf("%s has spent %+v; %d tokens were used", b.Of, b.Spent, in+out)
		}
	}
	if len(budgets.Budgets) != 2 {
		t.Errorf("budgets %+v", budgets)
	}
	// The sixth call is the run itself: its root model cannot be asked.
	status, text, err = complete(t.Context(), doors, body)
	if err != nil || status < 400 {
		t.Errorf("with its budget used up, alice gets %d %s, %v", status, text, err)
	}
}

func admin(t *testing.T, doors map[string]string, path string, into any) {
	t.Helper()
	resp, err := http.Get("http://" + doors["admin"] + path) //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(body, into) != nil {
		t.Fatalf("%s: %s, %v", path, body, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A model that falls back to a recursive language model over itself does not go on for ever.
func TestModelRecursion(t *testing.T) {
	needPython(t)
	doors := serve(t, `
providers: {bad: {kind: mock, retries: 0, mock: {script: [{when: "", status: 500}]}}}
models:
  smart: {provider: bad, fallbacks: [deep]}
  deep: {rlm: {model: smart, unsandboxed: true}}
default: smart
`)
	status, text, err := complete(t.Context(), doors, `{"model":"smart","messages":[{"role":"user","content":"q"}]}`)
	if err != nil || status < 500 {
		t.Errorf("%d %s, %v", status, text, err)
	}
	var usage struct {
		Usage []broker.Usage `json:"usage"`
	}
	admin(t, doors, "/usage", &usage)
	calls := int64(0)
	for _, u := range usage.Usage {
		calls += u.Calls()
	}
	if calls != 2 {
		t.Errorf("%d calls: %+v", calls, usage.Usage)
	}
}

// What a client sends becomes the question and the context. What has no counterpart is refused.
func TestModelInput(t *testing.T) {
	needPython(t)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name, body, want string
		status           int
	}{
		{"a question", `"messages":[{"role":"user","content":"why"}]`, "why | why", 200},
		{"a text", `"messages":[{"role":"user","content":"` + long + `"}]`, "Do what the text in the variable context asks for. | " + long, 200},
		{
			"a conversation", `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
			"Be brief.\n\nThe variable context is a conversation, a list of messages with role and content. Answer its last message. It is:\n\nc | " +
				"[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}, {'role': 'user', 'content': 'c'}]", 200,
		},
		{"words that stop", `"stop":"hy |","messages":[{"role":"user","content":"why"}]`, "w", 200},
		{"an image", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]`, "messages[0].content[0]", 400},
		{"a tool", `"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"q"}]`, "'tools'", 400},
		{"choices", `"n":2,"messages":[{"role":"user","content":"q"}]`, "'n'", 400},
		{"a schema", `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"integer"}}},"messages":[{"role":"user","content":"q"}]`, "answer is invalid", 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			doors := serve(t, `
providers:
  r:
    kind: mock
    mock:
      script:
        - {when: "", say: "`+"```repl\\nq = history[2]['content'].split('query: \\\"')[1].split('\\\"\\\\n')[0]\\nFINAL(q + ' | ' + str(context))\\n```"+`"}
models:
  smart: {provider: r}
  deep: {rlm: {model: smart, unsandboxed: true}}
`)
			status, text, err := complete(t.Context(), doors, `{"model":"deep",`+c.body+`}`)
			var got struct {
				Choices []struct{ Message struct{ Content string } }
			}
			if json.Unmarshal([]byte(text), &got) == nil && len(got.Choices) > 0 {
				text = got.Choices[0].Message.Content
			}
			if err != nil || status != c.status || status == 200 && strings.TrimSpace(text) != c.want || !strings.Contains(text, c.want) {
				t.Errorf("%d %s, %v\nwant %d %s", status, text, err, c.status, c.want)
			}
		})
	}
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := env.FindPython(t.Context()); err != nil {
		t.Skip(err)
	}
}
