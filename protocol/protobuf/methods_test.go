package protobuf

import (
	"testing"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// The path of a call determines the message type of each direction. Messages of the same type
// have the same protocol, whichever method they belong to.
func TestMethods(t *testing.T) {
	m := NewMethods(latisv1.File_latis_v1_latis_proto)
	const path = "/latis.v1.LatisService/Connect"
	request, answer, ok := m.Messages(path)
	if !ok || string(request.(*typed).kind) != "latis.v1.ConnectRequest" || string(answer.(*typed).kind) != "latis.v1.ConnectResponse" {
		t.Fatalf("got %v, %v, %t", request, answer, ok)
	}
	if again, _, _ := m.Messages(path); again != request {
		t.Error("asked again, it is another protocol")
	}
	for _, other := range []string{"", "/", "/latis.v1.LatisService/connect", "latis.v1.LatisService/Connect"} {
		if _, _, ok := m.Messages(other); ok {
			t.Errorf("there is a method %q", other)
		}
	}
}
