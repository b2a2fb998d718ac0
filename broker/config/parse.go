package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/yamlfile"
)

// An Error says what is wrong with a file, and where.
type Error struct {
	Name         string
	Line, Column int
	Msg          string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Msg)
}

// A document is a file with the positions of its values.
type document struct {
	File
	name string
	ast  *ast.File
}

func parse(name string, data []byte) (*document, error) {
	d := &document{name: name}
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // which some editors write
	if err := yamlfile.Check(data); err != nil {
		return nil, d.translate(err)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, d.translate(err)
	}
	d.ast = tree
	if len(tree.Docs) > 1 {
		e := &Error{Name: name, Msg: "several documents; expected one"}
		if tok := tree.Docs[1].Start; tok != nil {
			e.Line, e.Column = tok.Position.Line, tok.Position.Column
		}
		return nil, e
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return d, nil
	}
	if err := d.checkNode(tree.Docs[0].Body, reflect.TypeFor[File]()); err != nil {
		return nil, err
	}
	if err := yaml.NodeToValue(tree.Docs[0].Body, &d.File, yaml.Strict(), yaml.CustomUnmarshaler(readDuration), yaml.CustomUnmarshaler(readToolCall)); err != nil {
		return nil, d.translate(err)
	}
	return d, nil
}

// at is the error for a well-formed but invalid value.
func (d *document) at(path []string, format string, args ...any) error {
	e := &Error{Name: d.name, Msg: strings.Join(path, ".") + ": " + fmt.Sprintf(format, args...)}
	e.Line, e.Column = d.place(path)
	return e
}

// place returns the position of a value, or of its parent if it is missing; 0 if there is none.
func (d *document) place(path []string) (line, column int) {
	if d.ast == nil || len(d.ast.Docs) == 0 {
		return 0, 0
	}
	node := d.ast.Docs[0].Body
	for _, key := range path {
		var tok *token.Token
		if tok, node = child(node, key); tok == nil {
			break
		}
		line, column = tok.Position.Line, tok.Position.Column
	}
	return line, column
}

// child returns the child of a node at a key or an index, and its first token.
func child(node ast.Node, key string) (*token.Token, ast.Node) {
	if list, ok := node.(*ast.SequenceNode); ok {
		if i, err := strconv.Atoi(key); err == nil && i < len(list.Values) {
			return list.Values[i].GetToken(), list.Values[i]
		}
		return nil, nil
	}
	for _, pair := range yamlfile.Pairs(node) {
		if tok := pair.Key.GetToken(); tok != nil && tok.Value == key {
			return tok, pair.Value
		}
	}
	return nil, nil
}

// pairs returns the keys of a mapping with their values.
// translate converts an error of the YAML module, with its position.
func (d *document) translate(err error) error {
	e := &Error{Name: d.name}
	e.Msg, e.Line, e.Column = yamlfile.Explain(err)
	return e
}

// checkNode checks a node for unknown keys and for values of the wrong type.
func (d *document) checkNode(node ast.Node, t reflect.Type) error {
	switch n := node.(type) {
	case nil, *ast.NullNode, *ast.AliasNode, *ast.TagNode: // the decoder checks them
		return nil
	case *ast.AnchorNode:
		return d.checkNode(n.Value, t)
	}
	tok := node.GetToken()
	found, want := nodeKind(node), kindOf(t)
	if !want.takes(found) {
		return d.fault(tok, "found %s; expected %s%s", found, want, looks[want])
	}
	if want == nesting && found == text && tok.Value != "never" && tok.Value != "always" {
		return d.fault(tok, "found %q; expected %s", tok.Value, want)
	}
	if want == duration {
		if v, err := time.ParseDuration(tok.Value); err != nil || v < 0 {
			return d.fault(tok, "%q is not a duration: expected something like 1.5s, 200ms or 5m", tok.Value)
		}
	}
	if list, ok := node.(*ast.SequenceNode); ok && t.Kind() == reflect.Slice {
		for _, value := range list.Values {
			if err := d.checkNode(value, t.Elem()); err != nil {
				return err
			}
		}
	}
	for _, pair := range yamlfile.Pairs(node) {
		tok := pair.Key.GetToken()
		inner, expected := valueType(t, tok.Value)
		switch {
		case expected != nil:
			return d.fault(tok, "unknown key %q%s; expected one of %s", tok.Value, nearest.Question(tok.Value, expected), strings.Join(expected, ", "))
		case inner != nil:
			if err := d.checkNode(pair.Value, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *document) fault(tok *token.Token, format string, args ...any) error {
	return &Error{d.name, tok.Position.Line, tok.Position.Column, fmt.Sprintf(format, args...)}
}

// valueType returns the type of the value of a key of t. If t has no such key, it returns the
// keys of t.
func valueType(t reflect.Type, key string) (_ reflect.Type, expected []string) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), nil
	case reflect.Pointer:
		return valueType(t.Elem(), key)
	case reflect.Struct:
		switch t {
		case reflect.TypeFor[Header]():
			t = reflect.TypeFor[Secret]()
		case reflect.TypeFor[provider.ToolCall]():
			t = reflect.TypeFor[toolCall]()
		}
		for field := range t.Fields() {
			name := field.Tag.Get("yaml")
			if name == key {
				return field.Type, nil
			}
			expected = append(expected, name)
		}
	}
	return nil, expected
}

// A kind is a type of values, as users know it.
type kind string

const (
	mapping  kind = "a mapping"
	list     kind = "a list"
	text     kind = "text"
	number   kind = "a number"
	whole    kind = "a whole number"
	truth    kind = "true or false"
	duration kind = "a duration like 1.5s, 200ms or 5m"
	header   kind = "text, or where a key is: {env: NAME} or {file: NAME}"
	nesting  kind = "never, always, {over: N}, {match: REGEX} or {exec: [CMD]}"
	anything kind = "a value"
)

// looks is the syntax of a kind.
var looks = map[kind]string{
	mapping: ", with lines of the form key: value",
	list:    ", with lines that begin with -",
}

// takes reports whether a value of the kind found is valid for k.
func (k kind) takes(found kind) bool {
	switch k {
	case anything:
		return true
	case header:
		return found != list
	case nesting:
		return found == mapping || found == text
	case text, duration:
		return found != mapping && found != list
	case number:
		return found == number || found == whole
	}
	return found == k
}

func nodeKind(node ast.Node) kind {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return mapping
	case *ast.SequenceNode:
		return list
	case *ast.IntegerNode:
		return whole
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return number
	case *ast.BoolNode:
		return truth
	}
	return text
}

func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration
	case reflect.TypeFor[Header]():
		return header
	case reflect.TypeFor[RLMNest]():
		return nesting
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Map, reflect.Struct:
		return mapping
	case reflect.Slice:
		return list
	case reflect.String:
		return text
	case reflect.Float64:
		return number
	case reflect.Int, reflect.Int64:
		return whole
	case reflect.Bool:
		return truth
	}
	return anything
}
