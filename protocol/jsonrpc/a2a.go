package jsonrpc

import (
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
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
				return a2aCall(routes.Call(head))
			}
		},
		Named: func(kind, version, verb, path string) *protocol.Call {
			return a2aCall(a2a.Named(kind, version, verb, path))
		},
		About: func(message []byte, version string, grpc bool) (c *protocol.Call, verb, path string, body []byte) {
			own, verb, path, body := a2a.About(message, version, grpc)
			return a2aCall(own), verb, path, body
		},
		Bodies: a2a.REST,
		Open:   func(c *protocol.Call, body []byte, m *protocol.Message) { c.Own.(*a2a.Call).Open(body, m) },
		Answer: func(c *protocol.Call, body []byte, m *protocol.Message, _ bool) { c.Own.(*a2a.Call).Answer(body, m) },
		Fail:   a2a.Fail,
	},
	Kept:     []string{"name", "taskId", "contextId", "messageId", "artifactId", "state"},
	Invented: []string{"messageId", "contextId"},
}

func a2aCall(c *a2a.Call) *protocol.Call {
	if c == nil {
		return nil
	}
	return &protocol.Call{Kind: string(c.Kind()), Version: string(c.Version), Task: c.Task, GRPC: c.GRPC, Bare: !c.Message, Own: c}
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
