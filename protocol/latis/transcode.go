package latis

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"sync"
	"sync/atomic"

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

// A WebSocket is the unit's end of a WebSocket. Its binary messages hold frames, which may continue
// in the next one, or each one message of latis without a length. Answers follow the controller.
type WebSocket struct {
	head [4]byte // of a frame whose header continues in the next binary message
	have int
	left int64 // bytes of a frame that continues there
	bare atomic.Bool
}

// CopyFrames copies one binary message from the controller to dst, as frames.
func (w *WebSocket) CopyFrames(dst io.Writer, message io.Reader) error {
	var first [1]byte
	if _, err := io.ReadFull(message, first[:]); err != nil {
		if err == io.EOF { //nolint:errorlint // of an empty message
			return nil
		}
		return err
	}
	message = io.MultiReader(bytes.NewReader(first[:]), message)
	// A frame within the limit begins with 0, and a message never does.
	if w.have == 0 && w.left == 0 && first[0] != 0 {
		whole, err := io.ReadAll(io.LimitReader(message, frame.DefaultLimit+1))
		if err != nil {
			return err
		}
		var m protocol.Message
		if len(whole) <= frame.DefaultLimit && Protocol.Parse(whole, &m) == nil && len(m.ID.Text) > 0 {
			w.bare.Store(true)
			whole = append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(whole)), uint32(len(whole))), whole...)
		}
		message = io.MultiReader(bytes.NewReader(whole), message)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(boundaries{w}, dst)}, message, make([]byte, 4<<10))
	return err
}

// boundaries follows where frames begin and end.
type boundaries struct{ w *WebSocket }

func (b boundaries) Write(p []byte) (int, error) {
	for w, rest := b.w, p; len(rest) > 0; {
		if w.left > 0 {
			n := min(w.left, int64(len(rest)))
			w.left, rest = w.left-n, rest[n:]
			continue
		}
		n := copy(w.head[w.have:], rest)
		w.have, rest = w.have+n, rest[n:]
		if w.have == len(w.head) {
			w.left, w.have = int64(binary.BigEndian.Uint32(w.head[:])), 0
		}
	}
	return len(p), nil
}

// Bare reports whether the controller sends bare messages.
func (w *WebSocket) Bare() bool { return w.bare.Load() }

// SendFrames sends each frame as one binary message, since some controllers expect no more in one.
func (w *WebSocket) SendFrames(frames []byte, send func([]byte) error) error {
	for len(frames) > 0 {
		n, start := FrameSize(frames), 0
		if w.Bare() {
			start = min(4, n)
		}
		if err := send(frames[start:n]); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// FrameSize returns the size of the first frame of p, or of its beginning.
func FrameSize(p []byte) int {
	if len(p) < 4 {
		return len(p)
	}
	return int(min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))))
}
