// Gen writes the files of package known, out of what the protobuf module has, and
// protocompile besides.
package main

import (
	"context"
	"flag"
	"log"
	"os"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/gofeaturespb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/sourcecontextpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/typepb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func main() {
	out := flag.String("o", "protocol/protobuf/known/known.binpb", "the file to write")
	flag.Parse()
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range []protoreflect.FileDescriptor{
		anypb.File_google_protobuf_any_proto,
		sourcecontextpb.File_google_protobuf_source_context_proto,
		typepb.File_google_protobuf_type_proto,
		apipb.File_google_protobuf_api_proto,
		durationpb.File_google_protobuf_duration_proto,
		emptypb.File_google_protobuf_empty_proto,
		fieldmaskpb.File_google_protobuf_field_mask_proto,
		structpb.File_google_protobuf_struct_proto,
		timestamppb.File_google_protobuf_timestamp_proto,
		wrapperspb.File_google_protobuf_wrappers_proto,
		gofeaturespb.File_google_protobuf_go_features_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{})}
	more, err := compiler.Compile(context.Background(),
		"google/protobuf/compiler/plugin.proto", "google/protobuf/cpp_features.proto", "google/protobuf/java_features.proto")
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range more {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err == nil {
		err = os.WriteFile(*out, b, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
