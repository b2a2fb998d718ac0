package protobuf

import (
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A special is a message type of google.protobuf whose JSON form is not an object of its
// fields.
type special struct {
	// shape describes the fields, numbered from 1. A type in a schema may have the name of
	// a special one but other fields; it is then an ordinary one.
	shape []string
	// read and write are nil for types that take the general way.
	read  func(d *decoder, s *Schema, end int, group protowire.Number) bool
	write func(*encoder, *Schema) bool
}

// specialFor returns the special with that name in google.protobuf.
func specialFor(name protoreflect.Name) *special {
	switch name {
	case "Any":
		return &special{[]string{"string", "bytes"}, nil, nil}
	case "Timestamp":
		return &special{secondsShape, (*decoder).timestamp, (*encoder).timestamp}
	case "Duration":
		return &special{secondsShape, (*decoder).duration, (*encoder).duration}
	case "FieldMask":
		return &special{[]string{"list of string"}, nil, nil}
	case "Struct":
		return &special{[]string{"map of string to google.protobuf.Value"}, (*decoder).first, (*encoder).structure}
	case "ListValue":
		return &special{[]string{"list of google.protobuf.Value"}, (*decoder).first, (*encoder).listValue}
	case "Value":
		return &special{valueShape, (*decoder).anyValue, (*encoder).anyValue}
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue", "BytesValue":
		kind := strings.ToLower(strings.TrimSuffix(string(name), "Value"))
		return &special{[]string{kind}, (*decoder).first, (*encoder).wrapped}
	}
	return nil
}

var (
	secondsShape = []string{"int64", "int32"}
	valueShape   = []string{
		"kind: google.protobuf.NullValue", "kind: double", "kind: string", "kind: bool",
		"kind: google.protobuf.Struct", "kind: google.protobuf.ListValue",
	}
)

// specialOf returns the special that md is, or nil if it is an ordinary type.
func specialOf(md protoreflect.MessageDescriptor) *special {
	if md.FullName().Parent() != "google.protobuf" {
		return nil
	}
	s := specialFor(md.Name())
	if s == nil || md.Fields().Len() != len(s.shape) {
		return nil
	}
	for i, want := range s.shape {
		fd := nth(md, i+1)
		if fd == nil || shapeOf(fd) != want {
			return nil
		}
		if !fd.IsList() && !fd.IsMap() && fd.Message() != nil && specialOf(fd.Message()) == nil {
			return nil
		}
	}
	return s
}

// shapeOf describes the properties of a field that affect the form of its message.
func shapeOf(fd protoreflect.FieldDescriptor) string {
	what := fd.Kind().String()
	switch {
	case fd.IsMap():
		return "map of " + fd.MapKey().Kind().String() + " to " + shapeOf(fd.MapValue())
	case fd.Kind() == protoreflect.MessageKind:
		what = string(fd.Message().FullName())
	case fd.Enum() != nil:
		what = string(fd.Enum().FullName())
	}
	switch {
	case fd.IsList():
		return "list of " + what
	case fd.ContainingOneof() != nil:
		return string(fd.ContainingOneof().Name()) + ": " + what
	case fd.HasPresence() && fd.Message() == nil:
		return "optional " + what
	}
	return what
}

func nth(md protoreflect.MessageDescriptor, n int) protoreflect.FieldDescriptor {
	return md.Fields().ByNumber(protoreflect.FieldNumber(n))
}

// first writes the value of the only field, even if that is absent.
func (d *decoder) first(s *Schema, end int, group protowire.Number) bool {
	start := len(d.dst)
	ok := d.fields(s, end, group)
	if len(d.dst) == start {
		d.dst = appendZero(d.dst, s.field(1))
	}
	return ok
}

func appendZero(dst []byte, f *field) []byte {
	switch {
	case f.mapKey != nil:
		return append(dst, "{}"...)
	case f.repeated:
		return append(dst, "[]"...)
	case f.wire == protowire.BytesType:
		return append(dst, `""`...)
	}
	return appendNumber(dst, f, 0)
}

// wrapped writes the only field, which is omitted if it is zero.
func (e *encoder) wrapped(s *Schema) bool {
	start := len(e.dst)
	zero, ok := e.value(s.field(1))
	if zero {
		e.dst = e.dst[:start]
	}
	return ok
}

func (e *encoder) structure(s *Schema) bool {
	return e.scan.Object() && e.entries(s.field(1))
}

func (e *encoder) listValue(s *Schema) bool {
	return e.scan.Array() && e.elements(s.field(1))
}

// arms maps each kind of JSON to the number of the google.protobuf.Value field that takes it.
// Invalid JSON also maps to a field, which rejects it.
var arms = [...]protoreflect.FieldNumber{
	jsonscan.Null:   1,
	jsonscan.Number: 2,
	jsonscan.String: 3,
	jsonscan.False:  4, jsonscan.True: 4, jsonscan.Invalid: 4,
	jsonscan.Object: 5,
	jsonscan.Array:  6,
}

func (d *decoder) anyValue(s *Schema, end int, group protowire.Number) bool {
	start := len(d.dst)
	ok := d.fields(s, end, group)
	if len(d.dst) == start { // JSON cannot represent it; the general way describes the error
		d.general = true
		d.dst = append(d.dst, "null"...)
	}
	return ok
}

func (e *encoder) anyValue(s *Schema) bool {
	_, ok := e.value(s.field(arms[e.scan.Peek()]))
	return ok
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
