package descriptor_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
)

// holder is a file with a map, and with a message to be extended.
func holder(t *testing.T) *descriptorpb.FileDescriptorProto {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(`
		name: "a.proto"
		message_type {
			name: "M"
			field { name: "f" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".M.E" }
			nested_type {
				name: "E"
				options { map_entry: true }
				field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
				field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
			}
			extension_range { start: 100 end: 200 }
		}
		message_type { name: "N" }
		extension { name: "x" number: 100 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".N" extendee: ".M" }
	`), file); err != nil {
		t.Fatal(err)
	}
	return file
}

// What says of itself that it is a map, or an extension, and cannot be, is refused: the
// runtime would panic when it reads by it.
func TestRefusedWhenResolved(t *testing.T) {
	const noMap = "a.proto: M.f is not a map as it should be, for M.E is an entry of one"
	inEntry := func(change func(entry *descriptorpb.DescriptorProto, key, value *descriptorpb.FieldDescriptorProto)) func(*descriptorpb.FileDescriptorProto) {
		return func(file *descriptorpb.FileDescriptorProto) {
			entry := file.MessageType[0].NestedType[0]
			change(entry, entry.Field[0], entry.Field[1])
		}
	}
	keyOf := func(kind descriptorpb.FieldDescriptorProto_Type) func(*descriptorpb.FileDescriptorProto) {
		return inEntry(func(_ *descriptorpb.DescriptorProto, key, _ *descriptorpb.FieldDescriptorProto) {
			key.Type = kind.Enum()
		})
	}
	for _, tt := range []struct {
		about  string
		change func(file *descriptorpb.FileDescriptorProto)
		want   string // "" if nothing is wrong
	}{
		{"as it should be", func(*descriptorpb.FileDescriptorProto) {}, ""},
		{"a map of which there is one entry", func(file *descriptorpb.FileDescriptorProto) {
			file.MessageType[0].Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
		}, noMap},
		{"a map of the entries of another message", func(file *descriptorpb.FileDescriptorProto) {
			file.MessageType[1].Field, file.MessageType[0].Field = file.MessageType[0].Field, nil
		}, "a.proto: N.f is not a map as it should be, for M.E is an entry of one"},
		{"an entry with more than key and value", inEntry(func(entry *descriptorpb.DescriptorProto, key, _ *descriptorpb.FieldDescriptorProto) {
			more := proto.CloneOf(key)
			more.Name, more.Number = proto.String("more"), proto.Int32(3)
			entry.Field = append(entry.Field, more)
		}), noMap},
		{"an entry without a key", inEntry(func(_ *descriptorpb.DescriptorProto, key, _ *descriptorpb.FieldDescriptorProto) {
			key.Number = proto.Int32(3)
		}), noMap},
		{"an entry without a value", inEntry(func(_ *descriptorpb.DescriptorProto, _, value *descriptorpb.FieldDescriptorProto) {
			value.Number = proto.Int32(3)
		}), noMap},
		{"an entry with several values", inEntry(func(_ *descriptorpb.DescriptorProto, _, value *descriptorpb.FieldDescriptorProto) {
			value.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}), noMap},
		{"a value in a oneof", inEntry(func(entry *descriptorpb.DescriptorProto, _, value *descriptorpb.FieldDescriptorProto) {
			entry.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("either")}}
			value.OneofIndex = proto.Int32(0)
		}), noMap},
		{"keys that are floats", keyOf(descriptorpb.FieldDescriptorProto_TYPE_FLOAT), noMap},
		{"keys that are doubles", keyOf(descriptorpb.FieldDescriptorProto_TYPE_DOUBLE), noMap},
		{"keys that are bytes", keyOf(descriptorpb.FieldDescriptorProto_TYPE_BYTES), noMap},
		{"keys that are booleans", keyOf(descriptorpb.FieldDescriptorProto_TYPE_BOOL), ""},
		{"keys that are messages", inEntry(func(_ *descriptorpb.DescriptorProto, key, _ *descriptorpb.FieldDescriptorProto) {
			key.Type, key.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".N")
		}), noMap},
		{"a oneof of a list", func(file *descriptorpb.FileDescriptorProto) {
			f := file.MessageType[0].Field[0]
			f.TypeName, f.OneofIndex = proto.String(".N"), proto.Int32(0)
			file.MessageType[0].OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("either")}}
		}, "a.proto: M.f is in a oneof, whose fields can neither be repeated nor be required"},
		{"an extension of the entries of a map", func(file *descriptorpb.FileDescriptorProto) {
			file.Extension[0].TypeName = proto.String(".M.E")
		}, "a.proto: x has the type M.E, which is an entry of a map"},
		{"an extension with a number that is not for it, in a message", func(file *descriptorpb.FileDescriptorProto) {
			file.Extension[0].Number = proto.Int32(200)
			file.MessageType[1].Extension, file.Extension = file.Extension, nil
		}, "a.proto: N.x has the number 200, which M leaves to no extension"},
		{"an extension with a number that no field can have", inSet(false), "a.proto: x has the number 536870912, which M leaves to no extension"},
		{"that of a message set, which has such numbers", inSet(true), ""},
	} {
		file := holder(t)
		tt.change(file)
		_, err := descriptor.New(file, nil)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: the error is %v and not %q", tt.about, err, tt.want)
		}
	}
}

// inSet extends a message, which is a message set or not, with the first number that no
// field can have.
func inSet(isSet bool) func(*descriptorpb.FileDescriptorProto) {
	return func(file *descriptorpb.FileDescriptorProto) {
		m := file.MessageType[0]
		m.Field, m.NestedType = nil, nil
		m.Options = &descriptorpb.MessageOptions{MessageSetWireFormat: proto.Bool(isSet)}
		m.ExtensionRange[0].End = proto.Int32(1<<31 - 1)
		file.Extension[0].Number = proto.Int32(1 << 29)
	}
}
