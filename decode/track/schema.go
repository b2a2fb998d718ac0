package track

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/llm"
)

// schemas caches the schemas of the tools offered to models. A client sends the same ones with
// every request.
type schemas struct {
	seed maphash.Seed
	of   map[uint64]*schema
	size int
	last offered // of the last request
}

// A schema describes the arguments of a tool.
type schema struct {
	text     []byte // nil once compiled
	size     int
	compiled *jsonschema.Resolved // nil if the schema cannot be compiled
	root     any                  // the parsed text
	efforts  map[int]int          // its bytes with references expanded, by the depth of arguments
}

// offered holds the schemas of the tools of a request, by name.
type offered map[string]*schema

const (
	maxSchemas = 4 << 20  // bytes of all
	maxSchema  = 64 << 10 // bytes of one
	maxOffered = 256      // of a request
	// maxToolName bounds the name of a tool, in bytes.
	maxToolName = 256
	// maxEffort bounds the bytes of arguments times those of their schema.
	maxEffort = 16 << 20
	maxDepth  = 256 // of a schema
	maxLevels = 64  // of arguments
)

// offer adds the schema of a tool to the tools of a request.
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
	to[render.Clip(llm.ToolName(tool), maxToolName)] = known
}

// share returns the tools of a request, reusing those of the previous request if they are
// equal.
func (s *schemas) share(o offered) offered {
	if !maps.Equal(o, s.last) {
		s.last = o
	}
	return s.last
}

// schemaOf returns the JSON schema of a tool as written; nil if it has none. Gemini's
// parameters are not a JSON schema, but its parametersJsonSchema is.
func schemaOf(tool []byte) []byte {
	for _, path := range [][]string{{"input_schema"}, {"function", "parameters"}, {"parametersJsonSchema"}, {"parameters"}} {
		raw, ok := jsonscan.Get(tool, path...)
		if ok && jsonscan.KindOf(raw) == jsonscan.Object {
			return raw
		}
	}
	return nil
}

// fits returns an error if arguments do not match the schema of the tool. It returns nil for a
// tool that was not offered, or whose schema does not compile.
func (o offered) fits(name string, arguments []byte) error {
	s := o[name]
	if s == nil {
		return nil
	}
	if s.text != nil {
		s.compile()
	}
	var value any
	if s.compiled == nil || json.Unmarshal(arguments, &value) != nil {
		return nil //nolint:nilerr // arguments that are not JSON break another rule
	}
	if effort := s.effort(value); effort < 0 || len(arguments)*effort > maxEffort {
		return nil
	}
	return s.compiled.Validate(value)
}

// compile compiles a schema, unless judges rejects it.
func (s *schema) compile() {
	var root any
	var plain jsonschema.Schema
	text := s.text
	if s.text = nil; json.Unmarshal(text, &root) != nil || !judges(root, maxDepth) || json.Unmarshal(text, &plain) != nil {
		return
	}
	compiled, err := plain.Resolve(nil)
	if err != nil {
		return
	}
	s.compiled, s.root, s.efforts = compiled, root, map[int]int{}
}

// effort returns the size of the schema in bytes after its references are expanded as deep as a
// value is nested. It returns −1 if a reference is circular on one level, leads nowhere in the
// schema, or expands to too much: a few bytes of schema could take forever to check.
func (s *schema) effort(value any) int {
	depth := nesting(value, maxLevels+1)
	if depth > maxLevels {
		return -1
	}
	effort, known := s.efforts[depth]
	if !known {
		w := writer{root: s.root, expanded: map[reference]int{}, budget: maxEffort}
		if effort = w.writtenOut(s.root, depth); effort >= 0 {
			effort += s.size
		}
		s.efforts[depth] = effort
	}
	return effort
}

// nesting returns how deep a value is nested, at most the given maximum.
func nesting(value any, most int) (depth int) {
	if most == 0 {
		return 0
	}
	switch value := value.(type) {
	case []any:
		depth = 1
		for _, v := range value {
			depth = max(depth, 1+nesting(v, most-1))
		}
	case map[string]any:
		depth = 1
		for _, v := range value {
			depth = max(depth, 1+nesting(v, most-1))
		}
	}
	return depth
}

// A writer counts the bytes that the references of a schema expand to.
type writer struct {
	root     any
	expanded map[reference]int // −1 while being expanded
	budget   int               // bounds the counting itself
}

// A reference is a reference to a place in the schema, expanded for values nested to depth.
type reference struct {
	to    string
	depth int
}

// below are the keywords whose schemas apply to values inside a value. named are the keywords
// whose members have arbitrary names.
var (
	below = map[string]bool{
		"properties": true, "patternProperties": true, "additionalProperties": true, "unevaluatedProperties": true, "propertyNames": true,
		"items": true, "prefixItems": true, "additionalItems": true, "unevaluatedItems": true, "contains": true,
	}
	named = map[string]bool{"properties": true, "patternProperties": true, "dependentSchemas": true, "dependencies": true}
)

// writtenOut returns how many bytes the references of a schema expand to for values nested to
// depth, or −1 on failure.
func (w *writer) writtenOut(schema any, depth int) (more int) {
	if w.budget--; w.budget < 0 {
		return -1
	}
	add := func(n int) bool {
		if more += n; n < 0 || more > maxEffort {
			more = -1
		}
		return more >= 0
	}
	switch schema := schema.(type) {
	case []any:
		for _, v := range schema {
			if !add(w.writtenOut(v, depth)) {
				return -1
			}
		}
	case map[string]any:
		for key, v := range schema {
			if !add(w.keyword(key, v, depth)) {
				return -1
			}
		}
	}
	return more
}

// keyword is writtenOut for a member of a schema.
func (w *writer) keyword(key string, v any, depth int) int {
	switch {
	case key == "$ref":
		to, _ := v.(string)
		return w.target(to, depth)
	case key == "$defs" || key == "definitions" || below[key] && depth == 0: // expanded only where they are used
		return 0
	case below[key]:
		depth--
	}
	members, ok := v.(map[string]any)
	if !ok || !named[key] {
		return w.writtenOut(v, depth)
	}
	more := 0
	for _, member := range members {
		n := w.writtenOut(member, depth)
		if more += n; n < 0 || more > maxEffort {
			return -1
		}
	}
	return more
}

// target returns how many bytes a reference expands to, or −1 like writtenOut.
func (w *writer) target(to string, depth int) int {
	at := reference{to, depth}
	if n, ok := w.expanded[at]; ok {
		return n
	}
	w.expanded[at] = -1
	path, isLocal := strings.CutPrefix(to, "#")
	place := w.root
	if !isLocal || strings.ContainsAny(path, "~%") || path != "" && path[0] != '/' {
		return -1
	}
	for _, key := range strings.Split(path, "/")[1:] {
		object, _ := place.(map[string]any)
		if place = object[key]; place == nil {
			return -1
		}
	}
	text, err := json.Marshal(place)
	w.budget -= len(text)
	if more := w.writtenOut(place, depth); err == nil && more >= 0 {
		w.expanded[at] = len(text) + more
	}
	return w.expanded[at]
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// judges reports whether a schema is plain JSON Schema whose references point to its own
// definitions. Other dialects have types in capitals or nullable values.
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
