package track

import (
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
)

// An agentCall is a request about tasks over REST or gRPC. It shares the tracker of the JSON-RPC
// binding, because one binding can start a task and another can cancel it.
type agentCall struct {
	*protocol.Call
	told bool // the tracker knows an answer
}

func (c *agentCall) ask(f *Follower, e *exchange, it *decode.Item) {
	fr, hasBody := f.asked(e, it)
	var m protocol.Message
	var body []byte
	if hasBody {
		body = it.Payload
	}
	c.Begin(body, &m)
	m.ID, m.Text = carried.Token(it.Frame), body
	f.feedCall(c.Spec.Protocol, fr, &m)
}

func (c *agentCall) answer(f *Follower, e *exchange, it *decode.Item) bool {
	switch {
	case it.Frame.Meta.Signal == frame.Reset:
		c.leave(f, e, it)
	case c.GRPC:
		c.called(f, e, it)
	default:
		c.answered(f, e, it)
	}
	return true
}

// tell passes an answer to the tracker.
func (c *agentCall) tell(f *Follower, e *exchange, it *decode.Item, m *protocol.Message) {
	f.ask(e, it)
	fr := f.carried(it)
	fr.Dir = frame.U2C
	m.ID = carried.Token(it.Frame)
	c.told = true
	f.feedCall(c.Spec.Protocol, fr, m)
}

// called handles an item from a gRPC server.
func (c *agentCall) called(f *Follower, e *exchange, it *decode.Item) {
	var m protocol.Message
	if it.Frame.Meta.Signal == frame.NoSignal {
		c.Spec.API.Answer(c.Call, it.Payload, &m, false)
		c.tell(f, e, it, &m)
		return
	}
	switch status := it.Frame.Meta.Head.Get("Grpc-Status"); {
	case status == "": // the head
		return
	case status != "0" && !c.told:
		c.Spec.API.Fail(nil, []byte(status), &m)
		m.Text = []byte(it.Frame.Meta.Head.Get("Grpc-Message"))
		c.tell(f, e, it, &m)
	default:
		f.endResponse(e, it, it.Time)
	}
	f.web.remove(it.Frame)
}

// answered handles an item from a REST server.
func (c *agentCall) answered(f *Follower, e *exchange, it *decode.Item) {
	of := it.Frame
	said := e.message(of)
	ends := said.Phase.Ends()
	var m protocol.Message
	switch {
	case ends && e.failed && !c.told:
		c.Spec.API.Fail(it.Payload, []byte(e.status), &m)
		c.tell(f, e, it, &m)
	case of.Meta.Event == "error":
		c.Spec.API.Fail(it.Payload, nil, &m)
		c.tell(f, e, it, &m)
	case of.Meta.Signal == frame.NoSignal && (ends || said.Phase == protocol.Part):
		c.Spec.API.Answer(c.Call, it.Payload, &m, false)
		c.tell(f, e, it, &m)
	case ends && e.events:
		f.endResponse(e, it, it.Time)
	case ends && !c.told: // an answer without a body
		c.Spec.API.Answer(c.Call, nil, &m, false)
		c.tell(f, e, it, &m)
	}
	if ends {
		f.web.remove(of)
	}
}

// leave handles a reset. It closes a stream. Any other call fails, or its client cancelled it.
func (c *agentCall) leave(f *Follower, e *exchange, it *decode.Item) {
	f.web.remove(it.Frame)
	if c.told {
		f.endResponse(e, it, it.Time)
		return
	}
	m := protocol.Message{Kind: []byte(frame.Reset), Phase: protocol.Fail, Seq: -1}
	if it.Frame.Dir == frame.C2U {
		m.Phase = protocol.Cancelled
	}
	c.tell(f, e, it, &m)
}
