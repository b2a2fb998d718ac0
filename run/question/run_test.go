package question_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/sandbox"
	"github.com/wirectl/wirectl/run/question"
)

// A plain is a run at depth 0, which needs no interpreter.
type plain struct {
	stdout, said string
	finish       rlm.FinishReason
}

// ask asks the models of a configuration. The prices are those of the user.
func ask(t *testing.T, config, prices, text, settings string) (plain, error) {
	t.Helper()
	return askOf(t, strings.NewReader(""), config, prices, text, settings)
}

// askOf is ask with a standard input.
func askOf(t *testing.T, stdin io.Reader, config, prices, text, settings string) (plain, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"c.yaml": config, "wirectl/prices.yaml": prices} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": dir, "KEY": "sk-planted"}[name]
	}
	var stderr bytes.Buffer
	o := host.Options{Config: filepath.Join(dir, "c.yaml"), Getenv: getenv, Quiet: true, Stderr: &stderr, Observers: host.ObserverConfig{NoTap: true}, Linger: func(time.Duration) {}}
	flags := map[string][]string{"max-depth": {"0"}, "output": {"json"}, "log-dir": {filepath.Join(dir, "logs")}}
	for part := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(part, "=")
		flags[name] = []string{value}
	}
	var out, said bytes.Buffer
	finish, err := question.Ask(t.Context(), o, flags, text, question.World{Getenv: getenv, Stdin: stdin, JSON: &out, Bytes: &out, AtKill: func(func()) {}, Say: func(line string) { said.WriteString(line + "\n") }})
	folder := flags["log-dir"][0]
	logs, readErr := os.ReadDir(folder)
	for _, log := range logs {
		data, err := os.ReadFile(filepath.Join(folder, log.Name()))
		if err != nil || bytes.Contains(data, []byte("planted")) {
			t.Errorf("a key is in the log, or it cannot be read: %v", err)
		}
	}
	if readErr != nil && err == nil && finish != rlm.Timeout { // in these tests, before the first turn
		t.Error(readErr)
	}
	return plain{out.String(), said.String(), finish}, err
}

const models = `
default: dear
providers:
  m: {kind: mock, mock: {prefix: ""}}
  k: {kind: openai, base_url: "http://127.0.0.1:1", key: {env: KEY}}
models:
  dear: {provider: m, price: {input: 500000, output: 1000000}}
  plain: {provider: m, model: real-name}
  free: {provider: m}
aliases: {also: dear}
`

// A call costs what the configuration says, or else the user's prices, under our name for
// the model or its provider's.
func TestCost(t *testing.T) {
	for settings, want := range map[string]float64{
		"":               5.5, // 9 tokens in, of the message in JSON, and one out
		"model=also":     5.5,
		"model=plain":    2.5,
		"model=free":     0,
		"max-cost=10000": 5.5,
	} {
		p, err := ask(t, models, "real-name: {input: 250000, output: 250000}\ndear: {input: 1}", "four", settings)
		var got struct {
			Usage struct {
				Cost float64 `json:"total_cost"`
			} `json:"usage_summary"`
			Response string `json:"response"`
		}
		if err != nil || json.Unmarshal([]byte(p.stdout), &got) != nil || got.Usage.Cost != want || got.Response != "four" {
			t.Errorf("%s: %s %v, want %v", settings, p.stdout, err, want)
		}
	}
}

// A run that cannot be what it is asked to be is not started, and JSON says so, too.
func TestRefused(t *testing.T) {
	for settings, want := range map[string]string{
		"model=nope":            `Unknown model 'nope'. Allowed: ['also', 'dear', 'free', 'plain']`,
		"sub-model=nope":        `Unknown model 'nope'`,
		"allow-model=nope":      `Unknown model 'nope'`,
		"model=free max-cost=1": `the cost of the run is limited, and no price is known for the model "free": add price: `,
		"prices=no-such-file":   "no-such-file",
		"max-depth=x":           `--max-depth: invalid value "x"`,
	} {
		p, err := ask(t, models, "", "q", settings)
		var wrong *cmdline.Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(p.stdout, `{"error":{"type":"Validation","message":"`) {
			t.Errorf("%s: %q, %v, want %s", settings, p.stdout, err, want)
		}
	}
}

// The timeout of a run includes the time to read the context, which may never end.
func TestTimeoutWhileReading(t *testing.T) {
	unread, unwritten := io.Pipe()
	defer unwritten.Close()
	for _, settings := range []string{"", "max-depth=1", "output=ndjson"} {
		p, err := askOf(t, unread, models, "", "q", "context=- timeout=10ms "+settings)
		if err != nil || p.finish != rlm.Timeout || !strings.Contains(p.stdout, `"finish_reason":"timeout"`) || !strings.Contains(p.said, "--timeout is over, and there is no answer yet") || strings.Contains(p.said, ", 0.00 s") {
			t.Errorf("%s: %q, %q, %q, %v", settings, p.finish, p.stdout, p.said, err)
		}
	}
}

// What a provider's failure is told as is one of the broker's sentences, also in JSON.
func TestFailure(t *testing.T) {
	p, err := ask(t, "providers: {m: {kind: mock, mock: {turns: [{status: 500}]}}}\nmodels: {a: {provider: m}}", "", "q", "")
	var got struct {
		Error struct{ Type, Message, At string }
	}
	if err == nil || json.Unmarshal([]byte(p.stdout), &got) != nil || got.Error.Type != "LLM" || !strings.Contains(got.Error.Message, "Server error: the provider failed") {
		t.Errorf("%s, %v", p.stdout, err)
	}
}

// Where nothing isolates, code is run only if that is asked for.
func TestNothingIsolates(t *testing.T) {
	if _, err := env.FindPython(t.Context()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(question.SetProbe(func(context.Context) (*sandbox.Launcher, error) {
		return nil, &sandbox.UnavailableError{Reasons: []string{"namespaces: refused"}, Help: []string{"ask root", "or accept the risk"}}
	}))
	config := "providers: {m: {kind: mock, mock: {turns: [{text: \"```repl\\nFINAL(6 * 7)\\n```\"}]}}}\nmodels: {a: {provider: m}}"
	p, err := ask(t, config, "", "q", "max-depth=1")
	var wrong *cmdline.Error
	if want := "nothing on this machine isolates code: namespaces: refused: ask root, or accept the risk"; !errors.As(err, &wrong) || err.Error() != want || !strings.Contains(p.stdout, want) {
		t.Errorf("%q, %v, want %s", p.stdout, err, want)
	}
	p, err = ask(t, config, "", "q", "max-depth=1 unsandboxed=true output=text")
	if err != nil || p.stdout != "42\n" || !strings.Contains(p.said, "warning: the code is not isolated: ") {
		t.Errorf("%q, %q, %v", p.stdout, p.said, err)
	}
}

// A provider that counts tokens says when the history is summarized; the length of texts does
// not, which is over the window here from the first turn on.
func TestTokensAreCounted(t *testing.T) {
	needPython(t)
	var counted, summaries, turns atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/count_tokens") {
			tokens := 10
			if counted.Add(1) == 2 {
				tokens = 900
			}
			fmt.Fprintf(w, `{"input_tokens":%d}`, tokens)
			return
		}
		text := "```repl\\nx = 1\\n```"
		switch {
		case bytes.Contains(body, []byte("Write a summary")):
			summaries.Add(1)
			text = "x is 1"
		case turns.Add(1) == 4:
			text = "FINAL(done)"
		}
		fmt.Fprintf(w, `{"type":"message","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, text)
	}))
	defer backend.Close()
	p, err := ask(t, fmt.Sprintf("providers: {p: {kind: anthropic, base_url: %q}}\nmodels: {m: {provider: p, context_window: 1000}}", backend.URL),
		"", "q", "max-depth=1 unsandboxed=true output=text")
	if err != nil || p.stdout != "done\n" || counted.Load() != 3 || summaries.Load() != 1 {
		t.Errorf("%q after %d counts and %d summaries, %v", p.stdout, counted.Load(), summaries.Load(), err)
	}
}
