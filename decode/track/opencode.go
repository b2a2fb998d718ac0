package track

import (
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/session"
)

// A codingCall is a request to the server of opencode, and how far it is answered. Its
// exchange is that of HTTP: the stream.
type codingCall struct {
	*opencode.Call
	asked bool // the tracker knows the request
}

// coding is what is known of the sessions of opencode.
type coding struct {
	questions map[string]bool // that wait for an answer
	spent     map[string]bool // sessions of which events tell what they use
}

// maxCoding bounds the questions and the sessions that are remembered.
const maxCoding = 1 << 12

func remember(set *map[string]bool, name []byte) {
	if *set == nil || len(*set) >= maxCoding {
		*set = map[string]bool{}
	}
	(*set)[string(name)] = true
}

// code handles an item of such a request. It reports whether it is of one.
func (f *Follower) code(it *decode.Item) bool {
	of := it.Frame
	if !isHTTP(of) {
		return false
	}
	if head := of.Meta.Head; head.Method() != "" {
		call := opencode.CallOf(head)
		if call == nil {
			return false
		}
		e := f.begin(it)
		e.kind, e.coding = carried.Asked(head), &codingCall{Call: call}
		if !opencode.WantsEvents(call.Kind) && !bodyFollows(of) {
			f.askCoding(e, it)
		}
		return true
	}
	e := f.web.of(of)
	switch {
	case e == nil || e.coding == nil:
		return false
	case opencode.WantsEvents(e.coding.Kind) && !e.coding.asked && of.Dir != frame.C2U:
		return f.beginsEvents(e, it)
	case of.Dir == frame.C2U && of.Meta.Signal == frame.NoSignal:
		f.askCoding(e, it)
	case of.Dir == frame.C2U && of.Meta.Signal != frame.Reset: // the end of a body
	default:
		f.coded(e, it)
	}
	return true
}

// beginsEvents handles what answers a request for events before the first of them, which
// tells whether they are of opencode.
func (f *Follower) beginsEvents(e *exchange, it *decode.Item) bool {
	isBody := it.Frame.Meta.Signal == frame.NoSignal
	switch {
	case isBody && opencode.IsEvent(it.Payload):
		f.coded(e, it)
	case isBody, e.message(it.Frame).Phase != protocol.Note:
		e.coding = nil
		return false
	}
	return true
}

// askCoding tells the tracker of the request of e, whose body may be in it, unless it knows
// it.
func (f *Follower) askCoding(e *exchange, it *decode.Item) {
	if e.coding.asked {
		return
	}
	e.coding.asked = true
	m := protocol.Message{Seq: -1}
	fr, hasBody := f.asked(e, it)
	if hasBody && it.Err == nil {
		_ = opencode.Protocol.Parse(it.Payload, &m) // it is JSON
	}
	said := m.Label
	e.coding.Open(&m)
	m.ID = carried.Token(it.Frame)
	f.feedCall(opencode.Protocol, fr, &m)
	if q := e.coding.Question; f.coding.questions[string(q.Text)] {
		delete(f.coding.questions, string(q.Text))
		fr.Inner, fr.Size = true, 0
		f.ofCoding().Feed(fr, &protocol.Message{Kind: []byte("reply"), Phase: protocol.Close, From: frame.C2U, ID: q, Seq: -1, Label: said})
	}
}

func (f *Follower) ofCoding() *session.Tracker { return f.trackers.of(opencode.Protocol, f.stream) }

// coded handles what the server sends, and the reset of its stream by either side.
func (f *Follower) coded(e *exchange, it *decode.Item) {
	of := it.Frame
	said, fr := e.message(of), f.carried(it)
	isBody := of.Meta.Signal == frame.NoSignal && it.Err == nil
	ends := said.Phase.Ends()
	m := said
	switch {
	case said.Phase == protocol.Cancel, of.Meta.Signal == frame.Reset:
	case isBody && opencode.Protocol.Parse(it.Payload, &m) == nil:
		if ends {
			e.coding.Answer(&m, e.failed)
			m.Kind = said.Kind
		}
	case ends && !e.events:
		e.coding.Answer(&m, e.failed)
	case ends:
	default:
		return // a head
	}
	f.askCoding(e, it)
	switch {
	case m.Phase == protocol.Cancel && m.From != frame.U2C: // it leaves
		m.ID, m.Ref = protocol.Token{}, carried.Token(of)
	case m.Phase == protocol.Open:
		remember(&f.coding.questions, m.ID.Text)
	case m.Phase != protocol.Note && m.Phase != protocol.Cancel:
		m.ID = carried.Token(of)
	}
	f.spent(e, &m)
	f.feedCall(opencode.Protocol, fr, &m)
	if ends || said.Phase == protocol.Cancel {
		f.web.remove(of)
	}
}

// spent leaves in m what was used, which the answer to a prompt repeats for its last step.
func (f *Follower) spent(e *exchange, m *protocol.Message) {
	switch used := m.Usage != (protocol.Usage{}); {
	case !used:
	case m.Operation.Of.Space == protocol.SpaceSession:
		remember(&f.coding.spent, m.Operation.Of.Text)
	case f.coding.spent[string(e.coding.Session.Text)] || !e.coding.Prompts():
		m.Usage = protocol.Usage{}
	}
}
