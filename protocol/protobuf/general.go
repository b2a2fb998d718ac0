package protobuf

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// The general way builds the message in memory, by reflection, and lets the
// protobuf module write it. It takes about twenty times as long, and is taken
// for messages of which one walk cannot tell the form: those with fields that later
// ones displace or merge with, with extensions, with map entries without key or
// value, those whose JSON form is not an object of their fields; and for JSON that
// is unusual or wrong.

// isSpecial reports whether the JSON form of md is not that of an ordinary
// message.
func isSpecial(md protoreflect.MessageDescriptor) bool {
	if set, ok := md.(interface{ IsMessageSet() bool }); ok && set.IsMessageSet() {
		return true
	}
	if md.FullName().Parent() != "google.protobuf" {
		return false
	}
	switch md.Name() {
	case "Any", "Timestamp", "Duration", "FieldMask", "Struct", "ListValue", "Value",
		"BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value",
		"FloatValue", "DoubleValue", "StringValue", "BytesValue":
		return true
	}
	return false
}

// isNull reports whether fd is of the enum that JSON writes as null.
func isNull(fd protoreflect.FieldDescriptor) bool {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// join returns what d has written, behind dst, with the JSON forms of its parts in
// their places.
func (d *decoder) join(s *Schema, dst []byte) (_ []byte, exact bool, err error) {
	written := bytes.Clone(d.dst[len(dst):])
	out, done := dst, len(dst)
	for _, p := range d.parts {
		out = append(out, written[done-len(dst):p.text-len(dst)]...)
		if out, err = s.appendPart(out, p.s, d.wire[p.wire:p.wireEnd]); err != nil {
			return dst, false, s.fail(err)
		}
		done = p.textEnd
	}
	out = append(out, written[done-len(dst):]...)
	back, err := s.AppendWire(nil, out[len(dst):])
	return out, err == nil && bytes.Equal(back, d.wire), nil
}

// appendPart appends the JSON form of a message inside one of type s.
func (s *Schema) appendPart(dst []byte, inner *Schema, wire []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(inner.md)
	if err := s.unmarshal(wire, m); err != nil {
		return dst, err
	}
	json, err := protojson.MarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}.Marshal(m)
	if err != nil {
		return dst, err
	}
	return jsonscan.AppendCompact(dst, json), nil
}

// unmarshal reads wire into m. The protobuf module (1.36) panics on a map entry
// in which the number of the key or value comes again with another wire type,
// if the message is read by reflection.
func (s *Schema) unmarshal(wire []byte, m proto.Message) (err error) {
	defer func() {
		if recover() != nil {
			err = errMapEntry
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types()}.Unmarshal(wire, m)
}

var errMapEntry = errors.New("a map entry has a key or value of the wrong type")

func (s *Schema) appendWireGenerally(dst, json []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(s.md)
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}).Unmarshal(json, m); err != nil {
		return dst, s.fail(err)
	}
	out, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, s.fail(err)
	}
	return out, nil
}

func (s *Schema) fail(err error) error { return fmt.Errorf("%s: %s", s.name, plain(err)) }

// resolver finds extensions, and the types of what a google.protobuf.Any holds.
type resolver interface {
	protoregistry.ExtensionTypeResolver
	protoregistry.MessageTypeResolver
}

// typesIn returns the types in files and in those that they import.
func typesIn(files ...protoreflect.FileDescriptor) resolver {
	all := new(protoregistry.Files)
	for _, file := range files {
		register(all, file)
	}
	return dynamicpb.NewTypes(all)
}

// lenient finds a type for whatever a google.protobuf.Any holds. One that no schema
// has is no fault of the message: it has no known fields, and JSON leaves unknown
// ones out.
type lenient struct{ resolver }

func (l lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	t, err := l.resolver.FindMessageByURL(url)
	if err == protoregistry.NotFound { //nolint:errorlint // the value itself, as the interface asks for
		return unknown(), nil
	}
	return t, err
}

// unknown is a message type without fields.
var unknown = sync.OnceValue(func() protoreflect.MessageType {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("unknown.proto"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Unknown")}},
	}
	fd, err := descriptor.New(file, nil)
	if err != nil {
		panic(err) // the file is ours
	}
	return dynamicpb.NewMessageType(fd.Messages().Get(0))
})

func register(files *protoregistry.Files, file protoreflect.FileDescriptor) {
	if file.IsPlaceholder() || files.RegisterFile(file) != nil { // it is there already
		return
	}
	imports := file.Imports()
	for i := range imports.Len() {
		register(files, imports.Get(i).FileDescriptor)
	}
}
