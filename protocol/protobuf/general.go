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

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// The general way builds the message in memory with dynamicpb, and leaves JSON to protojson. It
// is many times slower, and never exact. It handles messages whose form one walk cannot
// determine: those with fields that later ones displace or merge with, extensions, map entries
// without key or value, more fields than slots, or a google.protobuf.Any or FieldMask. It also
// handles JSON that is unusual or wrong.

// appendJSONGenerally is AppendJSON for any message. Its output is compact, in schema order.
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
	if json.Compact(compact, text) != nil { // cannot fail: text is JSON
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

// caught turns a panic into an error. The protobuf module (1.36) panics on two inputs: a map
// entry in which the number of the key or value repeats with another wire type, and a type that
// has the name of a special one but other fields.
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

// checkDepth rejects a message nested so deep that reading it would take very long, or exhaust
// the stack.
func (s *Schema) checkDepth(m *dynamicpb.Message) error {
	anys := 0
	return protorange.Options{Resolver: s.types()}.Range(m.ProtoReflect(), func(at protopath.Values) error {
		if at.Index(-1).Step.Kind() == protopath.AnyExpandStep {
			anys++
		}
		const steps = 3 // at most, per object or array in JSON
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

// typesIn returns the types in files and their imports.
func typesIn(files ...protoreflect.FileDescriptor) resolver {
	all := new(protoregistry.Files)
	for _, file := range files {
		register(all, file)
	}
	return dynamicpb.NewTypes(all)
}

// lenient finds a type for any content of a google.protobuf.Any. A type that no schema has is
// no fault of the message: it has no known fields, and JSON omits unknown ones.
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
	if file.IsPlaceholder() || files.RegisterFile(file) != nil { // already registered
		return
	}
	imports := file.Imports()
	for i := range imports.Len() {
		register(files, imports.Get(i).FileDescriptor)
	}
}
