// Package latis parses the messages of latis, in which a controller gives prompts to a
// unit: ConnectRequest one way, ConnectResponse the other. Their field numbers are
// disjoint, so a message shows its direction.
package latis

import (
	"github.com/wirectl/wirectl/frame"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/protocol"
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
