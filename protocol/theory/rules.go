package theory

import "github.com/wirectl/wirectl/protocol"

// Rules are the rules of theory.run.v1 sessions. A preempted run also ends with a Response,
// with the code ERR_PREEMPTED.
var Rules = protocol.Rules{
	UniqueIDs: true,
	Opening:   []string{"Request", "RunOpen"},
	Ack:       "Ack",
	Final:     true,
	Cancels:   []protocol.CancelRule{{Target: protocol.MustConfirm}},
	Sources: [][2]string{
		{"missing-request", "the client's first message is a Request; the runtime closes with 1002 otherwise"},
		{"missing-ack", "the runtime acknowledges a Request before anything else; clients wait 5 s for it"},
		{"no-final", "a run ends with one Response that is final"},
		{"after-end", "nothing follows the final Response of a run"},
		{"cancel-silent", "a preempted run ends with a Response whose code is ERR_PREEMPTED"},
		{"cancel-ignored", "a preempted run ends with a Response whose code is ERR_PREEMPTED"},
		{"missing-field", "a Request names its run, and a Response has a status"},
		{"bad-id", "run_id is a number, or a string that is not blank; the runtime closes with 1008 otherwise"},
	},
}
