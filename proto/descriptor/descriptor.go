// Package descriptor makes descriptors that can be asked, protoreflect's, of those
// that compilers write and servers tell, FileDescriptorProtos.
//
// It stands where google.golang.org/protobuf/reflect/protodesc would, which makes
// tables at every start of the program. What it makes is what
// generated code makes of its own schema at start, by the same builder, that of
// package protoimpl: it is linked anyway, resolves the features of editions, and gives
// the descriptors that the rest of the module is made for. That builder believes all
// that it is given, and panics where it cannot. So it gets a copy that holds nothing
// but what has been understood and checked here. What says nothing of how messages are
// read is left out: source positions, default values, and most options.
package descriptor

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/runtime/protoimpl"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A Resolver has the files that others import. [protoregistry.Files] is one.
type Resolver interface {
	FindFileByPath(path string) (protoreflect.FileDescriptor, error)
	FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error)
}

// An Error says what is wrong with a file, and with which part of it.
type Error struct {
	// Element is the part of the FileDescriptorProto that is wrong, and Aspect
	// what of it.
	Element proto.Message
	Aspect  Aspect
	// Reason is a sentence that names the element.
	Reason string

	file string
}

// An Aspect is something that is said of an element.
type Aspect int

// The aspects.
const (
	All Aspect = iota
	Name
	Number
	Type // of a field, or what a method takes
	Answer
	Extendee
)

func (e *Error) Error() string { return e.file + ": " + e.Reason }

// New returns the descriptor of a file. What it imports, and nothing of the same
// names, has to be known; nil if it imports nothing. The file may come from anywhere:
// what is wrong with it is the error, an [*Error]. It is not kept.
func New(file *descriptorpb.FileDescriptorProto, known Resolver) (protoreflect.FileDescriptor, error) {
	if known == nil {
		known = (*protoregistry.Files)(nil)
	}
	b := builder{
		file: file, known: known, names: map[protoreflect.FullName]proto.Message{},
		visible: map[string]bool{}, packages: map[protoreflect.FullName]bool{}, closed: map[protoreflect.FullName]bool{},
	}
	checked, err := b.build()
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(checked)
	if err != nil {
		return nil, b.fail(file, All, "%v", err)
	}
	out := protoimpl.DescBuilder{RawDescriptor: raw, FileRegistry: registry{known}}.Build()
	for i := range out.Enums {
		// The builder passes over the features of enums.
		if closed, ok := b.closed[out.Enums[i].FullName()]; ok {
			out.Enums[i].L1.EditionFeatures.IsOpenEnum = !closed
		}
	}
	return out.File, b.check(out.File)
}

// registry is known to the runtime's builder, which would enter the file there.
type registry struct{ Resolver }

func (registry) RegisterFile(protoreflect.FileDescriptor) error { return nil }

func (b *builder) fail(element proto.Message, aspect Aspect, format string, args ...any) error {
	return &Error{Element: element, Aspect: aspect, Reason: fmt.Sprintf(format, args...), file: b.file.GetName()}
}
