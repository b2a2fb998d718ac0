package track

import (
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
)

// A codingCall is a request to an agent whose events, on any stream, report on its turns.
type codingCall struct{ *protocol.Call }

// coding remembers the sessions of such agents.
type coding struct {
	questions map[string]bool // unanswered ones
	spent     map[string]bool // sessions whose events report usage
}

// maxCoding limits the remembered questions and sessions.
const maxCoding = 1 << 12

func remember(set *map[string]bool, name []byte) {
	if *set == nil || len(*set) >= maxCoding {
		*set = map[string]bool{}
	}
	(*set)[string(name)] = true
}

// beginsEvents handles the answer to a request for events up to the first event, which shows
// whether the server is of this protocol.
func (c *codingCall) beginsEvents(f *Follower, e *exchange, it *decode.Item) bool {
	isBody := it.Frame.Meta.Signal == frame.NoSignal
	switch {
	case isBody && c.Spec.API.IsEvent(it.Payload):
		c.answered(f, e, it)
	case isBody, e.message(it.Frame).Phase != protocol.Note:
		e.call = nil
		return false
	}
	return true
}

func (c *codingCall) ask(f *Follower, e *exchange, it *decode.Item) {
	m := protocol.Message{Seq: -1}
	fr, hasBody := f.asked(e, it)
	if hasBody && it.Err == nil {
		_ = c.Spec.Protocol.Parse(it.Payload, &m) // it is JSON
	}
	said := m.Label
	c.Begin(nil, &m)
	m.ID = carried.Token(it.Frame)
	f.feedCall(c.Spec.Protocol, fr, &m)
	if q := c.Question; f.coding.questions[string(q.Text)] {
		delete(f.coding.questions, string(q.Text))
		fr.Inner, fr.Size = true, 0
		f.feed(c.Spec.Protocol, fr, &protocol.Message{Kind: []byte("reply"), Phase: protocol.Close, From: frame.C2U, ID: q, Seq: -1, Label: said})
	}
}

func (c *codingCall) answer(f *Follower, e *exchange, it *decode.Item) bool {
	if c.Listens && !e.asked && it.Frame.Dir != frame.C2U {
		return c.beginsEvents(f, e, it)
	}
	c.answered(f, e, it)
	return true
}

func (c *codingCall) answered(f *Follower, e *exchange, it *decode.Item) {
	of := it.Frame
	said, fr := e.message(of), f.carried(it)
	isBody := of.Meta.Signal == frame.NoSignal && it.Err == nil
	ends := said.Phase.Ends()
	m := said
	switch {
	case said.Phase == protocol.Cancel, of.Meta.Signal == frame.Reset:
	case isBody && c.Spec.Protocol.Parse(it.Payload, &m) == nil:
		if ends {
			c.Spec.API.Answer(c.Call, nil, &m, e.failed)
			m.Kind = said.Kind
		}
	case ends && !e.events:
		c.Spec.API.Answer(c.Call, nil, &m, e.failed)
	case ends:
	default:
		return // a head
	}
	f.ask(e, it)
	switch {
	case m.Phase == protocol.Cancel && m.From != frame.U2C: // the client disconnects
		m.ID, m.Ref = protocol.Token{}, carried.Token(of)
	case m.Phase == protocol.Open:
		remember(&f.coding.questions, m.ID.Text)
	case m.Phase != protocol.Note && m.Phase != protocol.Cancel:
		m.ID = carried.Token(of)
	}
	f.spent(c, &m)
	f.feedCall(c.Spec.Protocol, fr, &m)
	if ends || said.Phase == protocol.Cancel {
		f.web.remove(of)
	}
}

// spent removes usage from m that events have already reported: the answer to a prompt
// repeats the usage of its last step.
func (f *Follower) spent(c *codingCall, m *protocol.Message) {
	switch used := m.Usage != (protocol.Usage{}); {
	case !used:
	case m.Operation.Of.Space == protocol.SpaceSession:
		remember(&f.coding.spent, m.Operation.Of.Text)
	case f.coding.spent[string(c.Session.Text)] || !c.Prompts:
		m.Usage = protocol.Usage{}
	}
}
