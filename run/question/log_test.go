package question_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A viewed line is what the visualizer of other implementations reads of a log. It takes every
// line that is no metadata for an iteration.
type viewed struct {
	Type       string `json:"type"`
	Prompt     []struct{ Role, Content *string }
	Response   *string
	Final      any      `json:"final_answer"`
	Seconds    *float64 `json:"iteration_time"`
	RunID      string   `json:"correlation_id"`
	CodeBlocks []struct {
		Code   *string
		Result struct {
			Stdout, Stderr *string
			Seconds        *float64 `json:"execution_time"`
			Locals         map[string]any
			RunID          string `json:"correlation_id"`
			Calls          []struct {
				Model    *string `json:"root_model"`
				Response *string
				In       *int64   `json:"prompt_tokens"`
				Out      *int64   `json:"completion_tokens"`
				Seconds  *float64 `json:"execution_time"`
				Run      *struct {
					Iterations []json.RawMessage
				} `json:"metadata"`
			} `json:"rlm_calls"`
		}
	} `json:"code_blocks"`
}

var originalQuery = regexp.MustCompile(`original query: "([^"]+)"`)

// viewable checks what the visualizer needs of an iteration: arrays to map over, texts, and
// numbers to format. The question stands in the first message of the user.
func viewable(t *testing.T, line []byte, id, question string) {
	t.Helper()
	var v viewed
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	bad := v.Prompt == nil || v.CodeBlocks == nil || v.Response == nil || v.Seconds == nil || v.RunID != id
	found := false
	for _, m := range v.Prompt {
		bad = bad || m.Role == nil || m.Content == nil
		if !bad && !found && *m.Role == "user" && question != "" {
			match := originalQuery.FindStringSubmatch(*m.Content)
			found = match != nil && match[1] == question
			bad = !found
		}
	}
	for _, b := range v.CodeBlocks {
		r := b.Result
		bad = bad || b.Code == nil || r.Stdout == nil || r.Stderr == nil || r.Seconds == nil || r.Locals == nil || r.Calls == nil || r.RunID != id
		for _, c := range r.Calls {
			bad = bad || c.Model == nil || c.Response == nil || c.In == nil || c.Out == nil || c.Seconds == nil
			if c.Run != nil {
				for _, inner := range c.Run.Iterations {
					viewable(t, inner, id, "")
				}
			}
		}
	}
	if bad {
		t.Errorf("a viewer cannot read, or does not find %q in %s", question, line)
	}
}

// The logs of runs of each kind open in the visualizer. One id is that of the run: in each
// record, in -o json, and as the trace of each request to a provider.
func TestLogs(t *testing.T) {
	needPython(t)
	var mu sync.Mutex
	var traces []string
	turns := map[string][]string{}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked struct{ Model string }
		_ = json.Unmarshal(body, &asked)
		mu.Lock()
		defer mu.Unlock()
		traces = append(traces, r.Header.Get("Traceparent"))
		message := `{"role":"assistant","content":"ok"}`
		if left := turns[asked.Model]; len(left) > 0 {
			message, turns[asked.Model] = left[0], left[1:]
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":%s}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, message)
	}))
	defer backend.Close()
	tools := filepath.Join(t.TempDir(), "tools.yaml")
	if err := os.WriteFile(tools, []byte("same: {exec: [cat]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(text string) string {
		b, _ := json.Marshal(map[string]string{"role": "assistant", "content": text})
		return string(b)
	}
	config := fmt.Sprintf("providers: {p: {kind: openai, base_url: %q}}\nmodels: {root: {provider: p}, sub: {provider: p}}\ndefault: root", backend.URL)
	for settings, of := range map[string]struct {
		root, sub []string
		requests  int
	}{
		"max-depth=0": {[]string{said("4")}, nil, 1},
		"max-depth=2 unsandboxed=true sub-model=sub": {
			[]string{said("```repl\nn = llm_query_batched(['a', 'b'])\nm = rlm_query('c')\n1 / 0\n```"), said("FINAL_VAR(m)")},
			nil, 0,
		},
		"max-depth=1 mode=tools tools=" + tools: {
			[]string{`{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"same","arguments":"{}"}}]}`, said("4")}, nil, 2,
		},
	} {
		mu.Lock()
		traces, turns = nil, map[string][]string{"root": of.root}
		mu.Unlock()
		dir := t.TempDir()
		p, err := ask(t, config, "", "How many?", settings+" log-dir="+filepath.Join(dir, "logs")+" max-iterations=4")
		var result struct {
			ID    string `json:"trace_id"`
			Usage struct {
				Models map[string]struct {
					Calls int64 `json:"total_calls"`
					In    int64 `json:"total_input_tokens"`
				} `json:"model_usage_summaries"`
			} `json:"usage_summary"`
		}
		if err != nil || json.Unmarshal([]byte(p.stdout), &result) != nil || len(result.ID) != 32 {
			t.Fatalf("%s: %s, %v", settings, p.stdout, err)
		}
		var calls, in int64
		for _, m := range result.Usage.Models {
			calls, in = calls+m.Calls, in+m.In
		}
		if calls != int64(len(traces)) || in != 7*calls || of.requests > 0 && len(traces) != of.requests {
			t.Errorf("%s: %d calls with %d tokens are counted, the provider had %d", settings, calls, in, len(traces))
		}
		for _, trace := range traces {
			if !strings.HasPrefix(trace, "00-"+result.ID+"-") {
				t.Errorf("%s: the provider got the trace %q of run %s", settings, trace, result.ID)
			}
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "logs", "*.jsonl"))
		if len(logs) != 1 {
			t.Fatalf("%s: logs %q", settings, logs)
		}
		log, err := os.ReadFile(logs[0])
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
		if len(lines) < 2 || !bytes.Contains(lines[0], []byte(`"type":"metadata"`)) || !bytes.Contains(lines[0], []byte(result.ID)) {
			t.Errorf("%s: %d lines, the first is %s", settings, len(lines), lines[0])
		}
		question := "How many?"
		if settings == "max-depth=0" {
			question = "" // the prompt is the question alone
		}
		for _, line := range lines[1:] {
			viewable(t, line, result.ID, question)
		}
	}
}
