package session

import (
	"bytes"
	"cmp"
	"errors"
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
	if !ev.scope.begun && ev.from == frame.C2U {
		ev.scope.begun = true
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
