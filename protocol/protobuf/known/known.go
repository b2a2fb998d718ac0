// Package known has the files that every compiler of .proto files brings along, such
// as google/protobuf/timestamp.proto. They are read when one is asked for: the packages
// that are generated from them would register all of them at each start of the program.
package known

import (
	_ "embed"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/gofeaturespb"
)

// set is what ./gen writes.
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
	known, err := protodesc.NewFiles(&files)
	if err != nil {
		panic(err)
	}
	// These are linked anyway: protodesc needs them.
	for _, file := range []protoreflect.FileDescriptor{
		descriptorpb.File_google_protobuf_descriptor_proto, gofeaturespb.File_google_protobuf_go_features_proto,
	} {
		if err := known.RegisterFile(file); err != nil {
			panic(err)
		}
	}
	return known
})
