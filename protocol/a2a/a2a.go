// Package a2a parses the bodies of the Agent2Agent protocol, versions 0.3 and 1.0: requests
// about tasks, tasks, and the events of a stream. There are three bindings: JSON-RPC, JSON over
// HTTP (REST), and protobuf over gRPC.
//
// A task outlives the request that began it, and several streams can report on it. The agent
// chooses its id.
package a2a

import (
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
