package protobuf

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/protobuf/known"
)

// maxLearned bounds the files that are learned, and those that wait for what they
// import.
const maxLearned = 4096

// Learned are the methods of services whose schemas come in the stream itself, as
// a server's answers to questions of reflection. The zero value knows none.
type Learned struct {
	seen    map[string]bool // names of files that are known or wait
	waiting []*descriptorpb.FileDescriptorProto
	files   protoregistry.Files
	methods []*Methods
}

// Learn takes in an answer of gRPC's server reflection, a ServerReflectionResponse.
// What cannot be read is passed over: it is the peer's to judge.
func (l *Learned) Learn(answer []byte) {
	const filesNumber, fileNumber = 4, 1
	news := false
	for response := range delimited(answer, filesNumber) {
		for data := range delimited(response, fileNumber) {
			file := &descriptorpb.FileDescriptorProto{}
			if proto.Unmarshal(data, file) == nil && !l.seen[file.GetName()] && len(l.seen) < maxLearned {
				if l.seen == nil {
					l.seen = map[string]bool{}
				}
				l.seen[file.GetName()] = true
				l.waiting = append(l.waiting, file)
				news = true
			}
		}
	}
	for news {
		news = l.settle()
	}
}

// settle takes up the files whose imports are all known, and reports whether there
// were any.
func (l *Learned) settle() (any bool) {
	waiting := l.waiting[:0]
	for _, file := range l.waiting {
		fd, err := descriptor.New(file, l)
		if err != nil || l.files.RegisterFile(fd) != nil {
			waiting = append(waiting, file)
			continue
		}
		any = true
		if fd.Services().Len() > 0 {
			l.methods = append(l.methods, NewMethods(fd))
		}
	}
	l.waiting = waiting
	return any
}

// FindFileByPath finds an import: of what was learned, or of what everybody has.
func (l *Learned) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if fd, err := l.files.FindFileByPath(path); err == nil {
		return fd, nil
	}
	return known.Files().FindFileByPath(path)
}

// FindDescriptorByName is FindFileByPath for what is in files.
func (l *Learned) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := l.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return known.Files().FindDescriptorByName(name)
}

// Messages is [Methods.Messages].
func (l *Learned) Messages(path string) (request, answer protocol.Protocol, ok bool) {
	for _, m := range l.methods {
		if request, answer, ok = m.Messages(path); ok {
			return request, answer, true
		}
	}
	return nil, nil, false
}

// delimited hands out the values of a length-delimited field.
func delimited(message []byte, want protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for r := range records(message) {
			if r.num == want && r.typ == protowire.BytesType && !yield(r.value) {
				return
			}
		}
	}
}
