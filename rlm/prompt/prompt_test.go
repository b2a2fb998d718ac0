package prompt_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/prompt"
)

var update = flag.Bool("update", false, "rewrite the texts in testdata")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	text += "\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(string(want), "\r\n", "\n"); text != want {
		t.Errorf("%s differs; -update rewrites it. Now it is:\n%s", name, text)
	}
}

// The system prompts, as models read them.
func TestPython(t *testing.T) {
	golden(t, "python.txt", prompt.Python(prompt.Facts{}))
	golden(t, "python-facts.txt", prompt.Python(prompt.Facts{
		Words: []string{"repl", "python"}, SubChars: 1_200_000, Nested: true,
		Tools: []prompt.Tool{{Signature: `weather(city, unit="C")`, Description: "The weather in a city.\n"}},
	}))
	golden(t, "starlark.txt", prompt.Starlark(prompt.Facts{}))
}

// The system prompt names everything that the code can use. Each example in it would be
// executed, and the text itself is not an answer.
func TestPromptsAreComplete(t *testing.T) {
	complete(t, prompt.Python(prompt.Facts{Words: []string{"py"}}))
	complete(t, prompt.Starlark(prompt.Facts{Words: []string{"py"}}))
}

func complete(t *testing.T, text string) {
	t.Helper()
	for _, name := range []string{
		"`context`", "`llm_query(", "`llm_query_batched(", "`rlm_query(", "`rlm_query_batched(", "`SHOW_VARS()`", "`answer`",
		"`history`", "`RLM_CORRELATION_ID`", "`RLM_DEPTH`", "FINAL(", "FINAL_VAR(", "500,000 characters", "20,000 characters",
	} {
		if !strings.Contains(text, name) {
			t.Errorf("the system prompt does not have %s", name)
		}
	}
	if left := regexp.MustCompile(`\$[A-Z]`).FindString(text); left != "" {
		t.Errorf("the system prompt still has %q", left)
	}
	if blocks, open := rlm.CodeBlocks(text, []string{"py"}); len(blocks) != 3 || open {
		t.Errorf("the system prompt has the blocks %q (open %t), want 3", blocks, open)
	}
	if m, ok := rlm.FinalMarker(text, []string{"py"}); ok {
		t.Errorf("the system prompt is read as the answer %+v", m)
	}
}

// The messages, as models read them, each below its name.
func TestMessages(t *testing.T) {
	var page strings.Builder
	show := func(name, text string) { fmt.Fprintf(&page, "=== %s ===\n%s\n\n", name, text) }
	for _, m := range prompt.Opening("(system prompt)", prompt.ShapeOf("Äpfel"), "How many apples?", "", 30) {
		show("opening: "+m.Role, m.Content)
	}
	show("first turn without a question", prompt.First("", "", 10))
	show("context of several chunks", prompt.Context(prompt.Shape{Type: "dict", Chars: 1_234_567, Lengths: []int64{1_000_000, 234_567}, Chunks: 2}))
	show("context of many chunks", prompt.Context(prompt.Shape{Type: "list", Chars: 5050, Lengths: count(250), Chunks: 1_000_100}))
	show("empty context", prompt.Context(prompt.Shape{Type: "list"}))

	good := prompt.Output{Stdout: "4\n", Variables: []string{"n", "parts"}}.String()
	bad := prompt.Output{Stdout: "begun\n", Stderr: "warning\n", Error: "ZeroDivisionError: division by zero", Line: 3}.String()
	slow := prompt.Output{Error: "Timeout: the block took longer than 5m0s", Lost: true}.String()
	show("one block", prompt.Feedback([]string{good}, false, "")+"\n\n"+prompt.Next(2, 30))
	show("several blocks, one failed", prompt.Feedback([]string{good, bad, prompt.Output{}.String()}, false, ""))
	show("variables lost", prompt.Feedback([]string{slow}, false, ""))
	show("much output", prompt.Feedback([]string{prompt.Output{Stdout: strings.Repeat("x", 20_000-14+1234), Dropped: 5 << 20, Variables: []string{"big"}}.String()}, false, ""))
	show("block not closed", prompt.Feedback(nil, true, ""))
	show("unknown variable", prompt.Feedback([]string{good}, false, prompt.NoAnswer("result", "")))
	show("variable without a text", prompt.Feedback(nil, false, prompt.NoAnswer("result", "ValueError: no")))
	show("neither code nor answer", prompt.Feedback(nil, false, ""))
	show("after the last turn", prompt.Last)
	show("request for a summary", prompt.Compact)
	show("after a summary", prompt.Continue+"\n\n"+prompt.Next(12, 30))
	golden(t, "messages.txt", strings.ReplaceAll(strings.TrimSpace(page.String()), strings.Repeat("x", 19_986), "xxx (19,986 of these)"))
}

func count(n int64) (numbers []int64) {
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// An output has at most 20,000 characters in total, and says how many are omitted. The
// error and the names of the variables are never omitted.
func TestOutputIsCut(t *testing.T) {
	omitted := regexp.MustCompile(`\n\[([\d,]+) characters omitted\]`)
	long := strings.Repeat("ü", 50_000)
	for name, o := range map[string]prompt.Output{
		"stdout":    {Stdout: long},
		"stderr":    {Stderr: long},
		"both":      {Stdout: long, Stderr: long, Error: "E: message", Variables: []string{"a", "b"}},
		"error":     {Stdout: long, Error: long, Variables: []string{"a", "b"}},
		"variables": {Stdout: long, Variables: slices.Repeat([]string{"variable"}, 10_000)},
		"all":       {Stdout: long, Stderr: long, Error: long, Variables: slices.Repeat([]string{"variable"}, 10_000)},
	} {
		text := o.String()
		if !omitted.MatchString(text) {
			t.Errorf("%s: the text does not say how much is missing", name)
		}
		if n := utf8.RuneCountInString(omitted.ReplaceAllString(text, "")); n > 20_000+len("The block failed: Variables: \n\n\n\n") {
			t.Errorf("%s: the text has %d characters", name, n)
		}
		if len(o.Variables) == 2 && !strings.HasSuffix(text, "Variables: a, b") {
			t.Errorf("%s: the variables are missing: …%s", name, text[len(text)-100:])
		}
	}
	exact := prompt.Output{Stdout: long[:2*20_000]}
	if got := exact.String(); got != exact.Stdout {
		t.Errorf("an output of 20,000 characters is not left as it is: …%s", got[len(got)-100:])
	}
}

// Viewers use these words to find the question in the first user message.
func TestQuestionIsFound(t *testing.T) {
	for _, m := range prompt.Opening("", prompt.ShapeOf(""), "Which error repeats most?", "", 30) {
		found := regexp.MustCompile(`original query: "([^"]+)"`).FindStringSubmatch(m.Content)
		if (m.Role == "user") != (found != nil) || found != nil && found[1] != "Which error repeats most?" {
			t.Errorf("%s: %q in %q", m.Role, found, m.Content)
		}
	}
}
