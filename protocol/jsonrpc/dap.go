package jsonrpc

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// DAP is the debug adapter protocol. The kind of a message is its command or
// event. The id of a request or response is its seq; a response has the
// request_seq that it answers as its ref. Both sides number their own messages.
var DAP protocol.Protocol = dap{"dap"}

type dap struct{ jsonwalk.Named }

// dapWords are commands and events that only DAP has. The server of TypeScript, for one, has
// messages of the same form.
var dapWords = strings.Fields(`
	attach configurationDone continue disconnect evaluate initialize initialized launch loadedSources modules next
	output pause process runInTerminal scopes setBreakpoints setExceptionBreakpoints setFunctionBreakpoints setVariable
	stackTrace startDebugging stepIn stepOut stopped terminate terminated thread threads variables
`)

func recognizeDAP(payload []byte, m *protocol.Message) protocol.Evidence {
	return protocol.Own(slices.Contains(dapWords, string(m.Kind)) &&
		jsonwalk.Shape{Has: `seq type"`, MayHave: "arguments body command event message request_seq success"}.Fits(payload))
}

// A dapMessage holds the members of a message: words without their quotes, and others as written.
type dapMessage struct {
	seq        []byte `at:"seq"`
	kind       []byte `at:"type,unquoted"`
	command    []byte `at:"command,unquoted"`
	event      []byte `at:"event,unquoted"`
	requestSeq []byte `at:"request_seq"`
	success    []byte `at:"success"`
	message    []byte `at:"message"`
	arguments  []byte `at:"arguments"`
	body       []byte `at:"body"`
	requestID  []byte `at:"arguments|body.requestId"`
	progressID []byte `at:"arguments|body.progressId"`
	category   []byte `at:"arguments|body.category,unquoted"`
	output     []byte `at:"arguments|body.output"`
}

var dapPaths = jsonwalk.PathsOf[dapMessage]()

// Parse implements [protocol.Protocol].
func (dap) Parse(payload []byte, m *protocol.Message) error {
	var d dapMessage
	return dapPaths.Parse(payload, m, &d, func() { d.interpret(m) })
}

func (d *dapMessage) interpret(m *protocol.Message) {
	switch string(d.kind) {
	case "request":
		d.interpretRequest(m)
	case "response":
		d.interpretResponse(m)
	case "event":
		d.interpretEvent(m)
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	if m.Kind == nil {
		m.Kind = protocol.Unknown
		m.Faults |= protocol.UnknownKind | protocol.MissingField
	}
	m.Faults |= checkSeq(d.seq)
}

func (d *dapMessage) interpretRequest(m *protocol.Message) {
	m.Kind, m.Phase, m.Text = d.command, protocol.Open, d.arguments
	m.From = frame.C2U
	if isReverse(d.command) {
		m.From = frame.U2C
	}
	m.ID = jsonwalk.Token(d.seq, protocol.SpaceID)
	if string(d.command) == "cancel" {
		m.Phase = protocol.Cancel
		m.Ref = jsonwalk.Token(d.requestID, protocol.SpaceID)
		if m.Ref.IsZero() {
			m.Ref = jsonwalk.Token(d.progressID, protocol.SpaceProgress)
		}
		if m.Ref.IsZero() {
			m.Faults |= protocol.MissingField
		}
	}
}

func (d *dapMessage) interpretResponse(m *protocol.Message) {
	m.Kind, m.Phase, m.Text = d.command, protocol.Close, d.body
	m.From = frame.U2C
	if isReverse(d.command) {
		m.From = frame.C2U
	}
	m.ID = jsonwalk.Token(d.seq, protocol.SpaceID)
	m.Ref = jsonwalk.Token(d.requestSeq, protocol.SpaceID)
	m.Faults |= checkSeq(d.requestSeq)
	switch {
	case string(d.success) == "true":
		return
	case string(d.success) != "false":
		m.Faults |= protocol.MissingField
		return
	case string(d.message) == `"cancelled"`:
		m.Phase = protocol.Cancelled
	default:
		m.Phase = protocol.Fail
	}
	m.Text = d.message
}

// interpretEvent sets the meaning of an event. A progress has an id of the adapter, so its
// events are part of no answer.
func (d *dapMessage) interpretEvent(m *protocol.Message) {
	m.Kind, m.From = d.event, frame.U2C
	m.Label, m.Text = d.category, d.body
	if d.output != nil {
		m.Text = d.output
	}
	m.Ref = jsonwalk.Token(d.progressID, protocol.SpaceProgress)
}

// isReverse reports whether command is one that the adapter asks of the client.
func isReverse(command []byte) bool {
	return string(command) == "runInTerminal" || string(command) == "startDebugging"
}

// checkSeq returns the fault of a sequence number.
func checkSeq(raw []byte) protocol.Faults {
	switch {
	case raw == nil:
		return protocol.MissingField
	case jsonscan.KindOf(raw) != jsonscan.Number || !isInteger(raw):
		return protocol.BadID
	}
	return 0
}
