package config

import (
	"errors"
	"fmt"
	"reflect"
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
	if err := d.checkKeys(tree.Docs[0].Body, reflect.TypeFor[File]()); err != nil {
		return nil, err
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
	var de *durationError
	if errors.As(err, &de) {
		return &Error{d.name, de.Position.Line, de.Position.Column, de.Error()}
	}
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return e
	}
	e.Msg = ye.GetMessage()
	if tok := ye.GetToken(); tok != nil {
		e.Line, e.Column = tok.Position.Line, tok.Position.Column
	}
	var mismatch *yaml.TypeError
	var unexpected *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &mismatch):
		e.Msg = fmt.Sprintf("found a value of type %s; expected %s", mismatch.SrcType, expected(mismatch.DstType))
	case errors.As(err, &unexpected):
		e.Msg = fmt.Sprintf("found a value of type %s; expected a %s", strings.ToLower(unexpected.Actual.String()), strings.ToLower(unexpected.Expected.String()))
	}
	return e
}

// checkKeys looks for keys that nothing reads. A fault of the shape is for the
// decoding to find.
func (d *document) checkKeys(node ast.Node, t reflect.Type) error {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice {
			for _, value := range n.Values {
				if err := d.checkKeys(value, t.Elem()); err != nil {
					return err
				}
			}
		}
	}
	for _, pair := range pairs {
		tok := pair.Key.GetToken()
		inner, expected := valueType(t, tok.Value)
		switch {
		case expected != nil:
			msg := fmt.Sprintf("unknown key %q%s; expected one of %s", tok.Value, nearest.Question(tok.Value, expected), strings.Join(expected, ", "))
			return &Error{Name: d.name, Line: tok.Position.Line, Column: tok.Position.Column, Msg: msg}
		case inner != nil:
			if err := d.checkKeys(pair.Value, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// valueType returns the type of what stands under a key of t. Where t has no
// such key, it returns those that t has.
func valueType(t reflect.Type, key string) (_ reflect.Type, expected []string) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), nil
	case reflect.Struct:
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
