package a2a

import (
	"net/url"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

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
		c.Request(body, m)
	}
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
