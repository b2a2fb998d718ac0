package track

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/session"
)

// schemas are those of the tools that models are offered. A client sends the same ones with
// every request.
type schemas struct {
	seed maphash.Seed
	of   map[uint64]*schema
	size int
	last offered // of a request
}

// A schema says what the arguments of a tool are.
type schema struct {
	text     []byte // nil once it is compiled
	size     int
	compiled *jsonschema.Resolved // nil if it cannot be
}

// offered are the schemas of the tools of a request, by name.
type offered map[string]*schema

const (
	maxSchemas = 4 << 20  // bytes of all
	maxSchema  = 64 << 10 // bytes of one
	maxOffered = 256      // of a request
	// maxEffort bounds the bytes of arguments times those of their schema.
	maxEffort = 16 << 20
)

// offer adds the schema of a tool to those of a request.
func (s *schemas) offer(to offered, tool []byte) {
	text := schemaOf(tool)
	if text == nil || len(text) > maxSchema || len(to) == maxOffered {
		return
	}
	if s.of == nil || s.size > maxSchemas {
		s.seed, s.of, s.size = maphash.MakeSeed(), map[uint64]*schema{}, 0
	}
	at := maphash.Bytes(s.seed, text)
	known := s.of[at]
	if known == nil {
		known = &schema{text: bytes.Clone(text), size: len(text)}
		s.of[at] = known
		s.size += len(text)
	}
	to[session.ToolName(tool)] = known
}

// share returns the tools of a request, or the same ones of the request before.
func (s *schemas) share(o offered) offered {
	if !maps.Equal(o, s.last) {
		s.last = o
	}
	return s.last
}

// schemaOf returns the JSON schema of a tool, as it is written; nil if it has none. Gemini's
// parameters are no JSON schema, but its parametersJsonSchema are.
func schemaOf(tool []byte) []byte {
	for _, path := range [][]string{{"input_schema"}, {"function", "parameters"}, {"parametersJsonSchema"}, {"parameters"}} {
		raw, ok := jsonscan.Get(tool, path...)
		if ok && jsonscan.KindOf(raw) == jsonscan.Object {
			return raw
		}
	}
	return nil
}

// fits says why arguments are not those of a tool. It says nothing of a tool that was not
// offered, or whose schema does not compile.
func (o offered) fits(name string, arguments []byte) error {
	s := o[name]
	if s == nil || len(arguments)*s.size > maxEffort {
		return nil
	}
	if s.text != nil {
		s.compiled, s.text = compile(s.text), nil
	}
	var value any
	if s.compiled == nil || json.Unmarshal(arguments, &value) != nil {
		return nil //nolint:nilerr // arguments that are not JSON break another rule
	}
	return s.compiled.Validate(value)
}

// compile returns nil for a schema by which nothing is judged.
func compile(text []byte) *jsonschema.Resolved {
	var value any
	var s jsonschema.Schema
	if json.Unmarshal(text, &value) != nil || !judges(value) || json.Unmarshal(text, &s) != nil {
		return nil
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// judges reports whether a schema is plain JSON Schema without references: with those a few
// bytes can take for ever. Other dialects have types in capitals, or values that are nullable.
func judges(schema any) bool {
	switch schema := schema.(type) {
	case []any:
		return !slices.ContainsFunc(schema, func(v any) bool { return !judges(v) })
	case map[string]any:
		for key, value := range schema {
			kind, isText := value.(string)
			switch key = strings.ToLower(key); {
			case key == "nullable", strings.HasPrefix(key, "$") && strings.HasSuffix(key, "ref"):
				return false
			case key == "type" && isText && !slices.Contains(types, kind), !judges(value):
				return false
			}
		}
	}
	return true
}
