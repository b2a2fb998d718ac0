package replay

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// spoken returns the protocol of the messages, which may be in lines of HTTP.
func (s *Script) spoken() protocol.Protocol {
	if w, isWeb := s.Protocol.(web); isWeb && (w.calls || w.rest) {
		return w.Protocol
	}
	return s.Protocol
}

// saying returns the payload of the message in a step.
func (st *step) saying() []byte {
	if len(st.inner.Kind) == 0 {
		return st.payload
	}
	return lineOf(st.payload).content()
}

// leaves reports whether a request is cancelled by closing the stream of its answer, as in
// MCP over HTTP since version 2026-07-28.
func (s *Script) leaves(st *step) bool {
	return s.spoken() != s.Protocol && all.Rules(s.spoken()).At(string(st.said().Version)).LeavingCancels
}

// askedBy returns the step that an answer of the controller responds to; -1 if unknown.
func (s *Script) askedBy(st *step) int {
	if len(st.inner.Kind) == 0 {
		if st.exchange == 0 {
			return -1
		}
		return s.opened[st.exchange].step
	}
	for i, asks := range slices.Backward(s.steps[:st.index]) {
		if m := asks.said(); asks.dir != st.dir && m.Phase == protocol.Open && string(m.ID.Text) == string(st.inner.ID.Text) {
			return i
		}
	}
	return -1
}

// feedLine follows the session by a line of HTTP.
func (w *sweep) feedLine(r *run, d frame.Dir, payload []byte) {
	l := lineOf(payload)
	f := session.Frame{Conn: w.connOf(l), Dir: d, Version: l.Head["Mcp-Protocol-Version"]}
	var m protocol.Message
	body, ok := r.script.Protocol.(web).content(l, &m)
	switch {
	case l.Ref != 0:
		w.seq++
		w.ours[w.seq] = true
		w.tracker.EndBy(f.Conn, session.Ending{First: frame.C2U}, time.Now())
	case ok || body != nil:
		if d == frame.C2U && r.writing != nil && r.writing.index != made {
			w.next = *l
		}
		f.Payload, f.Size = body, len(body)
		if !ok {
			w.take(r, f, nil)
			return
		}
		w.take(r, f, &m)
	case l.End == endCut:
		w.tracker.EndBy(f.Conn, session.Ending{First: frame.U2C}, time.Now())
	case l.End != "" && w.leaves:
		w.tracker.EndResponse(session.Response{Conn: f.Conn, At: time.Now(), How: "its response"})
	}
}

// connOf returns the scope of the ids in a line: its exchange, or the session.
func (w *sweep) connOf(l *webLine) int {
	if !w.leaves {
		return 1
	}
	conn := 1 + int(max(l.ID, l.Ref))
	if w.scopes == nil {
		w.scopes = map[int]bool{}
	}
	w.scopes[conn] = true
	return conn
}

// conns yields the connections that the tracker knows.
func (w *sweep) conns() iter.Seq[int] {
	if !w.leaves {
		return slices.Values([]int{1})
	}
	return maps.Keys(w.scopes)
}

// post returns a line that posts a message in the same way as the request.
func (w *sweep) post(payload []byte, id int64) *webLine {
	if w.line.Call != "" {
		return w.line.aboutTask(payload, id)
	}
	l := webLine{ID: id, Request: w.line.Request, Home: w.line.Home, Path: w.line.Path, Query: w.line.Query, Session: w.line.Session, Head: maps.Clone(w.line.Head)}
	for name, path := range map[string][]string{"Mcp-Method": {"method"}, nameHeader: {"params", "taskId"}} {
		value, ok := jsonscan.Get(payload, path...)
		if text, _ := jsonscan.Unquote(value); ok && l.Head[name] != "" {
			l.Head[name] = string(text)
		} else {
			delete(l.Head, name)
		}
	}
	l.setContent(payload, frame.C2U, true)
	return &l
}

func (w *sweep) sendLine(r *run, l *webLine) error {
	payload := l.bytes()
	return w.write(r, payload[:len(payload)-1])
}
