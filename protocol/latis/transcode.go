package latis

import (
	"cmp"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
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

// AppendRenamed appends payload with other ids. It calls name with each id, and name
// returns the replacement, or nil to keep it. Every other byte stays, except for the
// lengths around an id. A payload that does not parse is appended unchanged.
func (latis) AppendRenamed(dst, payload []byte, name func(protocol.Token) []byte) []byte {
	start := len(dst)
	w := walker{wire: payload}
	for from := 0; w.nextField(len(payload)); from = w.pos {
		k := kindOf(w.num)
		switch {
		case w.value == nil || w.num != idNumber && k == nil:
			dst = append(dst, payload[from:w.pos]...)
		case k == nil:
			dst = appendNamed(dst, &w, from, protocol.SpaceID, name)
		default:
			inner := renameInside(w.value, k, name)
			dst = protowire.AppendTag(dst, w.num, w.typ)
			dst = protowire.AppendBytes(dst, inner)
		}
	}
	if w.fault != nil {
		return append(dst[:start], payload...)
	}
	return dst
}

// renameInside returns the fields of a payload with other ids.
func renameInside(payload []byte, k *kind, name func(protocol.Token) []byte) []byte {
	var dst []byte
	w := walker{wire: payload}
	for from := 0; w.nextField(len(payload)); from = w.pos {
		switch f := k.field(w.num); {
		case w.value != nil && (f == requestID || f == targetID):
			dst = appendNamed(dst, &w, from, protocol.SpaceID, name)
		case w.value != nil && f == sessionID:
			dst = appendNamed(dst, &w, from, protocol.SpaceSession, name)
		default:
			dst = append(dst, payload[from:w.pos]...)
		}
	}
	if w.fault != nil {
		return payload
	}
	return dst
}

// appendNamed appends the field that w has just passed, which is an id.
func appendNamed(dst []byte, w *walker, from int, space protocol.Space, name func(protocol.Token) []byte) []byte {
	other := name(protocol.Token{Space: space, Text: w.value})
	if other == nil {
		return append(dst, w.wire[from:w.pos]...)
	}
	dst = protowire.AppendTag(dst, w.num, w.typ)
	return protowire.AppendBytes(dst, other)
}

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
