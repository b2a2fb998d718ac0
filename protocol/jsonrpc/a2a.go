package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
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

func a2aMethods() map[string]Method {
	methods := map[string]Method{}
	for _, m := range a2a.Methods {
		methods[m.Newer], methods[m.Older] = Method{From: frame.C2U}, Method{From: frame.C2U}
	}
	return methods
}

// readTaskA2A sets the effect of a message on a task.
func readTaskA2A(e *envelope, m *protocol.Message) {
	switch m.Phase {
	case protocol.Open:
		if method, version := a2a.ByName(m.Kind); method != nil {
			m.Version = version
			method.Request(e.value(Params), m)
		}
	case protocol.Close:
		m.Version = nil // that of a result is the version of its form
		a2a.Answer(e.value(Result), m)
	}
}
