package protobuf

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// The general way builds the message in memory, by dynamicpb, and leaves JSON to
// protojson. It is many times slower, and never exact. It is taken for messages whose
// form one walk cannot tell: those with fields that later ones displace or merge with,
// with extensions, with map entries without key or value, with more fields than there
// are slots, with a google.protobuf.Any or FieldMask; and for JSON that is unusual or
// wrong.

// appendJSONGenerally is AppendJSON for any message. What it writes is compact, in the
// order of the schema.
func (s *Schema) appendJSONGenerally(dst, wire []byte) (out []byte, err error) {
	defer s.caught(dst, &out, &err)
	m := dynamicpb.NewMessage(s.md)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: s.types()}).Unmarshal(wire, m); err != nil {
		return dst, s.fail(err)
	}
	if err := s.checkDepth(m); err != nil {
		return dst, s.fail(err)
	}
	text, err := protojson.MarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}.Marshal(m)
	if err != nil {
		return dst, s.fail(err)
	}
	compact := bytes.NewBuffer(dst)
	if json.Compact(compact, text) != nil { // it is JSON, so it can only be this
		return dst, s.fail(errTooDeep)
	}
	return compact.Bytes(), nil
}

// appendWireGenerally is AppendWire for any JSON.
func (s *Schema) appendWireGenerally(dst, json []byte) (out []byte, err error) {
	defer s.caught(dst, &out, &err)
	m := dynamicpb.NewMessage(s.md)
	if err := (protojson.UnmarshalOptions{AllowPartial: true, Resolver: lenient{s.types()}}).Unmarshal(json, m); err != nil {
		return dst, s.fail(err)
	}
	out, err = proto.MarshalOptions{AllowPartial: true, Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, s.fail(err)
	}
	return out, nil
}

// caught turns a panic into an error. The protobuf module (1.36) panics on a map entry in
// which the number of the key or value comes again with another wire type, and on types
// that have the names of special ones but other fields.
func (s *Schema) caught(dst []byte, out *[]byte, err *error) {
	if recover() != nil {
		*out, *err = dst, s.fail(errOdd)
	}
}

var (
	errOdd     = errors.New("a map entry or a type of google.protobuf has fields of the wrong type")
	errTooDeep = errors.New(tooDeep)
)

func (s *Schema) fail(err error) error { return &Error{Path: s.name, Offset: -1, Msg: plain(err)} }

// maxAnys bounds how deep google.protobuf.Any may be nested. Each one copies its content,
// and protojson has no limit.
const maxAnys = 100

// checkDepth checks that a message is not nested so deep that reading it would take
// very long, or exhaust the stack.
func (s *Schema) checkDepth(m *dynamicpb.Message) error {
	anys := 0
	return protorange.Options{Resolver: s.types()}.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.AnyExpandStep {
			anys++
		}
		const steps = 3 // at most, for an object or array in JSON
		if anys > maxAnys || len(at.Path) > steps*jsonscan.MaxDepth {
			return errTooDeep
		}
		return nil
	}, func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.AnyExpandStep {
			anys--
		}
		return nil
	})
}

// resolver finds extensions, and the types inside a google.protobuf.Any.
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
// has is not a fault of the message: it has no known fields, and JSON leaves unknown
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
		Name: proto.String("unknown.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Unknown")}},
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err) // the file is ours
	}
	return dynamicpb.NewMessageType(fd.Messages().Get(0))
})

func register(files *protoregistry.Files, file protoreflect.FileDescriptor) {
	if file.IsPlaceholder() || files.RegisterFile(file) != nil { // it is registered
		return
	}
	imports := file.Imports()
	for i := range imports.Len() {
		register(files, imports.Get(i).FileDescriptor)
	}
}
