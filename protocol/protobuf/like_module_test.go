package protobuf

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// values are JSON texts that some kind of field accepts, and many that none does.
var values = strings.Split(strings.TrimSpace(`
null
true
"true"
0
-0
1
-1
1.0
1.5
10e-1
1e1
1E+2
12.50e1
0.1e1
100e-3
0e99999999999
1e99999999999
2147483647
2147483648
-2147483648
4294967295
4294967296
9223372036854775807
9223372036854775808
-9223372036854775808
18446744073709551615
18446744073709551616
18446744073709551615.0
1e19
1e20
1e400
3.5e38
"1"
"-1"
"+1"
"007"
" 1"
"1 "
"1e2"
"1.5"
"0x10"
""
"-"
"NaN"
"Infinity"
"-Infinity"
"\u004eaN"
"text"
"RED"
"COLOR_RED"
"NULL_VALUE"
"AQI="
"AQI"
"-_8"
"+/8="
"A"
"\u0041QI="
[]
[null]
[1]
["1",2]
[[1]]
[{}]
{}
{"":1}
{"a":1}
{"a":null}
{"true":1}
{"1":1}
{"+1":1}
{"01":1}
{"1":1,"01":1}
{"a":"b","a":"c"}
{"a":{"b":[1,"x",null,true,{"c":{}}]}}
"2026-01-31T12:00:00Z"
"2026-01-31T12:00:00.5Z"
"2026-01-31T12:00:00.123456789+02:00"
"2026-01-31T12:00:00.1234567891Z"
"2026-01-31T12:00:00,5Z"
"2026-01-31t12:00:00z"
"2026-02-30T12:00:00Z"
"0000-12-31T23:59:59Z"
"0001-01-01T00:00:00Z"
"0001-01-01T00:00:00+01:00"
"9999-12-31T23:59:59.999999999Z"
"1s"
"-1s"
"+1.5s"
".5s"
"1.s"
".s"
"s"
"-s"
"01s"
"0.000000001s"
"1.0000000001s"
"1 s"
"315576000000s"
"-315576000001s"
"99999999999999999999s"
"a.b,cD"
" a,b "
"a_b"
"a,,b"
"1a"
{"@type":"type.googleapis.com/torture.Special"}
{"@type":"type.googleapis.com/torture.Special","plain":"a","boxed":"5"}
{"plain":"a","@type":"type.googleapis.com/torture.Special"}
{"@type":"type.googleapis.com/torture.Special","other":"a"}
{"@type":"type.googleapis.com/torture.Special","any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}
{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":"2026-01-31T12:00:00Z"}
{"@type":"type.googleapis.com/google.protobuf.Timestamp"}
{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":"1s"}
{"@type":"type.googleapis.com/google.protobuf.Timestamp","seconds":1}
{"@type":"type.googleapis.com/google.protobuf.Any","value":{}}
{"@type":"type.googleapis.com/google.protobuf.Value","value":null}
{"@type":"type.googleapis.com/google.protobuf.Value","value":[1,{"a":"b"}]}
{"@type":"type.googleapis.com/google.protobuf.Value","value":1,"value":2}
{"@type":"type.googleapis.com/google.protobuf.Empty"}
{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}
{"@type":"nobody.knows/acme.Event"}
{"@type":"nobody.knows/acme.Event","a":1}
{"@type":"nobody.knows/acme.Event","@type":"nobody.knows/acme.Event"}
{"@type":""}
{"@type":1}
`), "\n")

// TestLikeTheModule sets every field of every message type to every value, and converts the
// resulting messages back to JSON.
func TestLikeTheModule(t *testing.T) {
	for _, md := range types() {
		s := compiled(md)
		t.Run(string(md.FullName()), func(t *testing.T) {
			for i := range md.Fields().Len() {
				for _, value := range values {
					for _, form := range forms(md.Fields().Get(i)) {
						text := []byte(fmt.Sprintf(form, value))
						checkJSON(t, s, text)
						if wire, err := s.AppendWire(nil, text); err == nil {
							checkWire(t, md, wire)
						}
					}
				}
			}
		})
	}
}

// forms are the JSON forms that a value of a field can have.
func forms(fd protoreflect.FieldDescriptor) []string {
	plain := fmt.Sprintf(`{%q:%%s}`, fd.JSONName())
	switch {
	case fd.IsList():
		return []string{plain, fmt.Sprintf(`{%q:[%%s]}`, fd.JSONName())}
	case fd.IsMap():
		return []string{plain, fmt.Sprintf(`{%q:{"1":%%s,"true":%[2]s}}`, fd.JSONName(), "%[1]s")}
	}
	return []string{plain}
}

// A message may be nested deeper than a scanner enters, but not deeper than the module reads.
func TestDeepJSON(t *testing.T) {
	s := schemaOf(t, "torture.Special")
	for _, depth := range []int{1, 16, 17, 40, 1000, 4000} {
		text := `{"special":[{"value":` + strings.Repeat(`[`, depth) + `"a"` + strings.Repeat(`]`, depth) + `}]}`
		checkJSON(t, s, []byte(text))
		text = strings.Repeat(`{"special":[`, depth) + strings.Repeat(`]}`, depth)
		checkJSON(t, s, []byte(text))
	}
	if _, err := s.AppendWire(nil, []byte(strings.Repeat(`{"special":[`, 9999)+strings.Repeat(`]}`, 9999))); err == nil {
		t.Error("no fault in what is nested too deep")
	}
}

// Nesting too deep for readers of JSON is an error: a record
// with it could not be read back.
func TestNestedDeeperThanJSON(t *testing.T) {
	const anyField, plain, repeated = 5, 8, 11 // of torture.Special
	s := schemaOf(t, "torture.Special")
	twice := bytes.Repeat(protowire.AppendString(bytesTag(plain), "a"), 2)
	const levels = jsonscan.MaxDepth / 2 // each is an array and an object
	for name, around := range map[string][]byte{"once": nil, "after fields that are displaced": twice} {
		around = append(around, bytesTag(repeated)...)
		if json, _, err := s.AppendJSON(nil, nested(levels-1, around)); err != nil || jsonscan.Valid(json) != nil {
			t.Errorf("%s: at the limit: error %v, %v", name, err, jsonscan.Valid(json))
		}
		if _, _, err := s.AppendJSON(nil, nested(levels, around)); err == nil || !isTooDeep(err) {
			t.Errorf("%s: error %.500v", name, err)
		}
	}
	held := slices.Concat(protowire.AppendString(bytesTag(1), "t/google.protobuf.Any"), bytesTag(2))
	for levels, deep := range map[int]bool{maxAnys: false, maxAnys + 1: true, 5000: true} {
		wire := slices.Concat(bytesTag(anyField), protowire.AppendBytes(nil, nested(levels, held)))
		if _, _, err := s.AppendJSON(nil, wire); deep != (err != nil && isTooDeep(err)) {
			t.Errorf("an Any in %d others: error %.500v", levels, err)
		}
	}
}

// isTooDeep reports whether err is a short error about the nesting that names its place.
func isTooDeep(err error) bool {
	return strings.HasSuffix(err.Error(), tooDeep) && len(err.Error()) < 2*maxPath
}

func bytesTag(num protowire.Number) []byte {
	return protowire.AppendTag(nil, num, protowire.BytesType)
}

// nested returns an empty message inside levels other messages. tag is the tag of the inner
// message, with any fields before it.
func nested(levels int, tag []byte) (wire []byte) {
	for range levels {
		wire = slices.Concat(tag, protowire.AppendBytes(nil, wire))
	}
	return wire
}
