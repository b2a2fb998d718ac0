package track

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/session"
)

// A liveSession is a WebSocket to the API of a model. What the model says there is in
// turns, each of which is an exchange. The server begins a turn, which has no name before:
// because it was asked for one, or because it has heard enough.
type liveSession struct {
	protocol protocol.Protocol
	model    string
	offered  offered
	waiting  []*liveTurn    // asked for, and not begun
	open     []*liveTurn    // begun, the oldest first
	last     []byte         // the id of the turn that began last; nil if none has
	heard    *session.Frame // the newest with what the client says while it goes on; or nil
	turns    int64
}

// A liveTurn is a turn of the model, or that it is asked for one.
type liveTurn struct {
	modelAnswer
	id          []byte
	asked       session.Frame // without a payload
	kind, event []byte        // of the request, and the id of its event
	interrupted bool
}

// maxTurns bounds the turns of a session that are waited for, and those that are open.
const maxTurns = 64

// live handles an item of such a session. It reports whether it is of one.
func (f *Follower) live(it *decode.Item) bool {
	of := it.Frame
	if of.Gap || of.Meta == nil || of.Meta.Signal != frame.NoSignal || isHTTP(of) || !carried.IsLive(it.Protocol) {
		return false
	}
	fr := f.carried(it)
	if it.Err != nil {
		f.feedLive(it.Protocol, fr, nil)
		return true
	}
	s := f.lives[of.Conn]
	if s == nil {
		s = &liveSession{protocol: it.Protocol}
		if f.lives == nil {
			f.lives = map[int]*liveSession{}
		}
		f.lives[of.Conn] = s
	}
	m := it.Message
	switch {
	case m.Phase == protocol.Note:
		f.noteLive(s, it, fr, &m)
	case m.Phase == protocol.Open:
		f.askLive(s, it, fr, &m)
	case m.Phase == protocol.Cancel:
		f.cancelLive(s, it.Protocol, fr, &m)
	case m.Phase == protocol.Fail && m.ID.IsZero():
		f.refuseLive(s, it.Protocol, fr, &m)
	default:
		f.answerLive(s, it, fr, &m)
	}
	return true
}

func (f *Follower) feedLive(p protocol.Protocol, fr session.Frame, m *protocol.Message) {
	f.trackers.of(p, f.stream).Feed(fr, m)
}

// noteLive handles what is not part of a turn.
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
	if t := s.current(); t != nil && it.Protocol != openai.Realtime {
		t.told(m, f.prices)
		m.ID = turnToken(t.id)
		if m.Usage != (protocol.Usage{}) {
			m.Phase, m.Empty = protocol.Part, true
		}
	}
	m.Bind = protocol.Token{}
	f.feedLive(it.Protocol, fr, m)
}

// offerLive notes the tools that a session offers, all of which it tells at once.
func (f *Follower) offerLive(s *liveSession, it *decode.Item) {
	for _, member := range []string{"session", "setup"} {
		own, ok := jsonscan.Get(it.Payload, member)
		if !ok {
			continue
		}
		now := offered{}
		var walk session.Conversations
		if walk.Prompt(it.Seq, "", own, func(tool []byte) { f.schemas.offer(now, tool) }); len(now) > 0 {
			s.offered = now
		}
	}
}

// askLive handles what asks for a turn. Where the client interrupts one by that, the next
// begins when that is over.
func (f *Follower) askLive(s *liveSession, it *decode.Item, fr session.Frame, m *protocol.Message) {
	current := s.current()
	switch {
	case it.Protocol == openai.Realtime:
	case current != nil && string(m.Kind) == "toolResponse": // of the turn that is open
		note := *m
		note.Phase = protocol.Note
		f.feedLive(it.Protocol, fr, &note)
		return
	case current != nil:
		stop := protocol.Message{Kind: m.Kind, Phase: protocol.Cancel, Ref: turnToken(current.id), Seq: -1}
		f.feedLive(it.Protocol, fr, &stop)
		fr.Again = true
	}
	if len(s.waiting) == maxTurns {
		s.waiting = s.waiting[1:]
	}
	fr.Payload = nil
	s.waiting = append(s.waiting, &liveTurn{asked: fr, kind: bytes.Clone(m.Kind), event: bytes.Clone(m.Bind.Text)})
	if len(m.Model) > 0 {
		s.model = string(m.Model)
	}
	if it.Protocol != openai.Realtime && current == nil {
		f.beginLive(s, it.Protocol, nil, &fr)
	}
}

// cancelLive handles a cancel, which is of the turn that is open unless it names one.
func (f *Follower) cancelLive(s *liveSession, p protocol.Protocol, fr session.Frame, m *protocol.Message) {
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
	f.feedLive(p, fr, m)
}

// refuseLive handles an error, which ends the request that it names. If it names none it is
// about the newest, and if that was no request for a turn, about nothing that is tracked.
func (f *Follower) refuseLive(s *liveSession, p protocol.Protocol, fr session.Frame, m *protocol.Message) {
	at := slices.IndexFunc(s.waiting, func(t *liveTurn) bool { return bytes.Equal(t.event, m.Ref.Text) })
	if m.Ref.IsZero() {
		at = len(s.waiting) - 1
	}
	m.Ref = protocol.Token{}
	if at < 0 {
		m.Phase = protocol.Note
		f.feedLive(p, fr, m)
		return
	}
	t := s.waiting[at]
	s.waiting = slices.Delete(s.waiting, at, at+1)
	t.id = t.event
	if len(t.id) == 0 {
		t.id = strconv.AppendInt(nil, t.asked.Seq, 10)
	}
	f.openLive(s, p, t)
	m.ID = turnToken(t.id)
	f.feedLive(p, fr, m)
}

// answerLive handles what is part of a turn, or ends it.
func (f *Follower) answerLive(s *liveSession, it *decode.Item, fr session.Frame, m *protocol.Message) {
	t := s.turn(m.ID.Text)
	if t == nil {
		begun := fr
		if it.Protocol != openai.Realtime && s.heard != nil {
			begun, s.heard = *s.heard, nil
		}
		t = f.beginLive(s, it.Protocol, m.ID.Text, &begun)
	}
	if m.Empty && string(m.StopReason) == "interrupted" {
		t.interrupted, m.StopReason = true, nil
	}
	if t.interrupted && m.Phase == protocol.Close {
		m.Phase, m.StopReason = protocol.Cancelled, []byte("interrupted")
	}
	t.told(m, f.prices)
	m.ID = turnToken(t.id)
	fr.Broken = it.Protocol.(carried.ModelJudge).Answer(it.Payload, m, &t.tools)
	fr.ToolCalls = t.tools.Named()
	if m.Phase.Ends() {
		fr.Broken = append(fr.Broken, t.tools.Judge(t.stopped, s.offered.fits)...)
		s.open = slices.DeleteFunc(s.open, func(o *liveTurn) bool { return o == t })
	}
	f.feedLive(it.Protocol, fr, m)
	if m.Phase.Ends() && it.Protocol != openai.Realtime && len(s.waiting) > 0 {
		f.beginLive(s, it.Protocol, nil, nil)
	}
}

// beginLive begins a turn: that for which was asked first, or if none was, one that the
// server begins with a frame.
func (f *Follower) beginLive(s *liveSession, p protocol.Protocol, id []byte, with *session.Frame) *liveTurn {
	var t *liveTurn
	if len(s.waiting) > 0 {
		t, s.waiting = s.waiting[0], s.waiting[1:]
	} else {
		t = &liveTurn{asked: *with, kind: []byte("turn")}
		t.asked.Payload, t.asked.Size, t.asked.Again = nil, 0, true
	}
	s.turns++
	if t.id = bytes.Clone(id); id == nil {
		t.id = strconv.AppendInt(nil, s.turns, 10)
	}
	f.openLive(s, p, t)
	if len(s.open) == maxTurns {
		s.open = s.open[1:]
	}
	s.open, s.last = append(s.open, t), t.id
	return t
}

// openLive tells the tracker of a turn.
func (f *Follower) openLive(s *liveSession, p protocol.Protocol, t *liveTurn) {
	fr := t.asked
	fr.Dir, t.model = frame.C2U, s.model
	model := []byte(s.model)
	f.feedLive(p, fr, &protocol.Message{Kind: t.kind, Phase: protocol.Open, ID: turnToken(t.id), Model: model, Label: model, Seq: -1})
}

// endLive tells the tracker of what was asked for on a connection that has ended, and not
// begun.
func (f *Follower) endLive(conn int) {
	s := f.lives[conn]
	if s == nil {
		return
	}
	delete(f.lives, conn)
	for _, t := range s.waiting {
		if t.id = t.event; len(t.id) == 0 {
			t.id = strconv.AppendInt(nil, t.asked.Seq, 10)
		}
		f.openLive(s, s.protocol, t)
	}
}

func turnToken(id []byte) protocol.Token {
	return protocol.Token{Space: protocol.SpaceTurn, Text: id}
}

// current returns the turn that began last and is open; nil if none is.
func (s *liveSession) current() *liveTurn {
	if len(s.open) == 0 {
		return nil
	}
	return s.open[len(s.open)-1]
}

// turn returns the open turn of an id, or the current one if that is nil; nil if it is not
// open.
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
