package track

import (
	"hash/maphash"
	"regexp"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/context"
)

// A modelCall is a request to a model's API.
type modelCall struct {
	*protocol.Call
	modelAnswer
	ended bool // the tracker knows the end of the answer
	// runs and event judge the runs of an agent and the events of this one; nil for the API of a model.
	runs  protocol.Runs
	event func(payload []byte, m *protocol.Message) (broken []protocol.Broken, apart bool)
	paid  *paid  // nil if the request is free
	to    string // address and path
}

// A modelAnswer is the answer of a model so far.
type modelAnswer struct {
	model   string // "" if unknown
	stopped string // why the model stopped; "" if unknown
	used    protocol.Usage
	tools   carried.ModelTools
	offered offered
	context *context.Call // what the model was given; nil if unknown
}

func (c *modelCall) judge() carried.ModelJudge { return c.Spec.Protocol.(carried.ModelJudge) }

func (c *modelCall) ask(f *Follower, e *exchange, it *decode.Item) {
	m := protocol.Message{Seq: -1}
	fr, hasBody := f.request(e, it)
	if hasBody {
		m = it.Message
	}
	c.Begin(nil, &m)
	m.ID = carried.Token(it.Frame)
	switch {
	case it.Err != nil || fr.Payload == nil:
	case c.runs != nil:
		fr.Broken = c.runs.JudgeRequest(fr.Payload)
	default:
		if !f.trackers.Unjudged {
			fr.Broken = append(c.judge().Request(fr.Payload), f.pay(c, fr.Seq, fr.Payload)...)
		}
		if !c.Free {
			tools := offered{}
			c.context = f.given(c.Spec, e.head, &fr, c.to, string(m.Model), func(tool []byte) { f.schemas.offer(tools, tool) })
			c.offered = f.schemas.share(tools)
		}
	}
	if hasBody {
		if fr.Links = f.links(it, it.Frame.Meta.Head); c.Free && f.trackers.Joins { // as of tokens that are counted
			fr.Links = append(fr.Links, protocol.Link{As: protocol.ForItself, Text: "request"})
		}
	}
	c.model = string(m.Model)
	f.feedCall(c.Spec.Protocol, fr, &m)
}

func (c *modelCall) answer(f *Follower, e *exchange, it *decode.Item) bool {
	of := it.Frame
	said, fr := e.message(of), f.carried(it)
	m := it.Message
	switch isBody := of.Meta.Signal == frame.NoSignal; {
	case said.Phase == protocol.Cancel, of.Meta.Signal == frame.Reset:
		m, fr.Cut = said, e.answered
	case isBody && it.Err == nil:
		if e.events && !said.Phase.Ends() {
			c.readEvent(&m)
		}
		c.recordUsage(&m, f.prices)
		f.contexts.Answered(c.context, fr.Time, it.Payload, c.used)
		switch {
		case e.failed:
		case c.runs != nil:
			if e.events {
				fr.Broken = c.judgeEvent(it.Payload, &m)
			}
		default:
			fr.Broken = c.judge().Answer(it.Payload, &m, &c.tools)
			fr.ToolCalls = c.tools.Named()
		}
		if said.Phase.Ends() {
			m.Phase, m.Empty = whole(m.Phase, e.failed), false
		}
	case c.ended && !isBody, said.Phase.Ends() && !isBody && f.isLeft(of) && (c.stopped == "" && e.events || !e.events && len(of.Payload()) == 0 && e.isHollow(of)): // its client has cancelled it
		if said.Phase.Ends() {
			f.web.remove(of)
		}
		return true
	case of.Meta.Signal == frame.Event && string(said.Text) == "[DONE]":
		m = said
		fr.Broken = c.last(&m, true)
	case said.Phase.Ends():
		m = said
		switch {
		case e.failed:
		case e.events:
			fr.Broken = c.last(&m, c.Spec.API.Endless)
			fr.Cut = m.Phase == protocol.Fail
		case !c.Spec.API.Texts && e.isHollow(of):
			fr.Broken = e.hollow(&m, c.Kind)
		}
	default: // a head, or not an answer
		if fr.Fault != nil {
			f.feed(c.Spec.Protocol, fr, nil)
		}
		return true
	}
	if m.Phase != protocol.Note {
		m.ID = carried.Token(of)
	}
	if m.Phase == protocol.Cancel {
		m.ID, m.Ref = protocol.Token{}, m.ID
	}
	f.ask(e, it)
	fr.Broken = append(fr.Broken, c.repeated(m.Phase)...)
	if m.Phase.Ends() && !c.ended {
		c.ended = true
		f.contexts.Ended(c.context, fr.Time)
		if m.Phase == protocol.Close { // what a failure has cut is not the model's
			fr.Broken = append(fr.Broken, c.tools.Judge(c.stopped, c.offered.fits)...)
		}
		if f.trackers.Joins {
			fr.Links = c.tools.Links(f.trackers.Whole)
		}
		c.tools, c.offered = carried.ModelTools{}, nil
		c.settle(m.Phase)
	}
	f.feedCall(c.Spec.Protocol, fr, &m)
	if said.Phase.Ends() || said.Phase == protocol.Cancel {
		f.web.remove(of)
	}
	return true
}

// given notes what a request gives to a model. The head is nil if it is not kept.
func (f *Follower) given(spec *protocol.Spec, head *frame.Head, fr *session.Frame, to, model string, offer func(tool []byte)) *context.Call {
	fr.Context = f.contexts.Request(&context.Request{
		Frame: fr.Seq, Time: fr.Time, To: to, Model: model, Body: fr.Payload, Spec: spec, Head: head, Offer: offer, IsTitle: isTitle,
	})
	return fr.Context
}

// readEvent makes m the message of an event.
func (c *modelCall) readEvent(m *protocol.Message) {
	if read := c.Spec.API.Event; read != nil {
		read(c.Call, m)
	}
}

// judgeEvent judges an event of a run. Those of later runs in the same answer are notes.
func (c *modelCall) judgeEvent(payload []byte, m *protocol.Message) []protocol.Broken {
	broken, apart := c.event(payload, m)
	if apart {
		m.Phase, m.GoesOn, m.Bind = protocol.Note, false, protocol.Token{}
	}
	return broken
}

// recordUsage notes the model and the usage of an answer. The usage in events is cumulative; recordUsage
// reduces the usage in m to the increase since the last event.
func (c *modelAnswer) recordUsage(m *protocol.Message, book prices.Book) {
	if len(m.Model) > 0 && c.model != string(m.Model) {
		c.model = string(m.Model)
	}
	if len(m.StopReason) > 0 {
		c.stopped = string(m.StopReason)
	}
	if m.Usage == (protocol.Usage{}) {
		return
	}
	m.Usage = m.Usage.Minus(c.used)
	used := c.used.Plus(m.Usage)
	if price, known := book.Of(c.model); known {
		used.Cost, used.Listed, used.Priced = 0, 0, 0
		decode.Charge(&used, price, prices.Band(used.Input))
		m.Usage = used.Minus(c.used)
	}
	c.used = c.used.Plus(m.Usage)
}

// last makes m the end of a stream that no message of the model ends. It is a failure unless the
// model reported why it stopped. Only final makes it a correct end.
func (c *modelCall) last(m *protocol.Message, final bool) []protocol.Broken {
	m.Phase = protocol.Close
	if c.stopped == "" {
		m.Phase, m.Reason = protocol.Fail, []byte("the stream ended without the final event")
	} else if final {
		return nil
	}
	return []protocol.Broken{{Finding: "no-final", How: c.Kind + " ends without the final event"}}
}

// isHollow reports whether the frame that ends a good response has no answer, where one of an
// API must be. Some servers send events by the name of another type.
func (e *exchange) isHollow(f *frame.Frame) bool {
	return !e.failed && !e.missed && e.unread == "" && e.status != "204" && !eventText.Match(f.Payload())
}

var eventText = regexp.MustCompile(`^\s*(event|data|id|retry)?:`)

// hollow makes m a failure, because the response has no answer to a request of the kind.
func (e *exchange) hollow(m *protocol.Message, kind string) []protocol.Broken {
	m.Phase, m.Reason = protocol.Fail, []byte("no answer in "+e.how())
	return []protocol.Broken{{Finding: "no-final", How: kind + " has " + string(m.Reason)}}
}

// whole returns the phase of an answer in one body.
func whole(p protocol.Phase, failed bool) protocol.Phase {
	switch {
	case failed:
		return protocol.Fail
	case p.Ends():
		return p
	}
	return protocol.Close
}

// A paid request is one that costs money.
type paid struct {
	seq     int64          // the number of its frame
	repeat  int64          // the frame of the first equal request sent while this one was open
	outcome protocol.Phase // how it ended; Open while unknown
}

// payments are the requests of a session by the hash of their content.
type payments struct {
	seed       maphash.Seed
	young, old map[uint64]*paid
}

// maxPaid limits the remembered requests; the oldest are dropped.
const maxPaid = 1 << 12

// pay remembers a request, and reports an equal earlier one that succeeded.
func (f *Follower) pay(c *modelCall, seq int64, body []byte) []protocol.Broken {
	if c.Free {
		return nil
	}
	p := &f.payments
	if p.young == nil {
		p.seed, p.young = maphash.MakeSeed(), map[uint64]*paid{}
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	_, _ = h.WriteString(c.to)
	_, _ = h.Write(body)
	at := h.Sum64()
	before := p.young[at]
	if before == nil {
		before = p.old[at]
	}
	if len(p.young) >= maxPaid {
		p.young, p.old = map[uint64]*paid{}, p.young
	}
	c.paid = &paid{seq: seq, outcome: protocol.Open}
	p.young[at] = c.paid
	switch {
	case before == nil:
	case before.outcome == protocol.Open: // or its connection broke: only an answer would disprove that
		before.repeat = seq
	case before.outcome == protocol.Close:
		return []protocol.Broken{{Finding: "repeated-request", How: c.Kind + " has the body of an earlier request, which has succeeded", Frames: []int64{before.seq}}}
	}
	return nil
}

// repeated reports an answer to a request that was repeated while it was still open: the
// client had not given it up.
func (c *modelCall) repeated(phase protocol.Phase) []protocol.Broken {
	if c.paid == nil || c.paid.repeat == 0 || phase != protocol.Part && phase != protocol.Close {
		return nil
	}
	again := c.paid.repeat
	c.paid.repeat = 0
	return []protocol.Broken{{Finding: "repeated-request", How: c.Kind + " was sent again with the same body before this answer", Frames: []int64{again}}}
}

// settle notes how a request ended.
func (c *modelCall) settle(phase protocol.Phase) {
	if c.paid != nil {
		c.paid.outcome = phase
	}
}
