package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/protobuf/encoding/protowire"
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
	c, err := over(ctx, raw, authority, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, version := range versions {
		services, err = c.reflect(ctx, version)
		if s := (*status)(nil); !errors.As(err, &s) || s.code != unimplemented {
			break
		}
	}
	if s := (*status)(nil); errors.As(err, &s) {
		err = errors.New(s.message)
	}
	return services, err
}

// reflect asks in the words of a version: their messages are the same.
func (c *client) reflect(ctx context.Context, version string) ([]string, error) {
	k := c.call(ctx, reflectionPath(version), func() error { return nil })
	defer k.hangUp()
	r := &conversation{call: k, in: newMessages(k, transport.DefaultLimit), files: map[string]bool{}}
	return r.run()
}

// A conversation is about schemas.
type conversation struct {
	call  *call
	in    messages
	files map[string]bool // by name, whether it has come
}

func (r *conversation) run() (services []string, err error) {
	answer, err := r.ask(askServices, "*")
	if err != nil {
		return nil, err
	}
	services = namesIn(answer)
	for _, name := range services {
		if _, err := r.ask(askSymbol, name); err != nil {
			return nil, err
		}
	}
	if err := r.imports(); err != nil {
		return nil, err
	}
	return services, r.finish()
}

// namesIn returns the services in an answer.
func namesIn(answer []byte) (names []string) {
	for _, list := range values(answer, answerServices) {
		for _, service := range values(list, 1) {
			for _, name := range values(service, 1) {
				names = append(names, string(name))
			}
		}
	}
	return names
}

// finish ends the call in order: one that is broken off would look like a cancel.
func (r *conversation) finish() error {
	if err := r.call.CloseWrite(); err != nil {
		return err
	}
	switch _, err := r.in.next(); err {
	case nil:
		return errors.New("it answers more than it was asked")
	case io.EOF:
		return nil
	default:
		return err
	}
}

// imports asks for the files that others import and that have not come with them.
func (r *conversation) imports() error {
	for name := r.missing(); name != ""; name = r.missing() {
		r.files[name] = true // it is asked for once
		if _, err := r.ask(askFile, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *conversation) missing() string {
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
func (r *conversation) ask(kind protowire.Number, about string) (answer []byte, err error) {
	question := appendMessage(nil, appendField(nil, kind, []byte(about)))
	if _, err := r.call.Write(question); err != nil && err != io.ErrClosedPipe {
		return nil, err
	}
	if answer, err = r.in.whole(); err != nil { // which tells also why nothing could be asked
		if err == io.EOF {
			err = errors.New("it ended the call without an answer")
		}
		return nil, err
	}
	for _, response := range values(answer, answerFiles) {
		for _, file := range values(response, 1) {
			if err := r.note(file); err != nil {
				return nil, err
			}
		}
	}
	return answer, nil
}

// note takes note of a file and of what it imports.
func (r *conversation) note(data []byte) error {
	file := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(data, file); err != nil {
		return fmt.Errorf("a schema that the server tells cannot be read: %w", err)
	}
	r.files[file.GetName()] = true
	for _, name := range file.GetDependency() {
		if _, known := r.files[name]; !known {
			r.files[name] = false
		}
	}
	return nil
}
