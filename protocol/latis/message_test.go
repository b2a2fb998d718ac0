package latis_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
	"github.com/wirectl/wirectl/protocol/internal/prototest"
	"github.com/wirectl/wirectl/protocol/latis"
)

// ofGenerated returns what a message of generated code says, which has an empty map
// where only a field of another wire type has the number of that.
func ofGenerated(m proto.Message) (same latis.Message) {
	switch m := m.(type) {
	case *latisv1.ConnectRequest:
		same = ofRequest(m)
	case *latisv1.ConnectResponse:
		same = ofResponse(m)
	}
	if len(same.Metadata) == 0 {
		same.Metadata = nil
	}
	if len(same.State) == 0 {
		same.State = nil
	}
	return same
}

func ofRequest(m *latisv1.ConnectRequest) latis.Message {
	switch p := m.Payload.(type) {
	case *latisv1.ConnectRequest_PromptSend:
		return latis.Message{ID: m.Id, Kind: latis.PromptSend, Content: p.PromptSend.Content, Metadata: p.PromptSend.Metadata}
	case *latisv1.ConnectRequest_PromptCancel:
		return latis.Message{ID: m.Id, Kind: latis.PromptCancel, TargetID: p.PromptCancel.TargetId}
	case *latisv1.ConnectRequest_StateGet:
		return latis.Message{ID: m.Id, Kind: latis.StateGet}
	case *latisv1.ConnectRequest_StateSubscribe:
		return latis.Message{ID: m.Id, Kind: latis.StateSubscribe, Unsubscribe: p.StateSubscribe.Unsubscribe}
	case *latisv1.ConnectRequest_SessionCreate:
		return latis.Message{ID: m.Id, Kind: latis.SessionCreate, Metadata: p.SessionCreate.Metadata}
	case *latisv1.ConnectRequest_SessionResume:
		return latis.Message{ID: m.Id, Kind: latis.SessionResume, SessionID: p.SessionResume.SessionId}
	case *latisv1.ConnectRequest_SessionDestroy:
		return latis.Message{ID: m.Id, Kind: latis.SessionDestroy, SessionID: p.SessionDestroy.SessionId}
	case *latisv1.ConnectRequest_Ping:
		return latis.Message{ID: m.Id, Kind: latis.Ping, Timestamp: p.Ping.Timestamp}
	}
	return latis.Message{ID: m.Id}
}

func ofResponse(m *latisv1.ConnectResponse) latis.Message {
	switch p := m.Payload.(type) {
	case *latisv1.ConnectResponse_ResponseChunk:
		c := p.ResponseChunk
		return latis.Message{ID: m.Id, Kind: latis.ResponseChunk, RequestID: c.RequestId, Content: c.Content, Sequence: c.Sequence}
	case *latisv1.ConnectResponse_ResponseComplete:
		c := p.ResponseComplete
		return latis.Message{ID: m.Id, Kind: latis.ResponseComplete, RequestID: c.RequestId, Metadata: c.Metadata}
	case *latisv1.ConnectResponse_ResponseCancelled:
		return latis.Message{ID: m.Id, Kind: latis.ResponseCancelled, RequestID: p.ResponseCancelled.RequestId}
	case *latisv1.ConnectResponse_StateUpdate:
		return latis.Message{ID: m.Id, Kind: latis.StateUpdate, Busy: p.StateUpdate.Busy, State: p.StateUpdate.State}
	case *latisv1.ConnectResponse_Error:
		e := p.Error
		return latis.Message{ID: m.Id, Kind: latis.Error, RequestID: e.RequestId, Code: e.Code, Message: e.Message}
	case *latisv1.ConnectResponse_Ack:
		a := p.Ack
		return latis.Message{ID: m.Id, Kind: latis.Ack, RequestID: a.RequestId, SessionID: a.SessionId, State: a.State}
	case *latisv1.ConnectResponse_Pong:
		return latis.Message{ID: m.Id, Kind: latis.Pong, PingTimestamp: p.Pong.PingTimestamp, PongTimestamp: p.Pong.PongTimestamp}
	}
	return latis.Message{ID: m.Id}
}

// likeGenerated reads wire as from one side, and holds what is read, and what is
// written of it, to what generated code reads and writes.
func likeGenerated(t *testing.T, wire []byte, from frame.Dir, m proto.Message) {
	t.Helper()
	got := latis.Message{ID: "before", Content: "before", Sequence: 1} // of which nothing stays
	err := got.Unmarshal(wire, from)
	if wantErr := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(wire, m); (err == nil) != (wantErr == nil) {
		t.Fatalf("% x from %v: %v, generated code: %v", wire, from, err, wantErr)
	}
	if err != nil {
		return
	}
	if want := ofGenerated(m); !reflect.DeepEqual(got, want) {
		t.Fatalf("% x from %v:\n%+v\ngenerated code:\n%+v", wire, from, got, want)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if back := got.Append(nil); !bytes.Equal(back, want) {
		t.Fatalf("% x from %v is written as\n% x\nby generated code as\n% x", wire, from, back, want)
	}
}

// messages are some of every kind.
func messages(t testing.TB) (wires [][]byte) {
	vectors, err := fixtures.Vectors("latis")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		wires = append(wires, v.Bytes)
	}
	for _, json := range []string{
		`{"id":"1","sessionCreate":{"metadata":{"b":"1","a":"","":"` + strings.Repeat("d", 300) + `"}}}`,
		`{"id":"1","stateSubscribe":{"unsubscribe":true}}`,
		`{"id":"1","sessionResume":{"sessionId":"s"}}`,
		`{"id":"1","sessionDestroy":{"sessionId":"s"}}`,
	} {
		wires = append(wires, []byte(request(t, json)))
	}
	for _, json := range []string{
		`{"id":"1","responseChunk":{"content":"` + strings.Repeat("x", 20_000) + `","sequence":4294967295}}`,
		`{"id":"1","responseComplete":{"requestId":"2","metadata":{"a":"b"}}}`,
		`{"id":"1","stateUpdate":{"busy":true,"state":{"b":"1","a":"2"}}}`,
		`{"id":"1","error":{"requestId":"2","code":"C","message":"m"}}`,
		`{"id":"1","ack":{"requestId":"2","sessionId":"s","state":{"a":"b"}}}`,
		`{"id":"1","pong":{"pingTimestamp":"-1","pongTimestamp":"9223372036854775807"}}`,
	} {
		wires = append(wires, []byte(response(t, json)))
	}
	for _, wire := range []string{
		// Payloads in pieces.
		"\x52\x03\x0a\x01a\x0a\x011\x52\x08\x12\x06\x0a\x01k\x12\x01v",
		"\x52\x08\x12\x06\x0a\x01k\x12\x01v\x52\x08\x12\x06\x0a\x01l\x12\x01w",
		"\x52\x03\x0a\x01a\x62\x00\x52\x00", // which another kind comes between
		"\xa2\x01\x03\x12\x01a\xa2\x01\x02\x18\x01",
		// Fields of other wire types behind those that count.
		"\x0a\x011\x62\x00\x08\x05",
		"\x52\x0c\x12\x0a\x0a\x01k\x12\x01v\x08\x01\x10\x01",
		"\xa2\x01\x09\x18\x05\x20\x09\x1d\x01\x00\x00\x00",
	} {
		wires = append(wires, []byte(wire))
	}
	return wires
}

func TestMessage(t *testing.T) {
	wires := messages(t)
	for _, n := range []int{125, 126, 16_380, 16_381} { // the length of the payload gets another byte
		wires = append(wires, []byte(response(t, `{"id":"1","error":{"message":"`+strings.Repeat("x", n)+`"}}`)))
	}
	for _, wire := range wires {
		likeGenerated(t, wire, frame.C2U, &latisv1.ConnectRequest{})
		likeGenerated(t, wire, frame.U2C, &latisv1.ConnectResponse{})
	}
}

// Every field of every payload in the schema is one that a Message has.
func TestMessageHasAllFields(t *testing.T) {
	for from, m := range map[frame.Dir]proto.Message{frame.C2U: &latisv1.ConnectRequest{}, frame.U2C: &latisv1.ConnectResponse{}} {
		payloads := m.ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
		for i := range payloads.Len() {
			fields := payloads.Get(i).Message().Fields()
			for j := range fields.Len() {
				f := fields.Get(j)
				inner := protowire.AppendTag(nil, f.Number(), protowire.BytesType)
				switch {
				case f.IsMap():
					inner = protowire.AppendBytes(inner, []byte("\x0a\x01k\x12\x01v"))
				case f.Kind() == protoreflect.StringKind:
					inner = protowire.AppendString(inner, "text")
				default:
					inner = protowire.AppendVarint(protowire.AppendTag(nil, f.Number(), protowire.VarintType), 1)
				}
				wire := protowire.AppendBytes(protowire.AppendTag(nil, payloads.Get(i).Number(), protowire.BytesType), inner)
				var got latis.Message
				if err := got.Unmarshal(wire, from); err != nil || !bytes.Equal(got.Append(nil), wire) {
					t.Errorf("%s: %v, and % x becomes % x", f.FullName(), err, wire, got.Append(nil))
				}
			}
		}
	}
}

// What was read ahead of a fault is there, so that the sender can be told.
func TestMessageFault(t *testing.T) {
	for wire, want := range map[string]string{
		"0a0131520561":                       "byte 3: truncated",
		"0a01315203120a0a":                   "PROMPT_SEND at byte 5: truncated",
		"0a013152030a01ff":                   "PROMPT_SEND at byte 7: invalid UTF-8",
		"0a0131520512030a01ff":               "PROMPT_SEND at byte 9: invalid UTF-8",
		"0a01315205120312" + "05ff":          "PROMPT_SEND at byte 7: truncated",
		"0a0131520312010a":                   "PROMPT_SEND at byte 7: truncated",
		"0a01310a01ff":                       "byte 5: invalid UTF-8",
		"0a0131f2010b08ffffffffffffffffff02": "PING at byte 6: variable length integer overflow",
	} {
		var m latis.Message
		if err := m.Unmarshal([]byte(unhex(t, wire)), frame.C2U); err == nil || err.Error() != want || m.ID != "1" {
			t.Errorf("%s: %v and the id %q, want %s", wire, err, m.ID, want)
		}
	}
}

func TestKindString(t *testing.T) {
	for k, want := range map[latis.Kind]string{latis.PromptSend: "PROMPT_SEND", latis.Pong: "PONG", 0: "a message of no known kind", -1: "a message of no known kind"} {
		if k.String() != want {
			t.Errorf("%d is %s, want %s", k, k, want)
		}
	}
}

// Whatever comes, generated code reads it no differently.
func FuzzMessage(f *testing.F) {
	for _, wire := range messages(f) {
		f.Add(wire)
	}
	f.Add([]byte("\x52\x03\x0a\x01a\x0a\x011\x52\x03\x0a\x01b"))
	f.Add([]byte("\x52\x03\x0a\x01a\x62\x00\xa2\x01\x00"))
	f.Add([]byte("\xaa\x01\x02\x10\x01\x52\x02\x10\x01")) // metadata that is a varint
	f.Fuzz(func(t *testing.T, wire []byte) {
		likeGenerated(t, wire, frame.C2U, &latisv1.ConnectRequest{})
		likeGenerated(t, wire, frame.U2C, &latisv1.ConnectResponse{})
	})
}

func BenchmarkMessage(b *testing.B) {
	wire := []byte(response(b, `{"id":"42","responseChunk":{"requestId":"42","content":"`+prototest.Prose(80)+`","sequence":17}}`))
	var m latis.Message
	if err := m.Unmarshal(wire, frame.U2C); err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wire = m.Append(wire[:0])
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = m.Unmarshal(wire, frame.U2C)
		}
	})
}
