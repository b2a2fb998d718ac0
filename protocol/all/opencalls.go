package all

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// OpenCalls remember the gRPC calls of a session and the requests to APIs of models, and
// say by them in which protocol the messages on their streams are, so that a connection
// may carry any number of protocols. A server's answers to reflection tell it what the messages
// of later calls are. A session can name any number of calls: those that began
// long ago are forgotten.
type OpenCalls struct {
	// Known are the calls that are described; nil knows only Latis.
	Known *Calls
	// Lacking, if not nil, is told the path of each call that is not described.
	Lacking func(path string)

	apis       APIs
	learned    protobuf.Learned
	young, old map[callKey]call
}

type callKey struct {
	conn   int
	stream int64
}

type call struct {
	request, answer protocol.Protocol
	reflection      bool // the answers contain schemas
	events          bool // the answers are events, and isEvent tells whether they are of the protocol
	isEvent         func(payload []byte) bool
}

// maxYoung is how many calls begin before older ones are forgotten.
const maxYoung = 1 << 15

// Protocol returns the protocol of a message of a call; nil for any other frame, and if the
// path of the call does not tell. It also tracks the heads of calls.
func (o *OpenCalls) Protocol(f *frame.Frame) protocol.Protocol {
	m := f.Meta
	if m == nil || f.Gap {
		return nil
	}
	at := callKey{f.Conn, f.Stream}
	if m.Framing == frame.HTTP && m.Head.Method() != "" {
		if c := o.apis.Call(f); c != nil && !c.GRPC {
			bodies, api := c.Spec.Bodies(), c.Spec.API
			o.remember(at, call{request: bodies, answer: bodies, isEvent: api.IsEvent, events: c.Listens})
			if m.Signal == frame.NoSignal && (api.Fail == nil || len(f.Payload()) > 0) {
				return bodies
			}
			return nil
		}
		delete(o.young, at)
		delete(o.old, at)
	}
	switch {
	case m.Signal == frame.Request:
		o.openCall(at, m.Head)
	case m.Signal == frame.NoSignal && (m.Framing == frame.GRPC.Name() || m.Framing == frame.HTTP):
		c, young := o.young[at]
		if !young {
			c = o.old[at]
		}
		switch f.Dir {
		case frame.C2U:
			return c.request
		case frame.U2C:
			if c.reflection {
				o.learned.Learn(f.Payload())
			}
			if c.events && !c.isEvent(f.Payload()) {
				return nil // from another server
			}
			return c.answer
		}
	}
	return nil
}

// openCall handles a head that may begin a call.
func (o *OpenCalls) openCall(at callKey, head *frame.Head) {
	request, answer, known := o.Known.Of(head)
	if request == nil {
		return
	}
	path := head.Target()
	if !known {
		if learnt, too, ok := o.learned.Messages(path); ok {
			request, answer, known = learnt, too, true
		}
	}
	if !known && o.Lacking != nil {
		o.Lacking(path)
	}
	o.remember(at, call{request: request, answer: answer, reflection: path == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
		path == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"})
}

func (o *OpenCalls) remember(at callKey, c call) {
	if o.young == nil || len(o.young) == maxYoung {
		o.young, o.old = map[callKey]call{}, o.young
	}
	o.young[at] = c
}
