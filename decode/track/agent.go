package track

import (
	"strings"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// An agentCall is a request of A2A over REST or gRPC, and how far it is answered. Its
// exchange is that of HTTP: the stream. It is told to the tracker that is told the messages
// of the JSON-RPC binding too, because a task can be begun by one and cancelled by another.
type agentCall struct {
	*a2a.Call
	asked bool // the tracker knows the request
	told  bool // and an answer
}

// agent handles an item of such a call. It reports whether it is of one.
func (f *Follower) agent(it *decode.Item) bool {
	of := it.Frame
	if of.Gap || of.Meta == nil {
		return false
	}
	head := of.Meta.Head
	if head.Method() != "" {
		call := f.agents.Call(head)
		if call == nil {
			return false
		}
		e := f.begin(it)
		e.agent = &agentCall{Call: call}
		if of.Meta.Signal == frame.NoSignal || !call.GRPC && (!call.Message || !strings.Contains(head.Start, "HTTP/2")) {
			f.askAgent(e, it)
		}
		return true
	}
	e := f.web.of(of)
	switch {
	case e == nil || e.agent == nil:
		return false
	case of.Meta.Signal == frame.Reset:
		f.leaveAgent(e, it)
	case of.Dir == frame.C2U && of.Meta.Signal == frame.NoSignal:
		f.askAgent(e, it)
	case of.Dir == frame.C2U: // the end of a body
	case e.agent.GRPC:
		f.agentCalled(e, it)
	default:
		f.agentAnswered(e, it)
	}
	return true
}

// askAgent tells the tracker of the request of e, whose body is in it, unless it knows it.
func (f *Follower) askAgent(e *exchange, it *decode.Item) {
	if e.agent.asked {
		return
	}
	e.agent.asked = true
	fr := f.carried(it)
	fr.Time, fr.Version, fr.Stated = e.request.Time, e.request.Version, e.request.Stated
	var body []byte
	if it.Frame.Dir == frame.C2U && it.Frame.Meta.Signal == frame.NoSignal {
		body = it.Payload
	} else {
		fr = e.request
	}
	var m protocol.Message
	e.agent.Open(body, &m)
	m.ID, m.Text = carried.Token(it.Frame), body
	f.feedCall(jsonrpc.A2A, fr, &m)
}

func (f *Follower) ofAgents() *session.Tracker { return f.trackers.of(jsonrpc.A2A, f.stream) }

// answerAgent tells the tracker of an answer to e.
func (f *Follower) answerAgent(e *exchange, it *decode.Item, m *protocol.Message) {
	f.askAgent(e, it)
	fr := f.carried(it)
	fr.Dir = frame.U2C
	m.ID = carried.Token(it.Frame)
	e.agent.told = true
	f.feedCall(jsonrpc.A2A, fr, m)
}

// agentCalled handles what a server of gRPC sends.
func (f *Follower) agentCalled(e *exchange, it *decode.Item) {
	var m protocol.Message
	if it.Frame.Meta.Signal == frame.NoSignal {
		e.agent.Answer(it.Payload, &m)
		f.answerAgent(e, it, &m)
		return
	}
	switch status := it.Frame.Meta.Head.Get("Grpc-Status"); {
	case status == "": // the head
		return
	case status != "0" && !e.agent.told:
		a2a.Fail(nil, []byte(status), &m)
		m.Text = []byte(it.Frame.Meta.Head.Get("Grpc-Message"))
		f.answerAgent(e, it, &m)
	default:
		f.endAgent(it)
	}
	f.web.remove(it.Frame)
}

// agentAnswered handles what a server of REST sends.
func (f *Follower) agentAnswered(e *exchange, it *decode.Item) {
	of := it.Frame
	said := e.message(of)
	ends := said.Phase.Ends()
	var m protocol.Message
	switch {
	case ends && e.failed && !e.agent.told:
		a2a.Fail(it.Payload, []byte(e.status), &m)
		f.answerAgent(e, it, &m)
	case of.Meta.Event == "error":
		a2a.Fail(it.Payload, nil, &m)
		f.answerAgent(e, it, &m)
	case of.Meta.Signal == frame.NoSignal && (ends || said.Phase == protocol.Part):
		e.agent.Answer(it.Payload, &m)
		f.answerAgent(e, it, &m)
	case ends && e.events:
		f.endAgent(it)
	case ends && !e.agent.told: // an answer without a body
		e.agent.Answer(nil, &m)
		f.answerAgent(e, it, &m)
	}
	if ends {
		f.web.remove(of)
	}
}

// endAgent tells the tracker that the answer to a call is complete.
func (f *Follower) endAgent(it *decode.Item) {
	fr := f.carried(it)
	f.ofAgents().EndStream(fr.Conn, fr.Stream, fr.Time)
}

// leaveAgent handles a reset: a stream is closed, and any other call fails, or is cancelled
// by its client.
func (f *Follower) leaveAgent(e *exchange, it *decode.Item) {
	f.web.remove(it.Frame)
	if e.agent.told {
		f.endAgent(it)
		return
	}
	m := protocol.Message{Kind: []byte(frame.Reset), Phase: protocol.Fail, Seq: -1}
	if it.Frame.Dir == frame.C2U {
		m.Phase = protocol.Cancelled
	}
	f.answerAgent(e, it, &m)
}
