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
	effort   int                  // its bytes with its references written out
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
	maxDepth  = 256 // of a schema
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
	if s == nil {
		return nil
	}
	if s.text != nil {
		s.compiled, s.effort = compile(s.text)
		s.text = nil
	}
	if len(arguments)*s.effort > maxEffort {
		return nil
	}
	var value any
	if s.compiled == nil || json.Unmarshal(arguments, &value) != nil {
		return nil //nolint:nilerr // arguments that are not JSON break another rule
	}
	return s.compiled.Validate(value)
}

// compile returns a schema with how many bytes it has when its references are written out,
// or nil if nothing is judged by it.
func compile(text []byte) (*jsonschema.Resolved, int) {
	var value any
	var s jsonschema.Schema
	if json.Unmarshal(text, &value) != nil || !judges(value, maxDepth) || json.Unmarshal(text, &s) != nil {
		return nil, 0
	}
	root, _ := value.(map[string]any)
	more := writtenOut(value, root, map[string]int{})
	if more < 0 {
		return nil, 0
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, 0
	}
	return resolved, len(text) + more
}

// writtenOut returns how many bytes the references of a schema stand for, or −1 if they lead
// in a circle, to anywhere but a definition of the root, or to far too much: a few bytes
// could take for ever. Known has those of definitions, and −1 for those being looked at.
func writtenOut(schema any, root map[string]any, known map[string]int) (more int) {
	add := func(n int) bool {
		if more += n; n < 0 || more > maxEffort {
			more = -1
		}
		return more >= 0
	}
	switch schema := schema.(type) {
	case []any:
		for _, v := range schema {
			if !add(writtenOut(v, root, known)) {
				return -1
			}
		}
	case map[string]any:
		for key, v := range schema {
			if ref, isText := v.(string); isText && key == "$ref" && !add(definition(ref, root, known)) || !add(writtenOut(v, root, known)) {
				return -1
			}
		}
	}
	return more
}

// definition returns how many bytes a reference stands for, or −1 as writtenOut does.
func definition(ref string, root map[string]any, known map[string]int) int {
	if n, ok := known[ref]; ok {
		return n
	}
	group, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/"), "/")
	all, _ := root[group].(map[string]any)
	target, ok := all[name]
	if !strings.HasPrefix(ref, "#/") || group != "$defs" && group != "definitions" || !ok || strings.ContainsAny(name, "~%/") {
		return -1
	}
	known[ref] = -1
	text, err := json.Marshal(target)
	if more := writtenOut(target, root, known); err == nil && more >= 0 {
		known[ref] = len(text) + more
	}
	return known[ref]
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// judges reports whether a schema is plain JSON Schema, whose references are to its own
// definitions. Other dialects have types in capitals, or values that are nullable.
func judges(schema any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch schema := schema.(type) {
	case []any:
		return !slices.ContainsFunc(schema, func(v any) bool { return !judges(v, depth-1) })
	case map[string]any:
		for key, value := range schema {
			kind, isText := value.(string)
			written := key
			switch key = strings.ToLower(key); {
			case key == "nullable", key == "$id", strings.HasSuffix(key, "anchor"), strings.HasPrefix(key, "$") && strings.HasSuffix(key, "ref") && (written != "$ref" || !isText):
				return false
			case key == "type" && isText && !slices.Contains(types, kind), !judges(value, depth-1):
				return false
			}
		}
	}
	return true
}
