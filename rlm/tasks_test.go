package rlm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A writer is a model that writes code turn by turn, together with a classifier of lines.
type writer struct {
	turns []string // the last one is repeated
	calls atomic.Int64
}

func (w *writer) Window(string) int { return 0 }

func (w *writer) Complete(_ context.Context, r rlm.Request) (rlm.Completion, error) {
	w.calls.Add(1)
	c := rlm.Completion{Model: r.Model, Tokens: rlm.Tokens{Input: 2, Output: 1}}
	if r.Messages != nil {
		turn := 0
		for _, m := range r.Messages[3:] {
			if m.Role == "assistant" {
				turn++
			}
		}
		c.Text = w.turns[min(turn, len(w.turns)-1)]
		return c, nil
	}
	var text string
	if err := json.Unmarshal(r.Prompt, &text); err != nil {
		return c, errors.New("the prompt is no text")
	}
	c.Text = classify(text)
	return c, nil
}

// classes are the classes of texts, each with a word that marks it.
var classes = []struct{ name, word string }{
	{"abbreviation", "stand for"},
	{"entity", "animal"},
	{"description", "explain"},
	{"human", "president"},
	{"location", "city"},
	{"number", "how many"},
}

// classify answers with the class of each line.
func classify(lines string) string {
	var out []string
	for line := range strings.Lines(lines) {
		for _, c := range classes {
			if strings.Contains(line, c.word) {
				out = append(out, c.name)
			}
		}
	}
	return strings.Join(out, "\n")
}

// run asks a question about a context, with a real interpreter.
func run(t *testing.T, text string, depth int, turns ...string) rlm.Outcome {
	t.Helper()
	p := findPython(t)
	path := filepath.Join(t.TempDir(), "context")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := runlog.Create(t.TempDir(), runlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{turns: turns}
	out, err := rlm.Run(t.Context(), rlm.Options{
		Model: w, Question: "the task", Root: "root", Sub: "sub",
		Context: rlm.Context{Path: path, Type: "text"}, Shape: prompt.ShapeOf(text),
		Open: func(_ context.Context, s rlm.Session) (rlm.Environment, error) {
			return env.NewPython(p, env.Config{Run: s.ID, Depth: s.Depth}, env.PythonOptions{}), nil
		},
		Limits: rlm.Limits{Depth: depth, Calls: 500}, Log: log,
	})
	if err := errors.Join(err, out.LogErr, log.Close()); err != nil {
		t.Fatal(err)
	}
	if out.Finish != rlm.Stop {
		t.Fatalf("ended by %s with %q", out.Finish, out.Answer)
	}
	if n := out.Usage.Total().Calls; n != w.calls.Load() {
		t.Errorf("the run counts %d calls, the model %d", n, w.calls.Load())
	}
	checkFile(t, log.Path(), out)
	return out
}

// checkFile checks that the log on disk is complete and matches the outcome.
func checkFile(t *testing.T, path string, out rlm.Outcome) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := runlog.NewReader(f)
	if first, err := r.Read(); err != nil || first.Metadata == nil {
		t.Fatalf("the log begins with %+v, %v", first, err)
	}
	for n := range out.Iterations {
		rec, err := r.Read()
		if err != nil || rec.Iteration == nil || rec.Iteration.Iteration != n+1 {
			t.Fatalf("turn %d in the log: %+v, %v", n+1, rec, err)
		}
		if n+1 < out.Iterations {
			continue
		}
		total := runlog.ModelUsage{}
		for _, u := range rec.Iteration.Cumulative.Models {
			total.Calls += u.Calls
			total.InputTokens += u.InputTokens
		}
		used := out.Usage.Total()
		if total.Calls != used.Calls || total.InputTokens != used.Input || string(*rec.Iteration.FinalAnswer) != out.Answer {
			t.Errorf("the log ends with %+v and %q, the run with %+v and %q", total, *rec.Iteration.FinalAnswer, used, out.Answer)
		}
	}
}

func cell(code string) string { return "```repl\n" + code + "\n```\n" }

// Code finds a needle, wherever it is.
func TestNeedle(t *testing.T) {
	for _, size := range []int{8 << 10, 1 << 20} {
		rnd := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // seeded data
		var b strings.Builder
		at, number, hidden := rnd.IntN(size), 1_000_000+rnd.IntN(9_000_000), false
		for b.Len() < size {
			if !hidden && b.Len() >= at {
				fmt.Fprintf(&b, "The magic number is %d.\n", number)
				hidden = true
			}
			fmt.Fprintf(&b, "Grass is green and the sky is number %d.\n", rnd.IntN(size))
		}
		out := run(t, b.String(), 1,
			cell(`print(type(context), len(context), context[:80])`),
			cell("import re\nfound = re.findall(r'magic number is (\\d+)', context)\nprint(found)")+"FINAL_VAR(found)",
			"unused")
		if want := fmt.Sprintf("['%d']", number); out.Answer != want || out.Iterations != 2 {
			t.Errorf("%d bytes: %q after %d turns, want %q", size, out.Answer, out.Iterations, want)
		}
	}
}

// An entry is a line of the tasks modelled on OOLONG.
type entry struct {
	user  int
	date  time.Time
	class int
}

func entries(seed uint64, n int) (list []entry, text string) {
	rnd := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // seeded data
	var b strings.Builder
	for range n {
		// The square makes the classes differ in size.
		e := entry{1000 + rnd.IntN(12), time.Date(2023, 1, 1+rnd.IntN(600), 0, 0, 0, 0, time.UTC), int(6 * math.Pow(rnd.Float64(), 2))}
		list = append(list, e)
		fmt.Fprintf(&b, "Date: %s || User: %d || Instance: what %s is %d\n", e.date.Format("2006-01-02"), e.user, classes[e.class].word, rnd.IntN(1000))
	}
	return list, b.String()
}

// label asks the sub-models for the class of every line, 25 lines at a time.
const label = `
lines = context.strip().split("\n")
chunks = ["\n".join(lines[i:i+25]) for i in range(0, len(lines), 25)]
labels = "\n".join(llm_query_batched(chunks)).split("\n")
assert len(labels) == len(lines), (len(labels), len(lines))
rows = [(int(l.split("User: ")[1].split(" ")[0]), l[6:16], c) for l, c in zip(lines, labels)]
print(len(rows))
`

// Questions about all lines need all sub-calls. They ask for the most common class, the
// size of one, the more common of two, and the first date of one.
func TestOolong(t *testing.T) {
	list, text := entries(7, 400)
	counts := make([]int, len(classes))
	var first time.Time
	for _, e := range list {
		counts[e.class]++
		if e.class == 3 && (first.IsZero() || e.date.Before(first)) {
			first = e.date
		}
	}
	most := classes[slices.Index(counts, slices.Max(counts))].name
	phrase := "less common than"
	if counts[1] > counts[4] {
		phrase = "more common than"
	} else if counts[1] == counts[4] {
		phrase = "the same frequency as"
	}
	for _, q := range []struct{ name, code, want string }{
		{"most common", `from collections import Counter
result = Counter(c for _, _, c in rows).most_common(1)[0][0]`, most},
		{"count", `result = sum(c == "location" for _, _, c in rows)`, strconv.Itoa(counts[4])},
		{"comparison", `a, b = (sum(c == x for _, _, c in rows) for x in ("entity", "location"))
result = "more common than" if a > b else "less common than" if a < b else "the same frequency as"`, phrase},
		{"date", `result = min(d for _, d, c in rows if c == "human")`, first.Format("2006-01-02")},
	} {
		t.Run(q.name, func(t *testing.T) {
			out := run(t, text, 1, cell(label), cell(q.code)+"FINAL_VAR(result)")
			if s := score(out.Answer, q.want); s != 1 || out.Calls != 16 {
				t.Errorf("score %v for %q, want %q; %d sub-calls", s, out.Answer, q.want, out.Calls)
			}
		})
	}
}

// Pairs of users who both have a line of one class: the code compares all users with each
// other.
func TestPairs(t *testing.T) {
	list, text := entries(9, 300)
	has := map[int]bool{}
	for _, e := range list {
		if e.class == 5 {
			has[e.user] = true
		}
	}
	var want []string
	for a := 1000; a < 1012; a++ {
		for b := a + 1; b < 1012; b++ {
			if has[a] && has[b] {
				want = append(want, fmt.Sprintf("(%d, %d)", a, b))
			}
		}
	}
	out := run(t, text, 1, cell(label), cell(`
users = sorted({u for u, _, _ in rows})
has = {u for u, _, c in rows if c == "number"}
pairs = [(a, b) for i, a in enumerate(users) for b in users[i+1:] if a in has and b in has]
answer["content"] = "\n".join(map(str, pairs))
answer["ready"] = True`))
	if s := score(out.Answer, strings.Join(want, "\n")); s != 1 || len(want) < 3 {
		t.Errorf("score %v for %d pairs:\n%s", s, len(want), out.Answer)
	}
}

// A child run has the prompt as its context, and its own worker.
func TestChildInPython(t *testing.T) {
	out := run(t, "whole", 2,
		cell(`
if RLM_DEPTH == 0:
    x = 1
    parts = rlm_query_batched(["one", "two"])
    FINAL(" ".join(parts) + " " + str(RLM_DEPTH) + RLM_CORRELATION_ID[:0])
else:
    FINAL(context.upper() + str(RLM_DEPTH) + str("x" in globals()))`))
	if want := "ONE1False TWO1False 0"; out.Answer != want || out.Calls != 2 {
		t.Errorf("%q with %d calls, want %q", out.Answer, out.Calls, want)
	}
}

// score rates an answer: numbers by their distance, everything else by equality.
func score(got, want string) float64 {
	a, errA := strconv.ParseFloat(got, 64)
	b, errB := strconv.ParseFloat(want, 64)
	if errA == nil && errB == nil {
		return math.Pow(0.75, math.Abs(a-b))
	}
	if got == want {
		return 1
	}
	return 0
}
