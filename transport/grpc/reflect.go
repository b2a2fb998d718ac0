package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/transport"
)

// maxFiles bounds the files that a server is asked for.
const maxFiles = 1000

// Reflect asks a server for its services and for the schemas of all of them, by
// server reflection, over a connection that carries HTTP/2, which it closes. What
// the server answers passes over that connection, for whoever looks on.
func Reflect(ctx context.Context, raw net.Conn, authority string) (services []string, err error) {
	defer raw.Close()
	cc, err := over(raw, authority, insecure.NewCredentials(), transport.DefaultLimit)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, version := range []string{"v1", "v1alpha"} {
		r := &reflecting{files: map[string]bool{}}
		if services, err = r.run(ctx, cc, version); status.Code(err) != codes.Unimplemented {
			break
		}
	}
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return services, nil
}

// reflecting is a conversation about schemas.
type reflecting struct {
	stream grpc.ClientStream
	files  map[string]bool // by name, whether it has come
}

// run asks in the words of a version: their messages are the same.
func (r *reflecting) run(ctx context.Context, cc *grpc.ClientConn, version string) (services []string, err error) {
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	if r.stream, err = cc.NewStream(ctx, desc, "/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo"); err != nil {
		return nil, err
	}
	answer, err := r.ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	if err != nil {
		return nil, err
	}
	for _, s := range answer.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
		if _, err := r.ask(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: s.GetName()},
		}); err != nil {
			return nil, err
		}
	}
	if err := r.imports(); err != nil {
		return nil, err
	}
	return services, r.finish()
}

// finish ends the call in order: one that is broken off would look like a cancel.
func (r *reflecting) finish() error {
	if err := r.stream.CloseSend(); err != nil {
		return err
	}
	switch err := r.stream.RecvMsg(&grpc_reflection_v1.ServerReflectionResponse{}); err {
	case nil:
		return errors.New("it answers more than it was asked")
	case io.EOF:
		return nil
	default:
		return err
	}
}

// imports asks for the files that others import and that have not come with them.
func (r *reflecting) imports() error {
	for name := r.missing(); name != ""; name = r.missing() {
		r.files[name] = true // it is asked for once
		if _, err := r.ask(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileByFilename{FileByFilename: name},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *reflecting) missing() string {
	if len(r.files) > maxFiles {
		return ""
	}
	for name, here := range r.files {
		if !here {
			return name
		}
	}
	return ""
}

// ask asks, and takes note of the files in the answer. A service without a schema
// is no failure.
func (r *reflecting) ask(q *grpc_reflection_v1.ServerReflectionRequest) (*grpc_reflection_v1.ServerReflectionResponse, error) {
	answer := &grpc_reflection_v1.ServerReflectionResponse{}
	if err := r.stream.SendMsg(q); err != nil {
		return nil, r.stream.RecvMsg(answer) // which tells why
	}
	if err := r.stream.RecvMsg(answer); err != nil {
		return nil, err
	}
	for _, data := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(data, file); err != nil {
			return nil, fmt.Errorf("a schema that the server tells cannot be read: %w", err)
		}
		r.files[file.GetName()] = true
		for _, name := range file.GetDependency() {
			if _, known := r.files[name]; !known {
				r.files[name] = false
			}
		}
	}
	return answer, nil
}
