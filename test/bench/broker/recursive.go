package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// A said is a turn of the mock.
type said struct {
	Text  string `json:"text"`
	Delay string `json:"delay,omitempty"`
}

// cell is a turn that runs code.
func cell(code string) said { return said{Text: "```repl\n" + code + "\n```"} }

// ask returns a command that runs a root model with those turns. Its sub-model echoes after a
// latency.
func ask(b *harness.Bench, latency string, turns []said, args ...string) *exec.Cmd {
	type object = map[string]any
	config := harness.Must(json.Marshal(object{
		"providers": object{
			"root": object{"kind": "mock", "mock": object{"turns": turns}},
			"sub":  object{"kind": "mock", "mock": object{"latency": latency}},
		},
		"models": object{"root": object{"provider": "root"}, "sub": object{"provider": "sub"}},
	}))
	path := filepath.Join(b.Dir, "rlm.json")
	harness.Check(os.WriteFile(path, config, 0o600))
	args = append([]string{"rlm", "-q", "--config", path, "-m", "root", "--sub-model", "sub", "--max-calls", "1000000", "--max-iterations", "1000"}, args...)
	cmd := exec.Command("wirectl", append(args, "Go.")...)
	cmd.Env = append(os.Environ(), "PATH=/usr/bin:"+os.Getenv("PATH")) // the system's Python, and no wrapper script
	return cmd
}

// measured runs code that gives a number as its answer.
func measured(b *harness.Bench, latency, code string) float64 {
	out := harness.Output(ask(b, latency, []said{cell(code)}))
	return harness.Must(strconv.ParseFloat(strings.TrimSpace(string(out)), 64))
}

// runs measures whole runs, and their turns.
func runs(b *harness.Bench) {
	const turn = "rlm, a turn beyond the model's time: p50"
	for _, of := range []struct {
		name, env string
		goal      float64
	}{
		{"rlm, a run of one turn, sandboxed", "python", 150},
		{"rlm, a run of one turn in Starlark, sandboxed", "starlark", 150},
	} {
		if !b.Wants(of.name) {
			continue
		}
		took := harness.Turns(b.Rounds, func() float64 { return wall(b, "--env", of.env) })
		b.AtMost(of.name, took[0], of.goal, "ms")
	}
	if b.Wants(turn) {
		took := harness.Turns(b.Rounds, func() float64 { return turnTime(b) })
		b.AtMost(turn, took[0], 0.4, "ms")
	}
}

// wall returns how many milliseconds a run of one turn takes.
func wall(b *harness.Bench, args ...string) float64 {
	cmd := ask(b, "0s", []said{cell("FINAL(6 * 7)")}, args...)
	begun := time.Now()
	if out := harness.Output(cmd); string(out) != "42\n" {
		harness.Check(fmt.Errorf("the answer is %q", out))
	}
	return 1000 * time.Since(begun).Seconds()
}

// turnTime returns the median time of 30 turns whose model answers at once, in milliseconds. The
// events go to a file: the reader of a pipe would need a processor at each one.
func turnTime(b *harness.Bench) float64 {
	turns := slices.Repeat([]said{cell("n = len(context)\nprint(n)")}, 30)
	cmd := ask(b, "0s", append(turns, said{Text: "FINAL(done)"}), "-o", "ndjson")
	events := harness.Must(os.Create(filepath.Join(b.Dir, "events.ndjson")))
	defer events.Close()
	cmd.Stdout = events
	harness.Run(cmd)
	harness.Must(events.Seek(0, io.SeekStart))
	var took []float64
	for lines := bufio.NewScanner(events); lines.Scan(); {
		var e struct {
			Event string
			Done  bool
			Took  float64
		}
		harness.Check(json.Unmarshal(lines.Bytes(), &e))
		if e.Event == "turn" && e.Done {
			took = append(took, 1000*e.Took)
		}
	}
	if len(took) != len(turns)+1 {
		harness.Check(fmt.Errorf("%d turns, want %d", len(took), len(turns)+1))
	}
	return harness.Median(took)
}

// subCalls measures the calls of code.
func subCalls(b *harness.Bench) {
	for _, c := range []struct {
		name, latency, code string
		goal                float64
		unit                string
	}{
		{"rlm, a sub-call after the other, mock: p50", "0s", `
import time
def ask():
    begun = time.perf_counter()
    llm_query("What is six times seven?")
    return time.perf_counter() - begun
FINAL(sorted(ask() for _ in range(%[1]d))[%[1]d // 2] * 1e6)`, 120, "µs"},
		{"rlm, a batch of 2,000 sub-calls, mock", "0s", `
import time
begun = time.perf_counter()
assert len(llm_query_batched(["What is six times seven?"] * %[1]d)) == %[1]d
FINAL((time.perf_counter() - begun) / %[1]d * 2000)`, 0.05, "s"},
		{"rlm, a batch of 2,000 sub-calls of 100 ms, 16 at a time: time to the ideal", "100ms", `
import time
begun = time.perf_counter()
llm_query_batched(["What is six times seven?"] * %[1]d)
FINAL((time.perf_counter() - begun) / (-(-%[1]d // 16) * 0.1))`, 1.05, ""},
	} {
		if !b.Wants(c.name) {
			continue
		}
		values := harness.Turns(b.Rounds, func() float64 {
			return measured(b, c.latency, fmt.Sprintf(c.code, 2000/b.Scale))
		})
		b.AtMost(c.name, values[0], c.goal, c.unit)
	}
}

// large measures the time that a large context adds to a run, and the memory of wirectl, without
// the interpreter, over 30 turns.
func large(b *harness.Bench) {
	const name, memory = "rlm, a context of 200 MiB: time added to a run", "rlm, a context of 200 MiB and 30 turns: peak memory of wirectl"
	if !b.Wants(name) && !b.Wants(memory) {
		return
	}
	path := filepath.Join(b.Dir, "context.txt")
	line := "2026-01-31 12:00:00 a line of a log, as there are many\n"
	harness.Check(os.WriteFile(path, bytes.Repeat([]byte(line), (200<<20)/len(line)/b.Scale), 0o600))
	defer os.Remove(path)
	took := harness.Turns(b.Rounds,
		func() float64 { return wall(b, "-c", path) },
		func() float64 { return wall(b) })
	var added []float64
	for i, with := range took[0] {
		added = append(added, (with-took[1][i])/1000)
	}
	b.AtMost(name, added, 0.6, "s")
	turns := slices.Repeat([]said{cell("print(context[:1000])")}, 30)
	cmd := ask(b, "0s", append(turns, said{Text: "FINAL(done)", Delay: "10m"}), "-c", path)
	args := slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "-q" })
	s := harness.Serve("(turn 30): ", args...)
	defer s.Stop()
	b.AtMost(memory, []float64{s.Peak()}, 64, "MiB")
}

// cancels measures the time from an interrupt until the last of 16 calls is closed at its
// provider.
func cancels(b *harness.Bench) {
	const name = "rlm, cancel of 16 calls until their provider is closed: p99"
	if !b.Wants(name) {
		return
	}
	values := harness.Turns(b.Rounds, func() float64 {
		took := make([]float64, max(1, 100/b.Scale))
		for i := range took {
			took[i] = cancelOne(b)
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	})
	b.AtMost(name, values[0], 50, "ms")
}

func cancelOne(b *harness.Bench) float64 {
	const calls = 16
	var open, closed atomic.Int64
	all, none := make(chan struct{}), make(chan time.Time, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body) // net/http notices a closed connection only after the body
		if open.Add(1) == calls {
			close(all)
		}
		<-r.Context().Done()
		if closed.Add(1) == calls {
			none <- time.Now()
		}
	}))
	defer provider.Close()
	config := filepath.Join(b.Dir, "cancel.yaml")
	text, _ := json.Marshal("```repl\nllm_query_batched(['x'] * " + strconv.Itoa(calls) + ")\n```")
	harness.Check(os.WriteFile(config, fmt.Appendf(nil, "providers: {m: {kind: mock, mock: {turns: [{text: %s}]}}, p: {kind: openai, base_url: %q}}\nmodels: {root: {provider: m}, sub: {provider: p}}\n", text, provider.URL), 0o600))
	cmd := exec.Command("wirectl", "rlm", "-q", "--config", config, "-m", "root", "--sub-model", "sub", "Go.")
	harness.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-all:
	case err := <-ended:
		harness.Check(errors.Join(errors.New("the run ended before it asked"), err))
	}
	begun := time.Now()
	harness.Check(cmd.Process.Signal(os.Interrupt))
	at := <-none
	<-ended
	return 1000 * at.Sub(begun).Seconds()
}
