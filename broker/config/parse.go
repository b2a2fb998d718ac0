package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/wirectl/wirectl/nearest"
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

// A document is a file with the places of its values.
type document struct {
	File
	name string
	ast  *ast.File
}

func parse(name string, data []byte) (*document, error) {
	d := &document{name: name}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, d.translate(err)
	}
	d.ast = tree
	if len(tree.Docs) > 1 {
		return nil, &Error{Name: name, Msg: "there are several documents; expected one"}
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return d, nil
	}
	if err := yaml.NodeToValue(tree.Docs[0].Body, &d.File, yaml.Strict()); err != nil {
		return nil, d.translate(err)
	}
	return d, nil
}

// at is the error for a value that is well-formed and wrong.
func (d *document) at(path []string, format string, args ...any) error {
	e := &Error{Name: d.name, Msg: strings.Join(path, ".") + ": " + fmt.Sprintf(format, args...)}
	if d.ast == nil || len(d.ast.Docs) == 0 {
		return e
	}
	node := d.ast.Docs[0].Body
	for _, key := range path {
		pair := member(node, key)
		if pair == nil {
			break
		}
		if tok := pair.Key.GetToken(); tok != nil {
			e.Line, e.Column = tok.Position.Line, tok.Position.Column
		}
		node = pair.Value
	}
	return e
}

func member(node ast.Node, key string) *ast.MappingValueNode {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	}
	for _, pair := range pairs {
		if tok := pair.Key.GetToken(); tok != nil && tok.Value == key {
			return pair
		}
	}
	return nil
}

// translate says in the words of the file what the YAML module says in those of
// Go.
func (d *document) translate(err error) error {
	e := &Error{Name: d.name, Msg: err.Error()}
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return e
	}
	e.Msg = ye.GetMessage()
	if tok := ye.GetToken(); tok != nil {
		e.Line, e.Column = tok.Position.Line, tok.Position.Column
	}
	var unknown *yaml.UnknownFieldError
	var mismatch *yaml.TypeError
	var unexpected *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &unknown):
		e.Msg = unknownKey(unknown.Token.Value)
	case errors.As(err, &mismatch):
		e.Msg = fmt.Sprintf("%s is not what is expected here: %s", found(mismatch.SrcType), expected(mismatch.DstType))
	case errors.As(err, &unexpected):
		e.Msg = fmt.Sprintf("a %s stands here; expected a %s", strings.ToLower(unexpected.Actual.String()), strings.ToLower(unexpected.Expected.String()))
	}
	return e
}

// unknownKey says which key was perhaps meant.
func unknownKey(key string) string {
	return fmt.Sprintf("unknown key %q%s", key, nearest.Question(key, keys(reflect.TypeFor[File](), nil)))
}

// keys returns the names of all keys that a file may have.
func keys(t reflect.Type, list []string) []string {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return keys(t.Elem(), list)
	case reflect.Struct:
		for field := range t.Fields() {
			if name := field.Tag.Get("yaml"); !slices.Contains(list, name) {
				list = append(list, name)
			}
			list = keys(field.Type, list)
		}
	}
	return list
}

func found(t reflect.Type) string {
	if t == nil {
		return "this"
	}
	return "a value of type " + t.String()
}

// expected names what a Go type is in YAML.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map, reflect.Struct:
		return "a mapping, with lines of the form key: value"
	case reflect.Slice:
		return "a list, with lines that begin with -"
	case reflect.String:
		return "text"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return t.String()
}
