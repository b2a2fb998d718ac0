package session

import (
	"cmp"
	"errors"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// check reports what the message breaks by itself, or by where it stands.
func (t *Tracker) check(ev *event) {
	if ev.m.Faults != 0 {
		t.reportFaults(ev)
	}
	if ev.strays() {
		t.report(wrongSide, ev.f, nil, "%s travels %v, and came %v", ev.kind.Name, ev.m.From, ev.from)
	}
	if !ev.scope.begun && ev.from == frame.C2U {
		ev.scope.begun = true
		if t.rules.Opening != nil && !contains(t.rules.Opening, ev.m.Kind) {
			t.report(missingRequest, ev.f, nil, "the first message is %s", ev.kind.Name)
		}
	}
}

// strays reports whether a message comes from a side that may not send it.
func (ev *event) strays() bool {
	return ev.m.From != ev.from && ev.m.From != frame.DirUnknown
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
		if ev.m.Faults&of.fault != 0 {
			t.report(of.rule, ev.f, nil, "%s %s", ev.kind.Name, quote(ev.m.ID))
		}
	}
}

// fresh reports whether a frame does not just go on with the gap before it. What
// is skipped comes in pieces, each with the same fault.
func (s *scope) fresh(f *Frame) bool {
	before := s.gap[f.Dir]
	s.gap[f.Dir] = nil
	if !f.Gap || f.Fault == nil {
		return true
	}
	s.gap[f.Dir] = f.Fault
	return before == nil || unnumbered(before) != unnumbered(f.Fault)
}

// unnumbered returns the words of a fault without the number of its frame, which counts
// those of the other direction too.
func unnumbered(err error) string {
	words := err.Error()
	_, position, _ := strings.Cut(words, " at byte ")
	return cmp.Or(position, words)
}

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
	case t.protocol.Encoding() == protocol.JSON && isStray(f.Payload):
		return strayOutput
	}
	return malformed
}

// isStray reports whether a payload that does not parse looks like something
// else than a damaged message.
func isStray(payload []byte) bool {
	a := frame.Recognize(payload)
	return a != frame.NoAccident && a != frame.JSONText
}
