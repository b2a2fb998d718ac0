package jsonscan

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// seeds are edge cases of the grammar, the seed corpus of every fuzz target.
var seeds = []string{
	``, ` `, `{}`, `[]`, `{`, `[`, `}`, `]`, `""`, `"`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e`, `1e+`, `1E-07`, `1e5.`,
	`true`, `tru`, `trueish`, `null`, `nul`, `nulL`, `false`, `NaN`, `Infinity`, `+1`, `'a'`, "\ufeff{}",
	`[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a" 1}`, `{"a":}`, `{1:2}`, `{"a":1 "b":2}`, `{} {}`, `1 2`, `// x`,
	` { "a" : [ 1 , { "b" : null } ] } `, "{\r\n\t\"a\":\n1}\n", "\v1", "1\x00", "[\f]", "\u00a01",
	`"\n\r\t\b\f\/\\\""`, `"\x"`, `"\u00e9"`, `"\u00E9"`, `"\u00g0"`, `"\u12`, `"\`, `"\u`, `"\ud`, `"\udc`,
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83dx"`, `"\ud83d`, `"\ud83d\`, `"\ud83d\ud`, `"\ud83d\ud83d\ude00"`, `"\uD83D\uDE0"`,
	"\"\t\"", "\"\x7f\"", "\"\x1f\"", "\"\u00e9\u4e2d\U0001f600\u2028\"", "\"\x80\"", "\"\xc0\xaf\"", "\"\xc1\xbf\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"",
	"\"\xed\x9f\xbf\"", "\"\xee\x80\x80\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf0\x90\x80\x80\"", "\"\xf4\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xff\"",
	"\"\xc3", "\"\xe4\xb8", "\"\xf0\x9f\x98", "\"\xf0\x9f\x98x", "\"\xf4\x90", "\"\xed\xa0",
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2},"a":3}`, `{"a":{"a":1}}`, `[{"x":1,"y":2,"x":3}]`,
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"é\n","arguments":{"x":[1.5e300,-0.0]}}}`,
	`{"abcdefg":1,"abcdefgh":2,"abcdefghi":3,"abcdefghijklmnop":4,"abcdefghijklmnopq":5,"abcdefghijklmnop":6}`,
	strings.Repeat("[", 20) + strings.Repeat("]", 20),
	strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20),
	strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	strings.Repeat(`{"":`, MaxDepth) + "0" + strings.Repeat("}", MaxDepth),
	strings.Repeat(`{"":`, MaxDepth+1) + "0" + strings.Repeat("}", MaxDepth+1),
}

func addSeeds(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
}

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false)}

// FuzzValid compares the result with that of jsontext, and Truncated with its
// io.ErrUnexpectedEOF.
func FuzzValid(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Valid(data)
		if want := jsontext.Value(data).IsValid(lenient...); (err == nil) != want {
			t.Fatalf("Valid = %v, jsontext says valid = %v", err, want)
		}
		if want := ValidUTF8(data) && jsontext.Value(data).IsValid(append(lenient, jsontext.AllowInvalidUTF8(true))...); (WellFormed(data) == nil) != want {
			t.Fatalf("WellFormed = %v, jsontext without a check of surrogates says valid = %v", WellFormed(data), want)
		}
		if err == nil {
			checkPrefixes(t, data)
			return
		}
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(data) {
			t.Fatalf("Valid = %#v, want a *SyntaxError inside the text", err)
		}
		if syntax.Truncated && !endsEarly(data) {
			t.Fatalf("truncated, but jsontext does not wait for more: %v", err)
		}
	})
}

// endsEarly reports whether jsontext finds no fault in data except that it ends too early.
func endsEarly(data []byte) bool {
	_, err := jsontext.NewDecoder(bytes.NewReader(data), lenient...).ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF
}

// checkPrefixes checks that every prefix of a valid text is valid or truncated.
func checkPrefixes(t *testing.T, data []byte) {
	t.Helper()
	if len(data) > 256 {
		return
	}
	for n := range data {
		var syntax *SyntaxError
		if err := Valid(data[:n]); errors.As(err, &syntax) && !syntax.Truncated {
			t.Fatalf("prefix %q is not truncated: %v", data[:n], err)
		}
	}
}

// FuzzWalk rebuilds a text from the spans of a manual walk. The walk must agree with Valid, the
// spans with the text without its white space, and the repeated key with the one found with a
// map.
func FuzzWalk(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		w := walker{t: t}
		w.Init(data)
		w.value()
		err, want := w.End(), WellFormed(data)
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Fatalf("walking by hand gives %v, Valid %v", err, want)
		}
		if err != nil {
			return
		}
		if compact := AppendCompact(nil, data); !bytes.Equal(w.rebuilt, compact) {
			t.Fatalf("rebuilt %q\n   want %q", w.rebuilt, compact)
		}
		if _, offset, _ := w.Duplicate(); offset != w.repeated {
			t.Fatalf("repeated key at %d, want %d", offset, w.repeated)
		}
		if key, offset, ok := duplicate(data); ok && offset != w.repeated && w.repeated != 0 {
			t.Fatalf("Valid finds %q repeated at %d, the walk at %d", key, offset, w.repeated)
		}
	})
}

func duplicate(data []byte) ([]byte, int, bool) {
	var s Scanner
	s.Init(data)
	_ = s.End()
	return s.Duplicate()
}

// walker enters every container it can and collects keys and values.
type walker struct {
	Scanner
	t        *testing.T
	rebuilt  []byte
	repeated int
}

func (w *walker) value() {
	switch {
	case w.Object():
		w.object()
	case w.Array():
		w.array()
	default:
		w.leaf()
	}
}

func (w *walker) object() {
	w.rebuilt = append(w.rebuilt, '{')
	seen := map[string]bool{}
	for n := 0; w.Next(); n++ {
		if n > 0 {
			w.rebuilt = append(w.rebuilt, ',')
		}
		token := w.data[w.keyStart:w.keyEnd]
		w.checkKey(token)
		if seen[string(w.Key())] && (w.repeated == 0 || w.keyStart < w.repeated) {
			w.repeated = w.keyStart
		}
		seen[string(w.Key())] = true
		w.rebuilt = append(append(w.rebuilt, token...), ':')
		w.value()
	}
	w.rebuilt = append(w.rebuilt, '}')
}

func (w *walker) array() {
	w.rebuilt = append(w.rebuilt, '[')
	for n := 0; w.Elem(); n++ {
		if n > 0 {
			w.rebuilt = append(w.rebuilt, ',')
		}
		w.value()
	}
	w.rebuilt = append(w.rebuilt, ']')
}

func (w *walker) leaf() {
	kind, start := w.Peek(), w.Offset()
	raw := w.Value()
	if raw == nil {
		return
	}
	if got := w.data[start:w.Offset()]; !bytes.Equal(raw, got) {
		w.t.Fatalf("value %q at %d, the text has %q there", raw, start, got)
	}
	if got := Kind(jsontext.Value(raw).Kind()); got != kind {
		w.t.Fatalf("%q has kind %c, Peek says %c", raw, got, kind)
	}
	w.rebuilt = AppendCompact(w.rebuilt, raw)
	if kind == Object || kind == Array { // too deep to enter
		if _, offset, ok := duplicate(raw); ok && (w.repeated == 0 || start+offset < w.repeated) {
			w.repeated = start + offset
		}
	}
}

func (w *walker) checkKey(token []byte) {
	if want, err := jsontext.AppendUnquote(nil, token); err != nil || !bytes.Equal(w.Key(), want) {
		w.t.Fatalf("key %s read as %q, want %q (%v)", token, w.Key(), want, err)
	}
}

// FuzzCompact compares AppendCompact with jsontext.
func FuzzCompact(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		got := AppendCompact([]byte("x"), data)
		if Valid(data) != nil {
			return
		}
		want := jsontext.Value(bytes.Clone(data))
		if err := want.Compact(); err != nil {
			t.Fatal(err)
		}
		if string(got) != "x"+string(want) {
			t.Fatalf("AppendCompact = %q, want %q", got[1:], want)
		}
	})
}

// FuzzQuote compares AppendQuote and Unquote with jsontext.
func FuzzQuote(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		quoted := AppendQuote(nil, text)
		if want, _ := jsontext.AppendQuote(nil, text); !bytes.Equal(quoted, want) {
			t.Fatalf("AppendQuote(%q) = %q, want %q", text, quoted, want)
		}
		back, ok := Unquote(quoted)
		if want := bytes.ToValidUTF8(text, nil); !ok || bytes.Equal(want, text) && !bytes.Equal(back, text) {
			t.Fatalf("Unquote(%q) = %q, %v, want %q", quoted, back, ok, text)
		}
		got, ok := Unquote(text)
		want, err := jsontext.AppendUnquote(nil, text)
		if ok != (err == nil) || got != nil && !bytes.Equal(got, want) {
			t.Fatalf("Unquote(%q) = %q, %v; jsontext says %q, %v", text, got, ok, want, err)
		}
	})
}
