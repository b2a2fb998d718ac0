package session

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// Judge is Feed for an HTTP request or response that is judged without a message. It is not
// counted.
func (t *Tracker) Judge(f Frame) {
	m := protocol.Message{Kind: protocol.Unknown, Seq: -1}
	s := t.scopeOf(&f)
	t.chooseRules(&f, s, &m)
	t.judge(&event{f: &f, m: &m, scope: s, from: f.Dir}, &m, nil)
}

// judge reports the protocol's objections to a message that opens or answers e, which may be
// nil. m is ev.m: passed separately because otherwise all of ev would escape.
func (t *Tracker) judge(ev *event, m *protocol.Message, e *Exchange) {
	for _, b := range ev.f.Broken {
		t.report(ruleNamed(b.Finding), ev.f, append(asked(ev, e), b.Frames...), "%s", plain(b.How))
	}
	version := t.version
	if version == "" && e != nil {
		version = e.Version
	}
	begins := t.rules.Handshake.Request != "" && string(m.Kind) == t.rules.Handshake.Request
	if t.rules.Judge == nil || t.isNewer || version == "" && !begins && ev.f.Stated == nil && ev.f.Response == nil || t.strays(ev) {
		return
	}
	j := &t.judged
	j.Version, j.Message, j.Payload, j.Stated, j.Response, j.Asked = version, m, ev.f.Payload, ev.f.Stated, ev.f.Response, ""
	j.Broken, j.Declares, j.Needs, j.Tolerated, j.Declared = j.Broken[:0], 0, 0, false, ev.scope.declared
	if e != nil && m.Phase != protocol.Open {
		j.Asked = e.Kind
	}
	t.rules.Judge(j)
	for _, b := range j.Broken {
		r := ruleNamed(b.Finding)
		severity := Findings[r].Severity
		if b.Tolerated {
			severity = min(severity, Warning)
		}
		about := asked(ev, e)
		if j.Response != nil {
			about = []int64{j.Response.Request}
		}
		t.addFinding(r, severity, ev.f.Conn, append(about, ev.f.Seq), plain(b.How))
	}
	t.declare(ev, e)
	j.Message, j.Payload, j.Stated, j.Response = nil, nil, nil, nil // drop what it borrowed
}

// adopt begins the session that the answer in f has begun with what f's scope has agreed.
func (t *Tracker) adopt(f *Frame, s *scope) {
	session := t.scopeOf(&Frame{Conn: f.Session.Conn, Stream: f.Session.Stream})
	if session.version == "" {
		session.version, session.rules = s.version, s.rules
	}
	session.declared |= s.declared
}

// declare records the features that a request declares, and reports features in an answer that
// were not declared.
func (t *Tracker) declare(ev *event, e *Exchange) {
	j := &t.judged
	declared := ev.scope.declared
	switch {
	case e == nil:
	case ev.m.Phase == protocol.Open:
		e.declares = j.Declares
		ev.scope.declared |= j.Declares
	case t.rules.EndlessAck != "" && ev.kind.Name == t.rules.EndlessAck:
		e.declares &= j.Declares
		return
	default:
		declared = e.declares
		ev.scope.declared |= j.Declares
	}
	missing := j.Needs &^ declared
	if missing == 0 || !t.judges() {
		return
	}
	var names []string
	for i, name := range t.rules.Features {
		if missing&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	severity := Findings[undeclared].Severity
	if j.Tolerated {
		severity = Warning
	}
	t.addFinding(undeclared, severity, ev.f.Conn, append(asked(ev, e), ev.f.Seq),
		ev.kind.Name+" needs "+strings.Join(names, ", ")+", which was not declared")
}

// checkOptions reports an answer that chooses something its request did not offer. It also
// reports any choice by a side that has cancelled the operation of the request.
func (t *Tracker) checkOptions(f *Frame, e *Exchange, phase protocol.Phase, options [][]byte) {
	for _, option := range options {
		id, isText := jsonscan.Unquote(option)
		if !isText {
			continue
		}
		hash := maphash.Bytes(t.table.seed, id)
		if phase == protocol.Open {
			if len(e.inputs) < maxInputs {
				e.inputs = append(e.inputs, hash)
			}
			continue
		}
		if n := len(e.inputs); n > 0 && n < maxInputs && !slices.Contains(e.inputs, hash) {
			t.report(wrongResult, f, []int64{e.First}, "%s is answered with %s, which it does not offer", e.Title(), plain(string(clip(option, maxText))))
		}
		if c := e.Operation().cancel; c != nil && c.of != e && c.Conn == f.Conn && c.duty == protocol.MustConfirm && c.Seq > e.First {
			t.report(cancelIgnored, f, []int64{e.First, c.Seq}, "%s is answered with an option after %s", e.Title(), c.Kind)
		}
	}
}

// asked returns the number of the frame that opened e, unless that is the frame of ev.
func asked(ev *event, e *Exchange) []int64 {
	if e == nil || e.First == ev.f.Seq {
		return nil
	}
	return []int64{e.First}
}

// ruleNamed returns the rule with that name.
func ruleNamed(name string) rule {
	return rule(slices.IndexFunc(Findings[:], func(r Rule) bool { return r.Name == name }))
}

// checkHandshake reports requests sent before the session has begun.
func (t *Tracker) checkHandshake(ev *event) {
	h, s := &t.rules.Handshake, ev.scope
	if h.Request == "" || ev.f.Framing == nil || ev.from != frame.C2U || !t.judges() {
		return
	}
	switch kind := ev.kind.Name; {
	case kind == h.Notification:
		s.greeted = true
	case ev.m.Phase != protocol.Open:
	case kind == h.Request:
		s.greeting, s.greeted = ev.f.Seq, false
		if s.early != 0 {
			t.addFinding(missingRequest, Warning, s.key.conn, []int64{ev.f.Seq, s.early}, "a request came before "+h.Request)
		}
		s.early = 0
	case contains(h.Early, ev.m.Kind), len(ev.m.Version) > 0:
	case s.greeting == 0:
		if s.early == 0 {
			s.early = ev.f.Seq
		}
	case !s.greeted:
		s.greeted = true // report only once
		t.addFinding(missingRequest, Warning, s.key.conn, []int64{s.greeting, ev.f.Seq}, ev.kind.Name+" comes before "+h.Notification)
	}
}
