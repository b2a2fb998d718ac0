package latis

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// kind is what is known of a payload. The numbers are those of its fields; 0
// is a field that it does not have.
type kind struct {
	name    []byte
	from    frame.Dir
	phase   protocol.Phase
	request protowire.Number // the id of the request that is answered
	ref     protowire.Number // what the message acts on
	space   protocol.Space   // of ref
	text    protowire.Number
	label   protowire.Number
	seq     protowire.Number
}

// kinds lists the payloads by their field numbers in ConnectRequest and
// ConnectResponse. A STATE_UPDATE that follows from a STATE_SUBSCRIBE closes
// nothing, which is for the session to know.
var kinds = [...]kind{
	10: {name: []byte("PROMPT_SEND"), from: frame.C2U, phase: protocol.Open, text: 1},
	11: {name: []byte("PROMPT_CANCEL"), from: frame.C2U, phase: protocol.Cancel, ref: 1, space: protocol.SpaceID},
	12: {name: []byte("STATE_GET"), from: frame.C2U, phase: protocol.Open},
	13: {name: []byte("STATE_SUBSCRIBE"), from: frame.C2U, phase: protocol.Open},
	14: {name: []byte("SESSION_CREATE"), from: frame.C2U, phase: protocol.Open},
	15: {name: []byte("SESSION_RESUME"), from: frame.C2U, phase: protocol.Open, ref: 1, space: protocol.SpaceSession},
	16: {name: []byte("SESSION_DESTROY"), from: frame.C2U, phase: protocol.Open, ref: 1, space: protocol.SpaceSession},
	20: {name: []byte("RESPONSE_CHUNK"), from: frame.U2C, phase: protocol.Part, request: 1, text: 2, seq: 3},
	21: {name: []byte("RESPONSE_COMPLETE"), from: frame.U2C, phase: protocol.Close, request: 1},
	22: {name: []byte("RESPONSE_CANCELLED"), from: frame.U2C, phase: protocol.Cancelled, request: 1},
	23: {name: []byte("STATE_UPDATE"), from: frame.U2C, phase: protocol.Close},
	24: {name: []byte("ERROR"), from: frame.U2C, phase: protocol.Fail, request: 1, label: 2, text: 3},
	25: {name: []byte("ACK"), from: frame.U2C, phase: protocol.Close, request: 1, label: 2},
	30: {name: []byte("PING"), from: frame.C2U, phase: protocol.Open},
	31: {name: []byte("PONG"), from: frame.U2C, phase: protocol.Close},
}

// kindOf returns the payload of that number, or nil if there is none.
func kindOf(num protowire.Number) *kind {
	if num >= 0 && int(num) < len(kinds) && kinds[num].name != nil {
		return &kinds[num]
	}
	return nil
}

// Knows reports whether a message of the protocol has a field of that number.
func Knows(num protowire.Number) bool { return num == idNumber || kindOf(num) != nil }
