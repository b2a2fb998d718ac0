package latis

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/protobuf"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

var (
	request  = sync.OnceValue(func() *protobuf.Schema { return compile(&latisv1.ConnectRequest{}) })
	response = sync.OnceValue(func() *protobuf.Schema { return compile(&latisv1.ConnectResponse{}) })
)

func compile(m proto.Message) *protobuf.Schema {
	return protobuf.Compile(m.ProtoReflect().Descriptor())
}

// AppendJSON appends payload as protojson; see [protocol.Transcoder]. A message without a
// known payload is written as a ConnectRequest.
func (latis) AppendJSON(dst, payload []byte) ([]byte, bool, error) {
	return schemaOf(payload).AppendJSON(dst, payload)
}

// AppendEdited appends payload as e wants it, as [protobuf.Edited] has it.
func (latis) AppendEdited(dst, payload []byte, e protobuf.Editor) ([]byte, error) {
	return schemaOf(payload).AppendEdited(dst, payload, e)
}

func schemaOf(payload []byte) *protobuf.Schema {
	if isResponse(payload) {
		return response()
	}
	return request()
}

// AppendPayload appends the message that the protojson describes. Which of the
// two it is shows in the names of its members.
func (latis) AppendPayload(dst, json []byte) ([]byte, error) {
	if describesResponse(json) {
		return response().AppendWire(dst, json)
	}
	return request().AppendWire(dst, json)
}

func isResponse(payload []byte) bool {
	w := walker{wire: payload}
	for w.nextField(len(payload)) {
		if k := kindOf(w.num); k != nil {
			return k.from == frame.U2C
		}
	}
	return false
}

func describesResponse(json []byte) bool {
	fields := (&latisv1.ConnectResponse{}).ProtoReflect().Descriptor().Fields()
	var s jsonscan.Scanner
	s.Init(json)
	for ok := s.Object(); ok && s.Next(); {
		name := string(s.Key())
		f := fields.ByJSONName(name)
		if f == nil {
			f = fields.ByTextName(name)
		}
		if f != nil && f.Number() != 1 {
			return true
		}
	}
	return false
}
