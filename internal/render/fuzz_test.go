package render

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// marked is a palette that tests can read.
var marked = Style{
	Key: Paint{"K<", ">"}, String: Paint{"S<", ">"}, Number: Paint{"N<", ">"},
	Literal: Paint{"L<", ">"}, Punct: Paint{"P<", ">"}, Offset: Paint{"O<", ">"}, Dim: Paint{"D<", ">"},
}

// colour is a palette whose two codes are all the controls that may come out.
var colour = func() Style {
	p := Paint{"\x0e", "\x0f"}
	return Style{Key: p, String: p, Number: p, Literal: p, Punct: p, Offset: p, Dim: p}
}()

var hostile = []string{
	"", "plain", "\x1b[2J\x07", "\u009b2J", "\xff\xfe\x00", "a\u202eb\u2066", "👩\u200d💻❤\ufe0f\ufe0f",
	"e\u0301\u0302", "日本語", "\U000e0041", "\xe2\x80", `{"a":[1,{"b":"` + "\u202e\x7f" + `"}],"c":"\u001b"}`, `]]{"`, "[[1],[],{}]",
}

func FuzzAppendSafe(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := AppendSafe(nil, text)
		checkSafe(t, got)
		if again := AppendSafe(nil, got); !bytes.Equal(again, got) {
			t.Errorf("%q is safe, but is shown as %q", got, again)
		}
	})
}

func FuzzAppendFit(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s), 5)
	}
	f.Fuzz(func(t *testing.T, text []byte, width int) {
		width = min(width, 1000)
		got := AppendFit(nil, text, width)
		checkSafe(t, got)
		if w := Cells(got); w > max(width, 0) {
			t.Errorf("%q takes %d cells of %d", got, w, width)
		}
		if whole := AppendSafe(nil, text); width > 0 && Cells(whole) <= width && len(text) <= maxBytes(width) && !bytes.Equal(got, whole) {
			t.Errorf("%q fits, but is shown as %q", whole, got)
		}
	})
}

func FuzzAppendJSON(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkLines(t, AppendJSON(nil, text, "  ", "| ", &colour))
		if jsonscan.Valid(text) != nil {
			return
		}
		if got := AppendJSON(nil, text, "  ", "", nil); !reflect.DeepEqual(value(t, got), value(t, text)) {
			t.Errorf("%s is not the value of %s", got, text)
		}
	})
}

func FuzzHex(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s), 1, 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, start, end int) {
		checkLines(t, Hex{Start: start, End: end}.Append(nil, data, &colour))
	})
}

// checkLines fails the test if out is not lines of safe text, painted so that
// no colour is left on at the end of one.
func checkLines(t *testing.T, out []byte) {
	t.Helper()
	for line := range strings.Lines(string(out)) {
		for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), colour.Dim.On) {
			painted, plain, off := strings.Cut(part, colour.Dim.Off)
			if off != (i > 0) {
				t.Errorf("%q: colours are not in pairs", line)
			}
			checkSafe(t, []byte(painted))
			checkSafe(t, []byte(plain))
		}
	}
}

// checkSafe fails the test if a terminal could do anything with out but show it.
func checkSafe(t *testing.T, out []byte) {
	t.Helper()
	if !utf8.Valid(out) {
		t.Errorf("%q is not UTF-8", out)
	}
	for _, r := range string(out) {
		joins := r == 0x200C || r == 0x200D
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point) && !joins {
			t.Errorf("%q holds %U", out, r)
		}
	}
}

// value reads JSON with its numbers as they are written.
func value(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
