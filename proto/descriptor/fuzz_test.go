package descriptor_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/protobuf/known"
)

// Whatever a peer tells for a schema is taken in or refused. What is taken in is as
// protodesc would have it, and messages can be read by it.
func FuzzNew(f *testing.F) {
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		seed(f, protodesc.ToFileDescriptorProto(fd))
		return true
	})
	for _, fd := range corpus(f) {
		seed(f, protodesc.ToFileDescriptorProto(fd))
	}
	f.Fuzz(func(t *testing.T, data []byte, changes uint64, message []byte) {
		file := &descriptorpb.FileDescriptorProto{}
		if proto.Unmarshal(data, file) != nil {
			return
		}
		mutate(file, changes)
		fd, err := descriptor.New(file, known.Files())
		if err != nil {
			var wrong *descriptor.Error
			if !errors.As(err, &wrong) || wrong.Element == nil || wrong.Reason == "" {
				t.Errorf("it is refused without a part that is to blame, or a reason: %v", err)
			}
			return
		}
		agree(t, file, known.Files(), fd)
		// Schemas are kept for good, and the fuzzer makes millions.
		readAll(fd.Messages(), message, changes%64 == 0)
	})
}

func seed(f *testing.F, file *descriptorpb.FileDescriptorProto) {
	data, err := proto.Marshal(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, uint64(0), []byte("\x0a\x03abc\x10\x01"))
}

// readAll reads a message as each type, in memory and, if asked to, straight to JSON.
func readAll(messages protoreflect.MessageDescriptors, message []byte, straight bool) {
	for i := range messages.Len() {
		md := messages.Get(i)
		m := dynamicpb.NewMessage(md)
		if proto.Unmarshal(message, m) == nil {
			_, _ = proto.Marshal(m)
		}
		if straight {
			_, _, _ = protobuf.Compile(md).AppendJSON(nil, message)
		}
		readAll(md.Messages(), message, straight)
	}
}
