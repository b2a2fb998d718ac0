package latis

import "github.com/wirectl/wirectl/protocol"

// Rules are what the document of latis demands of a session. The ACK of a
// PROMPT_CANCEL is optional, the RESPONSE_CANCELLED of the prompt is not.
var Rules = protocol.Rules{
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
}
