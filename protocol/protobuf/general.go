package protobuf

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The general way builds the message in memory, by reflection, and writes it from
// there. It is many times slower, and is taken for messages of which one walk cannot
// tell the form: those with fields that later ones displace or merge with, with
// extensions, with map entries without key or value, with more fields than there are
// slots; for what a google.protobuf.Any holds, which the message alone does not tell,
// and for a google.protobuf.FieldMask; and for JSON that is unusual or wrong.

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
		if out, err = s.appendPart(out, p.s, d.wire[p.wire:p.wireEnd], p.nesting); err != nil {
			return dst, false, p.s.fail(err)
		}
		done = p.textEnd
	}
	out = append(out, written[done-len(dst):]...)
	if d.untidy || d.padded {
		return out, false, nil
	}
	back, err := s.AppendWire(nil, out[len(dst):])
	return out, err == nil && bytes.Equal(back, d.wire), nil
}

// appendPart appends the JSON form of a message inside one of type s, and inside as
// many JSON objects and arrays as nesting says.
func (s *Schema) appendPart(dst []byte, inner *Schema, wire []byte, nesting int) ([]byte, error) {
	m := dynamicpb.NewMessage(inner.md)
	if err := unmarshal(wire, m, s.types()); err != nil {
		return dst, err
	}
	p := printer{dst: dst, types: lenient{s.types()}, nesting: nesting}
	err := p.message(m, [][]byte{wire})
	return p.dst, err
}

// unmarshal reads wire into m. The protobuf module (1.36) panics on a map entry
// in which the number of the key or value comes again with another wire type,
// if the message is read by reflection.
func unmarshal(wire []byte, m proto.Message, types resolver) (err error) {
	defer func() {
		if recover() != nil {
			err = errMapEntry
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true, Resolver: types}.Unmarshal(wire, m)
}

// marshal writes what a builder has made.
var marshal = proto.MarshalOptions{AllowPartial: true, Deterministic: true}

var errMapEntry = errors.New("a map entry has a key or value of the wrong type")

func (s *Schema) appendWireGenerally(dst, json []byte) ([]byte, error) {
	dst, err := s.appendBuilt(dst, json, s, 0)
	if err != nil {
		return dst, s.fail(err)
	}
	return dst, nil
}

// appendBuilt appends the message that raw is, in a message of the type root and
// inside as many messages as depth says.
func (s *Schema) appendBuilt(dst, raw []byte, root *Schema, depth int) ([]byte, error) {
	m := dynamicpb.NewMessage(s.md)
	b := builder{types: lenient{root.types()}, depth: depth}
	b.scan.Init(raw)
	if err := b.message(m); err != nil {
		return dst, err
	}
	out, err := marshal.MarshalAppend(dst, m)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (s *Schema) fail(err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // as it was made, which is not wrapped
		return e.of(s)
	}
	return fmt.Errorf("%s: %s", s.name, plain(err))
}

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
		Name: proto.String("unknown.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Unknown")}},
	}
	fd, err := protodesc.NewFile(file, nil)
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
