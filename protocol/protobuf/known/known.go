// Package known has the files that every compiler of .proto files brings along, such
// as google/protobuf/timestamp.proto. They are read when one is asked for: the packages
// that are generated from them would register all of them at each start of the program.
package known

import (
	_ "embed"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
)

// set is what ./gen writes: each file comes after those that it imports.
//
//go:embed known.binpb
var set []byte

// Files returns the files.
var Files = sync.OnceValue(func() *protoregistry.Files {
	var files descriptorpb.FileDescriptorSet
	err := proto.Unmarshal(set, &files)
	if err != nil {
		panic(err) // the set is ours
	}
	known := &protoregistry.Files{}
	// This one is linked anyway.
	if err := known.RegisterFile(descriptorpb.File_google_protobuf_descriptor_proto); err != nil {
		panic(err)
	}
	for _, file := range files.GetFile() {
		fd, err := descriptor.New(file, known)
		if err != nil {
			panic(err)
		}
		if err := known.RegisterFile(fd); err != nil {
			panic(err)
		}
	}
	return known
})
