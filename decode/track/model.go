package track

import (
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/gemini"
)

// A modelCall is a request to the API of a model, and how far it is answered. Its exchange
// is that of HTTP: the stream.
type modelCall struct {
	*carried.ModelCall
	modelAnswer
	asked bool      // the tracker knows the request
	ended bool      // and the end of the answer
	run   *agui.Run // nil if an API of models is asked
	paid  *paid     // nil if the request is for nothing
	to    string    // the address and the path
}

// A modelAnswer is what the answer of a model has told so far.
type modelAnswer struct {
	model   string // as far as is known
	stopped string // why the model has stopped; "" if it has not said
	used    protocol.Usage
	tools   carried.ModelTools
	offered offered
}

// judge returns the one for its API.
func (c *modelCall) judge() carried.ModelJudge { return c.Protocol.(carried.ModelJudge) }

// model handles an item of such a request. It reports whether it is of one.
func (f *Follower) model(it *decode.Item) bool {
	of := it.Frame
	if !isHTTP(of) {
		return false
	}
	if head := of.Meta.Head; head.Method() != "" {
		call := carried.AsksModel(of)
		if call == nil {
			return false
		}
		e := f.begin(it)
		e.model = &modelCall{ModelCall: call, to: head.Get("Host") + head.Get(":authority") + " " + head.Target()}
		if call.Protocol == agui.Protocol {
			e.model.run = &agui.Run{}
		}
		if !bodyFollows(of) {
			f.askModel(e, it)
		}
		return true
	}
	e := f.web.of(of)
	switch {
	case e == nil || e.model == nil:
		return false
	case of.Dir == frame.C2U && of.Meta.Signal == frame.NoSignal:
		f.askModel(e, it)
	case of.Dir == frame.C2U && of.Meta.Signal != frame.Reset: // the end of a body
	default:
		f.modelAnswered(e, it)
	}
	return true
}

// askModel tells the tracker of the request of e, whose body may be in it, unless it knows
// it.
func (f *Follower) askModel(e *exchange, it *decode.Item) {
	if e.model.asked {
		return
	}
	e.model.asked = true
	m := protocol.Message{Seq: -1}
	fr, hasBody := f.asked(e, it)
	if hasBody {
		m = it.Message
	}
	e.model.Open(&m)
	m.ID = carried.Token(it.Frame)
	switch {
	case it.Err != nil || fr.Payload == nil:
	case e.model.run != nil:
		fr.Broken = f.threads.Asked(fr.Payload)
	default:
		fr.Broken = append(e.model.judge().Request(fr.Payload), f.pay(e.model, fr.Seq, fr.Payload)...)
		if e.model.paid != nil {
			tools := offered{}
			fr.Prompt = f.talks.Prompt(fr.Seq, e.model.to, fr.Payload, func(tool []byte) { f.schemas.offer(tools, tool) })
			e.model.offered = f.schemas.share(tools)
		}
	}
	e.model.model = string(m.Model)
	f.feedCall(e.model.Protocol, fr, &m)
}

// modelAnswered handles what the server sends, and the reset of its stream by either side.
func (f *Follower) modelAnswered(e *exchange, it *decode.Item) {
	of, call := it.Frame, e.model
	said, fr := e.message(of), f.carried(it)
	m := it.Message
	switch isBody := of.Meta.Signal == frame.NoSignal; {
	case said.Phase == protocol.Cancel, of.Meta.Signal == frame.Reset:
		m = said
	case isBody && it.Err == nil:
		call.told(&m, f.prices)
		switch {
		case e.failed:
		case call.run != nil:
			if e.events {
				fr.Broken = f.runEvent(call, it.Payload, &m)
			}
		default:
			fr.Broken = call.judge().Answer(it.Payload, &m, &call.tools)
			fr.ToolCalls = call.tools.Named()
		}
		if said.Phase.Ends() {
			m.Phase, m.Empty = whole(m.Phase, e.failed), false
		}
	case call.ended && !isBody:
		if said.Phase.Ends() {
			f.web.remove(of)
		}
		return
	case of.Meta.Signal == frame.Event && string(said.Text) == "[DONE]":
		m = said
		m.Phase, fr.Broken = call.last(true)
	case said.Phase.Ends():
		m = said
		if e.events && !e.failed {
			m.Phase, fr.Broken = call.last(call.Protocol == gemini.Protocol)
		}
	default: // a head, or what is not an answer
		if fr.Fault != nil {
			f.trackers.of(call.Protocol, f.stream).Feed(fr, nil)
		}
		return
	}
	if m.Phase != protocol.Note {
		m.ID = carried.Token(of)
	}
	if m.Phase == protocol.Cancel {
		m.ID, m.Ref = protocol.Token{}, m.ID
	}
	f.askModel(e, it)
	fr.Broken = append(fr.Broken, call.repeated(m.Phase)...)
	if m.Phase.Ends() && !call.ended {
		call.ended = true
		fr.Broken = append(fr.Broken, call.tools.Judge(call.stopped, call.offered.fits)...)
		call.tools, call.offered = carried.ModelTools{}, nil
		call.settle(m.Phase)
	}
	f.feedCall(e.model.Protocol, fr, &m)
	if said.Phase.Ends() || said.Phase == protocol.Cancel {
		f.web.remove(of)
	}
}

// runEvent judges an event of AG-UI. What belongs to a run after that of the request is a
// note.
func (f *Follower) runEvent(c *modelCall, payload []byte, m *protocol.Message) []protocol.Broken {
	broken, apart := c.run.Event(payload, m)
	switch {
	case apart:
		m.Phase, m.GoesOn, m.Bind = protocol.Note, false, protocol.Token{}
	case m.Phase == protocol.Close:
		f.threads.Finished(payload)
	}
	return broken
}

// told notes what an answer tells of the model, and leaves in m what was used since it did
// so last: each event tells of all.
func (c *modelAnswer) told(m *protocol.Message, list prices.List) {
	if len(m.Model) > 0 && c.model != string(m.Model) {
		c.model = string(m.Model)
	}
	if len(m.StopReason) > 0 {
		c.stopped = string(m.StopReason)
	}
	now := m.Usage
	m.Usage = protocol.Usage{
		Input:  max(0, now.Input-c.used.Input),
		Cached: max(0, now.Cached-c.used.Cached),
		Output: max(0, now.Output-c.used.Output),
	}
	c.used.Input += m.Usage.Input
	c.used.Cached += m.Usage.Cached
	c.used.Output += m.Usage.Output
	if price, known := list.Of(c.model); known {
		cost := price.Micros(c.used.Input, c.used.Cached, c.used.Output)
		m.Usage.Cost, c.used.Cost = max(0, cost-c.used.Cost), max(cost, c.used.Cost)
	}
}

// last is what an end means that is not a message of the model: it is a failure unless the
// model has said why it stopped. It is the right end only if final is set.
func (c *modelCall) last(final bool) (protocol.Phase, []protocol.Broken) {
	cut := []protocol.Broken{{Finding: "no-final", How: c.Kind + " ends without the final event"}}
	switch {
	case c.stopped == "":
		return protocol.Fail, cut
	case !final:
		return protocol.Close, cut
	}
	return protocol.Close, nil
}

// whole is the phase of an answer that is all in one body.
func whole(p protocol.Phase, failed bool) protocol.Phase {
	switch {
	case failed:
		return protocol.Fail
	case p.Ends():
		return p
	}
	return protocol.Close
}
