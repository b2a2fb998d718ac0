// Package schema has the schema of latis for those who ask what its messages are made
// of. It is read when it is asked for: package latisv1, which is generated from the same
// file, would register it at each start of the program.
package schema

import (
	_ "embed"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
)

// set is latis.proto, compiled.
//
//go:embed latis.binpb
var set []byte

// Proto returns the file as compilers write it. It is not to be changed.
var Proto = sync.OnceValue(func() *descriptorpb.FileDescriptorProto {
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &files); err != nil {
		panic(err) // the set is ours
	}
	return files.File[0]
})

// File returns the file as it can be asked.
var File = sync.OnceValue(func() protoreflect.FileDescriptor {
	fd, err := descriptor.New(Proto(), nil)
	if err != nil {
		panic(err) // the schema is ours
	}
	return fd
})
