package latis

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A Message is a message in memory, for those who speak latis: a ConnectRequest or a
// ConnectResponse with the fields of its payload, by their names in the schema. Those
// that its kind does not have are neither read nor written. It is read and written
// without reflection, and needs no types that are registered at each start.
type Message struct {
	ID   string
	Kind Kind // 0 if there is no payload that is known

	RequestID string
	TargetID  string
	SessionID string
	Content   string
	Code      string
	Message   string

	Metadata map[string]string
	State    map[string]string

	Sequence      uint32
	Busy          bool
	Unsubscribe   bool
	Timestamp     int64 // this and the other two in the unit of who sends the PING
	PingTimestamp int64
	PongTimestamp int64
}

// Answers returns the id of the request that a response answers: its own, or where it
// has none the one that its payload names.
func (m *Message) Answers() string { return cmp.Or(m.ID, m.RequestID) }

// Append appends the message in the wire format, map entries in the order of their
// keys. Strings must be UTF-8.
func (m *Message) Append(dst []byte) []byte {
	dst = appendString(dst, idNumber, m.ID)
	k := kindOf(protowire.Number(m.Kind))
	if k == nil {
		return dst
	}
	dst = protowire.AppendTag(dst, protowire.Number(m.Kind), protowire.BytesType)
	// The length is known when the payload is there. It nearly always takes one
	// or two bytes, so the payload is moved when it does not take one.
	start := len(dst)
	dst = m.appendPayload(append(dst, 0), k)
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

func (m *Message) appendPayload(dst []byte, k *kind) []byte {
	for i, f := range k.fields {
		num := protowire.Number(i)
		if s := m.text(f); s != nil {
			dst = appendString(dst, num, *s)
		} else if pairs := m.pairs(f); pairs != nil {
			dst = appendPairs(dst, num, *pairs)
		} else {
			dst = appendVarint(dst, num, m.number(f))
		}
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

// The fields of an entry of a map.
const (
	keyNumber   protowire.Number = 1
	valueNumber protowire.Number = 2
)

func appendPairs(dst []byte, num protowire.Number, m map[string]string) []byte {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		size := protowire.SizeTag(keyNumber) + protowire.SizeBytes(len(k)) + protowire.SizeTag(valueNumber) + protowire.SizeBytes(len(m[k]))
		dst = protowire.AppendTag(dst, num, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(size))
		dst = protowire.AppendString(protowire.AppendTag(dst, keyNumber, protowire.BytesType), k)
		dst = protowire.AppendString(protowire.AppendTag(dst, valueNumber, protowire.BytesType), m[k])
	}
	return dst
}

// Unmarshal reads what one side sent: a ConnectRequest if from is [frame.C2U], else a
// ConnectResponse, as generated code would read it. A field that the message does not
// have is passed over, and so is a payload that only the other has. The error is a
// [*protobuf.Error]; what was read ahead of it stays in m.
func (m *Message) Unmarshal(payload []byte, from frame.Dir) error {
	*m = Message{}
	w := walker{wire: payload}
	for w.next(len(payload)) {
		k := kindOf(w.num)
		switch {
		case w.typ != protowire.BytesType:
		case w.num == idNumber:
			w.text(&m.ID)
		case k != nil && k.from == from:
			if num := Kind(w.num); num != m.Kind {
				*m = Message{ID: m.ID, Kind: num} // of several payloads the last counts
			}
			m.readPayload(&w, k)
		}
	}
	return w.err()
}

// readPayload reads the fields of the payload that w has just passed. They add to
// those of a payload of the same kind ahead of it.
func (m *Message) readPayload(outer *walker, k *kind) {
	w := outer.inside()
	for w.next(outer.pos) {
		f := k.field(w.num)
		switch text, pairs := m.text(f), m.pairs(f); {
		case w.typ == protowire.BytesType && text != nil:
			w.text(text)
		case w.typ == protowire.BytesType && pairs != nil:
			w.pair(pairs)
		case w.typ == protowire.VarintType:
			m.setNumber(f, w.varint)
		}
	}
	if w.fault != nil {
		w.fault.Path = string(k.name)
	}
	outer.fault = w.fault
}

// text returns where the text of a field is; nil for one that has none.
func (m *Message) text(f field) *string {
	switch f {
	case requestID:
		return &m.RequestID
	case targetID:
		return &m.TargetID
	case sessionID:
		return &m.SessionID
	case content:
		return &m.Content
	case code:
		return &m.Code
	case message:
		return &m.Message
	}
	return nil
}

// pairs returns where the entries of a field are; nil for one that is no map.
func (m *Message) pairs(f field) *map[string]string {
	switch f {
	case metadata:
		return &m.Metadata
	case state:
		return &m.State
	}
	return nil
}

// number returns the number of a field; 0 for one that has none.
func (m *Message) number(f field) uint64 {
	switch f {
	case sequence:
		return uint64(m.Sequence)
	case busy:
		return protowire.EncodeBool(m.Busy)
	case unsubscribe:
		return protowire.EncodeBool(m.Unsubscribe)
	case timestamp:
		return uint64(m.Timestamp)
	case pingTimestamp:
		return uint64(m.PingTimestamp)
	case pongTimestamp:
		return uint64(m.PongTimestamp)
	}
	return 0
}

func (m *Message) setNumber(f field, v uint64) {
	switch f {
	case sequence:
		m.Sequence = uint32(v)
	case busy:
		m.Busy = protowire.DecodeBool(v)
	case unsubscribe:
		m.Unsubscribe = protowire.DecodeBool(v)
	case timestamp:
		m.Timestamp = int64(v)
	case pingTimestamp:
		m.PingTimestamp = int64(v)
	case pongTimestamp:
		m.PongTimestamp = int64(v)
	}
}

// text reads the text that the walker has just passed.
func (w *walker) text(into *string) {
	if !jsonscan.ValidUTF8(w.value) {
		w.fault = &protobuf.Error{Offset: w.pos - len(w.value), Msg: "invalid UTF-8"}
		return
	}
	*into = string(w.value)
}

// pair reads the entry of a map that the walker has just passed.
func (w *walker) pair(into *map[string]string) {
	var key, value string
	entry := w.inside()
	for entry.next(w.pos) {
		switch {
		case entry.typ != protowire.BytesType:
		case entry.num == keyNumber:
			entry.text(&key)
		case entry.num == valueNumber:
			entry.text(&value)
		}
	}
	if w.fault = entry.fault; w.fault != nil {
		return
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[key] = value
}
