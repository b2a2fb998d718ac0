package unit

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// response returns the answer to a request, with the id of the request.
func response(id string, payload proto.Message) *latisv1.ConnectResponse {
	m := &latisv1.ConnectResponse{Id: id}
	switch p := payload.(type) {
	case *latisv1.ResponseChunk:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseChunk{ResponseChunk: p}
	case *latisv1.ResponseComplete:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseComplete{ResponseComplete: p}
	case *latisv1.ResponseCancelled:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_ResponseCancelled{ResponseCancelled: p}
	case *latisv1.StateUpdate:
		m.Payload = &latisv1.ConnectResponse_StateUpdate{StateUpdate: p}
	case *latisv1.Error:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_Error{Error: p}
	case *latisv1.Ack:
		p.RequestId = id
		m.Payload = &latisv1.ConnectResponse_Ack{Ack: p}
	case *latisv1.Pong:
		m.Payload = &latisv1.ConnectResponse_Pong{Pong: p}
	}
	return m
}

// appendFrame appends a message as a frame.
func appendFrame(dst []byte, m proto.Message) []byte {
	start := len(dst)
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(dst, 0, 0, 0, 0), m)
	if err != nil {
		panic(err) // all text is valid UTF-8 by now
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// declared returns the length of the payload in a frame's header.
func declared(p []byte) int64 { return int64(binary.BigEndian.Uint32(p)) }
