package jsonscan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The tokens of a text are its brackets, strings, numbers and literals, with keys told apart.
func TestTokens(t *testing.T) {
	const text = "{\"a\\\"\" : [ -1.5e+3,null , \"b:\", {} ],\"\\ud83d\":\t\"é\\\\\"\r\n}"
	want := []string{"{", `"a\""=`, "[", "-1.5e+3", "null", `"b:"`, "{", "}", "]", `"\ud83d"=`, `"é\\"`, "}"}
	var got []string
	for token := range Tokens([]byte(text)) {
		got = append(got, text[token.Start:token.End]+map[bool]string{true: "="}[token.Key])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An error says what is wrong and where.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text, want string
		truncated  bool
	}{
		{``, `invalid JSON at byte 0: unexpected end looking for a value`, true},
		{`{"a":tru`, `invalid JSON at byte 8: unexpected end in literal true`, true},
		{`{"a":trie}`, `invalid JSON at byte 7: invalid character 'i' in literal true`, false},
		{`{"a":1 "b"`, `invalid JSON at byte 7: invalid character '"' looking for ',' or '}' after a member`, false},
		{`[1 2]`, `invalid JSON at byte 3: invalid character '2' looking for ',' or ']' after an element`, false},
		{`{a:1}`, `invalid JSON at byte 1: invalid character 'a' looking for a key`, false},
		{`{"a"=1}`, `invalid JSON at byte 4: invalid character '=' looking for ':' after a key`, false},
		{`{} é`, `invalid JSON at byte 3: invalid character 'é' after the JSON text`, false},
		{"\xff", `invalid JSON at byte 0: invalid character '\xff' looking for a value`, false},
		{`-x`, `invalid JSON at byte 1: invalid character 'x' looking for a digit`, false},
		{`[1.`, `invalid JSON at byte 3: unexpected end looking for a digit`, true},
		{`["abc`, `invalid JSON at byte 5: unexpected end in a string`, true},
		{"[\"a\nb\"]", `invalid JSON at byte 3: invalid character '\n' in a string`, false},
		{"\"a\xffb\"", `invalid JSON at byte 2: invalid UTF-8`, false},
		{"\"a\xe4\xb8", `invalid JSON at byte 4: unexpected end in a string`, true},
		{`"a\qb"`, `invalid JSON at byte 2: invalid escape "\\q" in string`, false},
		{`"\u00zz"`, `invalid JSON at byte 1: invalid escape "\\u00zz" in string`, false},
		{`"\ud800x"`, `invalid JSON at byte 1: unpaired surrogate in string`, false},
		{`"\udc00"`, `invalid JSON at byte 1: unpaired surrogate in string`, false},
		{`"\ud83d\ude`, `invalid JSON at byte 11: unexpected end in a string`, true},
		{strings.Repeat("[", MaxDepth+1), `invalid JSON at byte 10000: nesting deeper than 10000`, false},
	} {
		var syntax *SyntaxError
		if err := Valid([]byte(c.text)); !errors.As(err, &syntax) {
			t.Errorf("Valid(%.40q) = %v, want a *SyntaxError", c.text, err)
		} else if syntax.Error() != c.want || syntax.Truncated != c.truncated {
			t.Errorf("Valid(%.40q)\n got %v (truncated %v)\nwant %v (truncated %v)", c.text, syntax, syntax.Truncated, c.want, c.truncated)
		}
	}
}

// NotNull consumes a null like any other value.
func TestNotNull(t *testing.T) {
	var s Scanner
	s.Init([]byte(`[null,1]`))
	var got []string
	for ok := s.Array(); ok && s.Elem(); {
		raw := s.NotNull()
		got = append(got, fmt.Sprintf("%s %v", raw, raw == nil))
	}
	if want := []string{" true", "1 false"}; !slices.Equal(got, want) || s.End() != nil {
		t.Errorf("got %q, %v", got, s.End())
	}
}

// A record that wraps a payload has one more level than a payload may have.
func TestInitDepth(t *testing.T) {
	text := []byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))
	var s Scanner
	s.InitDepth(text, MaxDepth+1)
	if err := s.End(); err != nil {
		t.Errorf("one level deeper: %v", err)
	}
	s.InitDepth([]byte(`[[[]]]`), 2)
	if s.Array(); s.Elem() && s.Array() && s.Elem() && s.Array() {
		t.Error("the third array was entered at a limit of two")
	}
	if err := s.End(); err == nil {
		t.Error("no error for three levels at a limit of two")
	}
}

// Values that the caller does not read are still checked, and a value of an unexpected kind can
// still be read.
func TestUnreadValuesAreChecked(t *testing.T) {
	var s Scanner
	s.Init([]byte(`{"a": [1, {"b": 2}], "c": "d"}`))
	if s.Array() || !s.Object() || !s.Next() || s.Object() || !s.Next() {
		t.Fatal("cannot reach the second member")
	}
	if got := string(s.Key()) + " " + string(s.Value()); got != `c "d"` {
		t.Errorf("second member is %s", got)
	}
	if s.Value() != nil || s.Peek() != Invalid || s.Elem() {
		t.Error("a value appears after the last one")
	}
	for range 2 {
		if s.Next() {
			t.Error("the object does not end")
		}
	}
	if s.End() != nil {
		t.Errorf("the text does not end: %v", s.End())
	}

	s.Init([]byte(`{"a": [1, {"b": 02}], "c": "d"}`))
	if !s.Object() || !s.Next() {
		t.Fatal("cannot reach the first member")
	}
	if err := s.End(); err == nil {
		t.Error("an unread value is not checked")
	}
	if s.Object() || s.Next() || s.Array() || s.Elem() || s.Skip() || s.Value() != nil || s.Offset() != 17 {
		t.Errorf("the scanner goes on after an error, at %d", s.Offset())
	}
}

// Containers nested too deep for a scanner to enter are read as plain values.
func TestMaxEntered(t *testing.T) {
	text := strings.Repeat("[", MaxEntered+1) + strings.Repeat("]", MaxEntered+1)
	var s Scanner
	s.Init([]byte(text))
	for range MaxEntered {
		if !s.Array() || !s.Elem() {
			t.Fatal("cannot enter")
		}
	}
	if s.Array() {
		t.Error("entered too deep")
	}
	if got := string(s.Value()); got != "[]" {
		t.Errorf("innermost value is %q", got)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// A payload with a line break between its tokens cannot be one NDJSON line.
func TestNewline(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a": "\n"}`: false, "{\n}": true, "{\"a\":[1,\r2]}": true, "\t1 ": false, "1\n": true, "\n1": true,
	} {
		var s Scanner
		s.Init([]byte(text))
		if err := s.End(); err != nil || s.Newline() != want {
			t.Errorf("%q: Newline = %v, %v", text, s.Newline(), err)
		}
	}
}

func TestGet(t *testing.T) {
	const text = ` {"a":{"b":[1],"\u0063":"x","c":2}, "d":nul`
	for _, c := range []struct{ path, want string }{
		{"a", `{"b":[1],"\u0063":"x","c":2}`},
		{"a b", `[1]`},
		{"a c", `"x"`},
		{"a z", ""},
		{"a b c", ""},
		{"d", ""},
		{"z", ""},
	} {
		got, ok := Get([]byte(text), strings.Fields(c.path)...)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("Get(%s) = %q, %v, want %q", c.path, got, ok, c.want)
		}
	}
	if got, ok := Get([]byte(` 7 `)); !ok || string(got) != "7" {
		t.Errorf("Get without a path = %q, %v", got, ok)
	}
}

func TestIsUnsafeInteger(t *testing.T) {
	for raw, want := range map[string]bool{
		"9007199254740991": false, "-9007199254740991": false, "9007199254740992": true, "-9007199254740992": true,
		"9999999999999999": true, "10000000000000000": true, "999999999999999": false, "0": false, "-": false, "": false,
		"1e99": false, "90071992547409920.5": false, `"9007199254740992"`: false,
	} {
		if got := IsUnsafeInteger([]byte(raw)); got != want {
			t.Errorf("IsUnsafeInteger(%s) = %v", raw, got)
		}
	}
}

// Ordinary messages, and strings without escapes, need no allocation.
func TestNoAllocations(t *testing.T) {
	texts := requests(1<<20, 100, 4000)
	allocs := testing.AllocsPerRun(10, func() {
		for _, text := range texts {
			if !findMembers(text) {
				t.Fatalf("rejected %s", text)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
