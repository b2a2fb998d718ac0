package contract

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/session/jsondiff"
)

// changes compares two lists of items, given as JSON.
func changes(t *testing.T, l *List, a, b string, ignore ...jsondiff.Path) string {
	t.Helper()
	var items [2][]Item
	for i, text := range []string{a, b} {
		list, _, ok := l.Items(fmt.Appendf(nil, `{"result":{%q:[%s]}}`, l.Key, text))
		if !ok {
			t.Fatalf("%s is not a list", text)
		}
		items[i] = list
	}
	var lines []string
	for _, c := range l.Compare(items[0], items[1], ignore) {
		lines = append(lines, string(c.Class)+": "+c.Text)
	}
	return strings.Join(lines, "\n")
}

// tool returns a tool whose input and output have the same schema, so that each change shows
// its effect on both.
func tool(schema string) string {
	return `{"name":"t","inputSchema":` + schema + `,"outputSchema":` + schema + `}`
}

func TestSchemaChanges(t *testing.T) {
	n := func(schema string) string { return tool(`{"type":"object","properties":{"n":` + schema + `}}`) }
	need := func(required string) string {
		return tool(`{"properties":{"n":{"type":"number"}},"required":[` + required + `]}`)
	}
	for _, tt := range []struct{ about, a, b, want string }{
		{"required", need(``), need(`"n"`), `
			breaking: tool t: argument "n" is now required
			compatible: tool t: result member "n" is now required`},
		{"no longer required", need(`"n"`), need(``), `
			compatible: tool t: argument "n" is no longer required
			breaking: tool t: result member "n" is no longer required`},
		{"removed", need(``), tool(`{}`), `
			breaking: tool t: argument "n" was removed
			compatible: tool t: result member "n" was removed, and was optional`},
		{"removed, required", need(`"n"`), tool(`{}`), `
			breaking: tool t: argument "n" was removed
			breaking: tool t: result member "n" was removed`},
		{"added", tool(`{}`), need(``), `
			compatible: tool t: argument "n" was added, and is optional
			compatible: tool t: result member "n" was added`},
		{"added, required", tool(`{}`), need(`"n"`), `
			breaking: tool t: argument "n" was added, and is required
			compatible: tool t: result member "n" was added`},
		{
			"added where nothing else was allowed", tool(`{"additionalProperties":false}`),
			tool(`{"additionalProperties":false,"properties":{"n":{}}}`), `
			compatible: tool t: argument "n" was added, and is optional
			breaking: tool t: result member "n" was added, which the schema did not allow`,
		},
		{"type narrowed", n(`{"type":"number"}`), n(`{"type":"integer"}`), `
			breaking: tool t: argument "n" was of type number, and is of type integer
			compatible: tool t: result member "n" was of type number, and is of type integer`},
		{"type widened", n(`{"type":"string"}`), n(`{"type":["string","null"]}`), `
			compatible: tool t: argument "n" was of type string, and is of type string or null
			breaking: tool t: result member "n" was of type string, and is of type string or null`},
		{"type widened by anyOf", n(`{"type":"string"}`), n(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), `
			compatible: tool t: argument "n" was of type string, and is of type string or null
			breaking: tool t: result member "n" was of type string, and is of type string or null`},
		{"another type", n(`{"type":"string"}`), n(`{"type":"integer"}`), `
			breaking: tool t: argument "n" was of type string, and is of type integer
			breaking: tool t: result member "n" was of type string, and is of type integer`},
		{"enum", n(`{"enum":["a","b"]}`), n(`{"enum":["c","a"]}`), `
			breaking: tool t: argument "n": enum value "b" was removed
			compatible: tool t: argument "n": enum value "c" was added
			compatible: tool t: result member "n": enum value "b" was removed
			breaking: tool t: result member "n": enum value "c" was added`},
		{"enum instead of any", n(`{}`), n(`{"const":1}`), `
			breaking: tool t: argument "n" is now one of [1]
			compatible: tool t: result member "n" is now one of [1]`},
		{"bounds", n(`{"minimum":1,"maxLength":9}`), n(`{"minimum":1.0,"maxLength":10,"minItems":1}`), `
			compatible: tool t: argument "n": maxLength was 9, and is 10
			breaking: tool t: argument "n": minItems was none, and is 1
			breaking: tool t: result member "n": maxLength was 9, and is 10
			compatible: tool t: result member "n": minItems was none, and is 1`},
		{"pattern", n(`{"pattern":"a"}`), n(`{"pattern":"b"}`), `
			breaking: tool t: argument "n": pattern: "a" → "b"
			breaking: tool t: result member "n": pattern: "a" → "b"`},
		{"notes", n(`{"description":"a","default":1}`), n(`{"description":"b"}`), `
			compatible: tool t: argument "n": default was removed
			compatible: tool t: argument "n": description: "a" → "b"
			compatible: tool t: result member "n": default was removed
			compatible: tool t: result member "n": description: "a" → "b"`},
		{"no other members", tool(`{}`), tool(`{"additionalProperties":false}`), `
			breaking: tool t: the object of arguments may have no other members now
			compatible: tool t: the result may have no other members now`},
		{"what cannot be judged", n(`{"not":{"type":"null"}}`), n(`{"not":{"type":"string"}}`), `
			breaking: tool t: argument "n": not: {"type":"null"} → {"type":"string"}
			breaking: tool t: result member "n": not: {"type":"null"} → {"type":"string"}`},
		{
			"nested",
			n(`{"items":{"properties":{"x":{"type":"string"}}}}`), n(`{"items":{"properties":{"x":{"type":"string"}},"required":["x"]}}`), `
			breaking: tool t: argument "n[].x" is now required
			compatible: tool t: result member "n[].x" is now required`,
		},
		{
			"by reference",
			tool(`{"$ref":"#/$defs/T","$defs":{"T":{"properties":{"next":{"$ref":"#/$defs/T"},"n":{"type":"string"}}}}}`),
			tool(`{"$ref":"#/$defs/T","$defs":{"T":{"properties":{"next":{"$ref":"#/$defs/T"},"n":{"type":"number"}}}}}`), `
			breaking: tool t: argument "n" was of type string, and is of type number
			breaking: tool t: result member "n" was of type string, and is of type number`,
		},
		{
			"by a reference inside anyOf",
			tool(`{"properties":{"n":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"string"},{"type":"null"}]}},"$defs":{"T":{"type":"number"}}}`),
			tool(`{"properties":{"n":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"string"},{"type":"null"}]}},"$defs":{"T":{"type":"integer"}}}`), `
			breaking: tool t: argument "n" was of type number, and is of type integer
			compatible: tool t: result member "n" was of type number, and is of type integer`,
		},
		{"the same otherwise", tool(`{"properties":{"n":{"$ref":"#/$defs/T"}},"$defs":{"T":{"type":["string"]}}}`), n(`{"type":"string"}`), `
			breaking: tool t: the object of arguments was of type any, and is of type object
			compatible: tool t: the result was of type any, and is of type object`},
		{"true", n(`true`), n(`{}`), ``},
		{"false", n(`true`), n(`false`), `
			breaking: tool t: argument "n": not was added
			breaking: tool t: result member "n": not was added`},
	} {
		want := strings.ReplaceAll(strings.TrimSpace(tt.want), "\t", "")
		if got := changes(t, Tools, tt.a, tt.b); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.about, got, want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	for _, tt := range []struct{ method, a, b, want string }{
		{"tools/list", `{"name":"a"},{"name":"b"}`, `{"name":"b"},{"name":"a"}`, ``},
		{"tools/list", `{"name":"a"},{"name":"b c"}`, `{"name":"new"},{"name":"a"}`, `
			breaking: tool removed: "b c"
			compatible: tool added: new`},
		{
			"tools/list", `{"name":"a","description":"x","annotations":{"readOnlyHint":true}}`,
			`{"name":"a","annotations":{"readOnlyHint":false}}`, `
			compatible: tool a: description was removed
			compatible: tool a: annotations.readOnlyHint: true → false`,
		},
		{"tools/list", `{"name":"a"}`, `{"name":"a","outputSchema":{}}`, `compatible: tool a: the schema of the result was added`},
		{"tools/list", `{"name":"a","outputSchema":{}}`, `{"name":"a"}`, `breaking: tool a: the schema of the result was removed`},
		{
			"prompts/list", `{"name":"p","arguments":[{"name":"x"},{"name":"y","description":"d"}]}`,
			`{"name":"p","arguments":[{"name":"y","description":"e","required":true}]}`, `
			breaking: prompt p: argument "x" was removed
			breaking: prompt p: argument "y" is now required
			compatible: prompt p: argument "y": description: "d" → "e"`,
		},
		{
			"resources/list", `{"uri":"demo://1","name":"x","mimeType":"text/plain"}`, `{"uri":"demo://1","name":"y","mimeType":"text/html"}`, `
			compatible: resource demo://1: name: "x" → "y"
			breaking: resource demo://1: mimeType: "text/plain" → "text/html"`,
		},
		{"resources/templates/list", `{"name":"r","uriTemplate":"a:{x}"}`, `{"name":"r","uriTemplate":"b:{x}"}`, `
			breaking: resource template r: uriTemplate: "a:{x}" → "b:{x}"`},
	} {
		want := strings.ReplaceAll(strings.TrimSpace(tt.want), "\t", "")
		if got := changes(t, ListOf(tt.method), tt.a, tt.b); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.method, got, want)
		}
	}
}

func TestIgnoredMembersOfDefinitions(t *testing.T) {
	a := `{"name":"a","description":"x","inputSchema":{"properties":{"n":{"description":"x"}}}}`
	b := `{"name":"a","description":"y","inputSchema":{"properties":{"n":{"description":"y"}}}},{"name":"b"}`
	for path, want := range map[string]string{
		"result.tools":                "",
		"result.tools.a":              "compatible: tool added: b",
		"result.tools.*.description":  "compatible: tool a: argument \"n\": description: \"x\" → \"y\"\ncompatible: tool added: b",
		"result.tools.a.inputSchema":  "compatible: tool a: description: \"x\" → \"y\"\ncompatible: tool added: b",
		"result.tools.b.inputSchema":  changes(t, Tools, a, b),
		"result.tools.*.*.properties": "compatible: tool a: description: \"x\" → \"y\"\ncompatible: tool added: b",
	} {
		p, err := jsondiff.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := changes(t, Tools, a, b, p); got != want {
			t.Errorf("without %s:\n%s\nwant\n%s", path, got, want)
		}
	}
}

// A schema can refer to itself in two ways, and to others in cycles of different length. Its
// expansion is infinite, but the comparison ends.
func TestEndlessSchemas(t *testing.T) {
	a := tool(`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"x":{"properties":{"x":{"$ref":"#/$defs/A"},"y":{"$ref":"#/$defs/A"}}},"y":{"$ref":"#/$defs/A"}}}}}`)
	b := tool(`{"properties":{"x":{"$ref":"#/$defs/B"},"y":{"$ref":"#/$defs/B"}},"$defs":{"B":{"properties":{"x":{"properties":{"x":{"properties":{"x":{"$ref":"#/$defs/B"}}},"y":{"$ref":"#/$defs/B"}}},"y":{"type":"string"}}}}}`)
	if got := changes(t, Tools, a, b); got == "" {
		t.Error("they differ")
	}
	deep := strings.Repeat(`{"properties":{"x":`, 200) + `{}` + strings.Repeat(`}}`, 200)
	if got := changes(t, Tools, tool(deep), tool(strings.Replace(deep, "{}", `{"type":"string"}`, 1))); !strings.Contains(got, "has changed deep inside") {
		t.Errorf("deep schemas differ: %q", got)
	}
	var values []string
	for n := range 50_000 {
		values = append(values, strconv.Itoa(n+2))
	}
	got := changes(t, Tools, tool(`{"enum":[`+strings.Join(values, ",")+`]}`), tool(`{"enum":[1]}`))
	if lines := strings.Split(got, "\n"); len(lines) != maxChanges+1 || !strings.HasSuffix(got, "tool t: more has changed than is shown") {
		t.Errorf("%d changes of an enum: %s", len(lines), lines[len(lines)-1])
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(`{"properties":{"n":{"type":"number"}},"required":["n"]}`, `{"$ref":"#/$defs/T","$defs":{"T":{"$ref":"#"}}}`)
	f.Add(`{"items":[{}],"additionalProperties":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}`, `{"enum":[1,null],"minimum":"x"}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		inA, inB := []Item{{"t", []byte(`{"inputSchema":` + a + `}`)}}, []Item{{"t", []byte(`{"inputSchema":` + b + `}`)}}
		if decoded(inA[0].JSON) == nil || decoded(inB[0].JSON) == nil {
			return
		}
		Tools.Compare(inA, inB, nil)
		if got := Tools.Compare(inA, inA, nil); len(got) > 0 {
			t.Errorf("%s differs from itself: %s", a, got[0].Text)
		}
	})
}

// The error for an invalid baseline uses JSON terms.
func TestNoBaseline(t *testing.T) {
	for text, want := range map[string]string{
		``:                                    "the file is empty: want an object",
		`{"baseline":1,`:                      "the file ends before the JSON does: want",
		`[]`:                                  "the file is of the type array, at byte 1: want",
		`{"baseline":1,"tools":[{"name":5}]}`: "tools.name is of the type number, at byte 32: want",
		`{"baseline":1,"toolz":[]}`:           `unknown field "toolz": want`,
		`{"baseline":2}`:                      "version 2 of the format, not 1: want",
	} {
		if _, err := ReadBaseline([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Titles are compared, but not with files that have none: earlier ones left them out.
func TestTitles(t *testing.T) {
	tools := []Item{{Name: "add", JSON: []byte(`{"name":"add","title":"Adds."}`)}, {Name: "sub", JSON: []byte(`{"name":"sub","title":"Subtracts."}`)}}
	for text, want := range map[string]int{
		`{"baseline":1,"tools":[{"name":"add"},{"name":"sub"}]}`:                                      0,
		`{"baseline":1,"tools":[{"name":"add","title":"Adds."},{"name":"sub"}]}`:                      1,
		`{"baseline":1,"tools":[{"name":"add","title":"Adds."},{"name":"sub","title":"Subtracts."}]}`: 0,
		`{"baseline":1,"server":"srv","tools":[{"name":"add"},{"name":"sub"}]}`:                       2,
	} {
		b, err := ReadBaseline([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Drift(tools); len(got) != want {
			t.Errorf("%s: %v, want %d changes", text, got, want)
		}
	}
}
