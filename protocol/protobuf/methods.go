package protobuf

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol"
)

// Methods holds the methods of the services in schemas, by the paths of their gRPC calls:
// "/acme.v1.Jobs/Start". It is safe for concurrent use.
type Methods struct {
	files       []protoreflect.FileDescriptor
	descriptors map[string]protoreflect.MethodDescriptor

	mu       sync.Mutex
	messages map[protoreflect.FullName]protocol.Transcoder // compiled on first use
}

// NewMethods returns the methods of the services in files.
func NewMethods(files ...protoreflect.FileDescriptor) *Methods {
	m := &Methods{
		files:       files,
		descriptors: map[string]protoreflect.MethodDescriptor{},
		messages:    map[protoreflect.FullName]protocol.Transcoder{},
	}
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				m.descriptors["/"+string(service.FullName())+"/"+string(method.Name())] = method
			}
		}
	}
	return m
}

// Messages returns the protocols of the requests and answers of calls to that path, or false if
// no service has it.
func (m *Methods) Messages(path string) (request, answer protocol.Protocol, ok bool) {
	method := m.descriptors[path]
	if method == nil {
		return nil, nil, false
	}
	return m.message(method.Input()), m.message(method.Output()), true
}

// message returns the same protocol each time for a message type, so that methods with equal
// types have equal protocols.
func (m *Methods) message(md protoreflect.MessageDescriptor) protocol.Protocol {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.messages[md.FullName()]
	if p == nil {
		p = Message(md, m.files...)
		m.messages[md.FullName()] = p
	}
	return p
}
