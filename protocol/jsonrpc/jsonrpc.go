// Package jsonrpc parses the messages of JSON-RPC 2.0 and of the protocols
// that are spoken in it: MCP, ACP and the language server protocol, each a
// [Dialect], which is a literal table of its methods. DAP, which only looks
// like JSON-RPC, has a parser of its own.
//
// The kind of a request or notification is its method; an answer is a "result"
// or an "error"; an array of messages is a "batch". Ids are tokens as written.
package jsonrpc

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Plain is JSON-RPC 2.0 without known methods.
var Plain = New("jsonrpc", Grammar{NullIDs: true})

// A Dialect is JSON-RPC 2.0 with the methods of one protocol.
type Dialect struct {
	name    string
	grammar Grammar
}

// Kinds returns the methods of the protocol.
func (d *Dialect) Kinds() []string { return slices.Sorted(maps.Keys(d.grammar.Methods)) }

// A Grammar is the part of a dialect that goes beyond JSON-RPC 2.0.
type Grammar struct {
	// Methods are those of the protocol. Messages with other methods are valid, and have no
	// further meaning.
	Methods map[string]*Method
	// Binds are the members in which any request may give itself a second name, the
	// preferred one first.
	Binds []Name
	// Cancelled are the answers that end an exchange as cancelled.
	Cancelled []Outcome
	// Answers is the only direction of answers, if there is just one.
	Answers frame.Dir
	// IntegerIDs forbids ids that are numbers with a fraction or an exponent.
	IntegerIDs bool
	// NullIDs allows a request with the id null, which is a notification.
	NullIDs bool
	// ObjectParams forbids params that are arrays.
	ObjectParams bool
	// NullParams allows null for no params.
	NullParams bool
	// Unversioned says that messages have no jsonrpc member.
	Unversioned bool
	// NoBatches forbids batches.
	NoBatches bool
	// Turns is how operations end that outlive the request that began them.
	Turns Turns
	// Prose says that the prose of a message tells a reader more than all params do.
	Prose bool
	// ToolErrors says that result.isError reports a tool that failed.
	ToolErrors bool
}

// Turns says how operations end that outlive the request that began them.
type Turns uint8

const (
	NoTurns      Turns = iota
	ACPTurns           // with an update of the state, to idle
	CodexTurns         // with turn/completed
	MCPTasks           // with the answer to a retry, or the status of a task
	CopilotTurns       // with session.idle
	A2ATasks           // with a task, or an update of its status
)

// A Method describes a method. Either side may send the zero Method, and it opens an
// exchange if it has an id.
type Method struct {
	// From is the side that sends it, if only one may.
	From frame.Dir
	// Does is the effect of a message with this method on the exchange Ref: Part or Cancel,
	// or none.
	Does protocol.Phase
	// Ref is the member that names the exchange it acts on.
	Ref Name
	// Bind is the member that gives the exchange it opens a second name.
	Bind Name
	// Label is the member that tells a reader most.
	Label Member
	// Joins says that the exchange it opens belongs to the operation Ref.
	Joins bool
	// Since and Until are the first and the last version that has it; "" for no bound.
	Since, Until string
}

// A Name is a member whose value is a token of a space.
type Name struct {
	Member Member
	Space  protocol.Space
}

// An Outcome is an answer in which Member has exactly the value Is. If With is not None,
// and there is no member With, it may also be the answer to a cancel.
type Outcome struct {
	Member Member
	Is     string
	With   Member
}

// with adds the methods of which only the sender matters.
func with(methods map[string]*Method, clients, servers string) map[string]*Method {
	for from, names := range map[frame.Dir]string{frame.C2U: clients, frame.U2C: servers} {
		for name := range strings.FieldsSeq(names) {
			if _, ok := methods[name]; !ok {
				methods[name] = &Method{From: from}
			}
		}
	}
	return methods
}

// New returns the dialect of that name.
func New(name string, g Grammar) *Dialect { return &Dialect{name, g} }

// Name returns the name of the protocol.
func (d *Dialect) Name() string { return d.name }

// Encoding returns protocol.JSON.
func (d *Dialect) Encoding() protocol.Encoding { return protocol.JSON }

var otherMethod Method

// method returns the description of a method.
func (d *Dialect) method(name []byte) *Method {
	if m := d.grammar.Methods[string(name)]; m != nil {
		return m
	}
	return &otherMethod
}

// Knows reports whether method is one of the protocol's own.
func (d *Dialect) Knows(method []byte) bool {
	_, ok := d.grammar.Methods[string(method)]
	return ok
}

// Recognize is the function of that name in the Spec of the dialect. Without the jsonrpc member,
// only methods with a path and an initialize of Codex tell.
func (d *Dialect) Recognize(payload []byte, m *protocol.Message) protocol.Evidence {
	switch {
	case !d.grammar.Unversioned:
		return protocol.Own(Claims(payload))
	case string(m.Kind) == "initialize":
		return protocol.Own(jsonwalk.Shape{Has: `method" id params.clientInfo{`}.Fits(payload))
	}
	return protocol.Own(d.Knows(m.Kind) && bytes.Contains(m.Kind, []byte("/")) &&
		jsonwalk.Shape{Has: `method"`, MayHave: "id params emittedAtMs trace"}.Fits(payload))
}

// Refine is the function of that name in the Spec of the dialect: its methods tell, unless they
// are common.
func (d *Dialect) Refine(m *protocol.Message) protocol.Evidence {
	member, isCommon := common[string(m.Kind)]
	switch {
	case !d.Knows(m.Kind):
		return protocol.Evidence{}
	case isCommon && (member == "" || !hasMember(m.Text, member)):
		return protocol.Evidence{Score: protocol.Possible}
	}
	return protocol.Evidence{Score: protocol.Likely}
}

// common are the methods that other programs have, too, with the member of their params that
// shows the dialect, if one does.
var common = map[string]string{
	"initialize": "", "ping": "", "shutdown": "", "exit": "", "authenticate": "", "logout": "",
	"$/cancelRequest": "", "$/progress": "", "$/setTrace": "", "$/logTrace": "",
	"send": "content", "cancel": "request_id", "compact": "",
	"SendMessage": "message", "GetTask": "id", "ListTasks": "", "CancelTask": "id",
	"status.get": "", "runtime.shutdown": "", "session.event": "event", "session.send": "prompt", "session.create": "",
	"session.delete": "", "session.destroy": "", "session.detach": "", "session.list": "", "session.log": "",
	"session.resume": "", "session.shutdown": "", "session.suspend": "", "session.abort": "",
}

// hasMember reports whether params have a member of that name.
func hasMember(params []byte, name string) bool {
	_, ok := jsonscan.Get(params, name)
	return ok
}

// refineMCP: an initialize of MCP names a version that is a day. MCP and version 0.3 of A2A have the
// same names for requests about a task, and different ones for its id.
func refineMCP(m *protocol.Message) protocol.Evidence {
	if string(m.Kind) == "initialize" {
		raw, _ := jsonscan.Get(m.Text, "protocolVersion")
		version, _ := jsonscan.Unquote(raw)
		if _, err := time.Parse(time.DateOnly, string(version)); err == nil {
			return protocol.Evidence{Score: protocol.Certain}
		}
	}
	if A2A.Knows(m.Kind) && hasMember(m.Text, "id") {
		return protocol.Evidence{}
	}
	return MCP.Refine(m)
}

// Claims reports whether a payload, which may be broken, has a jsonrpc member, and is no
// record of a log, which may have one too.
func Claims(payload []byte) bool {
	versioned, others := false, 0
	var s jsonscan.Scanner
	s.Init(payload)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "jsonrpc":
			versioned = true
		case "id", "method", "params", "result", "error":
		case "level", "lvl", "levelname", "severity", "log.level":
			return false
		case "time", "ts", "timestamp", "@timestamp", "asctime":
			others |= 1
		default:
			others |= 2
		}
	}
	return versioned && others != 3
}

// Parse implements [protocol.Protocol].
func (d *Dialect) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	if s.Array() {
		return d.parseBatch(&s, m)
	}
	var e envelope
	paths.Read(&s, &e)
	err := s.End()
	asks := e.method != nil || e.params != nil
	if err != nil { // they may be cut
		asks = jsonwalk.HasMember(payload, "method", "params")
	}
	d.interpret(&e, asks, m)
	return jsonwalk.Finish(&s, err, m)
}

// interpret sets the meaning of the members of e. A message that asks has a method, of whatever kind,
// or params.
func (d *Dialect) interpret(e *envelope, asks bool, m *protocol.Message) {
	method, _ := jsonscan.Unquote(e.method)
	switch {
	case method != nil:
		d.interpretMethod(e, method, m)
	case e.result != nil || e.failure != nil:
		d.interpretAnswer(e, m)
	case (e.isVersioned() || d.grammar.Unversioned) && e.hasID() && !asks:
		// Servers whose handler returns nothing leave out the result.
		m.Faults |= protocol.NoAnswer
		d.interpretAnswer(e, m)
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	switch d.grammar.Turns { // functions in the grammar would make e escape
	case ACPTurns:
		readTurnACP(e, m)
	case MCPTasks:
		readTaskMCP(e, m)
	case CodexTurns:
		readTurnCodex(e, m)
	case CopilotTurns:
		readTurnCopilot(e, m)
	case A2ATasks:
		readTaskA2A(e, m)
	}
	if !e.isVersioned() && !d.grammar.Unversioned {
		m.Faults |= protocol.BadVersion
	}
}

// interpretMethod sets the meaning of a request or notification.
func (d *Dialect) interpretMethod(e *envelope, name []byte, m *protocol.Message) {
	method := d.method(name)
	m.Kind = name
	m.From = method.From
	m.Ref = e.tokenOf(method.Ref)
	m.Label = jsonwalk.Word(e.value(method.Label))
	m.Text = e.params
	if d.grammar.Prose {
		if text := e.summary(); text != nil || m.Label != nil {
			m.Text = text
		}
	}
	m.Faults |= d.checkParams(e.params)
	if e.id != nil {
		m.Faults |= d.checkID(e.id, d.grammar.NullIDs)
	}
	if e.hasID() {
		m.Phase = protocol.Open
		m.ID = protocol.Token{Space: protocol.SpaceID, Text: e.id}
		m.Bind = d.bind(e, method)
		if method.Joins {
			m.Operation = protocol.Effect{Does: protocol.Open, Of: m.Ref}
		}
	}
	if method.Does == protocol.Cancel || method.Does == protocol.Part && m.Phase != protocol.Open {
		m.Phase = method.Does
		m.Reason = jsonwalk.Word(e.reason)
		if m.Ref.IsZero() {
			m.Faults |= protocol.MissingField
		}
	}
}

// bind returns the second name that a request gives its exchange.
func (d *Dialect) bind(e *envelope, method *Method) protocol.Token {
	t := e.tokenOf(method.Bind)
	for _, name := range d.grammar.Binds {
		if !t.IsZero() {
			break
		}
		t = e.tokenOf(name)
	}
	return t
}

var (
	kindResult = []byte("result")
	kindError  = []byte("error")
)

// interpretAnswer sets the meaning of a response.
func (d *Dialect) interpretAnswer(e *envelope, m *protocol.Message) {
	m.From = d.grammar.Answers
	m.Faults |= d.checkAnswer(e)
	if e.hasID() {
		m.ID = protocol.Token{Space: protocol.SpaceID, Text: e.id}
	}
	if isError(e) {
		m.Kind, m.Phase = kindError, protocol.Fail
		m.Label, m.Text = e.code, e.failure
		if e.message != nil {
			m.Text = e.message
		}
	} else {
		m.Kind, m.Phase = kindResult, protocol.Close
		m.Text = e.result
		m.Version = version(e.resultVersion)
		m.ToolError = d.grammar.ToolErrors && string(e.isError) == "true"
	}
	for _, o := range d.grammar.Cancelled {
		switch {
		case string(e.value(o.Member)) != o.Is:
		case o.With == 0 || e.value(o.With) != nil:
			m.Phase = protocol.Cancelled
		default:
			m.Stops = true
		}
	}
}

// version returns a version as it reads: a string in MCP, a number in ACP.
func version(raw []byte) []byte {
	if jsonscan.KindOf(raw) == jsonscan.Number {
		return raw
	}
	return jsonwalk.Word(raw)
}

// isError reports whether an answer is an error. Peers that always write both members put
// null for the one they do not mean.
func isError(e *envelope) bool {
	raw := e.failure
	return raw != nil && (raw[0] != 'n' || e.result == nil)
}

// checkAnswer returns the faults of the answer's own members.
func (d *Dialect) checkAnswer(e *envelope) (f protocol.Faults) {
	failed := isError(e)
	switch {
	case e.result != nil && e.failure != nil:
		f |= protocol.BothAnswers
	case failed && e.failure[0] == 'n':
		f |= protocol.NoAnswer
	}
	id := e.id
	switch {
	case id == nil:
		return f | protocol.MissingField
	case id[0] == 'n' && failed && !saysUnreadable(e.code):
		return f | protocol.NullID
	}
	return f | d.checkID(id, failed)
}

// saysUnreadable reports whether the code of an error says that a request, and so its id,
// could not be read.
func saysUnreadable(code []byte) bool { return string(code) == "-32700" || string(code) == "-32600" }

// checkID returns the fault of an id that exists.
func (d *Dialect) checkID(raw []byte, null bool) protocol.Faults {
	ok := false
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		ok = true
	case jsonscan.Number:
		ok = !d.grammar.IntegerIDs || isInteger(raw)
	case jsonscan.Null:
		ok = null
	}
	if !ok {
		return protocol.BadID
	}
	return 0
}

// checkParams returns the fault of params, which may be missing.
func (d *Dialect) checkParams(raw []byte) protocol.Faults {
	switch {
	case raw == nil, raw[0] == '{':
	case raw[0] == '[' && !d.grammar.ObjectParams, raw[0] == 'n' && d.grammar.NullParams:
	default:
		return protocol.BadParams
	}
	return 0
}

// isInteger reports whether a number is written without fraction and exponent.
func isInteger(raw []byte) bool {
	for _, c := range raw {
		if c == '.' || c|0x20 == 'e' {
			return false
		}
	}
	return true
}

var kindBatch = []byte("batch")

// parseBatch reads the messages of a batch, whose array has been entered. [protocol.Items] and
// another Parse give their meanings.
func (d *Dialect) parseBatch(s *jsonscan.Scanner, m *protocol.Message) error {
	for s.Elem() {
		m.Count++
	}
	if m.Count == 0 || d.grammar.NoBatches {
		m.Faults |= protocol.UnknownKind
	} else {
		m.Kind = kindBatch
	}
	return jsonwalk.Finish(s, s.End(), m)
}

// An envelope holds the members that have a meaning in some protocol of the family, as written.
type envelope struct {
	version []byte `at:"jsonrpc"`
	method  []byte `at:"method"`
	id      []byte `at:"id"`
	params  []byte `at:"params"`
	result  []byte `at:"result"`
	failure []byte `at:"error"`
	code    []byte `at:"error.code"`
	message []byte `at:"error.message"`

	arguments       []byte `at:"params.arguments"`
	inputResponses  []byte `at:"params.inputResponses"`
	requestState    []byte `at:"params.requestState"`
	inputRequests   []byte `at:"params.inputRequests"`
	notifications   []byte `at:"params.notifications"`
	status          []byte `at:"params.status,plain"`
	task            []byte `at:"params.taskId"`
	name            []byte `at:"params.name"`
	progressToken   []byte `at:"params.progressToken"`
	reason          []byte `at:"params.reason"`
	uri             []byte `at:"params.uri"`
	capabilities    []byte `at:"params._meta.io~modelcontextprotocol/clientCapabilities"`
	logLevel        []byte `at:"params._meta.io~modelcontextprotocol/logLevel"`
	protocolVersion []byte `at:"params._meta.io~modelcontextprotocol/protocolVersion"`
	subscription    []byte `at:"params._meta.io~modelcontextprotocol/subscriptionId"`
	metaToken       []byte `at:"params._meta.progressToken"`
	paramsID        []byte `at:"params.id"`
	token           []byte `at:"params.token"`
	partialToken    []byte `at:"params.partialResultToken"`
	workDoneToken   []byte `at:"params.workDoneToken"`
	run             []byte `at:"params.request_id"`
	request         []byte `at:"params.requestId params.event.data.requestId"`
	session         []byte `at:"params.sessionId"`

	resultRequests []byte `at:"result.inputRequests"`
	resultState    []byte `at:"result.requestState"`
	resultType     []byte `at:"result.resultType"`
	resultStatus   []byte `at:"result.status"`
	resultTask     []byte `at:"result.taskId result.task.taskId"`
	taskStatus     []byte `at:"result.task.status"`
	cacheScope     []byte `at:"result.cacheScope"`
	ttl            []byte `at:"result.ttlMs"`
	cancelled      []byte `at:"result.cancelled"`
	content        []byte `at:"result.content"`
	isError        []byte `at:"result.isError"`
	taskIsError    []byte `at:"result.result.isError"`
	resultVersion  []byte `at:"result.protocolVersion"`
	resultStop     []byte `at:"result.stopReason"`
	resultError    []byte `at:"result.error"`
	success        []byte `at:"result.success"`
	resultMessage  []byte `at:"result.messageId"`
	resultTurn     []byte `at:"result.turn.id"`
	agentName      []byte `at:"result.agentInfo|info.name"`
	agentVersion   []byte `at:"result.agentInfo|info.version"`
	quotaInput     []byte `at:"result._meta.quota.token_count.input_tokens"`
	quotaOutput    []byte `at:"result._meta.quota.token_count.output_tokens"`
	usageTotal     []byte `at:"params.update.usage.totalTokens result.usage.totalTokens"`
	usageCached    []byte `at:"params.update.usage.cachedReadTokens result.usage.cachedReadTokens"`
	usageOutput    []byte `at:"params.update.usage.outputTokens result.usage.outputTokens"`
	costAmount     []byte `at:"params.update.cost.amount"`
	costCurrency   []byte `at:"params.update.cost.currency"`
	updateKind     []byte `at:"params.update.sessionUpdate"`
	updateState    []byte `at:"params.update.state"`
	updateStop     []byte `at:"params.update.stopReason"`
	toolCall       []byte `at:"params.update|toolCall.toolCallId params.event.data.toolCallId"`
	lastInput      []byte `at:"params.tokenUsage.last.inputTokens params.event.data.inputTokens"`
	lastCached     []byte `at:"params.tokenUsage.last.cachedInputTokens params.event.data.cacheReadTokens"`
	lastOutput     []byte `at:"params.tokenUsage.last.outputTokens params.event.data.outputTokens"`
	totalInput     []byte `at:"params.tokenUsage.total.inputTokens"`
	totalCached    []byte `at:"params.tokenUsage.total.cachedInputTokens"`
	totalOutput    []byte `at:"params.tokenUsage.total.outputTokens"`
	thread         []byte `at:"params.threadId"`
	expectedTurn   []byte `at:"params.expectedTurnId"`
	tool           []byte `at:"params.tool"`
	paramsTurn     []byte `at:"params.turnId"`
	turn           []byte `at:"params.turn.id"`
	rootTurn       []byte `at:"params.turn.rootTurnId"`
	turnStatus     []byte `at:"params.turn.status"`
	item           []byte `at:"params.item.id"`
	itemType       []byte `at:"params.item.type"`
	paramsItem     []byte `at:"params.itemId"`
	statusType     []byte `at:"params.status.type"`
	paramsType     []byte `at:"params.type"`
	hookType       []byte `at:"params.hookType"`
	resultKind     []byte `at:"params.result.kind"`
	eventType      []byte `at:"params.event.type"`
	eventAgent     []byte `at:"params.event.agentId"`
	eventData      []byte `at:"params.event.data"`
	eventAborted   []byte `at:"params.event.data.aborted"`
	eventModel     []byte `at:"params.event.data.model"`
	eventMessage   []byte `at:"params.event.data.messageId"`
	eventName      []byte `at:"params.event.data.toolName|hookType|errorType|infoType params.event.data.permissionRequest.kind"`

	// prose is a text of agents and their clients for people.
	prose []byte   `at:"params.command|delta|diff|message|title,filled params.error.message params.status.activeFlags"`
	_     struct{} `at:"params.toolCall.title params.input|prompt,filled,plain params.input|prompt[].text,filled,first"`
	_     struct{} `at:"params.update.title|used|message|entries|availableCommands|configOptions,filled"`
	_     struct{} `at:"params.update.content.text params.update.content[].text,filled,first"`
	_     struct{} `at:"params.item.changes|command|text|tool|query,filled"`
	_     struct{} `at:"params.item.content,filled,plain params.item.content[].text,filled,first"`
	_     struct{} `at:"params.turn.error.message params.tokenUsage.last.totalTokens"`
	_     struct{} `at:"params.event.data.permissionRequest.intention|args"`
	_     struct{} `at:"params.event.data.arguments|content|deltaContent|error|inputDelta|message|partialOutput|reason|title,filled"`
}

var paths = jsonwalk.PathsOf[envelope]()

// A Member is a member of messages, by its path in the [envelope].
type Member = jsonwalk.Field

// At returns the member at a path such as params.name. It panics if the envelope has none.
func At(path string) Member { return paths.Field(path) }

// value returns a member as written; nil if it is missing or m is 0.
func (e *envelope) value(m Member) []byte {
	if m == 0 {
		return nil
	}
	return paths.Value(e, m)
}

// hasID reports whether there is an id other than null.
func (e *envelope) hasID() bool { return e.id != nil && e.id[0] != 'n' }

func (e *envelope) isVersioned() bool { return string(e.version) == `"2.0"` }

// tokenOf returns the token that n names, if its value can be one.
func (e *envelope) tokenOf(n Name) protocol.Token { return jsonwalk.Token(e.value(n.Member), n.Space) }

// summary returns the prose of a message or, without one, that of a state.
func (e *envelope) summary() []byte {
	for _, text := range [...][]byte{e.prose, e.updateStop, e.updateState} {
		if e.prose != nil || len(text) > len(`""`) && text[0] != 'n' {
			return text
		}
	}
	return nil
}

// usage returns the numbers of tokens that members tell.
func usage(input, cached, output []byte) protocol.Usage {
	return protocol.Usage{Input: jsonwalk.Count(input), Cached: jsonwalk.Count(cached), Output: jsonwalk.Count(output)}
}

// The demands of the protocols of the family on a session. In all of these a client may go
// away while its requests are open.
var (
	// PlainSpec: the rules are those of JSON-RPC 2.0, which has no cancels.
	PlainSpec = protocol.Spec{
		Protocol:  Plain,
		About:     "any other JSON-RPC",
		Rules:     protocol.Rules{UniqueIDs: true, MayLeave: true, Outlined: true, Elsewhere: true, IsProbe: probes("rpc.")},
		Recognize: Plain.Recognize,
	}

	// MCPSpec: the rules are those of the versions up to 2025-11-25; after that a client that closes
	// the stream of an answer cancels the request.
	MCPSpec = protocol.Spec{
		Protocol:   MCP,
		About:      "the Model Context Protocol",
		Rules:      mcpUntil2026(protocol.Rules{Versions: mcpVersionRules, Newest: mcp2026}),
		Cancel:     protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%[1]s}}`},
		Recognize:  MCP.Recognize,
		Refine:     refineMCP,
		AppendTask: appendTask,
		Labels:     protocol.Tools,
		AsksUser:   []string{"elicitation/create"},
		// Of Claude Code 2.1 and Codex 0.171.
		Joins: []protocol.Join{
			{As: protocol.CarriesOut, Path: "params//_meta//claudecode/toolUseId"},
			{As: protocol.CarriesOut, Path: "params//_meta//callId"},
			{As: protocol.OfAgent, Path: "params//_meta//threadId"},
			{As: protocol.OfTurn, Path: "params//_meta//x-codex-turn-metadata//turn_id"},
			{As: protocol.OfTrace, Path: "params//_meta//traceparent"},
			{As: protocol.OfTrace, Header: "Traceparent"},
			{As: protocol.WithArguments, Path: "params//arguments"},
		},
	}
	mcp202511Rules = mcpUntil2026(protocol.Rules{Polls: true})
	mcp2026Rules   = mcpRules(protocol.Rules{
		LeavingCancels: true,
		Asks:           frame.C2U,
		Repeated:       "-32020",
		EndlessAck:     "notifications/subscriptions/acknowledged",
	})

	// ACPSpec: the rules are those of version 1, in which the answer to a prompt ends the turn; in
	// version 2 it accepts the prompt, and the turn ends when the agent is idle.
	ACPSpec = protocol.Spec{
		Protocol: ACP,
		About:    "the Agent Client Protocol",
		Rules: acpRules(protocol.Rules{
			Steps:    true,
			Versions: []protocol.VersionRules{{From: "2", Rules: &acp2Rules}},
			Newest:   "2",
		}),
		Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%[1]s}}`, Bind: true},
		Recognize: ACP.Recognize,
		Refine:    ACP.Refine,
		AsksUser:  []string{"session/request_permission", "elicitation/create"},
		Prompts:   []string{"session/prompt"},
	}
	acp2Rules = acpRules(protocol.Rules{Accepted: []string{"session/prompt"}, Judge: judgeACP2})

	// LSPSpec: a cancelled request is answered by an error, -32800 as a rule,
	// or by its result. Progress can be the server's own.
	LSPSpec = protocol.Spec{
		Protocol: LSP,
		About:    "the Language Server Protocol",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			Dismiss:   []string{"exit"},
			LooseRefs: true,
			Framing:   frame.Header,
			IsProbe:   probes("$/"),
			Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer}},
			Sources: [][2]string{
				{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%[1]s}}`},
		Recognize: LSP.Recognize,
		Refine:    LSP.Refine,
		Kept:      []string{"params.token"},
		NoSecret:  "token", // of progress
	}

	// CodexSpec: an interrupted turn ends as interrupted. serverRequest/resolved ends a
	// question of the server, also one that was not answered. Turns belong to the server,
	// not to a connection.
	CodexSpec = protocol.Spec{
		Protocol: Codex,
		About:    "the app-server of Codex",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			LooseRefs: true,
			Totals:    true,
			Steps:     true,
			Opening:   []string{"initialize"},
			Framing:   frame.Line,
			Shared:    []protocol.Space{protocol.SpaceTurn, protocol.SpaceSession},
			Accepted:  []string{"turn/start", "review/start", "thread/compact/start", "thread/shellCommand"},
			Cancels: []protocol.CancelRule{
				{Kind: "turn/interrupt", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
				{Kind: "serverRequest/resolved", Target: protocol.MayAnswer, Settles: true},
			},
			Sources: [][2]string{
				{"cancel-ignored", "a turn that turn/interrupt has ended completes with the status interrupted"},
				{"cancel-silent", "a turn that was interrupted completes"},
				{"missing-request", "a client begins with initialize; the server answers \"Not initialized\" to anything else"},
				{"unknown-step", "a delta names an item that item/started began and item/completed has not ended"},
				{"total-falls", "tokenUsage.total counts all of a thread, and never falls"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"method":"turn/interrupt","id":%[2]d,"params":{"threadId":%[3]s,"turnId":%[1]s}}`, Bind: true, Ref: true},
		Recognize: Codex.Recognize,
		Prompts:   []string{"turn/start"},
		AsksUser: []string{
			"item/tool/requestUserInput", "mcpServer/elicitation/request", "item/commandExecution/requestApproval",
			"item/fileChange/requestApproval", "item/permissions/requestApproval",
		},
	}

	// DAPSpec: a cancelled request is answered, and so is the cancel, which is
	// a request. Progress is the adapter's own.
	DAPSpec = protocol.Spec{
		Protocol: DAP,
		About:    "the Debug Adapter Protocol",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			Dismiss:   []string{"disconnect", "terminate"},
			LooseRefs: true,
			Framing:   frame.Header,
			Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer, Own: protocol.MustAnswer}},
			Sources: [][2]string{
				{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
				{"duplicate-id", "seq numbers the messages of each side"},
				{"bad-id", "seq and request_seq are integers"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"seq":%[2]d,"type":"request","command":"cancel","arguments":{"requestId":%[1]s}}`},
		Recognize: recognizeDAP,
		Kept:      []string{"command", "event", "arguments.requestId"},
	}
)

// probes returns the [protocol.Rules.IsProbe] of a protocol in which any peer may lack the
// methods with a prefix: those of extensions.
func probes(prefix string) func(asked, answer, code string, _ protocol.Features) bool {
	return func(asked, _, code string, _ protocol.Features) bool {
		return strings.HasPrefix(asked, prefix) && code == methodNotFound
	}
}

const methodNotFound = "-32601"

// isProbeMCP: clients that know 2026-07-28 look for server/discover first. A server of an older
// version refuses it by any error but those of that version, and over HTTP by its status, since
// the request belongs to no session. Many clients list what a server has not declared, too.
func isProbeMCP(asked, answer, code string, declared protocol.Features) bool {
	if asked == "server/discover" {
		switch code {
		case methodNotFound, "-32600", "-32602", "-32000", "-32022":
			return true
		case "":
			return slices.Contains([]string{"400", "404", "405"}, answer)
		}
		return false
	}
	lacks := mcpListed[asked]
	return code == methodNotFound && lacks != 0 && declared&(mcpBegun|lacks) == mcpBegun
}

// acpRules adds to r the rules that all versions of ACP share: session/cancel makes the
// prompt end with the stop reason "cancelled"; $/cancel_request leaves the answer open.
// Updates name a session, which can outlive its prompts.
func acpRules(r protocol.Rules) protocol.Rules {
	r.UniqueIDs, r.MayLeave, r.LooseRefs, r.Outlined, r.Elsewhere = true, true, true, true, true
	r.Framing, r.IsProbe = frame.Line, probes("_")
	r.Opening = []string{"initialize"}
	r.Session = func(opened string, _ *protocol.Message, payload []byte) []byte {
		if opened != "session/new" && opened != "session/fork" {
			return nil
		}
		id, _ := jsonscan.Get(payload, "result", "sessionId")
		return id
	}
	r.Options = permissionOptions
	r.Cancels = []protocol.CancelRule{
		{Kind: "$/cancel_request", Target: protocol.MustAnswer},
		{Target: protocol.MustConfirm},
	}
	r.Sources = [][2]string{
		{"missing-request", "a client begins with initialize"},
		{"unknown-step", "in version 1 a tool_call_update names a tool_call"},
		{"cancel-ignored", "a prompt cancelled by session/cancel ends with the stop reason cancelled, and the permissions that it waits for are answered as cancelled"},
		{"wrong-result", "the option that answers a permission is one of those offered"},
		{"missing-field", "in version 2 each chunk of a message has its messageId"},
		{"cancel-silent", "a prompt cancelled by session/cancel ends with the stop reason cancelled, and another request is answered too"},
		{"stray-output", "an agent writes nothing to its stdout but messages"},
	}
	return r
}

// mcpVersionRules are the rules of the versions of MCP that differ from those before.
var mcpVersionRules = []protocol.VersionRules{{From: mcp202511, Rules: &mcp202511Rules}, {From: mcp2026, Rules: &mcp2026Rules}}

// mcpUntil2026 adds to r the rules of the versions of MCP before 2026-07-28.
func mcpUntil2026(r protocol.Rules) protocol.Rules {
	r.Handshake = protocol.Handshake{
		Request: "initialize", Notification: "notifications/initialized",
		Early: []string{"initialize", "ping", "server/discover"},
	}
	r.Uncancellable = []string{"initialize"}
	r.Elsewhere = true
	r.Sources = [][2]string{
		{"wrong-response", "since 2025-03-26 a request is answered by application/json or text/event-stream, a notification or a response by 202 without a body, and GET by text/event-stream or 405; events are messages"},
		{"ended-session", "since 2025-03-26 a client that gets 404 for its session sends a new initialize without a session id"},
		{"undeclared", "both sides use only capabilities that were negotiated: until 2025-03-26 they should, then they must"},
	}
	return mcpRules(r)
}

// mcpRules adds to r the rules that all versions of MCP share: a cancelled request gets no
// answer. (MCP, Utilities, Cancellation and Progress.) Tasks and retries can come on other
// connections.
func mcpRules(r protocol.Rules) protocol.Rules {
	r.UniqueIDs, r.MayLeave, r.Outlined, r.EndsWithInput = true, true, true, true
	r.Framing = frame.Line
	r.Shared = []protocol.Space{protocol.SpaceTask, protocol.SpaceRetry}
	r.Endless = []string{"subscriptions/listen"}
	r.Judge, r.Features, r.IsProbe = judgeMCP, mcpFeatures, isProbeMCP
	r.Cancels = []protocol.CancelRule{
		{Kind: "tasks/cancel", Target: protocol.MayAnswer, Own: protocol.MustAnswer},
		{Target: protocol.MustNotAnswer},
	}
	r.Sources = append(r.Sources, [][2]string{
		{"late-result", "a cancelled request gets no response"},
		{"cancel-unknown", "a cancel names a request that its sender has made"},
		{"missing-request", "a client asks nothing but ping before initialize is answered, and sends notifications/initialized then"},
		{"missing-ack", "the first message of a subscription is notifications/subscriptions/acknowledged"},
		{"cancel-forbidden", "initialize is never cancelled, and a task by tasks/cancel"},
		{"header-mismatch", "the headers MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-… repeat what the body says, and Mcp-Session-Id the session"},
		{"wrong-retry", "a retry has an id of its own, the requestState as it came, and keys of the inputRequests; tasks/update has the last too"},
		{"wrong-result", "input_required answers tools/call, prompts/get and resources/read, and task answers tools/call"},
		{"undeclared", "a server uses the capabilities, log level and notifications that the request declares"},
		{"wrong-response", "a request is answered by application/json or text/event-stream, and a notification by 202 without a body; events are messages"},
		{"late-part", "progress stops when its request has completed"},
		{"orphan", "a response has the id of a request, and progress the token of a request that is active"},
		{"stray-output", "a server writes nothing to its stdout but messages"},
		{"bad-id", "an id is a string or an integer, and not null"},
		{"wrong-framing", "over stdio each message is a line"},
		{"ignores-eof", "to shut down over stdio, a client closes the server's stdin and waits for the server to exit"},
	}...)
	return r
}
