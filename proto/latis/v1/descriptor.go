package latisv1

// FileDescriptor returns the FileDescriptorProto of the protocol, on the wire.
func FileDescriptor() []byte { return []byte(file_latis_v1_latis_proto_rawDesc) }
