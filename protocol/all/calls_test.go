package all

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, path string
		want                    any
		known                   bool
	}{
		{"the method of Latis", "application/grpc", "/latis.v1.LatisService/Connect", latis.Protocol, true},
		{"with the encoding named", "application/grpc+proto; x=1", "/latis.v1.LatisService/Connect", latis.Protocol, true},
		{"a method that nobody has described", "application/grpc", "/acme.v1.Jobs/Start", protobuf.Schemaless{}, false},
		{"another encoding", "application/grpc+json", "/latis.v1.LatisService/Connect", nil, false},
		{"no gRPC", "application/json", "/latis.v1.LatisService/Connect", nil, false},
		{"nothing said", "", "/latis.v1.LatisService/Connect", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := &frame.Head{Start: "POST " + tt.path + " HTTP/2", Fields: []frame.Field{{Name: "content-type", Value: tt.contentType}}}
			for _, calls := range []*Calls{nil, {}, {Known: protobuf.NewMethods()}} {
				request, answer, known := calls.Of(head)
				if any(request) != tt.want || any(answer) != tt.want || known != tt.known {
					t.Errorf("got %v and %v, known %t", request, answer, known)
				}
			}
		})
	}
}
