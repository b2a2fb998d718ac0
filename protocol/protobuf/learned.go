package protobuf

import (
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/protocol"
)

// maxLearned bounds the learned files, and those that wait for their imports.
const maxLearned = 4096

// maxNames bounds the bytes of names that are built to link learned files. No real schema comes
// near it. A malicious file of a few kilobytes could exceed it and keep the program busy for
// minutes.
const maxNames = 1 << 28

// Learned holds the methods of services whose schemas appear in the stream itself, as a
// server's answers to reflection requests. The zero value is empty.
type Learned struct {
	seen    map[string]bool // names of files that are known or waiting
	waiting []*descriptorpb.FileDescriptorProto
	names   int64 // see maxNames
	files   protoregistry.Files
	methods []*Methods
}

// Learn adds the schemas in an answer of gRPC's server reflection, a
// ServerReflectionResponse. Unreadable ones are skipped: the peer judges them.
func (l *Learned) Learn(answer []byte) {
	const filesNumber, fileNumber = 4, 1
	news := false
	for response := range delimited(answer, filesNumber) {
		for data := range delimited(response, fileNumber) {
			file := &descriptorpb.FileDescriptorProto{}
			if proto.Unmarshal(data, file) == nil && l.isNew(file) {
				l.waiting = append(l.waiting, file)
				news = true
			}
		}
	}
	for news {
		news = l.settle()
	}
}

// isNew reports whether a file should be learned, and remembers it.
func (l *Learned) isNew(file *descriptorpb.FileDescriptorProto) bool {
	_, err := l.FindFileByPath(file.GetName())
	if err == nil || l.seen[file.GetName()] || len(l.seen) >= maxLearned {
		return false
	}
	if l.names += namesToLink(file); l.names > maxNames {
		return false
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[file.GetName()] = true
	return true
}

// namesToLink estimates how many bytes of names are built to link a file.
func namesToLink(file *descriptorpb.FileDescriptorProto) int64 {
	scope, depth := int64(len(file.GetPackage())), int64(strings.Count(file.GetPackage(), ".")+1)
	n := namesInScope(scope, depth, file.GetMessageType(), file.GetEnumType(), file.GetExtension())
	for _, service := range file.GetService() {
		n += scope * depth * int64(len(service.GetMethod()))
	}
	return n
}

// namesInScope is namesToLink for the declarations in a scope whose name has the given length
// and depth parts. A relative name is looked up in each of the enclosing scopes.
func namesInScope(
	scope, depth int64, messages []*descriptorpb.DescriptorProto,
	enums []*descriptorpb.EnumDescriptorProto, fields []*descriptorpb.FieldDescriptorProto,
) (n int64) {
	for _, field := range fields {
		n += scope
		for _, name := range []string{field.GetTypeName(), field.GetExtendee()} {
			if name != "" && name[0] != '.' {
				n += depth * (scope + int64(len(name)))
			}
		}
	}
	for _, enum := range enums {
		n += scope * int64(len(enum.GetValue())+1)
	}
	for _, message := range messages {
		inner := scope + int64(len(message.GetName())) + 1
		n += inner + namesInScope(inner, depth+1, message.GetNestedType(), message.GetEnumType(), slices.Concat(message.GetField(), message.GetExtension()))
	}
	return n
}

// settle links the files whose imports are all known, and reports whether there were any.
// Invalid files are discarded.
func (l *Learned) settle() (any bool) {
	waiting := l.waiting
	l.waiting = nil
	for _, file := range waiting {
		if slices.ContainsFunc(file.GetDependency(), func(path string) bool { _, err := l.FindFileByPath(path); return err != nil }) {
			l.waiting = append(l.waiting, file)
			continue
		}
		fd, err := protodesc.NewFile(file, l)
		if err != nil || l.files.RegisterFile(fd) != nil {
			continue
		}
		any = true
		if fd.Services().Len() > 0 {
			l.methods = append(l.methods, NewMethods(fd))
		}
	}
	return any
}

// FindFileByPath finds an import: a learned file, or a well-known one.
func (l *Learned) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd, err := l.files.FindFileByPath(path); err == nil {
		return fd, nil
	}
	return Files().FindFileByPath(path)
}

// FindDescriptorByName is FindFileByPath for declarations in files.
func (l *Learned) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := l.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return Files().FindDescriptorByName(name)
}

// Messages is like [Methods.Messages].
func (l *Learned) Messages(path string) (request, answer protocol.Protocol, ok bool) {
	for _, m := range l.methods {
		if request, answer, ok = m.Messages(path); ok {
			return request, answer, true
		}
	}
	return nil, nil, false
}

// delimited yields the values of a length-delimited field.
func delimited(message []byte, want protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		r := reader{wire: message}
		for r.pos < len(message) {
			num, value, ok := r.skipField(len(message))
			if !ok || num == want && value != nil && !yield(value) {
				return
			}
		}
	}
}
