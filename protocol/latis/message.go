package latis

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// KindOf returns the kind of a ConnectRequest or ConnectResponse; 0 if it has no payload
// that is known.
func KindOf(m proto.Message) Kind {
	r := m.ProtoReflect()
	if payload := r.WhichOneof(r.Descriptor().Oneofs().Get(0)); payload != nil {
		return Kind(payload.Number())
	}
	return 0
}

// Answers returns the id of the request that a response answers: its own, or if it has
// none the one that its payload names.
func Answers(m *latisv1.ConnectResponse) string {
	return cmp.Or(
		m.GetId(), m.GetResponseChunk().GetRequestId(), m.GetResponseComplete().GetRequestId(),
		m.GetResponseCancelled().GetRequestId(), m.GetError().GetRequestId(), m.GetAck().GetRequestId(),
	)
}

// Fault returns what is wrong with a payload that the protobuf module rejected with err,
// and where.
func Fault(payload []byte, err error) error {
	if _, _, positioned := Protocol.AppendJSON(nil, payload); positioned != nil {
		return positioned
	}
	return err
}
