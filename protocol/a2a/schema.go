package a2a

import (
	"embed"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/protobuf/protofile"
)

//go:embed v03.proto v10.proto
var schemas embed.FS

// methods are compiled on first use.
var methods = sync.OnceValue(func() *protobuf.Methods {
	files, err := protofile.Embedded(schemas, "v03.proto", "v10.proto")
	if err != nil {
		panic(err) // a test compiles them
	}
	return protobuf.NewMethods(files...)
})

// Messages returns the protocols of the requests and answers of gRPC calls to that path, or
// false if it is not of A2A.
func Messages(path string) (request, answer protocol.Protocol, ok bool) {
	service, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if services[service] == nil {
		return nil, nil, false
	}
	request, answer, ok = methods().Messages(path)
	if ok {
		request, answer = overGRPC{request.(typed)}, overGRPC{answer.(typed)}
	}
	return request, answer, ok
}

// REST is the protocol of the bodies over REST, which do not name their methods.
var REST protocol.Protocol = rest{opaque.JSON}

type rest struct{ protocol.Protocol }

func (rest) Name() string { return Name }

// overGRPC is the protocol of a message over gRPC.
type overGRPC struct{ typed }

type typed interface {
	protocol.Transcoder
	protobuf.Edited
}

func (overGRPC) Name() string { return Name }
