package latis

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// KindOf returns the kind of a ConnectRequest or ConnectResponse; 0 if it has no known
// payload.
func KindOf(m proto.Message) Kind {
	r := m.ProtoReflect()
	if payload := r.WhichOneof(r.Descriptor().Oneofs().Get(0)); payload != nil {
		return Kind(payload.Number())
	}
	return 0
}

// Answers returns the id of the request that a response answers: its own, or else the one
// that its payload names.
func Answers(m *latisv1.ConnectResponse) string {
	return cmp.Or(
		m.GetId(), m.GetResponseChunk().GetRequestId(), m.GetResponseComplete().GetRequestId(),
		m.GetResponseCancelled().GetRequestId(), m.GetError().GetRequestId(), m.GetAck().GetRequestId(),
	)
}

// Fault returns the fault and its place in a payload that the protobuf module rejected with
// err.
func Fault(payload []byte, err error) error {
	if _, _, positioned := Protocol.AppendJSON(nil, payload); positioned != nil {
		return positioned
	}
	return err
}
