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
