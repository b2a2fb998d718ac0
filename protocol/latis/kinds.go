package latis

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

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
