package rlm_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/rlm"
)

// open follows the wanted blocks if the text ends inside a block.
const open = "(open)"

// Each row is a model's answer, and its executable blocks.
var blocks = []struct {
	name, text string
	want       []string
}{
	{"one block", "Look first.\n```repl\nprint(len(context))\n```\nThen go on.", []string{"print(len(context))"}},
	{"two blocks", "```repl\na = 1\n```\n```repl\nprint(a)\n```\n", []string{"a = 1", "print(a)"}},
	{"white space around the code goes", "```repl  \n\n  x = 1\n  y = 2\n\n```", []string{"x = 1\n  y = 2"}},
	{"line breaks of Windows", "```repl\r\nx = 1\r\ny = 2\r\n```\r\n", []string{"x = 1\r\ny = 2"}},
	{"no code", "```repl\n\n```", []string{""}},
	{"nothing between the fences", "```repl\n```\ntext", []string{""}},
	{"another info word", "```python\nx = 1\n```", nil},
	{"no info word", "```\nx = 1\n```", nil},
	{"more than the info word", "```repl demo\nx = 1\n```", nil},
	{"a longer info word", "```replica\nx = 1\n```", nil},
	{"a code span", "Write ```repl x``` here.", nil},
	{"text before the fence", "Now: ```repl\nx = 1\n```", []string{"x = 1"}},
	{"text before a fence that nothing closes", "I will use ```repl\nsoon.", nil},
	{"text after the closing fence", "```repl\nx = 1\n```done\nFINE", []string{"x = 1"}},
	{"a block that the next one closes", "```repl\na\n```repl\nb\n```", []string{"a"}},
	{"a block in another that is not closed", "```python\nx = 1\n\n```repl\ny = 2\n```", []string{"y = 2"}},
	{"a block inside markdown", "```markdown\n```repl\nx = 1\n```\n```", []string{"x = 1"}},

	{"letter case", "```REPL\nx = 1\n```", []string{"x = 1"}},
	{"blank before the info word", "``` repl\nx = 1\n```", []string{"x = 1"}},
	{"indented", "  ```repl\n  if x:\n    y = 1\n\n  z = 2\n  ```", []string{"if x:\n  y = 1\n\nz = 2"}},
	{"in a list", "1. Do this:\n\n    ```repl\n    if x:\n        y = 1\n    ```\n2. Then that.", []string{"if x:\n    y = 1"}},
	{"indented fence, code at the margin", "  ```repl\nif x:\n  y = 1\n```", []string{"if x:\n  y = 1"}},
	{"tab", "\t```repl\n\tx = 1\n\ty = 2\n\t```", []string{"x = 1\ny = 2"}},
	{"indented closing fence", "```repl\nx = 1\n   ```\ntext", []string{"x = 1"}},
	{"fence deep inside a string", "```repl\nx = '''\n    ```\n'''\n```", []string{"x = '''\n    ```\n'''"}},
	{"tildes", "~~~repl\nx = '''\n```\n'''\n~~~", []string{"x = '''\n```\n'''"}},
	{"longer fence", "````repl\nx = '''\n```json\n{}\n```\n'''\n````", []string{"x = '''\n```json\n{}\n```\n'''"}},
	{"longer closing fence", "```repl\nx = 1\n`````", []string{"x = 1"}},
	{"quoted in a longer fence", "````markdown\n```repl\nx = 1\n```\n````", nil},
	{"quoted in tildes", "~~~\n```repl\nx = 1\n```\n~~~", nil},

	{"not closed", "```repl\nx = 1\n", []string{open}},
	{"not closed, nothing follows", "```repl", []string{open}},
	{"the second not closed", "```repl\nx = 1\n```\n```repl\ny =", []string{"x = 1", open}},
	{"longer fence closed by a short one", "````repl\nx = 1\n```\n", []string{open}},
	{"another block not closed", "```python\nx = 1\n", nil},
	{"empty", "", nil},
}

func TestBlocks(t *testing.T) {
	for _, row := range blocks {
		t.Run(row.name, func(t *testing.T) {
			got, unclosed := rlm.CodeBlocks(row.text, nil)
			if unclosed {
				got = append(got, open)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%q\ngot  %q\nwant %q", row.text, got, row.want)
			}
		})
	}
}

// In text without indentation, longer fences and tildes, the blocks are those that this
// expression matches. Models and prompts for other programs expect that.
func TestPlainFences(t *testing.T) {
	expected := regexp.MustCompile("(?s)```repl\\s*\n(.*?)\n```")
	pieces := []string{
		"Text.", "", "```repl\nx = 1\n```", "```repl \n\n  y = 2\nprint(y)\n\n``` ", "```python\nz = 3\n```", "```\nz\n```",
		"Now: ```repl\na\n```", "```repl\nb\n```that", "A `span` and ```another```.", "FINAL(4)", "> ```json\n> {}",
	}
	var try func(text string, depth int)
	try = func(text string, depth int) {
		var want []string
		for _, match := range expected.FindAllStringSubmatch(text, -1) {
			want = append(want, strings.TrimSpace(match[1]))
		}
		if got, open := rlm.CodeBlocks(text, nil); open || !slices.Equal(got, want) {
			t.Fatalf("%q: got %q (open %t), want %q", text, got, open, want)
		}
		for _, piece := range pieces {
			if depth > 0 {
				try(text+piece+"\n", depth-1)
			}
		}
	}
	try("", 3)
}

// Other info words can be configured, and replace the default ones.
func TestWords(t *testing.T) {
	text := "```repl\na\n```\n```Python\nb\n```\nSo: ```python\nc\n```"
	for _, row := range []struct{ words, want []string }{
		{[]string{"repl", "python"}, []string{"a", "b", "c"}},
		{[]string{"python"}, []string{"b", "c"}},
	} {
		if got, _ := rlm.CodeBlocks(text, row.words); !slices.Equal(got, row.want) {
			t.Errorf("%q: got %q, want %q", row.words, got, row.want)
		}
	}
}

// Texts and their final answers. A variable is written $NAME, and none means that there is
// no answer.
const none = "(none)"

var finals = []struct{ name, text, want string }{
	{"parentheses", "FINAL(a (b) c)", "a (b) c"},
	{"the last of two", "FINAL(1)\nFINAL(2)", "2"},
	{"the last does not begin a line", "FINAL(1)\nand FINAL(2)", "1"},
	{"the last of a line", "FINAL(1)\nFINAL(2) FINAL(3)", "1"},
	{"none begins a line", "text FINAL(4)", none},
	{"bold", "**FINAL(4)**", none},
	{"part of a word", "MYFINAL(4)", none},
	{"quotes", `FINAL("a)b")`, `"a)b"`},
	{"backslash in quotes", `FINAL("a\")b")`, `"a\")b"`},
	{"backslash outside of quotes", `FINAL(a\)b)`, `a\`},
	{"one parenthesis too many", "FINAL(1))", "1"},
	{"nested", "FINAL(FINAL(3))", "FINAL(3)"},
	{"leading blanks", "text\n \t FINAL( 4 )", "4"},
	{"several lines", "FINAL(one\ntwo (2)\n)\nDone.", "one\ntwo (2)"},
	{"empty", "FINAL()", ""},
	{"not closed", "FINAL(4", none},
	{"lower case", "final(4)", none},
	{"no marker", "The answer is 4.", none},
	{"nothing", "", none},

	{"apostrophe", "FINAL(it's 4)", "it's 4"},
	{"apostrophe and more text", "FINAL(it's 4)\nThat is all.", "it's 4"},
	{"an open parenthesis", "FINAL(4 (or so)", "4 (or so"},

	{"variable", "FINAL_VAR(answer)", "$answer"},
	{"variable in quotes", `FINAL_VAR( "answer" )`, "$answer"},
	{"variable in single quotes", "FINAL_VAR('answer')", "$answer"},
	{"variable before text", "FINAL_VAR(x)\nFINAL(4)", "$x"},
	{"variable that does not begin a line", "Use FINAL_VAR(x).\nFINAL(4)", "4"},
	{"variable that is cut", "FINAL(4)\nFINAL_VAR(x", "4"},
	{"variable without a name", "FINAL_VAR()", "$"},

	{"in a fence", "```\nFINAL(4)\n```", none},
	{"in code", "```repl\nFINAL(4)\n```", none},
	{"in code that is cut", "```repl\nFINAL(4)", none},
	{"in tildes", "~~~\nFINAL(4)\n~~~", none},
	{"in a fence and after it", "```python\nFINAL(3)\n```\nFINAL(4)", "4"},
	{"before a fence", "FINAL(4)\n```\nFINAL(5)\n```", "4"},
	{"variable in a fence", "FINAL(4)\n```repl\nFINAL_VAR(x)\n```", "4"},
	{"beside a fence", "FINAL(4) ```repl\nFINAL(5)\n```", "4"},
	{"around a fence", "FINAL(Use this:\n```python\nf(1)\nFINAL(2)\n```\n)", "Use this:\n```python\nf(1)\nFINAL(2)\n```"},
	{"below a fence that nothing closes", "```\nx\n\nFINAL(4)", "4"},
}

func TestFinal(t *testing.T) {
	for _, row := range finals {
		t.Run(row.name, func(t *testing.T) {
			got := none
			if m, ok := rlm.FinalMarker(row.text, nil); ok {
				got = m.Arg
				if m.Variable {
					got = "$" + m.Arg
				}
			}
			if got != row.want {
				t.Errorf("%q\ngot  %q\nwant %q", row.text, got, row.want)
			}
		})
	}
}

func TestUnwrap(t *testing.T) {
	for reply, want := range map[string]string{
		"The answer is 4.":       "The answer is 4.",
		"So:\nFINAL(4)":          "4",
		"FINAL()":                "",
		"FINAL_VAR(x)":           "FINAL_VAR(x)",
		"FINAL_VAR(x)\nFINAL(4)": "4",
	} {
		if got := rlm.Unwrap(reply, false); got != want {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
	}
	for reply, want := range map[string]string{"FINAL(4) and": "4", "FINAL(see (1) and": "FINAL(see (1) and"} {
		if got := rlm.Unwrap(reply, true); got != want {
			t.Errorf("%q, cut: got %q, want %q", reply, got, want)
		}
	}
}

// hostile returns texts of one megabyte. Work that grows with the square of their length
// would take many minutes.
func hostile() map[string]string {
	const size = 1 << 20
	texts := map[string]string{}
	for _, piece := range []string{
		"`", "~", "```\n", "```repl\n", "~~~repl\n", "x ```repl\n", "````repl\n```\n", "```python\n```repl\n",
		" ", "\n", "\t```repl\n", "FINAL(", "FINAL_VAR('\n", "FINAL(1)\n", "'(", " FINAL(1)", "```repl```",
	} {
		texts[piece] = strings.Repeat(piece, size/len(piece))
	}
	texts["longer and longer fences"] = func() string {
		var b strings.Builder
		for n := 3; b.Len() < size; n++ {
			b.WriteString(strings.Repeat("`", n) + "repl\n")
		}
		return b.String()
	}()
	texts["indented code"] = strings.Repeat(" ", 1000) + "```repl\n" + strings.Repeat(strings.Repeat(" ", 1000)+"x\n", size/1000)
	return texts
}

func TestHostile(t *testing.T) {
	for _, text := range hostile() {
		check(t, text+"\nFINAL(it's\n```\n")
	}
}

// check fails if the results for a text contradict each other.
func check(t *testing.T, text string) {
	words := []string{"repl", "python"}
	blocks, open := rlm.CodeBlocks(text, words)
	if fences := strings.Count(text, "```") + strings.Count(text, "~~~"); 2*len(blocks) > fences || open && fences == 0 {
		t.Errorf("%d blocks, open %t, between %d fences", len(blocks), open, fences)
	}
	for _, code := range blocks {
		if len(code) > len(text) || code != strings.TrimSpace(code) {
			t.Errorf("a block is not part of the text: %.100q", code)
		}
	}
	marker, ok := rlm.FinalMarker(text, words)
	if ok && (!strings.Contains(text, marker.Arg) || !strings.Contains(text, "FINAL")) {
		t.Errorf("the answer is not part of the text: %.100q", marker.Arg)
	}
	if answer := rlm.Unwrap(text, false); !strings.Contains(text, answer) {
		t.Errorf("the reply is not part of the text: %.100q", answer)
	}
}

func FuzzText(f *testing.F) {
	for _, row := range blocks {
		f.Add(row.text)
	}
	for _, row := range finals {
		f.Add(row.text)
	}
	f.Fuzz(check)
}
