package protobuf_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/protocol/protobuf"
)

// Every descriptor set is either loaded or rejected. A loaded one can be used to read messages.
func FuzzDescriptorSet(f *testing.F) {
	add := func(fd protoreflect.FileDescriptor) {
		data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(fd)}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte("\x0a\x03abc\x10\x01"))
	}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		add(fd)
		return true
	})
	sources, err := filepath.Glob("testdata/files/*.proto")
	if err != nil {
		f.Fatal(err)
	}
	files, err := protobuf.SchemaFiles(f.Context(), protobuf.SchemaSource{Proto: sources, ImportPaths: []string{"testdata/files"}})
	if err != nil {
		f.Fatal(err)
	}
	for _, fd := range files {
		add(fd)
	}
	f.Fuzz(func(t *testing.T, set, message []byte) {
		path := filepath.Join(t.TempDir(), "set.binpb")
		if err := os.WriteFile(path, set, 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := protobuf.SchemaFiles(t.Context(), protobuf.SchemaSource{DescriptorSet: []string{path}})
		if err != nil {
			return
		}
		for _, fd := range files {
			for i := range fd.Messages().Len() {
				md := fd.Messages().Get(i)
				_ = proto.Unmarshal(message, dynamicpb.NewMessage(md))
				_, _, _ = protobuf.Compile(md).AppendJSON(nil, message)
			}
		}
	})
}
