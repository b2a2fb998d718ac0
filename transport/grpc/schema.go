package grpc

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/proto/latis/v1/schema"
)

// reflectionName is the service by which servers tell their schemas, of which
// there are two versions that differ in nothing but the name.
func reflectionName(version string) string { return "grpc.reflection." + version + ".ServerReflection" }

// reflectionPath is that of the service's one method.
func reflectionPath(version string) string {
	return "/" + reflectionName(version) + "/ServerReflectionInfo"
}

// versions of reflection, of which the last is for servers that have stayed behind.
var versions = []string{"v1", "v1alpha"}

// Reflection returns the files of the service by which servers tell their schemas.
// They are made when they are asked for: generated code would make them at each
// start of the program.
func Reflection() []protoreflect.FileDescriptor { return schemas().reflection }

// A schemaSet is what a server of ours tells.
type schemaSet struct {
	reflection []protoreflect.FileDescriptor
	files      protoregistry.Files // those, and that of latis
	wire       map[string][]byte   // by path, the files as they are told
}

var schemas = sync.OnceValue(func() *schemaSet {
	s := &schemaSet{wire: map[string][]byte{}}
	for _, version := range versions {
		file := reflectionFile(version)
		fd, err := descriptor.New(file, nil)
		if err != nil {
			panic(err) // the schema is ours
		}
		s.reflection = append(s.reflection, fd)
		s.add(fd, file)
	}
	s.add(schema.File(), schema.Proto())
	return s
})

func (s *schemaSet) add(fd protoreflect.FileDescriptor, file *descriptorpb.FileDescriptorProto) {
	err := s.files.RegisterFile(fd)
	if err == nil {
		s.wire[fd.Path()], err = proto.Marshal(file)
	}
	if err != nil {
		panic(err) // the schemas are ours
	}
}

func reflectionFile(version string) *descriptorpb.FileDescriptorProto {
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(strings.ReplaceAll(reflectionSchema, "VERSION", version)), file); err != nil {
		panic(err) // the schema is ours
	}
	return file
}

const reflectionSchema = `
name: "grpc/reflection/VERSION/reflection.proto"
package: "grpc.reflection.VERSION"
syntax: "proto3"
service {
  name: "ServerReflection"
  method {
    name: "ServerReflectionInfo"
    input_type: ".grpc.reflection.VERSION.ServerReflectionRequest" client_streaming: true
    output_type: ".grpc.reflection.VERSION.ServerReflectionResponse" server_streaming: true
  }
}
message_type {
  name: "ServerReflectionRequest"
  oneof_decl { name: "message_request" }
  field { name: "host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "file_by_filename" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "file_containing_symbol" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field {
    name: "file_containing_extension" number: 5 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ExtensionRequest"
  }
  field { name: "all_extension_numbers_of_type" number: 6 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "list_services" number: 7 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
}
message_type {
  name: "ExtensionRequest"
  field { name: "containing_type" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "extension_number" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
message_type {
  name: "ServerReflectionResponse"
  oneof_decl { name: "message_response" }
  field { name: "valid_host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field {
    name: "original_request" number: 2 label: LABEL_OPTIONAL
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ServerReflectionRequest"
  }
  field {
    name: "file_descriptor_response" number: 4 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.FileDescriptorResponse"
  }
  field {
    name: "all_extension_numbers_response" number: 5 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ExtensionNumberResponse"
  }
  field {
    name: "list_services_response" number: 6 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ListServiceResponse"
  }
  field {
    name: "error_response" number: 7 label: LABEL_OPTIONAL oneof_index: 0
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ErrorResponse"
  }
}
message_type {
  name: "FileDescriptorResponse"
  field { name: "file_descriptor_proto" number: 1 label: LABEL_REPEATED type: TYPE_BYTES }
}
message_type {
  name: "ExtensionNumberResponse"
  field { name: "base_type_name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "extension_number" number: 2 label: LABEL_REPEATED type: TYPE_INT32 }
}
message_type {
  name: "ListServiceResponse"
  field {
    name: "service" number: 1 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".grpc.reflection.VERSION.ServiceResponse"
  }
}
message_type {
  name: "ServiceResponse"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
}
message_type {
  name: "ErrorResponse"
  field { name: "error_code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "error_message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
}
`
