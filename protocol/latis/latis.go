// Package latis parses the messages of latis, in which a controller gives prompts to a
// unit: ConnectRequest one way, ConnectResponse the other. Their field numbers are
// disjoint, so a message shows its direction.
package latis

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// Protocol is latis. The kind of a message is that of its payload, by the name
// that the protocol's document gives it; its id is the message's id, which is
// text without quotes. The text is a content or the message of an error, the
// label the code of an error or a session.
//
// Parse walks the fields of the message and of its payload. What is inside
// these, and that strings are UTF-8, it leaves to AppendJSON.
var Protocol protocol.Transcoder = latis{}

// Spec is all that makes latis.
var Spec = protocol.Spec{
	Protocol: Protocol,
	About:    "protobuf between a controller and a unit",
	// The ACK of a
	// PROMPT_CANCEL is optional, the RESPONSE_CANCELLED of the prompt is not.
	Rules: protocol.Rules{
		UniqueIDs: true,
		Sequenced: true,
		Subscribe: "STATE_SUBSCRIBE",
		Update:    "STATE_UPDATE",
		Session: func(opened string, answer *protocol.Message, _ []byte) []byte {
			if opened == "SESSION_CREATE" && string(answer.Kind) == "ACK" {
				return answer.Label
			}
			return nil
		},
		Cancels: []protocol.CancelRule{{Target: protocol.MustConfirm, Own: protocol.MayAnswer}},
		Sources: [][2]string{
			{"orphan", "an answer carries the id of its request"},
			{"after-end", "a prompt ends with exactly one RESPONSE_COMPLETE, RESPONSE_CANCELLED or ERROR"},
			{"unanswered", "a prompt ends with exactly one RESPONSE_COMPLETE, RESPONSE_CANCELLED or ERROR, and any other request is answered"},
			{"sequence-gap", "the sequence of RESPONSE_CHUNK counts from 0"},
			{"sequence-repeat", "the sequence of RESPONSE_CHUNK counts from 0"},
			{"cancel-ignored", "a cancelled prompt is answered by RESPONSE_CANCELLED under its id"},
			{"cancel-silent", "a cancelled prompt is answered by RESPONSE_CANCELLED under its id"},
			{"both-answers", "a message has one payload"},
			{"bad-id", "an id is UTF-8, and request_id is the same as id"},
			{"missing-field", "every message has an id, and a cancel a target_id"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"id":"%[2]d","promptCancel":{"targetId":%[1]s}}`},
	Framing:   frame.Len32,
	Recognize: func([]byte, *protocol.Message) protocol.Evidence { return protocol.Evidence{Score: protocol.Possible} },
	HasField:  func(number int32) bool { return Knows(protowire.Number(number)) },
	Messages: func(path string) (request, answer protocol.Protocol, ok bool) {
		return Protocol, Protocol, path == "/latis.v1.LatisService/Connect"
	},
	Rewrapped: true,
}

type latis struct{}

func (latis) Name() string                { return "latis" }
func (latis) Encoding() protocol.Encoding { return protocol.Protobuf }

// Parse implements [protocol.Protocol].
func (latis) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	p := parser{m: m, w: walker{wire: payload}}
	if err := p.readMessage(); err != nil {
		m.Faults &= protocol.UnknownKind
		return err
	}
	p.judge()
	return nil
}

const idNumber protowire.Number = 1

// parser fills m from the fields of one message.
type parser struct {
	w      walker
	m      *protocol.Message
	number protowire.Number // of the payload; 0 before there is one
	answer []byte           // the payload's request_id
}

func (p *parser) readMessage() error {
	p.m.Faults = protocol.UnknownKind
	for p.w.nextField(len(p.w.wire)) {
		switch {
		case p.w.value == nil:
		case p.w.num == idNumber:
			p.m.ID = protocol.Token{Space: protocol.SpaceID, Text: p.w.value}
		case kindOf(p.w.num) != nil:
			p.beginPayload(p.w.num)
			if err := p.readPayload(); err != nil {
				return err
			}
		}
	}
	return p.w.err()
}

// beginPayload sets the kind of message from the number of a payload. If there are several
// payloads, the last one counts. Several fields of one payload are merged.
func (p *parser) beginPayload(num protowire.Number) {
	if num == p.number {
		return
	}
	m, k := p.m, kindOf(num)
	m.Faults &^= protocol.UnknownKind
	if p.number != 0 {
		id := m.ID
		m.Reset()
		m.ID, m.Faults = id, protocol.BothAnswers
	}
	p.number, p.answer = num, nil
	m.Kind, m.Phase, m.From = k.name, k.phase, k.from
	if k.phase == protocol.Part {
		m.Seq = 0 // proto3 leaves out a zero
	}
}

// readPayload reads the fields of the payload that the walker has just passed.
func (p *parser) readPayload() error {
	k := kindOf(p.number)
	w := p.w.inside()
	for w.nextField(p.w.pos) {
		f := k.field(w.num)
		switch {
		case f == sequence && w.typ == protowire.VarintType:
			p.m.Seq = int(uint32(w.varint))
		case w.value == nil:
		case f == requestID:
			p.answer = w.value
		case f == targetID:
			p.m.Ref = protocol.Token{Space: protocol.SpaceID, Text: w.value}
		case f == sessionID && k.acts():
			p.m.Ref = protocol.Token{Space: protocol.SpaceSession, Text: w.value}
		case f == content, f == message:
			p.m.Text = w.value
		case f == code, f == sessionID:
			p.m.Label = w.value
		}
	}
	if w.fault != nil {
		w.fault.Path = string(k.name)
	}
	return w.err()
}

// judge notes the rules that the message breaks.
func (p *parser) judge() {
	m := p.m
	if len(m.ID.Text) == 0 {
		m.ID = protocol.Token{}
		m.Faults |= protocol.MissingField
	}
	if !utf8.Valid(m.ID.Text) {
		m.Faults |= protocol.BadID
	}
	if k := kindOf(p.number); k != nil && k.acts() && len(m.Ref.Text) == 0 {
		m.Ref = protocol.Token{}
		m.Faults |= protocol.MissingField
	}
	p.judgeAnswer()
}

// judgeAnswer compares the id of an answer with its request_id, which must be equal and
// replaces a missing id.
func (p *parser) judgeAnswer() {
	m := p.m
	if len(p.answer) == 0 || string(p.answer) == string(m.ID.Text) {
		return
	}
	named := protocol.Token{Space: protocol.SpaceID, Text: p.answer}
	if m.ID.IsZero() {
		m.ID = named
	} else {
		m.Ref = named
		m.Faults |= protocol.BadID
	}
}

// A Kind is the kind of a message: the number of its payload in ConnectRequest or
// ConnectResponse.
type Kind protowire.Number

// The kinds, by the names that the protocol's document gives them.
const (
	PromptSend     Kind = 10
	PromptCancel   Kind = 11
	StateGet       Kind = 12
	StateSubscribe Kind = 13
	SessionCreate  Kind = 14
	SessionResume  Kind = 15
	SessionDestroy Kind = 16

	ResponseChunk     Kind = 20
	ResponseComplete  Kind = 21
	ResponseCancelled Kind = 22
	StateUpdate       Kind = 23
	Error             Kind = 24
	Ack               Kind = 25

	Ping Kind = 30
	Pong Kind = 31
)

// String returns the name of the kind, as in PROMPT_SEND.
func (k Kind) String() string {
	if known := kindOf(protowire.Number(k)); known != nil {
		return string(known.name)
	}
	return "a message of no known kind"
}

// A field is one of a payload that Parse looks at, by its name in the schema, whichever
// payload it is in.
type field byte

const (
	unknown   field = iota
	requestID       // that of the request it answers
	targetID
	sessionID
	content
	code
	message
	sequence
)

// kind describes a kind of payload.
type kind struct {
	name   []byte
	from   frame.Dir
	phase  protocol.Phase
	fields [4]field // by their numbers; 0 is not used
}

// kinds lists the payloads by their numbers. A STATE_UPDATE that follows from a
// STATE_SUBSCRIBE closes nothing, which is for the session to know.
var kinds = [...]kind{
	PromptSend:     {[]byte("PROMPT_SEND"), frame.C2U, protocol.Open, [4]field{1: content}},
	PromptCancel:   {[]byte("PROMPT_CANCEL"), frame.C2U, protocol.Cancel, [4]field{1: targetID}},
	StateGet:       {[]byte("STATE_GET"), frame.C2U, protocol.Open, [4]field{}},
	StateSubscribe: {[]byte("STATE_SUBSCRIBE"), frame.C2U, protocol.Open, [4]field{}},
	SessionCreate:  {[]byte("SESSION_CREATE"), frame.C2U, protocol.Open, [4]field{}},
	SessionResume:  {[]byte("SESSION_RESUME"), frame.C2U, protocol.Open, [4]field{1: sessionID}},
	SessionDestroy: {[]byte("SESSION_DESTROY"), frame.C2U, protocol.Open, [4]field{1: sessionID}},

	ResponseChunk:     {[]byte("RESPONSE_CHUNK"), frame.U2C, protocol.Part, [4]field{1: requestID, 2: content, 3: sequence}},
	ResponseComplete:  {[]byte("RESPONSE_COMPLETE"), frame.U2C, protocol.Close, [4]field{1: requestID}},
	ResponseCancelled: {[]byte("RESPONSE_CANCELLED"), frame.U2C, protocol.Cancelled, [4]field{1: requestID}},
	StateUpdate:       {[]byte("STATE_UPDATE"), frame.U2C, protocol.Close, [4]field{}},
	Error:             {[]byte("ERROR"), frame.U2C, protocol.Fail, [4]field{1: requestID, 2: code, 3: message}},
	Ack:               {[]byte("ACK"), frame.U2C, protocol.Close, [4]field{1: requestID, 2: sessionID}},

	Ping: {[]byte("PING"), frame.C2U, protocol.Open, [4]field{}},
	Pong: {[]byte("PONG"), frame.U2C, protocol.Close, [4]field{}},
}

// kindOf returns the payload of that number, or nil if there is none.
func kindOf(num protowire.Number) *kind {
	if num >= 0 && int(num) < len(kinds) && kinds[num].name != nil {
		return &kinds[num]
	}
	return nil
}

// field returns which field of the payload has that number.
func (k *kind) field(num protowire.Number) field {
	if num >= 0 && int(num) < len(k.fields) {
		return k.fields[num]
	}
	return unknown
}

// acts reports whether the payload names the exchange that it acts on, which is always its
// first field.
func (k *kind) acts() bool {
	return k.fields[1] == targetID || k.fields[1] == sessionID
}

// Knows reports whether a message of the protocol has a field of that number.
func Knows(num protowire.Number) bool { return num == idNumber || kindOf(num) != nil }

// walker moves over the fields of a message in the wire format.
type walker struct {
	wire  []byte
	pos   int // after the current field
	fault *protobuf.Error

	num    protowire.Number
	typ    protowire.Type
	varint uint64 // of a varint
	value  []byte // of a length-delimited field; nil for any other
}

// nextField moves to the next field. It returns false at end, and if the field is
// malformed or extends beyond end.
func (w *walker) nextField(end int) bool {
	if w.pos >= end || w.fault != nil {
		return false
	}
	rest := w.wire[w.pos:end]
	n := 1
	if w.num, w.typ = protowire.DecodeTag(uint64(rest[0])); rest[0] >= 0x80 || w.num == 0 {
		if w.num, w.typ, n = protowire.ConsumeTag(rest); n < 0 {
			return w.fail(n)
		}
		if w.num > protowire.MaxValidNumber {
			w.fault = &protobuf.Error{Offset: w.pos, Msg: "invalid field number"}
			return false
		}
	}
	w.value = nil
	size := 0
	switch rest = rest[n:]; {
	case w.typ == protowire.BytesType && len(rest) > 0 && int(rest[0]) < min(len(rest), 0x80):
		size = 1 + int(rest[0])
		w.value = rest[1:size]
	case w.typ == protowire.BytesType:
		w.value, size = protowire.ConsumeBytes(rest)
	case w.typ == protowire.VarintType:
		w.varint, size = protowire.ConsumeVarint(rest)
	default:
		size = protowire.ConsumeFieldValue(w.num, w.typ, rest)
	}
	if size < 0 {
		return w.fail(size)
	}
	w.pos += n + size
	return true
}

// fail records an error code of package protowire.
func (w *walker) fail(code int) bool {
	w.fault = protobuf.WireError(w.pos, code)
	return false
}

// err returns the fault that ended the walk, or nil.
func (w *walker) err() error {
	if w.fault == nil {
		return nil
	}
	return w.fault
}

// inside returns a walker over the value that the walker has just passed, which ends at
// w.pos.
func (w *walker) inside() walker {
	return walker{wire: w.wire, pos: w.pos - len(w.value)}
}
