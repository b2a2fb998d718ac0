package track

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
)

// A liveSession is a WebSocket to a model's API. The model answers in turns, and each turn is
// an exchange. The server begins and names a turn when the client requests one, or when it
// has heard enough.
type liveSession struct {
	protocol protocol.Protocol
	named    bool // the server names the turns
	model    string
	offered  offered
	waiting  []*liveTurn    // requested, but not begun
	open     []*liveTurn    // begun, oldest first
	last     []byte         // the id of the newest turn, or nil
	heard    *session.Frame // the newest frame of the client's current speech, or nil
	turns    int64
}

// A liveTurn is a turn of the model, or a request for one.
type liveTurn struct {
	modelAnswer
	id          []byte
	request     session.Frame // without a payload
	kind, event []byte        // of the request, and the id of its event
	interrupted bool
}

// maxTurns limits the waiting turns of a session, and also its open ones.
const maxTurns = 64

// live handles an item of such a session. It reports whether the item belongs to one.
func (f *Follower) live(it *decode.Item) bool {
	of := it.Frame
	if f.lives[of.Conn] != nil && it.Protocol == opaque.Bytes {
		return true // sound, say
	}
	if of.Gap || of.Meta == nil || of.Meta.Signal != frame.NoSignal || isHTTP(of) || all.Of(it.Protocol).Live == protocol.NotLive {
		return false
	}
	fr := f.carried(it)
	if it.Err != nil {
		f.feed(it.Protocol, fr, nil)
		return true
	}
	s := f.lives[of.Conn]
	if s == nil {
		s = &liveSession{protocol: it.Protocol, named: all.Of(it.Protocol).Live == protocol.NamedTurns}
		f.lives[of.Conn] = s
	}
	m := it.Message
	switch {
	case m.Phase == protocol.Note:
		f.noteLive(s, it, fr, &m)
	case m.Phase == protocol.Open:
		fr.Links = f.links(it, nil)
		if all.Of(it.Protocol).Live == protocol.NamedTurns {
			f.given(all.Of(it.Protocol), nil, &fr, "live", s.model, nil)
		}
		f.askLive(s, fr, &m)
	case m.Phase == protocol.Cancel:
		f.cancelLive(s, fr, &m)
	case m.Phase == protocol.Fail && m.ID.IsZero():
		f.refuseLive(s, fr, &m)
	default:
		f.answerLive(s, it, fr, &m)
	}
	return true
}

// noteLive handles an item that is not part of a turn.
func (f *Follower) noteLive(s *liveSession, it *decode.Item, fr session.Frame, m *protocol.Message) {
	if len(m.Model) > 0 {
		s.model = string(m.Model)
	}
	f.offerLive(s, it)
	if string(m.Kind) == "realtimeInput" {
		heard := fr
		heard.Payload, heard.Again = nil, true
		s.heard = &heard
	}
	if t := s.current(); t != nil && !s.named {
		t.recordUsage(m, f.prices)
		m.ID = turnToken(t.id)
		if m.Usage != (protocol.Usage{}) {
			m.Phase, m.Empty = protocol.Part, true
		}
	}
	m.Bind = protocol.Token{}
	f.feed(s.protocol, fr, m)
}

// offerLive notes the tools of a session. A session sends the whole list at once.
func (f *Follower) offerLive(s *liveSession, it *decode.Item) {
	for _, member := range []string{"session", "setup"} {
		own, ok := jsonscan.Get(it.Payload, member)
		if !ok {
			continue
		}
		now := offered{}
		for part, tool := range llm.Prompt(own) {
			if part == llm.ToolPart {
				f.schemas.offer(now, tool)
			}
		}
		if len(now) > 0 {
			s.offered = now
		}
	}
}

// askLive handles a request for a turn. If it interrupts a turn, the next one begins after
// that turn has ended.
func (f *Follower) askLive(s *liveSession, fr session.Frame, m *protocol.Message) {
	current := s.current()
	switch {
	case s.named:
	case current != nil && string(m.Kind) == "toolResponse": // part of the open turn
		note := *m
		note.Phase = protocol.Note
		f.feed(s.protocol, fr, &note)
		return
	case current != nil:
		stop := protocol.Message{Kind: m.Kind, Phase: protocol.Cancel, Ref: turnToken(current.id), Seq: -1}
		f.feed(s.protocol, fr, &stop)
		fr.Again = true
	}
	if len(s.waiting) == maxTurns {
		s.waiting = s.waiting[1:]
	}
	fr.Payload = nil
	s.waiting = append(s.waiting, &liveTurn{modelAnswer: modelAnswer{context: fr.Context}, request: fr, kind: bytes.Clone(m.Kind), event: bytes.Clone(m.Bind.Text)})
	if len(m.Model) > 0 {
		s.model = string(m.Model)
	}
	if !s.named && current == nil {
		f.beginLive(s, nil, &fr)
	}
}

// cancelLive handles a cancel. Without an id, it cancels the open turn.
func (f *Follower) cancelLive(s *liveSession, fr session.Frame, m *protocol.Message) {
	m.Bind = protocol.Token{}
	switch t := s.current(); {
	case !m.Ref.IsZero():
	case t != nil:
		m.Ref = turnToken(t.id)
	case s.last != nil:
		m.Ref = turnToken(s.last)
	default:
		m.Phase = protocol.Note
	}
	f.feed(s.protocol, fr, m)
}

// refuseLive handles an error. It ends the request that it names, or the newest one if it
// names none. An error about anything else than a request for a turn is a note.
func (f *Follower) refuseLive(s *liveSession, fr session.Frame, m *protocol.Message) {
	at := slices.IndexFunc(s.waiting, func(t *liveTurn) bool { return bytes.Equal(t.event, m.Ref.Text) })
	if m.Ref.IsZero() {
		at = len(s.waiting) - 1
	}
	m.Ref = protocol.Token{}
	if at < 0 {
		m.Phase = protocol.Note
		f.feed(s.protocol, fr, m)
		return
	}
	t := s.waiting[at]
	s.waiting = slices.Delete(s.waiting, at, at+1)
	f.openUnbegun(s, t)
	m.ID = turnToken(t.id)
	f.feed(s.protocol, fr, m)
}

// answerLive handles an item that continues or ends a turn.
func (f *Follower) answerLive(s *liveSession, it *decode.Item, fr session.Frame, m *protocol.Message) {
	t := s.turn(m.ID.Text)
	if t == nil {
		begun := fr
		if !s.named && s.heard != nil {
			begun, s.heard = *s.heard, nil
		}
		t = f.beginLive(s, m.ID.Text, &begun)
	}
	if m.Empty && string(m.StopReason) == "interrupted" {
		t.interrupted, m.StopReason = true, nil
	}
	if t.interrupted && m.Phase == protocol.Close {
		m.Phase, m.StopReason = protocol.Cancelled, []byte("interrupted")
	}
	t.recordUsage(m, f.prices)
	f.contexts.Answered(t.context, fr.Time, it.Payload, t.used)
	m.ID = turnToken(t.id)
	fr.Broken = it.Protocol.(carried.ModelJudge).Answer(it.Payload, m, &t.tools)
	fr.ToolCalls = t.tools.Named()
	if m.Phase.Ends() {
		f.contexts.Ended(t.context, fr.Time)
		fr.Broken = append(fr.Broken, t.tools.Judge(t.stopped, s.offered.fits)...)
		if f.trackers.Joins {
			fr.Links = t.tools.Links(f.trackers.Whole)
		}
		s.open = slices.DeleteFunc(s.open, func(o *liveTurn) bool { return o == t })
	}
	f.feed(s.protocol, fr, m)
	if m.Phase.Ends() && !s.named && len(s.waiting) > 0 {
		f.beginLive(s, nil, nil)
	}
}

// beginLive begins the turn that was requested first. If none was requested, the server's
// frame begins one.
func (f *Follower) beginLive(s *liveSession, id []byte, with *session.Frame) *liveTurn {
	var t *liveTurn
	if len(s.waiting) > 0 {
		t, s.waiting = s.waiting[0], s.waiting[1:]
	} else {
		t = &liveTurn{request: *with, kind: []byte("turn")}
		t.request.Payload, t.request.Size, t.request.Again = nil, 0, true
	}
	s.turns++
	if t.id = bytes.Clone(id); id == nil {
		t.id = strconv.AppendInt(nil, s.turns, 10)
	}
	f.openLive(s, t)
	if len(s.open) == maxTurns {
		s.open = s.open[1:]
	}
	s.open, s.last = append(s.open, t), t.id
	return t
}

// openLive passes a turn to the tracker.
func (f *Follower) openLive(s *liveSession, t *liveTurn) {
	fr := t.request
	fr.Dir, t.model = frame.C2U, s.model
	model := []byte(s.model)
	f.feed(s.protocol, fr, &protocol.Message{Kind: t.kind, Phase: protocol.Open, ID: turnToken(t.id), Model: model, Label: model, Seq: -1})
}

// openUnbegun passes a turn to the tracker that the server never began and never named.
func (f *Follower) openUnbegun(s *liveSession, t *liveTurn) {
	if t.id = t.event; len(t.id) == 0 {
		t.id = strconv.AppendInt(nil, t.request.Seq, 10)
	}
	f.openLive(s, t)
}

// endLive passes the turns of an ended connection to the tracker that were requested but
// never began.
func (f *Follower) endLive(conn int) {
	s := f.lives[conn]
	if s == nil {
		return
	}
	delete(f.lives, conn)
	for _, t := range s.waiting {
		f.openUnbegun(s, t)
	}
}

func turnToken(id []byte) protocol.Token {
	return protocol.Token{Space: protocol.SpaceTurn, Text: id}
}

// current returns the newest open turn, or nil.
func (s *liveSession) current() *liveTurn {
	if len(s.open) == 0 {
		return nil
	}
	return s.open[len(s.open)-1]
}

// turn returns the open turn with an id, or the current one if the id is nil. It returns nil
// if there is no such turn.
func (s *liveSession) turn(id []byte) *liveTurn {
	if id == nil {
		return s.current()
	}
	for _, t := range s.open {
		if bytes.Equal(t.id, id) {
			return t
		}
	}
	return nil
}
