package track

import (
	"fmt"
	"strings"
	"testing"
)

// doubling returns a schema whose size doubles with each of n references that is expanded.
func doubling(n int) string {
	defs := []string{`"d0":{"required":["b"]}`}
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/d%d","$defs":{%s}}`, n, strings.Join(defs, ","))
}

// tree is a schema that refers to itself, and nestedArguments returns a value nested to a given
// depth.
const tree = `{"$defs":{"d":{"type":"object","properties":{"n":{"$ref":"#/$defs/d"}},"required":["b"]}},"$ref":"#/$defs/d"}`

func nestedArguments(n int) string {
	return strings.Repeat(`{"n":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

// Arguments are checked against the schema of their tool, unless the schema cannot be used for
// that. A hostile schema must not take long.
func TestFits(t *testing.T) {
	const object = `{"type":"object","required":["a"],"properties":{"a":{"type":"string","enum":["x"]}},"additionalProperties":false}`
	for _, test := range []struct {
		schema, arguments string
		fits              bool
	}{
		{object, `{"a":"x"}`, true},
		{object, `{"a":"y"}`, false},
		{object, `{"a":1}`, false},
		{object, `{}`, false},
		{object, `{"a":"x","b":1}`, false},
		{object, `[]`, false},
		{`{"$schema":"http://json-schema.org/draft-07/schema#",` + object[1:], `{}`, false},
		{`{}`, `{"a":1}`, true},
		{`{"type":"object","properties":{"a":{"type":"no such type"}}}`, `{"a":1}`, true},
		{`{"type":7}`, `{"a":1}`, true},
		{`{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}`, `{"a":"x"}`, true},
		{`{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`, `{"a":null}`, true},
		{`{"$ref":"#"}`, `{}`, true},
		{`{"$REF":"#"}`, `{}`, true},
		{`{"\u0024ref":"#"}`, `{}`, true},
		{`{"properties":{"a":{"$dynamicRef":"#"}},"required":["b"]}`, `{}`, true},
		{`{"properties":{"ref":{"type":"string"}}}`, `{"ref":1}`, false},
		{`{"$defs":{"d":` + object + `},"$ref":"#/$defs/d"}`, `{"a":"x"}`, true},
		{`{"$defs":{"d":` + object + `},"$ref":"#/$defs/d"}`, `{"a":"y"}`, false},
		{`{"definitions":{"d":` + object + `,"l":{"type":"array","items":{"$ref":"#/definitions/d"}}},"properties":{"l":{"$ref":"#/definitions/l"}}}`, `{"l":[{"a":"x"},{"a":"y"}]}`, false},
		{`{"$defs":{"d":{"properties":{"n":{"$ref":"#/$defs/d"}},"required":["b"]}},"$ref":"#/$defs/d"}`, `{}`, false}, // circular
		{tree, `{"n":{"n":{"b":1},"b":1},"b":1}`, true},
		{tree, `{"n":{"n":{},"b":1},"b":1}`, false},
		{`{"type":"object","properties":{"n":{"$ref":"#"},"b":{"type":"string"}}}`, `{"n":{"n":{"b":1}}}`, false},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`, `{"b":1}`, false},
		{`{"type":"object","properties":{"items":{"$ref":"#/properties/items/properties/x"}}}`, `{"items":1}`, true},
		{`{"allOf":[{"$ref":"#"}],"required":["b"]}`, `{}`, true},                                                               // circular on one level
		{`{"properties":{"n":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}},"required":["b"]}`, nestedArguments(40), true}, // 3⁴⁰ ways
		{`{"properties":{"n":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}},"required":["b"]}`, `{"n":{}}`, false},         // few
		{`{"properties":{"n":{"$ref":"#"}},"required":["b"]}`, nestedArguments(maxLevels + 1), true},                            // too deep
		{`{"properties":{"n":{"$ref":"#"}},"required":["b"]}`, nestedArguments(maxLevels), false},
		{`{"$defs":{"d":{"required":["b"]}},"$ref":"http://h/s#/$defs/d"}`, `{}`, true},
		{`{"$defs":{"d":{"required":["b"]}},"$ref":"#/$defs/e"}`, `{}`, true},
		{`{"$id":"http://h/s","$defs":{"d":{"required":["b"]}},"$ref":"#/$defs/d"}`, `{}`, true},
		{doubling(40), `{}`, true},
		{strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000), strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300), true},
		{`{"pattern":"` + strings.Repeat(`(a*)*`, 100) + `"}`, `"` + strings.Repeat("a", 10000) + `!"`, true},
	} {
		var s schemas
		tools := offered{}
		s.offer(tools, []byte(`{"name":"f","input_schema":`+test.schema+`}`))
		for range 2 { // first compiles, then uses the compiled one
			if err := tools.fits("f", []byte(test.arguments)); (err == nil) != test.fits {
				t.Errorf("%.80s %.40s: %v, want it to fit: %v", test.schema, test.arguments, err, test.fits)
			}
		}
		if err := tools.fits("g", []byte(test.arguments)); err != nil {
			t.Errorf("a tool that was not offered: %v", err)
		}
	}
}

// A schema is stored once for all requests, and the total size is bounded.
func TestSchemasAreShared(t *testing.T) {
	var s schemas
	first, second := offered{}, offered{}
	tool := func(i int) []byte {
		return []byte(`{"name":"f","input_schema":{"type":"object","description":"` + strings.Repeat("x", 60_000) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + `"}}`)
	}
	s.offer(first, tool(0))
	s.offer(second, tool(0))
	if first["f"] != second["f"] || len(s.of) != 1 {
		t.Errorf("%d schemas are kept of one", len(s.of))
	}
	for i := range 500 {
		if s.offer(offered{}, tool(i)); s.size > maxSchemas+maxSchema {
			t.Fatalf("%d bytes are kept", s.size)
		}
	}
}
