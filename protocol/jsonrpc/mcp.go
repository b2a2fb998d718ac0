package jsonrpc

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// What a request of MCP declares that its answers may have. mcpFeatures names them.
const (
	mcpSampling protocol.Features = 1 << iota
	mcpRoots
	mcpForms
	mcpURLs
	mcpTasks
	mcpLogs
	mcpToolsChanged
	mcpPromptsChanged
	mcpResourcesChanged
	mcpResourceUpdates
	mcpTaskUpdates
	mcpBegun // by initialize, whose answer has the capabilities of the server
	mcpLogging
	mcpAsked // by initialize, which has those of the client
	mcpToolUse
	mcpTools // of the server, as the next two
	mcpPrompts
	mcpResources
)

var mcpFeatures = []string{
	"the capability sampling", "the capability roots", "the capability elicitation", "the capability elicitation.url",
	"the capability " + tasksExtension, "a logLevel",
	"toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds",
	"initialize", "the capability logging", "initialize", "the capability sampling.tools",
	"the capability tools", "the capability prompts", "the capability resources",
}

const tasksExtension = "io.modelcontextprotocol/tasks"

var (
	// mcpVersions are the versions whose rules are known.
	mcpVersions = []string{mcp2024, mcp202503, mcp202506, mcp202511, mcp2026}
	// mcpRetried are the requests that can be answered by a demand for input.
	mcpRetried = []string{"tools/call", "prompts/get", "resources/read"}
	// mcpCached are the requests whose answers say how long they are valid.
	mcpCached = []string{
		"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
	}
	// mcpListed are the features of the server by the requests that list them.
	mcpListed = map[string]protocol.Features{
		"tools/list": mcpTools, "prompts/list": mcpPrompts,
		"resources/list": mcpResources, "resources/templates/list": mcpResources,
	}
	// mcpNamed are the features by the names of what declares or needs them: capabilities,
	// subscriptions, input requests and notifications.
	mcpNamed = map[string]protocol.Features{
		"toolsListChanged":                     mcpToolsChanged,
		"promptsListChanged":                   mcpPromptsChanged,
		"resourcesListChanged":                 mcpResourcesChanged,
		"resourceSubscriptions":                mcpResourceUpdates,
		"taskIds":                              mcpTaskUpdates,
		"notifications/message":                mcpLogs,
		"notifications/tools/list_changed":     mcpToolsChanged,
		"notifications/prompts/list_changed":   mcpPromptsChanged,
		"notifications/resources/list_changed": mcpResourcesChanged,
		"notifications/resources/updated":      mcpResourceUpdates,
		"notifications/tasks":                  mcpTaskUpdates,
	}
)

// judgeMCP finds the rules of its version that a message breaks.
func judgeMCP(j *protocol.Judged) {
	m := j.Message
	if j.Response != nil {
		judgeResponse(j)
		return
	}
	if m.Phase == protocol.Open && string(m.Kind) == "initialize" {
		if raw, ok := jsonscan.Get(j.Payload, "params", "capabilities"); ok {
			j.Declares = mcpAsked | capabilities(raw)
		}
	}
	isBatch := string(m.Kind) == string(kindBatch) && m.Count > 0
	if !isBatch {
		judgeHead(j)
	}
	if !slices.Contains(mcpVersions, j.Version) {
		return
	}
	if isBatch {
		if j.Version > mcp202503 {
			j.Break(wrongVersion, "%s has no batches", j.Version)
		}
		return
	}
	if !m.Phase.Ends() {
		method := MCP.method(m.Kind)
		if j.Version < method.Since || method.Until != "" && j.Version > method.Until {
			j.Break(wrongVersion, "%s has no %s", j.Version, m.Kind)
			return
		}
	}
	switch {
	case len(j.Payload) == 0:
		return
	case j.Version < mcp2026:
		judgeDeclared(j)
		return
	}
	var s jsonscan.Scanner
	var e envelope
	s.Init(j.Payload)
	paths.Read(&s, &e)
	switch m.Phase {
	case protocol.Open:
		judgeRequest(j, &e)
	case protocol.Close:
		judgeResult(j, &e)
	case protocol.Fail:
		judgeError(j, m.Label)
	case protocol.Part, protocol.Note:
		judgeNotification(j, &e)
	}
}

// The findings of the rules of MCP.
const (
	wrongVersion   = "wrong-version"
	wrongResult    = "wrong-result"
	missingField   = "missing-field"
	headerMismatch = "header-mismatch"
	wrongResponse  = "wrong-response"
)

// judgeResponse judges a successful response over HTTP, or an event in it, by the rules that
// the versions since 2025-03-26 have (Transports, Streamable HTTP). The version is not known
// before initialize is answered; the older transport has no such responses.
func judgeResponse(j *protocol.Judged) {
	r := j.Response
	isStream := r.Media == "text/event-stream"
	switch {
	case j.Version != "" && (j.Version == mcp2024 || !slices.Contains(mcpVersions, j.Version)):
	case r.Event:
		j.Break(wrongResponse, "an event is not a message of JSON-RPC")
	case r.Verb == "GET":
		if j.Version < mcp2026 && !isStream {
			j.Break(wrongResponse, "GET is answered by %s, and not by text/event-stream or the status 405", typeOf(r))
		}
	case r.Asks:
		// In the older transport, whose sessions are not in the head, 202 is right.
		if (r.Session || r.Status != "202") && !isStream && r.Media != "application/json" {
			j.Break(wrongResponse, "a request is answered by %s, and not by application/json or text/event-stream", typeOf(r))
		}
	case r.Status != "202":
		j.Break(wrongResponse, "a message that is no request is answered by %s, and not by 202", strings.TrimSpace(r.Status+" "+r.Media))
	case r.Body:
		j.Break(wrongResponse, "a message that is no request is answered by 202 with a body")
	}
}

// typeOf describes a response.
func typeOf(r *protocol.Response) string {
	return r.Status + " " + cmp.Or(r.Media, "without a content type")
}

// judgeDeclared: before 2026-07-28 each side declares in initialize what the other may use.
func judgeDeclared(j *protocol.Judged) {
	switch {
	case j.Message.Phase == protocol.Open:
		if j.Declared&mcpAsked != 0 && string(j.Message.Kind) != "initialize" {
			params, _ := jsonscan.Get(j.Payload, "params")
			j.Needs, j.Tolerated = needed(string(j.Message.Kind), params), j.Version < mcp202506
			if j.Version < mcp202511 && j.Declared&(mcpForms|mcpURLs) != 0 {
				j.Needs &^= mcpForms | mcpURLs // elicitation has no modes yet
			}
		}
	case j.Message.Phase == protocol.Close && j.Asked == "initialize":
		capabilities, ok := jsonscan.Get(j.Payload, "result", "capabilities")
		if !ok {
			return
		}
		j.Declares = mcpBegun
		for name := range members(capabilities) {
			switch string(name) {
			case "logging":
				j.Declares |= mcpLogging
			case "tools":
				j.Declares |= mcpTools
			case "prompts":
				j.Declares |= mcpPrompts
			case "resources":
				j.Declares |= mcpResources
			}
		}
	case string(j.Message.Kind) == "notifications/message" && j.Declared&mcpBegun != 0:
		j.Needs = mcpLogging
	}
}

// judgeRequest judges a request: each states its version and the capabilities of its
// client.
func judgeRequest(j *protocol.Judged, e *envelope) {
	for _, of := range []struct {
		value []byte
		name  string
	}{{e.protocolVersion, "protocolVersion"}, {e.capabilities, "clientCapabilities"}} {
		if of.value == nil {
			j.Break(missingField, "%s %s has no %s in its _meta", j.Message.Kind, j.Message.ID.Text, of.name)
		}
	}
	j.Declares = capabilities(e.capabilities) | subscribed(e.notifications)
	if e.logLevel != nil {
		j.Declares |= mcpLogs
	}
}

// judgeResult: a result is of a known type, which its request can have.
func judgeResult(j *protocol.Judged, e *envelope) {
	kind, known := e.resultType, j.Asked != ""
	switch string(kind) {
	case "":
		j.Break(missingField, "the result %s has no resultType", j.Message.ID.Text)
		return
	case `"complete"`:
		if slices.Contains(mcpCached, j.Asked) && (e.ttl == nil || e.cacheScope == nil) {
			j.Break(missingField, "the result of %s %s has no ttlMs or no cacheScope", j.Asked, j.Message.ID.Text)
		}
		return
	case `"input_required"`:
		if known && !slices.Contains(mcpRetried, j.Asked) {
			break
		}
		if e.resultRequests == nil && e.resultState == nil {
			j.Break(missingField, "the result of %s %s has neither inputRequests nor requestState", j.Asked, j.Message.ID.Text)
		}
		for name, request := range members(e.resultRequests) {
			if _, ok := jsonscan.Get(request, "params", "elicitationId"); ok {
				j.Advise(wrongVersion, "%s has no elicitationId, which the input request %s of %s %s has", j.Version, name, j.Asked, j.Message.ID.Text)
			}
		}
		j.Needs = inputs(e.resultRequests)
		return
	case `"task"`:
		if known && j.Asked != "tools/call" {
			break
		}
		j.Needs = mcpTasks
		return
	}
	j.Break(wrongResult, "the result of %s %s is of the type %s", j.Asked, j.Message.ID.Text, kind)
}

// judgeError judges an error: codes in the range of MCP must be those of its version.
func judgeError(j *protocol.Judged, code []byte) {
	n, err := strconv.Atoi(string(code))
	if err == nil && (n == -32002 || n == -32042 || -32099 <= n && n < -32022) {
		j.Break(wrongVersion, "%s has no error code %d", j.Version, n)
	}
}

// judgeNotification judges a notification: changes are sent on a subscription, and only
// those that were asked for.
func judgeNotification(j *protocol.Judged, e *envelope) {
	m := j.Message
	j.Needs = mcpNamed[string(m.Kind)]
	switch {
	case string(m.Kind) == "notifications/subscriptions/acknowledged":
		j.Declares = subscribed(e.notifications)
	case j.Needs == 0 || j.Needs == mcpLogs:
		return
	}
	if e.subscription == nil {
		j.Needs = 0
		j.Break(missingField, "%s has no subscriptionId in its _meta", m.Kind)
	}
}

// capabilities reads the capabilities of a client.
func capabilities(raw []byte) (f protocol.Features) {
	for name, value := range members(raw) {
		switch string(name) {
		case "roots":
			f |= mcpRoots
		case "sampling":
			f |= mcpSampling
			if _, ok := jsonscan.Get(value, "tools"); ok {
				f |= mcpToolUse
			}
		case "elicitation":
			f |= elicitation(value)
		case "extensions":
			if _, ok := jsonscan.Get(value, tasksExtension); ok {
				f |= mcpTasks
			}
		}
	}
	return f
}

// elicitation reads the modes of elicitation; without any, it is forms.
func elicitation(raw []byte) protocol.Features {
	_, form := jsonscan.Get(raw, "form")
	_, url := jsonscan.Get(raw, "url")
	switch {
	case form && url:
		return mcpForms | mcpURLs
	case url:
		return mcpURLs
	}
	return mcpForms
}

// subscribed reads which notifications a client wants.
func subscribed(raw []byte) (f protocol.Features) {
	for name, value := range members(raw) {
		switch string(value) {
		case "false", "null", "[]":
		default:
			f |= mcpNamed[string(name)]
		}
	}
	return f
}

// inputs returns the features that inputRequests need.
func inputs(raw []byte) (f protocol.Features) {
	for _, request := range members(raw) {
		method, _ := jsonscan.Get(request, "method")
		params, _ := jsonscan.Get(request, "params")
		f |= needed(string(jsonwalk.Word(method)), params)
	}
	return f
}

// needed returns the features of the client that a request of a server needs.
func needed(method string, params []byte) protocol.Features {
	switch method {
	case "sampling/createMessage":
		if _, ok := jsonscan.Get(params, "tools"); ok {
			return mcpSampling | mcpToolUse
		}
		return mcpSampling
	case "roots/list":
		return mcpRoots
	case "elicitation/create":
		if mode, _ := jsonscan.Get(params, "mode"); string(mode) == `"url"` {
			return mcpURLs
		}
		return mcpForms
	}
	return 0
}

// members yields the members of an object.
func members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		var s jsonscan.Scanner
		s.Init(raw)
		for ok := s.Object(); ok && s.Next(); {
			if name := s.Key(); !yield(name, s.Value()) {
				return
			}
		}
	}
}

// judgeHead: a request's headers match its body.
func judgeHead(j *protocol.Judged) {
	at, m := j.Stated, j.Message
	switch {
	case at == nil:
		return
	case at.Verb != "POST":
		if j.Version >= mcp2026 {
			j.Break(wrongVersion, "%s has no %s", j.Version, at.Verb)
		}
		return
	case j.Version >= mcp2026:
	case string(m.Kind) == "initialize":
		return
	default:
		if at.Sessionless {
			j.Break(headerMismatch, "%s has no Mcp-Session-Id, and the session has one", m.Kind)
		}
		if at.Version == "" && !at.Older && j.Version >= mcp202506 {
			j.Break(headerMismatch, "%s has no MCP-Protocol-Version", m.Kind)
		}
		return
	}
	for _, of := range []struct{ name, head, body string }{
		{"MCP-Protocol-Version", at.Version, string(m.Version)},
		{"Mcp-Method", at.Method, methodInHead(m, at.Method)},
		{"Mcp-Name", plainHeader(at.Name), nameInHead(m)},
	} {
		if of.body != "" && of.head != of.body {
			j.Break(headerMismatch, "%s is %q in the head, and %q in the body", of.name, of.head, of.body)
		}
	}
	for _, field := range at.Arguments {
		if value := plainHeader(field[1]); !hasArgument(m.Arguments, value, 0) {
			j.Break(headerMismatch, "%s is %q in the head, and no argument in the body is", field[0], value)
		}
	}
}

// maxArgumentDepth bounds how deep arguments are compared with headers.
const maxArgumentDepth = 8

// hasArgument reports whether an argument has the value of a header, or may have it.
func hasArgument(arguments []byte, value string, depth int) bool {
	if depth > maxArgumentDepth {
		return true
	}
	for _, raw := range members(arguments) {
		text, isText := jsonscan.Unquote(raw)
		switch {
		case isText && strings.TrimSpace(string(text)) == value, string(raw) == value, sameNumber(raw, value):
			return true
		case jsonscan.KindOf(raw) == jsonscan.Object && hasArgument(raw, value, depth+1):
			return true
		}
	}
	return false
}

func sameNumber(raw []byte, text string) bool {
	a, err := strconv.ParseFloat(string(raw), 64)
	b, err2 := strconv.ParseFloat(text, 64)
	return err == nil && err2 == nil && a == b
}

// methodInHead returns the method that a message repeats in its head; "" for none. A
// notification need not.
func methodInHead(m *protocol.Message, head string) string {
	if m.Phase.Ends() || m.Phase != protocol.Open && head == "" {
		return ""
	}
	return string(m.Kind)
}

// nameInHead returns the name that a request repeats in its head; "" for none.
func nameInHead(m *protocol.Message) string {
	if !slices.Contains(mcpRetried, string(m.Kind)) || bytes.IndexByte(m.Label, '\\') >= 0 {
		return ""
	}
	return string(m.Label)
}

// plainHeader decodes a header value that is not plain ASCII.
func plainHeader(value string) string {
	if coded, ok := strings.CutPrefix(value, "=?base64?"); ok {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(coded, "?="))
		if err == nil {
			return string(text)
		}
	}
	return value
}
