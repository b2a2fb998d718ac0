// Package a2a parses the bodies of the Agent2Agent protocol, versions 0.3 and 1.0: requests
// about tasks, tasks, and the events of a stream. There are three bindings: JSON-RPC, JSON over
// HTTP (REST), and protobuf over gRPC.
//
// A task outlives the request that began it, and several streams can report on it. The agent
// chooses its id.
package a2a

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Name is the name of the protocol in all bindings.
const Name = "a2a"

// The versions. A message without a version is of 0.3.
const (
	V03 = "0.3"
	V10 = "1.0"
)

var (
	v03 = []byte(V03)
	v10 = []byte(V10)
)

// Rules are the rules of version 0.3. Tasks belong to the agent, not to a connection. A task goes
// on when a stream that reports on it is closed. A cancel is answered with the task, or with an
// error if it is too late.
var (
	Rules = rules(protocol.Rules{
		Versions: []protocol.VersionRules{{From: V10, Rules: &rules10}},
		Newest:   V10,
	})
	rules10 = rules(protocol.Rules{Announced: true, StatesVersion: true})
)

func rules(r protocol.Rules) protocol.Rules {
	r.UniqueIDs, r.MayLeave, r.OneVersion, r.Outlined = true, true, true, true
	r.Shared = []protocol.Space{protocol.SpaceTask}
	r.Streams = []string{"SendStreamingMessage", "SubscribeToTask", "message/stream", "tasks/resubscribe"}
	r.Cancels = []protocol.CancelRule{
		{Kind: "CancelTask", Own: protocol.MustAnswer},
		{Kind: "tasks/cancel", Own: protocol.MustAnswer},
	}
	r.Sources = [][2]string{
		{"after-end", "a task in a terminal state changes no more and takes no messages, and a message ends its stream"},
		{"unstated-version", "a request states its version in the header A2A-Version: without it, it is of 0.3"},
		{"missing-ack", "the first event of a stream is a task or a message"},
		{"missing-field", "in version 0.3 the last status update of a stream has final: true"},
		{"sequence-gap", "a chunk with append: true adds to an artifact that was sent before"},
		{"sequence-repeat", "no chunk is appended after lastChunk: true"},
	}
	return r
}

// A Method is a method of the protocol.
type Method struct {
	// Newer is the name in version 1.0 and in gRPC, and Older that in version 0.3.
	Newer, Older string
	// About says that params.id names a task, Message that params.message.taskId may, and
	// Config that params.taskId does.
	About, Message, Config bool
	// Cancels says that it cancels the task.
	Cancels bool
}

// Methods are the methods of both versions.
var Methods = []Method{
	{Newer: "SendMessage", Older: "message/send", Message: true},
	{Newer: "SendStreamingMessage", Older: "message/stream", Message: true},
	{Newer: "GetTask", Older: "tasks/get", About: true},
	{Newer: "ListTasks", Older: "tasks/list"},
	{Newer: "CancelTask", Older: "tasks/cancel", About: true, Cancels: true},
	{Newer: "SubscribeToTask", Older: "tasks/resubscribe", About: true},
	{Newer: "CreateTaskPushNotificationConfig", Older: "tasks/pushNotificationConfig/set", Config: true},
	{Newer: "GetTaskPushNotificationConfig", Older: "tasks/pushNotificationConfig/get", Config: true},
	{Newer: "ListTaskPushNotificationConfigs", Older: "tasks/pushNotificationConfig/list", Config: true},
	{Newer: "DeleteTaskPushNotificationConfig", Older: "tasks/pushNotificationConfig/delete", Config: true},
	{Newer: "GetExtendedAgentCard", Older: "agent/getAuthenticatedExtendedCard"},
}

// ByName returns the method with a name, and the version in which it has that name; nil for an
// unknown name.
func ByName(name []byte) (m *Method, version []byte) {
	for i := range Methods {
		switch m := &Methods[i]; string(name) {
		case m.Newer:
			return m, v10
		case m.Older:
			return m, v03
		}
	}
	return nil, nil
}

// Ask sets in m what a request does to a task, which may be the zero token.
func (method *Method) Ask(m *protocol.Message, task protocol.Token) {
	switch {
	case task.IsZero():
	case method.Cancels:
		m.Ref, m.Operation = task, protocol.Effect{Does: protocol.Cancel, Of: task}
	case method.Message:
		m.Ref, m.Operation = task, protocol.Effect{Does: protocol.Part, Of: task}
	default:
		m.Ref, m.Operation = task, protocol.Effect{Does: protocol.Open, Of: task}
	}
}

// Request sets in m what a request does to a task, given its params, or its body in REST.
func (method *Method) Request(params []byte, m *protocol.Message) {
	var task []byte
	var s jsonscan.Scanner
	s.Init(params)
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); {
		case key == "id" && method.About, key == "taskId" && method.Config:
			task = s.Value()
		case key == "message" && method.Message:
			task = jsonwalk.Member(&s, "taskId")
		}
	}
	_ = s.End()
	method.Ask(m, idToken(task, protocol.SpaceTask))
}

// idToken returns the token of an id; the zero token for an empty id, which some agents send
// instead of none.
func idToken(raw []byte, space protocol.Space) protocol.Token {
	if len(raw) <= 2 || raw[0] != '"' {
		return protocol.Token{}
	}
	return jsonwalk.Token(raw, space)
}

// form is the content of an answer.
type form uint8

const (
	other    form = iota
	message       // a message without a task
	task          // a task
	status        // an update of its status
	artifact      // a piece of an artifact
)

// state is the state of a task.
type state uint8

const (
	noState     state = iota
	working           // it goes on by itself
	interrupted       // it waits for the client
	completed
	failed
	cancelled
)

// states are the states in JSON: of version 0.3, of version 1.0, and of an SDK of version 0.3
// that spells one differently in REST.
var states = map[string]state{
	"submitted": working, "TASK_STATE_SUBMITTED": working,
	"working": working, "TASK_STATE_WORKING": working,
	"input-required": interrupted, "TASK_STATE_INPUT_REQUIRED": interrupted,
	"auth-required": interrupted, "TASK_STATE_AUTH_REQUIRED": interrupted,
	"completed": completed, "TASK_STATE_COMPLETED": completed,
	"failed": failed, "TASK_STATE_FAILED": failed,
	"rejected": failed, "TASK_STATE_REJECTED": failed,
	"canceled": cancelled, "TASK_STATE_CANCELED": cancelled, "TASK_STATE_CANCELLED": cancelled,
}

// effects are the effects of states on the task.
var effects = [...]protocol.Phase{
	noState: protocol.Open, working: protocol.Open, interrupted: protocol.Open,
	completed: protocol.Close, failed: protocol.Fail, cancelled: protocol.Cancelled,
}

// An event is an answer about a task.
type event struct {
	form          form
	flat          bool // it has a kind, as in version 0.3
	wrapped       bool // it is the only member of an object
	task, context protocol.Token
	state         state
	word          []byte // the state as written
	final         bool
	artifacts     int
	piece         protocol.Piece
}

// Answer fills m from the result of an answer, or from its body in REST.
func Answer(result []byte, m *protocol.Message) {
	var e event
	e.readResult(result)
	e.tell(m)
	switch {
	case e.flat:
		m.Version = v03
		if e.form == status && e.state >= completed && !e.final {
			m.Faults |= protocol.MissingField
		}
	case e.wrapped:
		m.Version = v10
	}
}

// tell fills m.
func (e *event) tell(m *protocol.Message) {
	if e.form == other || e.form == message {
		return
	}
	m.Bind, m.Context, m.Label = e.task, e.context, e.word
	if e.task.IsZero() {
		return
	}
	m.Operation = protocol.Effect{Does: effects[e.state], Of: e.task}
	switch {
	case m.Operation.Does != protocol.Open:
	case e.form == task:
		m.GoesOn, m.Count = true, e.artifacts
	default:
		m.Phase, m.Operation.Does, m.Piece = protocol.Part, protocol.Part, e.piece
	}
}

// An answer holds the members of an event, which may be wrapped. It is not in JSON-RPC of version 0.3,
// and in the answer to a request about a task.
type answer struct {
	message        []byte `at:"message"`
	task           []byte `at:"task"`
	statusUpdate   []byte `at:"statusUpdate"`
	artifactUpdate []byte `at:"artifactUpdate"`

	members `at:"message|task|statusUpdate|artifactUpdate"`
}

type members struct {
	kind      []byte `at:"kind,word"`
	id        []byte `at:"id"`
	taskID    []byte `at:"taskId"`
	contextID []byte `at:"contextId"`
	state     []byte `at:"status.state,word"`
	final     bool   `at:"final,true"`
	artifacts int    `at:"artifacts[]"`
	artifact  []byte `at:"artifact.artifactId"`
	appends   bool   `at:"append,true"`
	last      bool   `at:"lastChunk,true"`
}

var paths = jsonwalk.PathsOf[answer]()

// kinds are the events of version 0.3.
var kinds = map[string]form{"message": message, "task": task, "status-update": status, "artifact-update": artifact}

// readResult reads an event.
func (e *event) readResult(result []byte) {
	var a answer
	var s jsonscan.Scanner
	s.Init(result)
	paths.Read(&s, &a)
	if s.End() != nil {
		e.readWrapper(result)
	}
	e.word, e.state, e.final, e.artifacts = a.state, states[string(a.state)], a.final, a.artifacts
	e.context, e.piece = idToken(a.contextID, protocol.SpaceSession), protocol.Piece{Of: a.artifact, Appends: a.appends, Last: a.last}
	for f, wrapped := range [...][]byte{message: a.message, task: a.task, status: a.statusUpdate, artifact: a.artifactUpdate} {
		if jsonscan.KindOf(wrapped) == jsonscan.Object {
			e.form, e.wrapped = form(f), true
		}
	}
	if f := kinds[string(a.kind)]; f != other {
		e.form, e.flat = f, true
	}
	id := idToken(a.id, protocol.SpaceTask)
	if e.form == other && e.state != noState && !id.IsZero() {
		e.form = task // without a wrapper
	}
	if e.task = idToken(a.taskID, protocol.SpaceTask); e.form == task {
		e.task = id
	}
}

// readWrapper reads the form of an event whose wrapper is faulty: what comes before the fault counts, too.
func (e *event) readWrapper(result []byte) {
	var s jsonscan.Scanner
	s.Init(result)
	for ok := s.Object(); ok && s.Next(); {
		f := slices.Index([]string{message: "message", task: "task", status: "statusUpdate", artifact: "artifactUpdate"}, string(s.Key()))
		if f > 0 && s.Peek() == jsonscan.Object {
			e.form, e.wrapped = form(f), true
		}
	}
}

// A Call is a request in a binding other than JSON-RPC, as far as its head tells.
type Call struct {
	*Method
	// GRPC says that the bodies are protobuf instead of JSON.
	GRPC bool
	// Version is stated by the head, or else implied by the path.
	Version []byte
	// Task is the task in the path, quoted as in JSON.
	Task protocol.Token
}

// Kind returns the name of the method in JSON-RPC.
func (c *Call) Kind() []byte {
	if string(c.Version) < V10 {
		return []byte(c.Older)
	}
	return []byte(c.Newer)
}

// Open makes m the message of the request, given its body.
func (c *Call) Open(body []byte, m *protocol.Message) {
	m.Reset()
	m.Kind, m.Phase, m.From, m.Version = c.Kind(), protocol.Open, frame.C2U, c.Version
	switch {
	case !c.Task.IsZero():
		c.Ask(m, c.Task)
	case c.GRPC:
		c.Ask(m, c.named(body))
	default:
		if c.Request(body, m); m.Ref.IsZero() && string(c.Version) < V10 {
			c.Ask(m, namedJSON(body))
		}
	}
}

// namedJSON returns the task that a request of version 0.3 over gRPC names, given its JSON form.
func namedJSON(body []byte) protocol.Token {
	for _, key := range []string{"name", "parent"} {
		name, _ := jsonscan.Get(body, key)
		text, _ := jsonscan.Unquote(name)
		if id, isTask := strings.CutPrefix(string(text), "tasks/"); isTask {
			id, _, _ = strings.Cut(id, "/")
			return quoted([]byte(id), protocol.SpaceTask)
		}
	}
	return protocol.Token{}
}

var (
	kindResult = []byte("result")
	kindError  = []byte("error")
)

// Answer makes m the message of an answer without an error status, or of an event.
func (c *Call) Answer(body []byte, m *protocol.Message) {
	m.Reset()
	m.Kind, m.Phase, m.From = kindResult, protocol.Close, frame.U2C
	if c.GRPC {
		c.answerProto(body, m)
		return
	}
	if raw, failed := jsonscan.Get(body, "error"); failed && jsonscan.KindOf(raw) == jsonscan.Object {
		Fail(body, nil, m)
		return
	}
	if Answer(body, m); string(m.Version) == V10 {
		m.Version = nil // in this binding version 0.3 has that form too
	}
}

// Fail makes m the message of an error. The code is the one in the body, or else code, which is
// the carrier's.
func Fail(body, code []byte, m *protocol.Message) {
	m.Reset()
	m.Kind, m.Phase, m.From, m.Label = kindError, protocol.Fail, frame.U2C, code
	raw, ok := jsonscan.Get(body, "error")
	if !ok {
		raw = body
	}
	if number, ok := jsonscan.Get(raw, "code"); ok && jsonscan.KindOf(number) == jsonscan.Number {
		m.Label = number
	}
	m.Text, _ = jsonscan.Get(raw, "message")
}

// services are the names of the gRPC service, by version.
var services = map[string][]byte{"lf.a2a.v1.A2AService": v10, "a2a.v1.A2AService": v03}

// Routes recognizes the calls of a session by their heads. The zero Routes is ready to use.
type Routes struct {
	bases map[string]bool // paths below which calls were seen
}

// maxBases bounds how many agents are remembered, and maxBase the length of a path.
const (
	maxBases = 256
	maxBase  = 1024
)

// Call returns the call of a head; nil if there is none. The last word of some paths is enough.
// Other paths need a header of the protocol, or an earlier call to the same agent.
func (r *Routes) Call(head *frame.Head) *Call {
	path, _, _ := strings.Cut(head.Target(), "?")
	stated := head.Get("A2a-Version")
	if carrier.IsGRPC(head) {
		return grpcCall(path, stated)
	}
	c, base, sure := restCall(head.Method(), path)
	switch {
	case c == nil:
		return nil
	case sure || stated != "" || strings.Contains(head.Get("Accept"), "application/a2a+json"):
		if r.bases == nil || len(r.bases) >= maxBases {
			r.bases = map[string]bool{}
		}
		if len(base) <= maxBase {
			r.bases[strings.Clone(base)] = true
		}
	case !r.bases[base]:
		return nil
	}
	switch {
	case stated != "":
		c.Version = []byte(stated)
	case strings.HasSuffix(base, "/v1"):
		c.Version = v03
	default:
		c.Version = v10
	}
	return c
}

func grpcCall(path, stated string) *Call {
	service, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	version := services[service]
	if version == nil {
		return nil
	}
	if name == "TaskSubscription" { // of version 0.3
		name = "SubscribeToTask"
	}
	m, _ := ByName([]byte(name))
	if m == nil {
		return nil
	}
	if stated != "" {
		version = []byte(stated)
	}
	return &Call{Method: m, GRPC: true, Version: version}
}

// restCall returns the call that a method and a path are, and the path of the agent; nil
// for none. It is sure of paths that nobody else has.
func restCall(verb, path string) (c *Call, base string, sure bool) {
	if i := strings.LastIndex(path, "/message:"); i >= 0 && verb == "POST" {
		name := map[string]string{"send": "SendMessage", "stream": "SendStreamingMessage"}[path[i+len("/message:"):]]
		return callOf(name, ""), path[:i], true
	}
	if i := strings.LastIndex(path, "/tasks/"); i >= 0 {
		id, rest, _ := strings.Cut(path[i+len("/tasks/"):], "/")
		id, action, _ := strings.Cut(id, ":")
		return callOf(taskMethod(verb, action, rest), id), path[:i], false
	}
	if base, ok := strings.CutSuffix(path, "/tasks"); ok && verb == "GET" {
		return callOf("ListTasks", ""), base, false
	}
	if base, ok := strings.CutSuffix(path, "/extendedAgentCard"); ok && verb == "GET" {
		return callOf("GetExtendedAgentCard", ""), base, false
	}
	return nil, "", false
}

// Named returns the call of a kind and version with that verb and path, which has a task over REST. It
// is nil for an unknown kind.
func Named(kind, version, verb, path string) *Call {
	method, _ := ByName([]byte(kind))
	if method == nil {
		return nil
	}
	c := &Call{Method: method, Version: []byte(version)}
	if route, _, _ := restCall(verb, path); route != nil {
		c.Task = route.Task
	}
	return c
}

// About returns the call over REST or gRPC that does what a message of JSON-RPC about a task does,
// with its verb, its path from where other calls end, and its body in JSON.
func About(message []byte, version string, grpc bool) (c *Call, verb, path string, body []byte) {
	name, _ := jsonscan.Get(message, "method")
	task, _ := jsonscan.Get(message, "params", "id")
	method, _ := ByName(bytes.Trim(name, `"`))
	id, _ := jsonscan.Unquote(task)
	c = &Call{Method: method, Version: []byte(version), Task: idToken(task, protocol.SpaceTask)}
	switch path = "tasks/" + url.PathEscape(string(id)); {
	case grpc && version < V10:
		return c, "POST", method.Newer, fmt.Appendf(nil, `{"name":%s}`, jsonscan.AppendQuote(nil, append([]byte("tasks/"), id...)))
	case grpc:
		return c, "POST", method.Newer, fmt.Appendf(nil, `{"id":%s}`, task)
	case method.Cancels:
		return c, "POST", path + ":cancel", nil
	}
	return c, "GET", path, nil
}

// taskMethod returns the name of what is asked about a task; "" for nothing known.
func taskMethod(verb, action, rest string) string {
	config, id, _ := strings.Cut(rest, "/")
	switch {
	case action == "cancel" && rest == "" && verb == "POST":
		return "CancelTask"
	case action == "subscribe" && rest == "" && (verb == "POST" || verb == "GET"):
		return "SubscribeToTask"
	case action != "":
		return ""
	case rest == "" && verb == "GET":
		return "GetTask"
	case config != "pushNotificationConfigs":
		return ""
	case verb == "POST" && id == "":
		return "CreateTaskPushNotificationConfig"
	case verb == "GET" && id == "":
		return "ListTaskPushNotificationConfigs"
	case verb == "GET":
		return "GetTaskPushNotificationConfig"
	case verb == "DELETE":
		return "DeleteTaskPushNotificationConfig"
	}
	return ""
}

func callOf(name, id string) *Call {
	m, _ := ByName([]byte(name))
	if m == nil {
		return nil
	}
	c := &Call{Method: m}
	if text, err := url.PathUnescape(id); err == nil && text != "" {
		c.Task = protocol.Token{Space: protocol.SpaceTask, Text: jsonscan.AppendQuote(nil, []byte(text))}
	}
	return c
}
