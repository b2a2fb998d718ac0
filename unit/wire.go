package unit

import (
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
)

// kind is the field number of a payload in ConnectResponse.
type kind protowire.Number

const (
	chunk       kind = 20
	complete    kind = 21
	cancelled   kind = 22
	stateUpdate kind = 23
	failure     kind = 24
	ack         kind = 25
	pong        kind = 31
)

// A response is one message to the controller.
type response struct {
	kind     kind
	id       string
	request  string // the request_id inside the payload; "" is the id
	sequence uint32
	text     string            // a content, or the message of an error
	label    string            // the code of an error, or a session
	state    map[string]string // metadata or state
	busy     bool
	ping     int64
	pong     int64
}

// append appends the response as a frame.
func (r *response) append(dst []byte) []byte {
	start := len(dst)
	dst = r.appendMessage(append(dst, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

func (r *response) appendMessage(dst []byte) []byte {
	dst = appendString(dst, 1, r.id)
	dst = protowire.AppendTag(dst, protowire.Number(r.kind), protowire.BytesType)
	// The length is known when the payload is there. It nearly always takes one
	// or two bytes, so the payload is moved when it does not take one.
	start := len(dst)
	dst = r.appendPayload(append(dst, 0))
	n := len(dst) - start - 1
	if n < 0x80 {
		dst[start] = byte(n)
		return dst
	}
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(n))
	dst = append(dst, prefix[1:]...)
	copy(dst[start+len(prefix):], dst[start+1:start+1+n])
	copy(dst[start:], prefix)
	return dst
}

func (r *response) appendPayload(dst []byte) []byte {
	request := r.request
	if request == "" {
		request = r.id
	}
	switch r.kind {
	case chunk:
		dst = appendString(dst, 1, request)
		dst = appendString(dst, 2, r.text)
		dst = appendVarint(dst, 3, uint64(r.sequence))
	case complete:
		dst = appendString(dst, 1, request)
		dst = appendMap(dst, 2, r.state)
	case cancelled:
		dst = appendString(dst, 1, request)
	case stateUpdate:
		if r.busy {
			dst = appendVarint(dst, 1, 1)
		}
		dst = appendMap(dst, 2, r.state)
	case failure:
		dst = appendString(dst, 1, request)
		dst = appendString(dst, 2, r.label)
		dst = appendString(dst, 3, r.text)
	case ack:
		dst = appendString(dst, 1, request)
		dst = appendString(dst, 2, r.label)
		dst = appendMap(dst, 3, r.state)
	case pong:
		dst = appendVarint(dst, 1, uint64(r.ping))
		dst = appendVarint(dst, 2, uint64(r.pong))
	}
	return dst
}

func appendString(dst []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
}

func appendVarint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), v)
}

// appendMap appends a map in the order of its keys.
func appendMap(dst []byte, num protowire.Number, m map[string]string) []byte {
	for _, k := range sortedKeys(m) {
		size := protowire.SizeTag(1) + protowire.SizeBytes(len(k)) + protowire.SizeTag(2) + protowire.SizeBytes(len(m[k]))
		dst = protowire.AppendTag(dst, num, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size))
		dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), k)
		dst = protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), m[k])
	}
	return dst
}

// readPing reads a message that is a PING and nothing else, as peers write it,
// without taking memory. The id borrows from the payload.
func readPing(payload []byte) (id []byte, timestamp int64, ok bool) {
	id, rest := takeBytes(payload, 1)
	body, rest := takeBytes(rest, pingNumber)
	if len(id) == 0 || body == nil || len(rest) != 0 || !utf8.Valid(id) {
		return nil, 0, false
	}
	if len(body) == 0 {
		return id, 0, true
	}
	if body[0] != 1<<3|byte(protowire.VarintType) {
		return nil, 0, false
	}
	v, n := protowire.ConsumeVarint(body[1:])
	return id, int64(v), n == len(body)-1
}

const pingNumber = 30

// takeBytes takes a length-delimited field of that number off data, which
// begins with it; value is nil if it does not.
func takeBytes(data []byte, num protowire.Number) (value, rest []byte) {
	got, typ, n := protowire.ConsumeTag(data)
	if n < 0 || got != num || typ != protowire.BytesType {
		return nil, data
	}
	value, m := protowire.ConsumeBytes(data[n:])
	if m < 0 {
		return nil, data
	}
	return value, data[n+m:]
}

// read reads any message.
func read(payload []byte) (*latisv1.ConnectRequest, error) {
	m := &latisv1.ConnectRequest{}
	return m, proto.Unmarshal(payload, m)
}

// frameSize returns the size of the frame that p begins with, or of what there is
// of it.
func frameSize(p []byte) int {
	if len(p) < 4 {
		return len(p)
	}
	return int(min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))))
}
