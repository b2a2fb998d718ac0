package query

import (
	"testing"
)

// fieldNames are the fields of the record below, in order.
var fieldNames = Fields{Names: []string{"seq", "kind", "id", "ref", "offset", "size", "payload"}}

// record is a record for tests: field names to tokens.
type record map[string]string

func (r record) Field(name string) ([]byte, bool) {
	token, ok := r[name]
	return []byte(token), ok
}

// call is a request in a JSON-RPC protocol.
var call = record{
	"seq":     `17`,
	"kind":    `tools/call`,
	"id":      `"1"`,
	"offset":  `9007199254740993`,
	"size":    `1200`,
	"payload": `{"id":"1","params":{"name":"caf\u00e9 noir","n":1.50,"deep":{"ok":true},"none":null},"most":"18446744073709551615","least":-9223372036854775808,"huge":1e400}`,
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		expr string
		want bool
		why  string
	}{
		{`kind==tools/call`, true, "plain text equals itself"},
		{`kind == tools/call`, true, "white space around the operator is free"},
		{`kind=="tools/call"`, true, "quoted, too"},
		{`kind==tools`, false, "equal is not contains"},
		{`kind==Tools/call`, false, "case counts"},

		{`id==1`, true, "a word equals what a string holds"},
		{`id=="1"`, true, "so does a quoted value"},
		{`seq==17`, true, "a word equals a number as it is written"},
		{`seq=="17"`, false, "a quoted value is text, which a number is not"},
		{`seq!="17"`, true, "and not equal is the opposite of equal"},
		{`seq==17.0`, false, "numbers are equal only as written"},

		{`ref==1`, false, "an absent field equals nothing"},
		{`ref!=1`, true, "and so differs from everything"},
		{`ref~1`, false, "it contains nothing"},
		{`ref>0`, false, "and is not a number"},

		{`kind~/ca`, true, "contains"},
		{`kind~resources`, false, "contains not"},
		{`payload~"params\":{"`, true, "JSON is searched as it is written"},
		{`payload~café`, false, "also where that is an escape"},

		{`payload.params.name~café`, true, "the text of a string has no escapes"},
		{`payload.params.name=="café noir"`, true, "quotes allow spaces"},
		{`payload.params.n==1.50`, true, "a number within the payload, as written"},
		{`payload.params.n==1.5`, false, "not as its value"},
		{`payload.params.n>=1.5`, true, "that is what comparing is for"},
		{`payload.params.deep.ok==true`, true, "a literal is a word"},
		{`payload.params.deep.ok=="true"`, false, "and no text"},
		{`payload.params.none==null`, true, "null is a value"},
		{`payload.params.gone!=null`, true, "absent is not null"},
		{`payload.params.name.first==x`, false, "a string has no members"},
		{`kind.x==y`, false, "plain text has no members"},

		{`size>1000`, true, "numbers compare by value, not by letters"},
		{`size<1000`, false, "less"},
		{`size>=1200 and size<=1200`, true, "bounds are included"},
		{`size>1200`, false, "or not"},
		{`size>1.2e3`, false, "in any notation"},
		{`id>0`, true, "a string that holds a number counts"},
		{`kind>0`, false, "another does not"},
		{`offset>9007199254740992`, true, "integers are exact beyond 2^53"},

		{`payload.most>18446744073709551614`, true, "also where they have no sign"},
		{`payload.most<18446744073709551614`, false, "neither way"},
		{`payload.least<-9223372036854775807`, true, "and where they have one"},
		{`payload.least>-9223372036854775807`, false, "neither way"},
		{`payload.least<1`, true, "a sign makes less"},
		{`payload.huge>5`, true, "what no double holds is a number still"},
		{`size<1e400`, true, "on either side"},

		{`kind==tools/call and size>1000`, true, "both terms hold"},
		{`kind==tools/call and size>9000`, false, "one does not"},
	} {
		w, err := Parse(c.expr, fieldNames)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		if got := w.Match(call); got != c.want {
			t.Errorf("%s is %v, want %v: %s", c.expr, got, c.want, c.why)
		}
	}
}

func TestNilMatchesAll(t *testing.T) {
	var all *Where
	if !all.Match(call) || all.String() != "" {
		t.Error("the nil condition turned a record away")
	}
}

// Ids are tokens: one expression for each of 1 and "1", and one for both.
func TestIDsAreTokens(t *testing.T) {
	number, text := record{"id": `1`}, record{"id": `"1"`}
	for _, c := range []struct {
		expr                   string
		matchNumber, matchText bool
	}{
		{`id==1`, true, true},
		{`id=="1"`, false, true},
		{`id==1 and id!="1"`, true, false},
	} {
		w, err := Parse(c.expr, fieldNames)
		if err != nil {
			t.Fatal(err)
		}
		if w.Match(number) != c.matchNumber || w.Match(text) != c.matchText {
			t.Errorf(`%s: 1 %v, "1" %v`, c.expr, w.Match(number), w.Match(text))
		}
	}
}

// fixed is a record that is free to read, to measure Match alone.
type fixed struct{ kind, size, payload []byte }

func (f *fixed) Field(name string) ([]byte, bool) {
	switch name {
	case "kind":
		return f.kind, true
	case "size":
		return f.size, true
	case "payload":
		return f.payload, true
	}
	return nil, false
}

var cheap = &fixed{kind: []byte(`"tools/call"`), size: []byte(`1200`), payload: []byte(call["payload"])}

func TestMatchAllocatesNothing(t *testing.T) {
	w, err := Parse(`kind==tools/call and size>1000 and kind~call and payload.params.n>1 and ref!=1`, fieldNames)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Match(cheap) {
		t.Fatal("the record does not match, so that little is measured")
	}
	if n := testing.AllocsPerRun(100, func() { w.Match(cheap) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, expr := range []string{`kind==tools/call`, `size>1000`, `payload.params.deep.ok==true`} {
		w, err := Parse(expr, fieldNames)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Match(cheap)
			}
		})
	}
}
