package render

import (
	"strings"
	"testing"
)

func TestAppendJSON(t *testing.T) {
	const text = `{"id":1.50,"id":"two", "params" : {"list":[1,-2e9,{}, [ ]],"ok":true,"none":null},"text":"caf\u00e9 \"\/"}`
	const want = `| {
|   "id": 1.50,
|   "id": "two",
|   "params": {
|     "list": [
|       1,
|       -2e9,
|       {},
|       []
|     ],
|     "ok": true,
|     "none": null
|   },
|   "text": "caf\u00e9 \"\/"
| }
`
	if got := string(AppendJSON(nil, []byte(text), "  ", "| ", nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is unsafe inside a string is shown as the JSON escape of the same
// character; what the sender had escaped stays as it was.
func TestAppendJSONEscapes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\"a\u202eb\"", `"a\u202eb"`},
		{"\"a\x7fb\u0085\"", `"a\u007fb\u0085"`},
		{"\"\U000e0041\"", `"\udb40\udc41"`},
		{`"\u001b[2J\n"`, `"\u001b[2J\n"`},
		{"{\"k\u200b\":1}", "{\n\"k\\u200b\": 1\n}"},
		{`"日本 👩` + "\u200d💻\"", `"日本 👩` + "\u200d💻\""},
	} {
		if got := string(AppendJSON(nil, []byte(c.text), "", "", nil)); got != c.want+"\n" {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestAppendJSONPaints(t *testing.T) {
	const want = `P<{>
 K<"key">P<:> S<"value">P<,>
 K<"n">P<:> P<[>
  N<1>P<,>
  L<true>
 P<]>P<,>
 K<"e">P<:> P<{}>
P<}>
`
	got := AppendJSON(nil, []byte(`{"key":"value","n":[1,true],"e":{}}`), " ", "", &marked)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Containers nested deeper than maxIndented stay on one line.
func TestAppendJSONDeep(t *testing.T) {
	const depth = 10000
	text := strings.Repeat("[", depth) + "1,2" + strings.Repeat("]", depth)
	got := string(AppendJSON(nil, []byte(text), "  ", "", nil))
	if lines := strings.Count(got, "\n"); lines != 2*maxIndented+1 {
		t.Errorf("%d lines", lines)
	}
	middle := strings.Repeat("[", depth-maxIndented+1)
	if !strings.Contains(got, "\n"+strings.Repeat("  ", maxIndented-1)+"[\n") || !strings.Contains(got, middle[1:]+"1,2]") {
		t.Errorf("got %.2000s", got)
	}
}

// Text that is not JSON has no layout, but is all there.
func TestAppendJSONInvalid(t *testing.T) {
	for text, want := range map[string]string{
		``:             "\n",
		`"open`:        "\"open\n",
		`"\`:           "\"\\\n",
		`]}`:           "\n]\n}\n",
		"\x1b[2J":      "\\x1b[\n 2J\n",
		"\"\xff\"":     "\"\\xff\"\n",
		`{"a" "b":NaN`: "{\n \"a\"\"b\": NaN\n",
	} {
		if got := string(AppendJSON(nil, []byte(text), " ", "", nil)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	text := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
		strings.Repeat("some text ", 20) + `"}}}`)
	var dst []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendJSON(dst[:0], text, "  ", "    ", &marked)
	}
}
