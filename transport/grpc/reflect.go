package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/transport"
)

// Reflection returns the schemas of the reflection service, in its two versions, which only
// differ in their names.
func Reflection() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		v1.File_grpc_reflection_v1_reflection_proto,
		grpc_reflection_v1alpha.File_grpc_reflection_v1alpha_reflection_proto,
	}
}

// maxFiles bounds the files that are requested from a server.
const maxFiles = 1000

// Reflect asks a server for its services and their schemas, by server reflection, over an
// HTTP/2 connection, which it closes. The schemas are for observers of the connection.
func Reflect(ctx context.Context, raw net.Conn, authority string) (services []string, err error) {
	defer raw.Close()
	cc, err := over(raw, authority, grpc.MaxCallRecvMsgSize(transport.DefaultLimit))
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	for _, file := range Reflection() {
		if services, err = reflect(ctx, cc, file.Services().Get(0)); status.Code(err) != codes.Unimplemented {
			break
		}
	}
	if s, ok := status.FromError(err); ok && err != nil {
		err = errors.New(s.Message())
	}
	return services, err
}

// A conversation is a call of one version of the service. The messages of both versions
// have the same encoding, so those of v1 serve.
type conversation struct {
	call  grpc.ClientStream
	files map[string]bool // by name, whether it has arrived
}

func reflect(ctx context.Context, cc *grpc.ClientConn, service protoreflect.ServiceDescriptor) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(0).Name())
	call, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	c := &conversation{call, map[string]bool{}}
	answer, err := c.roundTrip(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, err
	}
	var services []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	for _, name := range services {
		if _, err := c.roundTrip(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}); err != nil {
			return nil, err
		}
	}
	for name := c.missing(); name != ""; name = c.missing() {
		c.files[name] = true // it is asked for once
		if _, err := c.roundTrip(&v1.ServerReflectionRequest{MessageRequest: &v1.ServerReflectionRequest_FileByFilename{FileByFilename: name}}); err != nil {
			return nil, err
		}
	}
	return services, c.endCall()
}

// endCall ends the call properly: a cancel would look like a failure.
func (c *conversation) endCall() error {
	if err := c.call.CloseSend(); err != nil {
		return err
	}
	switch err := c.call.RecvMsg(new(v1.ServerReflectionResponse)); err {
	case nil:
		return errors.New("the server sent more answers than there were requests")
	case io.EOF:
		return nil
	default:
		return err
	}
}

// missing returns an imported file that has not arrived.
func (c *conversation) missing() string {
	if len(c.files) > maxFiles {
		return ""
	}
	for name, here := range c.files {
		if !here {
			return name
		}
	}
	return ""
}

// roundTrip sends a request and keeps the names of the files in the answer. A service
// without a schema is not an error.
func (c *conversation) roundTrip(question *v1.ServerReflectionRequest) (*v1.ServerReflectionResponse, error) {
	if err := c.call.SendMsg(question); err != nil && err != io.EOF {
		return nil, err
	}
	answer := new(v1.ServerReflectionResponse)
	if err := c.call.RecvMsg(answer); err != nil { // also the reason for a failed send
		if err == io.EOF {
			err = errors.New("the server ended the call without an answer")
		}
		return nil, err
	}
	for _, data := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(data, file); err != nil {
			return nil, fmt.Errorf("a schema from the server cannot be read: %w", err)
		}
		c.files[file.GetName()] = true
		for _, name := range file.GetDependency() {
			if _, known := c.files[name]; !known {
				c.files[name] = false
			}
		}
	}
	return answer, nil
}
