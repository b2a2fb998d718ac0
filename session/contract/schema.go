package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// An effect says how a change affects the values that a schema allows.
type effect uint8

const (
	same     effect = iota
	narrowed        // fewer are allowed
	widened         // more are allowed
	changed         // others are allowed, or the effect is unknown
)

// Limits of a comparison. A schema may refer to itself.
const (
	maxNodes = 20_000 // keywords and values that are compared
	maxDepth = jsondiff.MaxDepth
	maxRefs  = 16 // in a chain
	maxTypes = 32 // of a value; there are seven
)

type object = map[string]any

// schemaPair compares two JSON schemas. The schema of a request and that of an answer are
// judged in opposite ways. A client must not send values that are no longer allowed, and need
// not expect values that were not allowed before.
type schemaPair struct {
	*comparison
	input bool
	roots [2]object
	path  []string
	names []string // of the enclosing members
	refs  map[[2]string]bool
	nodes int
	depth int
	// referring means that a schema has references, so that equal text may have different
	// meanings.
	referring bool
}

// schemas compares the schemas that are members of two definitions; nil for none.
func (c *comparison) schemas(key string, a, b []byte) {
	s := schemaPair{comparison: c, input: key != outputSchema, path: []string{key}, refs: make(map[[2]string]bool)}
	if !s.input && (a == nil) != (b == nil) {
		class := Compatible
		if b == nil {
			class = Breaking
		}
		c.addChange(class, "the schema of the result"+verb(a, b), s.path, a, b)
		return
	}
	va, vb := schemaOf(key, a), schemaOf(key, b)
	if reflect.DeepEqual(va, vb) {
		return
	}
	s.roots = [2]object{asSchema(va), asSchema(vb)}
	s.referring = bytes.Contains(a, []byte("$ref")) || bytes.Contains(b, []byte("$ref"))
	s.nodesOf(va, vb)
	if s.nodes > maxNodes {
		c.addChange(Breaking, "the schema has changed, and is too large to be compared in full", s.path, a, b)
	}
}

// schemaOf decodes a schema. The list of a prompt's arguments becomes one.
func schemaOf(key string, text []byte) any {
	v := decoded(text)
	list, isList := v.([]any)
	if key != arguments || !isList {
		return v
	}
	properties, required := object{}, []any{}
	for _, entry := range list {
		argument, _ := entry.(object)
		name, isNamed := argument["name"].(string)
		if !isNamed {
			continue
		}
		if argument["required"] == true {
			required = append(required, name)
		}
		delete(argument, "name")
		delete(argument, "required")
		properties[name] = argument
	}
	return object{"properties": properties, "required": required}
}

// decoded returns a JSON value with its numbers as written; nil for none.
func decoded(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// asSchema returns a schema as an object. True and an absent schema allow everything.
func asSchema(v any) object {
	switch v := v.(type) {
	case object:
		return v
	case bool:
		if !v {
			return object{"not": object{}}
		}
	}
	return object{}
}

// nodesOf compares two schemas.
func (s *schemaPair) nodesOf(va, vb any) {
	s.depth++
	defer func() { s.depth-- }()
	switch {
	case s.nodes > maxNodes:
		return
	case s.depth > maxDepth:
		if !reflect.DeepEqual(va, vb) {
			s.report(changed, "", " has changed deep inside", va, vb)
		}
		return
	}
	a, refA := s.resolve(0, asSchema(va))
	b, refB := s.resolve(1, asSchema(vb))
	if pair := [2]string{refA, refB}; refA != "" && refB != "" {
		if s.refs[pair] {
			return
		}
		s.refs[pair] = true
	}
	s.nodes += 1 + len(a) + len(b) + len(valuesOf(a)) + len(valuesOf(b))
	s.types(a, b)
	s.values(a, b)
	s.members(a, b)
	s.others(a, b)
	for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
		s.keyword(key, a, b)
	}
}

// resolve follows references inside a schema, and also returns the first reference. A schema
// that may also be null is returned with null as an additional type.
func (s *schemaPair) resolve(side int, schema object) (_ object, ref string) {
	for range maxRefs {
		text, isRef := schema["$ref"].(string)
		if !isRef || text != "#" && !strings.HasPrefix(text, "#/") {
			break
		}
		var target any = s.roots[side]
		for _, key := range strings.Split(text, "/")[1:] {
			in, _ := target.(object)
			target = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		}
		found, ok := target.(object)
		if !ok {
			break
		}
		schema = merged(schema, found, "$ref")
		if ref == "" {
			ref = text
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		schema = withNull(schema, key)
	}
	return schema, ref
}

// merged returns the members of instead, which schema refers to, overridden by those of schema
// except without.
func merged(schema, instead object, without string) object {
	all := maps.Clone(instead)
	for key, value := range schema {
		if key != without {
			all[key] = value
		}
	}
	return all
}

func withNull(schema object, key string) object {
	list, _ := schema[key].([]any)
	null := slices.IndexFunc(list, func(v any) bool { return reflect.DeepEqual(v, object{"type": "null"}) })
	if len(list) != 2 || null < 0 {
		return schema
	}
	other := asSchema(list[1-null])
	types := typesOf(other)
	if types == nil || other["enum"] != nil || other["const"] != nil {
		return schema
	}
	all := merged(schema, other, key)
	all["type"] = append(slices.Clone(types), "null")
	return all
}

// report adds a change of the allowed values.
func (s *schemaPair) report(e effect, key, text string, a, b any) {
	class := Compatible
	if e == changed || s.input && e == narrowed || !s.input && e == widened {
		class = Breaking
	}
	s.reportAs(class, key, text, a, b)
}

func (s *schemaPair) reportAs(class Class, key, text string, a, b any) {
	path := s.path
	if key != "" {
		path = append(slices.Clone(path), key)
	}
	s.addChange(class, s.subject()+text, path, encoded(a), encoded(b))
}

// encoded returns a value as JSON; nil for none.
func encoded(v any) []byte {
	if v == nil {
		return nil
	}
	text, _ := jsonscan.Marshal(v) // it was decoded from JSON
	return text
}

// subject names the compared part: `argument "n"`.
func (s *schemaPair) subject() string {
	switch {
	case len(s.names) > 0 && s.input:
		return "argument " + quoted(strings.Join(s.names, "."))
	case len(s.names) > 0:
		return "result member " + quoted(strings.Join(s.names, "."))
	case s.input:
		return "the object of arguments"
	}
	return "the result"
}

// within compares an inner part. A part without a name gets the name of the part around it.
func (s *schemaPair) within(path []string, name string, compare func()) {
	path, before, names := append(slices.Clone(s.path), path...), s.path, s.names
	s.path = path
	switch {
	case name == "":
	case name == "[]" && len(names) > 0:
		s.names = append(slices.Clone(names[:len(names)-1]), names[len(names)-1]+name)
	default:
		s.names = append(slices.Clone(names), name)
	}
	compare()
	s.path, s.names = before, names
}

// typesOf returns the types that a schema allows; nil for all.
func typesOf(schema object) (types []string) {
	switch v := schema["type"].(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		for _, t := range v {
			if text, ok := t.(string); ok && len(types) < maxTypes {
				types = append(types, text)
			}
		}
	}
	return types
}

// allows reports whether all types of b are among a. Integers are numbers.
func allows(a, b []string) bool {
	if a == nil || b == nil {
		return a == nil
	}
	return !slices.ContainsFunc(b, func(t string) bool {
		return !slices.Contains(a, t) && !(t == "integer" && slices.Contains(a, "number"))
	})
}

func (s *schemaPair) types(a, b object) {
	ta, tb := typesOf(a), typesOf(b)
	if e := effectOf(allows(tb, ta), allows(ta, tb)); e != same {
		s.report(e, "type", fmt.Sprintf(" was of type %s, and is of type %s", typeWords(ta), typeWords(tb)), a["type"], b["type"])
	}
}

func typeWords(types []string) string {
	if types == nil {
		return "any"
	}
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = Plain(t)
	}
	return strings.Join(words, " or ")
}

// effectOf returns the effect, given whether b allows all values of a and a allows all values
// of b.
func effectOf(allOfA, allOfB bool) effect {
	switch {
	case allOfA && allOfB:
		return same
	case allOfA:
		return widened
	case allOfB:
		return narrowed
	}
	return changed
}

// values compares the lists of values.
func (s *schemaPair) values(a, b object) {
	la, lb := valuesOf(a), valuesOf(b)
	switch {
	case la == nil && lb == nil:
	case la == nil:
		s.report(narrowed, "enum", " is now one of "+render.Shorten(encoded(lb), maxValue), nil, lb)
	case lb == nil:
		s.report(widened, "enum", " may now have any value", la, nil)
	default:
		for _, v := range without(la, lb) {
			s.report(narrowed, "enum", fmt.Sprintf(": enum value %s was removed", render.Shorten(encoded(v), maxValue)), v, nil)
		}
		for _, v := range without(lb, la) {
			s.report(widened, "enum", fmt.Sprintf(": enum value %s was added", render.Shorten(encoded(v), maxValue)), nil, v)
		}
	}
}

func valuesOf(schema object) []any {
	if v, ok := schema["const"]; ok {
		return []any{v}
	}
	list, _ := schema["enum"].([]any)
	return list
}

func without(list, others []any) (left []any) {
	there := make(map[string]bool, len(others))
	for _, o := range others {
		there[string(encoded(o))] = true
	}
	for _, v := range list {
		if !there[string(encoded(v))] {
			left = append(left, v)
		}
	}
	return left
}

// members compares the properties of objects.
func (s *schemaPair) members(a, b object) {
	pa, _ := a["properties"].(object)
	pb, _ := b["properties"].(object)
	needA, needB := namesIn(a["required"]), namesIn(b["required"])
	names := union(pa, pb)
	for _, need := range []map[string]bool{needA, needB} {
		for name := range need {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		va, inA := pa[name]
		vb, inB := pb[name]
		path := []string{"properties", name}
		if s.path[0] == arguments {
			path = path[1:]
		}
		s.within(path, name, func() {
			switch {
			case inA && !inB && !needB[name]:
				s.removed(needA[name], va)
			case inB && !inA && !needA[name]:
				s.added(needB[name], a["additionalProperties"] == false, vb)
			default:
				s.required(needA[name], needB[name])
				s.nodesOf(va, vb)
			}
		})
	}
}

func namesIn(list any) map[string]bool {
	names := make(map[string]bool)
	values, _ := list.([]any)
	for _, v := range values {
		if name, ok := v.(string); ok {
			names[name] = true
		}
	}
	return names
}

// union returns the keys of two objects.
func union(a, b object) map[string]bool {
	keys := make(map[string]bool, len(a)+len(b))
	for _, m := range []object{a, b} {
		for key := range m {
			keys[key] = true
		}
	}
	return keys
}

// removed reports a removed property: clients send it, or rely on it.
func (s *schemaPair) removed(required bool, a any) {
	if s.input || required {
		s.reportAs(Breaking, "", " was removed", a, nil)
		return
	}
	s.reportAs(Compatible, "", " was removed, and was optional", a, nil)
}

// added reports a new property.
func (s *schemaPair) added(required, closed bool, b any) {
	switch {
	case s.input && required:
		s.reportAs(Breaking, "", " was added, and is required", nil, b)
	case s.input:
		s.reportAs(Compatible, "", " was added, and is optional", nil, b)
	case closed:
		s.reportAs(Breaking, "", " was added, which the schema did not allow", nil, b)
	default:
		s.reportAs(Compatible, "", " was added", nil, b)
	}
}

func (s *schemaPair) required(a, b bool) {
	switch {
	case b && !a:
		s.report(narrowed, "", " is now required", a, b)
	case a && !b:
		s.report(widened, "", " is no longer required", a, b)
	}
}

// others compares the items of arrays and unnamed properties.
func (s *schemaPair) others(a, b object) {
	for _, key := range []string{"items", "additionalProperties"} {
		va, vb := a[key], b[key]
		_, isListA := va.([]any)
		_, isListB := vb.([]any)
		switch e := openness(va, vb); {
		case va == nil && vb == nil, !s.referring && reflect.DeepEqual(va, vb):
		case isListA || isListB:
			s.report(changed, key, ": "+key+verb(encoded(va), encoded(vb)), va, vb)
		case e != same:
			text := " may now have other members"
			if e == narrowed {
				text = " may have no other members now"
			}
			s.report(e, key, text, va, vb)
		case key == "items":
			s.within([]string{key}, "[]", func() { s.nodesOf(va, vb) })
		default:
			s.within([]string{key}, "*", func() { s.nodesOf(va, vb) })
		}
	}
}

// openness compares whether anything is allowed at all.
func openness(a, b any) effect {
	none := func(v any) bool { return v == false }
	return effectOf(!none(b) || none(a), !none(a) || none(b))
}

// Keywords by the way to judge their changes. Changes of others are judged elsewhere, or
// cannot be judged.
var (
	judged = []string{
		"type", "enum", "const", "properties", "required", "items", "additionalProperties",
		"$ref", "$defs", "definitions",
	}
	notes  = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id"}
	lowest = []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}
	most   = []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}
	checks = []string{"pattern", "format", "multipleOf", "uniqueItems"}
)

// keyword compares one keyword of two schemas.
func (s *schemaPair) keyword(key string, a, b object) {
	va, vb := a[key], b[key]
	if slices.Contains(judged, key) || !s.referring && reflect.DeepEqual(va, vb) {
		return
	}
	if reflect.DeepEqual(va, vb) {
		s.refTargets(key, va, vb)
		return
	}
	text := ": " + Plain(key) + verb(encoded(va), encoded(vb))
	switch {
	case slices.Contains(notes, key):
		s.reportAs(Compatible, key, text, va, vb)
	case slices.Contains(lowest, key):
		s.bound(key, va, vb, false)
	case slices.Contains(most, key):
		s.bound(key, va, vb, true)
	case slices.Contains(checks, key):
		s.report(effectOf(vb == nil, va == nil), key, text, va, vb)
	default:
		s.report(changed, key, text, va, vb)
	}
}

// refTargets compares the targets of equal keywords in different schemas.
func (s *schemaPair) refTargets(key string, va, vb any) {
	switch a := va.(type) {
	case object:
		s.within([]string{key}, "", func() { s.nodesOf(a, vb) })
	case []any:
		for i := range a {
			s.within([]string{key, strconv.Itoa(i)}, "", func() { s.nodesOf(a[i], vb.([]any)[i]) })
		}
	}
}

// bound compares two limits.
func (s *schemaPair) bound(key string, va, vb any, upper bool) {
	na, nb := number(va), number(vb)
	e := changed
	switch {
	case va == nil:
		e = narrowed
	case vb == nil:
		e = widened
	case na == nil || nb == nil:
	case *na == *nb:
		return
	case (*nb < *na) == upper:
		e = narrowed
	default:
		e = widened
	}
	s.report(e, key, fmt.Sprintf(": %s was %s, and is %s", key, orNone(va), orNone(vb)), va, vb)
}

func number(v any) *float64 {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return &f
}

func orNone(v any) string {
	if v == nil {
		return "none"
	}
	return string(encoded(v))
}
