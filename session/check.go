package session

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// checkRules reports the rules that the message breaks by itself, or by its position in the
// session.
func (t *Tracker) checkRules(ev *event) {
	if ev.m.Faults != 0 {
		t.reportFaults(ev)
	}
	if t.strays(ev) && !t.isNewer { // a newer version may allow that side to send it
		t.report(wrongSide, ev.f, nil, "%s goes %v, but came %v", ev.kind.Name, ev.from.Opposite(), ev.from)
	}
	if t.rules.Dismiss != nil && ev.from != frame.U2C && contains(t.rules.Dismiss, ev.m.Kind) {
		ev.scope.dismissed = true
	}
	t.checkHandshake(ev)
	if !ev.scope.sawFirst && ev.from == frame.C2U {
		ev.scope.sawFirst = true
		ev.scope.whole = t.forgotten == 0 && (t.rules.Opening == nil || contains(t.rules.Opening, ev.m.Kind))
		if t.rules.Opening != nil && t.forgotten == 0 && !ev.scope.whole && (t.rules.Framing == nil || ev.f.Framing != nil) {
			t.report(missingRequest, ev.f, nil, "the first message is %s", ev.kind.Name)
		}
	}
}

// checkFraming reports faults in the framing of a plain stream.
func (t *Tracker) checkFraming(f *Frame, s *scope) {
	if want := t.rules.Framing; want != nil && f.Framing != want && isStdio(f.Framing) && !s.framed[f.Dir] {
		s.framed[f.Dir] = true
		t.report(wrongFraming, f, nil, "the framing is %s, not %s", f.Framing.Name(), want.Name())
	}
	if f.Framing == frame.Line && (bytes.Contains(f.Payload, []byte("\u2028")) || bytes.Contains(f.Payload, []byte("\u2029"))) {
		t.report(lineSeparator, f, nil, "there is a U+2028 or U+2029 inside the line")
	}
}

// isStdio reports whether a framing is one of the two used over stdio.
func isStdio(f frame.Framing) bool { return f == frame.Line || f == frame.Header }

// strays reports whether a message comes from a side that must not send it.
func (t *Tracker) strays(ev *event) bool {
	from := ev.m.From
	switch phase := ev.m.Phase; {
	case from != frame.DirUnknown || ev.from == frame.DirUnknown || t.rules.Asks == frame.DirUnknown:
	case phase == protocol.Open:
		from = t.rules.Asks
	case phase.Ends():
		from = t.rules.Asks.Opposite()
	}
	return from != ev.from && from != frame.DirUnknown
}

func contains(kinds []string, kind []byte) bool {
	for _, k := range kinds {
		if k == string(kind) {
			return true
		}
	}
	return false
}

func (t *Tracker) reportFaults(ev *event) {
	for _, of := range ofFault {
		if t.isNewer && of.fault&(protocol.UnknownKind|protocol.UnknownField|protocol.MissingField) != 0 {
			continue // the version may allow it
		}
		switch {
		case ev.m.Faults&of.fault == 0:
		case of.rule == unknownKind && ev.isLog():
			t.report(strayOutput, ev.f, nil, "this is JSON, but not a message of %s: %s", t.protocol.Name(), excerpt(ev.f.Payload))
		case of.fault == protocol.NullID:
			t.report(badID, ev.f, nil, "error %s has the id null, so it answers nothing: only -32700 and -32600 say that the id could not be read", ev.m.Label)
		default:
			t.report(of.rule, ev.f, nil, "%s %s", ev.kind.Name, quote(ev.m.ID))
		}
	}
}

// isLog reports whether a message of unknown kind is a line of a program's output: many
// programs log in JSON.
func (ev *event) isLog() bool {
	return bytes.Equal(ev.m.Kind, protocol.Unknown) && ev.m.ID.IsZero() && ev.from == frame.U2C && ev.f.Framing == frame.Line
}

// fresh reports whether a frame with a fault does not just continue the previous gap. Skipped
// bytes arrive in pieces, each with the same fault.
func (s *scope) fresh(f *Frame) bool {
	before := s.gap[f.Dir]
	if !f.Gap {
		s.gap[f.Dir] = nil
		return true
	}
	s.gap[f.Dir] = f.Fault
	return before == nil || unnumbered(before) != unnumbered(f.Fault)
}

// unnumbered returns the text of a fault without its frame number, which also counts frames of
// the other direction.
func unnumbered(err error) string {
	words := err.Error()
	_, position, _ := strings.Cut(words, " at byte ")
	return cmp.Or(position, words)
}

// reportFault reports the fault of a frame, with an excerpt of the frame.
func (t *Tracker) reportFault(f *Frame, m *protocol.Message) {
	r, line := t.ruleOf(f, m), ""
	if r == strayOutput && len(f.Payload) > 0 {
		line = ": " + excerpt(f.Payload)
	}
	t.report(r, f, nil, "%v%s", f.Fault, line)
}

// excerpt returns the beginning of a line, quoted.
func excerpt(line []byte) string {
	n := min(len(line), maxExcerpt)
	if n == len(line) {
		return strconv.Quote(string(line))
	}
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return strconv.Quote(string(line[:n])) + "…"
}

// maxExcerpt is how many bytes of a line are shown.
const maxExcerpt = 80

// ruleOf returns the rule that the fault of a frame breaks.
func (t *Tracker) ruleOf(f *Frame, m *protocol.Message) rule {
	var syntax *jsonscan.SyntaxError
	var form *protobuf.Error
	switch {
	case errors.Is(f.Fault, frame.ErrTooLarge):
		return oversize
	case errors.Is(f.Fault, frame.ErrTruncated):
		return truncated
	case f.Gap:
		return strayOutput
	case errors.As(f.Fault, &syntax) && syntax.Msg == "invalid UTF-8", errors.As(f.Fault, &form) && form.Msg == "invalid UTF-8":
		return invalidUTF8
	case m != nil && form == nil:
		return flawedFraming
	case t.rules.Framing == frame.Line && f.Framing == frame.Line && frame.Recognize(f.Payload) == frame.HeaderFrame:
		return wrongFraming
	case t.protocol.Encoding() == protocol.JSON && isStray(f):
		return strayOutput
	}
	return malformed
}

// isStray reports whether an invalid payload looks like program output rather than a damaged
// message, and comes from where programs print: not from HTTP, and not from a controller.
func isStray(f *Frame) bool {
	if f.Stream != 0 || f.Dir == frame.C2U {
		return false
	}
	a := frame.Recognize(f.Payload)
	return a != frame.NoAccident && a != frame.JSONText
}

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
		t.report(ruleNamed(b.Finding), ev.f, append(openingFrame(ev, e), b.Frames...), "%s", plain(b.How))
	}
	version := t.version
	if version == "" && e != nil {
		version = e.Version
	}
	begins := t.rules.Handshake.Request != "" && string(m.Kind) == t.rules.Handshake.Request
	if t.rules.Judge == nil || t.isNewer || version == "" && !t.base.NoWire && !begins && ev.f.Stated == nil && ev.f.Response == nil || t.strays(ev) {
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
		about := openingFrame(ev, e)
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
	t.addFinding(undeclared, severity, ev.f.Conn, append(openingFrame(ev, e), ev.f.Seq),
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

// openingFrame returns the number of the frame that opened e, unless that is the frame of ev.
func openingFrame(ev *event, e *Exchange) []int64 {
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

// maxSteps bounds how many steps are remembered. Once it is reached, steps are no longer
// judged, because an unknown step may have been forgotten.
const maxSteps = 1 << 14

// step follows the steps of operations. It reports messages about a step that has not begun or
// has already ended. It only judges operations that began here, in sessions seen from their
// start.
func (t *Tracker) step(ev *event) {
	s := ev.m.Step
	if s.ID.IsZero() || len(t.steps) >= maxSteps {
		return
	}
	if t.steps == nil {
		t.steps = make(map[key]bool)
	}
	at := t.keyOf(ev.scope, ev.from, s.ID)
	ended, begun := t.steps[at]
	if s.Does != protocol.Part {
		t.steps[at] = s.Does == protocol.Close
		return
	}
	op := t.findOperation(ev.scope, ev.m.Ref)
	if begun && !ended || !ev.scope.whole || !t.judges() || op == nil || op.Conn != ev.f.Conn || op.Stream != ev.f.Stream {
		return
	}
	why := "has not begun"
	if begun {
		why = "has ended"
	}
	t.report(unknownStep, ev.f, []int64{op.First}, "%s goes on with %s, which %s", ev.kind.Name, quote(s.ID), why)
}
