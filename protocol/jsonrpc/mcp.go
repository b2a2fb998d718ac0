package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// ofTask is the task that a request of MCP names.
var ofTask = Name{At("params.taskId"), protocol.SpaceTask}

// Versions of MCP, as they are written.
const (
	mcp2024   = "2024-11-05"
	mcp202503 = "2025-03-26"
	mcp202506 = "2025-06-18"
	mcp202511 = "2025-11-25"
	mcp2026   = "2026-07-28"
)

// MCP is the Model Context Protocol, in its versions from 2024-11-05 to 2026-07-28. Up to
// 2025-11-25 requests flow both ways; after that each request states its version.
var MCP = New("mcp", Grammar{
	IntegerIDs:   true,
	ObjectParams: true,
	ToolErrors:   true,
	Turns:        MCPTasks,
	Binds:        []Name{{At("params._meta.progressToken"), protocol.SpaceProgress}},
	Methods: map[string]*Method{
		"initialize":                       {From: frame.C2U, Until: mcp202511},
		"server/discover":                  {From: frame.C2U, Since: mcp2026},
		"ping":                             {Until: mcp202511},
		"completion/complete":              {From: frame.C2U},
		"logging/setLevel":                 {From: frame.C2U, Until: mcp202511},
		"prompts/get":                      {From: frame.C2U, Label: At("params.name")},
		"prompts/list":                     {From: frame.C2U},
		"resources/list":                   {From: frame.C2U},
		"resources/read":                   {From: frame.C2U, Label: At("params.uri")},
		"resources/subscribe":              {From: frame.C2U, Label: At("params.uri"), Until: mcp202511},
		"resources/templates/list":         {From: frame.C2U},
		"resources/unsubscribe":            {From: frame.C2U, Label: At("params.uri"), Until: mcp202511},
		"subscriptions/listen":             {From: frame.C2U, Since: mcp2026},
		"tools/call":                       {From: frame.C2U, Label: At("params.name")},
		"tools/list":                       {From: frame.C2U},
		"tasks/cancel":                     {Ref: ofTask, Since: mcp202511},
		"tasks/get":                        {Ref: ofTask, Joins: true, Since: mcp202511},
		"tasks/list":                       {Since: mcp202511, Until: mcp202511},
		"tasks/result":                     {Ref: ofTask, Joins: true, Since: mcp202511, Until: mcp202511},
		"tasks/update":                     {From: frame.C2U, Ref: ofTask, Joins: true, Since: mcp2026},
		"elicitation/create":               {From: frame.U2C, Since: mcp202506, Until: mcp202511},
		"roots/list":                       {From: frame.U2C, Until: mcp202511},
		"sampling/createMessage":           {From: frame.U2C, Until: mcp202511},
		"notifications/cancelled":          {Does: protocol.Cancel, Ref: Name{At("params.requestId"), protocol.SpaceID}},
		"notifications/progress":           {Does: protocol.Part, Ref: Name{At("params.progressToken"), protocol.SpaceProgress}},
		"notifications/initialized":        {From: frame.C2U, Until: mcp202511},
		"notifications/roots/list_changed": {From: frame.C2U, Until: mcp202511},
		"notifications/tasks":              {From: frame.U2C, Since: mcp2026},
		"notifications/tasks/status":       {Since: mcp202511, Until: mcp202511},

		"notifications/subscriptions/acknowledged": {From: frame.U2C, Since: mcp2026},
		"notifications/elicitation/complete":       {From: frame.U2C, Since: mcp202511, Until: mcp202511},
		"notifications/message":                    {From: frame.U2C},
		"notifications/prompts/list_changed":       {From: frame.U2C},
		"notifications/resources/list_changed":     {From: frame.U2C},
		"notifications/resources/updated":          {From: frame.U2C, Label: At("params.uri")},
		"notifications/tools/list_changed":         {From: frame.U2C},
	},
})

// readTaskMCP sets the effect of a message on an operation: a request may continue one, an
// answer may let it go on with a retry or as a task, and the status of a task may end it.
func readTaskMCP(e *envelope, m *protocol.Message) {
	switch m.Phase {
	case protocol.Open:
		m.Version = jsonwalk.Word(e.protocolVersion)
		m.Arguments, m.State = e.arguments, e.requestState
		m.Inputs = e.inputResponses
		switch string(m.Kind) {
		case "tasks/cancel":
			m.Operation = protocol.Effect{Does: protocol.Cancel, Of: m.Ref}
		case "tasks/result":
			m.Continues = true
		default:
			m.Continues = m.Ref.IsZero() && (m.Inputs != nil || m.State != nil)
		}
	case protocol.Close:
		task := jsonwalk.Token(e.resultTask, protocol.SpaceTask)
		m.Inputs = e.resultRequests
		switch kind := string(e.resultType); {
		case kind == `"input_required"`:
			m.GoesOn, m.State = true, e.resultState
		case kind == `"task"`, e.taskStatus != nil:
			m.GoesOn, m.Bind = true, task
		default:
			m.Operation = taskEffect(e.resultStatus, task)
			m.ToolError = m.ToolError || string(e.taskIsError) == "true"
		}
	case protocol.Note:
		if e.subscription != nil {
			m.Phase, m.Ref = protocol.Part, jsonwalk.Token(e.subscription, protocol.SpaceID)
		}
		m.Operation, m.Inputs = taskEffect(e.status, e.tokenOf(ofTask)), e.inputRequests
	}
}

// taskEffect returns the effect of the status of a task on the task.
func taskEffect(status []byte, task protocol.Token) protocol.Effect {
	if task.IsZero() || status == nil {
		return protocol.Effect{}
	}
	does := protocol.Part
	switch string(status) {
	case `"completed"`:
		does = protocol.Close
	case `"failed"`:
		does = protocol.Fail
	case `"cancelled"`:
		does = protocol.Cancelled
	}
	return protocol.Effect{Does: does, Of: task}
}
