package a2a

import (
	"embed"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/protocol"
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
	return methods().Messages(path)
}
