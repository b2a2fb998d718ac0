package latis_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// Every payload of the schema has a kind, the same as Parse says, and a response answers
// the request that its payload names.
func TestKindOf(t *testing.T) {
	for _, m := range []proto.Message{&latisv1.ConnectRequest{}, &latisv1.ConnectResponse{}} {
		payloads := m.ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
		for i := range payloads.Len() {
			m := m.ProtoReflect().New()
			payload := m.Mutable(payloads.Get(i)).Message()
			requestID := payload.Descriptor().Fields().ByName("request_id")
			if requestID != nil {
				payload.Set(requestID, protoreflect.ValueOfString("7"))
			}
			wire, err := proto.Marshal(m.Interface())
			if err != nil {
				t.Fatal(err)
			}
			var parsed protocol.Message
			if err := latis.Protocol.Parse(wire, &parsed); err != nil || string(parsed.Kind) != latis.KindOf(m.Interface()).String() {
				t.Errorf("%s is %v, and parsed %s, %v", payloads.Get(i).Name(), latis.KindOf(m.Interface()), parsed.Kind, err)
			}
			if response, ok := m.Interface().(*latisv1.ConnectResponse); ok && requestID != nil && latis.Answers(response) != "7" {
				t.Errorf("%s answers %q", payloads.Get(i).Name(), latis.Answers(response))
			}
		}
	}
	if got := latis.KindOf(&latisv1.ConnectRequest{}).String(); got != "a message of no known kind" {
		t.Error(got)
	}
}
