package jsonrpc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A2A is the Agent2Agent protocol in its JSON-RPC binding, in the versions 0.3 and 1.0,
// which have different names for the same methods. Each event of a stream is an answer of
// its own, and all have the id of the request.
var A2A = New(a2a.Name, Grammar{
	ObjectParams: true,
	Turns:        A2ATasks,
	Methods:      a2aMethods(),
})

// A2ASpec is A2A in all its bindings.
var A2ASpec = protocol.Spec{
	Protocol:  A2A,
	About:     "the Agent2Agent protocol, over JSON-RPC, REST or gRPC",
	Rules:     a2a.Rules,
	Recognize: A2A.Recognize,
	Refine: func(m *protocol.Message) protocol.Evidence {
		if MCP.Knows(m.Kind) && hasMember(m.Text, "taskId") {
			return protocol.Evidence{}
		}
		return A2A.Refine(m)
	},
	AppendTask: appendTask,
	Messages:   a2a.Messages,
	API: &protocol.API{
		Calls: func() func(*frame.Head, []byte) *protocol.Call {
			var routes a2a.Routes
			return func(head *frame.Head, _ []byte) *protocol.Call {
				c := routes.Call(head)
				if c == nil {
					return nil
				}
				return &protocol.Call{Kind: string(c.Kind()), GRPC: c.GRPC, Bare: !c.Message, Own: c}
			}
		},
		Bodies: a2a.REST,
		Open:   func(c *protocol.Call, body []byte, m *protocol.Message) { c.Own.(*a2a.Call).Open(body, m) },
		Answer: func(c *protocol.Call, body []byte, m *protocol.Message, _ bool) { c.Own.(*a2a.Call).Answer(body, m) },
		Fail:   a2a.Fail,
	},
	Kept:     []string{"name", "taskId", "contextId", "messageId", "artifactId", "state"},
	Invented: []string{"messageId", "contextId"},
}

// appendTask appends a request about a task. It describes its sender as the request did that
// became the task.
func appendTask(dst []byte, t *protocol.Target, cancel bool, n int64) []byte {
	method := "tasks/get"
	if cancel {
		method = "tasks/cancel"
	}
	if m, version := a2a.ByName(t.Opened.Kind); m != nil {
		if string(version) != a2a.V03 {
			m, _ = a2a.ByName([]byte(method))
			method = m.Newer
		}
		dst = fmt.Appendf(dst, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"id":%s`, n, method, t.Name.Text)
		if tenant, ok := jsonscan.Get(t.Payload, "params", "tenant"); ok {
			dst = fmt.Appendf(dst, `,"tenant":%s`, tenant)
		}
		return append(dst, "}}"...)
	}
	dst = fmt.Appendf(dst, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%s`, n, method, t.Name.Text)
	open := `,"_meta":{`
	for _, key := range []string{"protocolVersion", "clientInfo", "clientCapabilities"} {
		key = "io.modelcontextprotocol/" + key
		if value, ok := jsonscan.Get(t.Payload, "params", "_meta", key); ok {
			dst = fmt.Appendf(dst, `%s%q:%s`, open, key, value)
			open = ","
		}
	}
	if open == "," {
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

func a2aMethods() map[string]*Method {
	methods := map[string]*Method{}
	for _, m := range a2a.Methods {
		methods[m.Newer], methods[m.Older] = &Method{From: frame.C2U}, &Method{From: frame.C2U}
	}
	return methods
}

// readTaskA2A sets the effect of a message on a task.
func readTaskA2A(e *envelope, m *protocol.Message) {
	switch m.Phase {
	case protocol.Open:
		if method, version := a2a.ByName(m.Kind); method != nil {
			m.Version = version
			method.Request(e.params, m)
		}
	case protocol.Close:
		m.Version = nil // that of a result is the version of its form
		a2a.Answer(e.result, m)
	}
}

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

// workDone is the token of a progress that the server has created itself.
var workDone = Name{At("params.token"), protocol.SpaceProgress}

// LSP is the language server protocol, version 3.18.
//
// A request that has both a workDoneToken and a partialResultToken is bound by
// the first alone.
var LSP = New("lsp", Grammar{
	IntegerIDs: true,
	Binds: []Name{
		{At("params.workDoneToken"), protocol.SpaceProgress},
		{At("params.partialResultToken"), protocol.SpaceProgress},
	},
	Cancelled: []Outcome{{Member: At("error.code"), Is: "-32800"}},
	Methods: with(map[string]*Method{
		"$/cancelRequest":                {Does: protocol.Cancel, Ref: Name{At("params.id"), protocol.SpaceID}},
		"$/progress":                     {Does: protocol.Part, Ref: workDone},
		"window/workDoneProgress/cancel": {From: frame.C2U, Does: protocol.Cancel, Ref: workDone},
		"window/workDoneProgress/create": {From: frame.U2C, Ref: workDone},
	}, lspClient, lspServer),
})

const lspClient = `
	initialize initialized shutdown exit $/setTrace callHierarchy/incomingCalls callHierarchy/outgoingCalls
	codeAction/resolve codeLens/resolve completionItem/resolve documentLink/resolve inlayHint/resolve
	workspaceSymbol/resolve notebookDocument/didChange notebookDocument/didClose notebookDocument/didOpen
	notebookDocument/didSave textDocument/codeAction textDocument/codeLens textDocument/colorPresentation
	textDocument/completion textDocument/declaration textDocument/definition textDocument/diagnostic
	textDocument/didChange textDocument/didClose textDocument/didOpen textDocument/didSave textDocument/documentColor
	textDocument/documentHighlight textDocument/documentLink textDocument/documentSymbol textDocument/foldingRange
	textDocument/formatting textDocument/hover textDocument/implementation textDocument/inlayHint
	textDocument/inlineCompletion textDocument/inlineValue textDocument/linkedEditingRange textDocument/moniker
	textDocument/onTypeFormatting textDocument/prepareCallHierarchy textDocument/prepareRename
	textDocument/prepareTypeHierarchy textDocument/rangeFormatting textDocument/rangesFormatting textDocument/references
	textDocument/rename textDocument/selectionRange textDocument/semanticTokens/full
	textDocument/semanticTokens/full/delta textDocument/semanticTokens/range textDocument/signatureHelp
	textDocument/typeDefinition textDocument/willSave textDocument/willSaveWaitUntil typeHierarchy/subtypes
	typeHierarchy/supertypes workspace/diagnostic workspace/didChangeConfiguration workspace/didChangeWatchedFiles
	workspace/didChangeWorkspaceFolders workspace/didCreateFiles workspace/didDeleteFiles workspace/didRenameFiles
	workspace/executeCommand workspace/symbol workspace/textDocumentContent workspace/willCreateFiles
	workspace/willDeleteFiles workspace/willRenameFiles
`

const lspServer = `
	$/logTrace client/registerCapability client/unregisterCapability telemetry/event textDocument/publishDiagnostics
	window/logMessage window/showDocument window/showMessage window/showMessageRequest workspace/applyEdit
	workspace/codeLens/refresh workspace/configuration workspace/diagnostic/refresh workspace/foldingRange/refresh
	workspace/inlayHint/refresh workspace/inlineValue/refresh workspace/semanticTokens/refresh
	workspace/textDocumentContent/refresh workspace/workspaceFolders
`
