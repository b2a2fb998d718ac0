package query

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseErrors(t *testing.T) {
	const list = "seq, kind, id, ref, offset, size, payload"
	for _, c := range []struct{ expr, want string }{
		{``, `column 1: expected a field (` + list + `), found the end`},
		{`==1`, `column 1: expected a field (` + list + `), found "==1"`},
		{`knid==x`, `column 1: no field "knid" (did you mean kind?); there are: ` + list},
		{`colour==x`, `column 1: no field "colour"; there are: ` + list},
		{`paylod.params==x`, `column 1: no field "paylod" (did you mean payload?); there are: ` + list},
		{`payload..x==1`, `column 1: "payload..x" has an empty key: two dots, or one at the end`},
		{`payload.==1`, `column 1: "payload." has an empty key: two dots, or one at the end`},
		{`id`, `column 3: expected an operator (== != ~ > >= < <=), found the end`},
		{`id=1`, `column 3: expected an operator (== != ~ > >= < <=), found "=1"`},
		{`id is 1`, `column 4: expected an operator (== != ~ > >= < <=), found "is"`},
		{`id==`, `column 5: expected a value (a word, or a JSON string in "quotes"), found the end`},
		{`kind=='a'`, `column 7: expected a value (a word, or a JSON string in "quotes", not 'these'), found "'a'"`},
		{`kind~'a b'`, `column 6: expected a value (a word, or a JSON string in "quotes", not 'these'), found "'a"`},
		{`id=="1`, `column 5: "\"1" is not a JSON string`},
		{`id=="\q"`, `column 5: "\"\\q\"" is not a JSON string`},
		{`id=="a"b`, `column 8: expected white space after the closing quote, found "b"`},
		{`size>big`, `column 6: expected a number after >, found "big"`},
		{`size>"1"`, `column 6: expected a number after >, found "\"1\""`},
		{`size>=1k`, `column 7: expected a number after >=, found "1k"`},
		{`kind==a b`, `column 9: expected "and" before the next term (a value with spaces needs quotes), found "b"`},
		{`kind==a AND id==1`, `column 9: expected "and" before the next term (a value with spaces needs quotes), found "AND"`},
		{`id==1 and`, `column 10: expected a field (` + list + `), found the end`},
		{`kind==é and x==1`, `column 13: no field "x"; there are: ` + list},
	} {
		_, err := Parse(c.expr, fieldNames)
		if err == nil {
			t.Errorf("%s: no error, want %s", c.expr, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.expr, err, c.want)
		}
	}
}

// An expression from a command line may contain anything. An error message quotes it, but no
// more than is useful.
func TestParseErrorsAreShortAndQuoted(t *testing.T) {
	_, err := Parse(`id=="`+strings.Repeat("\x1b", 1000), fieldNames)
	if err == nil || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 300 {
		t.Errorf("got %v", err)
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{` id ==  1  and  kind ~ "a b" `, `id==1 and kind~"a b"`},
		{`payload.params.name != "caf\u00e9"`, `payload.params.name!="café"`},
		{`size >= 1`, `size>=1`},
		{`id === and seq<1`, `id=== and seq<1`},
	} {
		w, err := Parse(c.expr, fieldNames)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
		} else if w.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.expr, w, c.want)
		}
	}
}

// A flag alone means flag==true.
func TestFlags(t *testing.T) {
	fields := Fields{Names: []string{"failed", "name", "size"}, Flags: []string{"failed"}}
	failed, other := record{"failed": "true", "name": "a"}, record{"name": "a"}
	for _, c := range []struct {
		expr, same           string
		matchFailed, matchOK bool
	}{
		{` failed `, `failed`, true, false},
		{`failed and name == a`, `failed and name==a`, true, false},
		{`name==a and failed`, `name==a and failed`, true, false},
		{`failed==true`, `failed==true`, true, false},
		{`failed != true`, `failed!=true`, false, true},
	} {
		w, err := Parse(c.expr, fields)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		if w.String() != c.same || w.Match(failed) != c.matchFailed || w.Match(other) != c.matchOK {
			t.Errorf("%s: %s, %v, %v", c.expr, w, w.Match(failed), w.Match(other))
		}
	}
	for expr, want := range map[string]string{
		`failed name==a`: `column 8: expected "and" before the next term (a value with spaces needs quotes), found "name==a"`,
		`failed.deep`:    `column 12: expected an operator (== != ~ > >= < <=), found the end`,
		`name`:           `column 5: expected an operator (== != ~ > >= < <=), found the end`,
		`fialed`:         `column 1: no field "fialed" (did you mean failed?); there are: failed, name, size`,
	} {
		if _, err := Parse(expr, fields); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", expr, err, want)
		}
	}
}

// A value that a field can never have is rejected, with a suggestion.
func TestValues(t *testing.T) {
	fields := Fields{Names: []string{"failed", "end", "name"}, Flags: []string{"failed"}, Values: map[string][]string{"end": {"done", "failed", "timed-out"}}}
	for expr, want := range map[string]string{
		`end==done`:             ``,
		`end == "timed-out"`:    ``,
		`end!=failed`:           ``,
		`end~d and name==typo`:  ``,
		`end.deep==x`:           ``,
		`end==typo`:             `column 6: end is never "typo"; it is one of: done, failed, timed-out`,
		`name==x and end!=dnoe`: `column 18: end is never "dnoe" (did you mean done?); it is one of: done, failed, timed-out`,
		`end=="Done"`:           `column 6: end is never "Done" (did you mean done?); it is one of: done, failed, timed-out`,
		`end~timeout`:           `column 5: end never contains "timeout" (did you mean timed-out?); it is one of: done, failed, timed-out`,
		`failed==false`:         `column 9: failed is never "false"; it is one of: true`,
	} {
		_, err := Parse(expr, fields)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%s:\n got %v\nwant %s", expr, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, expr := range []string{
		`kind==tools/call and size>1000`, `id=="1" and id!=1`, `payload.params.name ~ "a \"b\" \u00e9"`,
		`offset<=9007199254740993`, `id==`, `=`, `id=="`, "id==\xff", `size>-1.5e300`,
	} {
		f.Add(expr, call["payload"])
	}
	f.Fuzz(func(t *testing.T, expr, token string) {
		w, err := Parse(expr, fieldNames)
		if err != nil {
			checkSyntaxError(t, expr, err)
			return
		}
		again, err := Parse(w.String(), fieldNames)
		if err != nil {
			t.Fatalf("%q, from %q: %v", w, expr, err)
		}
		if !reflect.DeepEqual(w, again) {
			t.Errorf("%q is not %q", w, expr)
		}
		r := record{"payload": token, "id": token, "size": token}
		if w.Match(r) != again.Match(r) {
			t.Errorf("%q and %q decide otherwise", w, expr)
		}
	})
}

func checkSyntaxError(t *testing.T, expr string, err error) {
	t.Helper()
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatalf("%q: %T", expr, err)
	}
	if syntax.Column < 1 || syntax.Column > utf8.RuneCountInString(expr)+1 {
		t.Errorf("%q: column %d", expr, syntax.Column)
	}
	if !utf8.ValidString(err.Error()) {
		t.Errorf("%q: %q", expr, err)
	}
}
