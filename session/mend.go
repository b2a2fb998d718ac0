package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A torn message is the beginning of JSON that later lines may complete.
type torn struct {
	text  []byte
	inner bool    // another message was written inside it, so its lines do not end in it
	lines []Frame // whose faults were not reported, because the rest may follow
	first int64
}

// maxTorn bounds the bytes of a torn message. Up to maxChecked, each line must continue it.
const maxTorn, maxChecked = 1 << 20, 64 << 10

// mend handles a line that is no message as a whole, but holds some, or is a part of one: it
// reports what is wrong with it, and feeds the messages. It returns false for any other frame.
func (t *Tracker) mend(f *Frame, s *scope) bool {
	isLine := f.Framing == frame.Line && t.protocol.Encoding() == protocol.JSON
	last := f.Gap && errors.Is(f.Fault, frame.ErrTruncated) // the last line has no line feed
	switch {
	case !isLine || f.Gap && !last:
		t.settleTorn(s, f.Dir)
		return t.divide(f, s)
	case s.torn[f.Dir] != nil && t.joins(f, s), last && s.utf16[f.Dir] && len(bytes.Trim(f.Payload, "\x00")) == 0:
		return true
	case last:
		return false
	}
	if text := t.fromUTF16(f.Payload); text != nil {
		s.utf16[f.Dir] = true
		t.report(malformed, f, nil, "the line is UTF-16: write UTF-8: %s", excerpt(text))
		s.unreadable[f.Dir]++
		t.feedInside(f, s, text)
		return true
	}
	if messages, before, why := all.Inside(t.protocol, f.Payload); len(messages) > 0 {
		r := malformed
		if len(messages) == 1 && isPrinted(f) {
			r = strayOutput
		}
		t.report(r, f, nil, "%s: %s", why, excerpt(f.Payload))
		s.unreadable[f.Dir]++
		for _, payload := range messages {
			t.feedInside(f, s, payload)
		}
		if jsonscan.IsCut(before) {
			s.torn[f.Dir] = &torn{text: slices.Clone(before), inner: true, first: f.Seq}
		}
		return true
	}
	if text := bytes.TrimSpace(f.Payload); len(text) == 0 || text[0] != '{' && text[0] != '[' || !jsonscan.IsCut(text) {
		return false
	}
	s.torn[f.Dir] = &torn{first: f.Seq}
	t.hold(f, s)
	return true
}

// divide handles a frame of another framing than lines with several messages: it reports it, and feeds
// them. It returns false for any other frame.
func (t *Tracker) divide(f *Frame, s *scope) bool {
	if f.Gap || f.Framing == frame.Line || t.protocol.Encoding() != protocol.JSON {
		return false
	}
	messages, _, _ := all.Inside(t.protocol, f.Payload)
	if len(messages) < 2 {
		return false
	}
	t.report(malformed, f, nil, "%d messages are in one frame: send each by itself: %s", len(messages), excerpt(f.Payload))
	s.unreadable[f.Dir]++
	for _, payload := range messages {
		t.feedInside(f, s, payload)
	}
	return true
}

// fromUTF16 returns the message in a line of UTF-16, which was cut at the byte of its line feed:
// the other byte of that is in this line or in the next. It returns nil for any other line.
func (t *Tracker) fromUTF16(line []byte) []byte {
	var m protocol.Message
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		units := line
		switch {
		case len(line)%2 == 0:
		case order == binary.LittleEndian:
			units = bytes.TrimPrefix(line, []byte{0})
		default:
			units = bytes.TrimSuffix(line, []byte{0})
		}
		if bytes.IndexByte(units, 0) < 0 || len(units)%2 != 0 {
			continue
		}
		var text []uint16
		for ; len(units) > 0; units = units[2:] {
			text = append(text, order.Uint16(units))
		}
		utf8 := bytes.TrimPrefix([]byte(string(utf16.Decode(text))), []byte("\ufeff"))
		if t.protocol.Parse(utf8, &m) == nil && m.Faults&protocol.UnknownKind == 0 {
			return utf8
		}
	}
	return nil
}

// isPrinted reports whether a line comes from where programs print.
func isPrinted(f *Frame) bool { return f.Stream == 0 && f.Dir != frame.C2U }

// feedInside feeds a message that is a part of a line.
func (t *Tracker) feedInside(f *Frame, s *scope, payload []byte) {
	var m protocol.Message
	part := *f
	part.Payload, part.Size, part.Fault = payload, len(payload), nil
	if t.protocol.Parse(payload, &m) == nil {
		t.feed(&part, s, &m)
	}
}

// hold adds a line to the torn message.
func (t *Tracker) hold(f *Frame, s *scope) {
	tear := s.torn[f.Dir]
	if len(tear.text) > 0 && !tear.inner {
		tear.text = append(tear.text, '\n')
	}
	tear.text = append(tear.text, f.Payload...)
	line := *f
	line.Payload = slices.Clone(f.Payload)
	tear.lines = append(tear.lines, line)
	s.unreadable[f.Dir]++
}

// joins reports whether a line continues the torn message. If it completes it, the message is
// fed; if it does not continue it, the torn message is settled.
func (t *Tracker) joins(f *Frame, s *scope) bool {
	tear := s.torn[f.Dir]
	n := len(tear.text)
	t.hold(f, s)
	text := bytes.TrimSpace(f.Payload)
	closes := len(text) > 0 && (text[0] == '}' || text[0] == ']')
	switch {
	case (closes || tear.inner || n < maxChecked) && jsonscan.WellFormed(tear.text) == nil:
		s.torn[f.Dir] = nil
		t.joined(f, s, tear)
		return true
	case len(tear.text) < maxTorn && !tear.inner && (n >= maxChecked || jsonscan.IsCut(tear.text)):
		return true
	}
	tear.lines = tear.lines[:len(tear.lines)-1]
	s.unreadable[f.Dir]--
	t.settleTorn(s, f.Dir)
	return false
}

// joined reports a message that lines have completed, and feeds it.
func (t *Tracker) joined(f *Frame, s *scope, tear *torn) {
	var m protocol.Message
	isMessage := t.protocol.Parse(tear.text, &m) == nil && m.Faults&protocol.UnknownKind == 0
	lines := len(tear.lines)
	switch {
	case tear.inner:
		t.report(malformed, f, []int64{tear.first}, "a message was written inside another one: write each with its line feed at once, by one writer")
	case isMessage:
		t.report(malformed, f, []int64{tear.first}, "one message is over %d lines: write each message on one line, without indentation", lines)
	default:
		t.report(strayOutput, f, []int64{tear.first}, "this is JSON over %d lines, but not a message of %s: %s", lines, t.protocol.Name(), excerpt(tear.text))
	}
	if isMessage {
		t.feedInside(f, s, tear.text)
	}
}

// settleTorn handles the lines of a torn message that goes on otherwise, each by itself.
func (t *Tracker) settleTorn(s *scope, dir frame.Dir) {
	tear := s.torn[dir]
	if tear == nil {
		return
	}
	s.torn[dir] = nil
	for i := range tear.lines {
		if line := &tear.lines[i]; line.Fault != nil {
			t.reportFault(line, nil)
		} else {
			t.feedInside(line, s, line.Payload)
		}
	}
}

// OverLimit, MaybeOverLimit, NotRecorded, Garbled and NotUTF8 say why an answer is not shown.
const (
	OverLimit      = "the answer is over the limit, and was not read"
	MaybeOverLimit = "a message over the limit may have been the answer"
	NotRecorded    = "the answer is not in the file"
	Garbled        = "the answer is not JSON"
	NotUTF8        = "the answer is not UTF-8, and was not read"
)

// salvage finds the call that a faulty message answers. Many readers accept text that is not UTF-8, so
// the call has ended. Few accept what is not JSON: the call has no answer, but ends no other way either.
func (t *Tracker) salvage(f *Frame, s *scope) {
	var syntax *jsonscan.SyntaxError
	if f.Gap || t.protocol.Encoding() != protocol.JSON || !errors.As(f.Fault, &syntax) || syntax.Truncated || isStray(f) {
		return
	}
	text := f.Payload
	before := text[:min(syntax.Offset, len(text), maxHead)]
	text = (&oversized{head: slices.Clone(before), tail: text[max(0, len(text)-maxTail):]}).partialJSON()
	var m protocol.Message
	if text == nil || t.protocol.Parse(text, &m) != nil || m.ID.IsZero() || m.Phase != protocol.Close && m.Phase != protocol.Fail {
		return
	}
	e := t.findExchange(s, f.Dir.Opposite(), m.ID)
	switch {
	case e == nil || e.settled:
	case syntax.Msg == "invalid UTF-8":
		part := *f
		part.cut, part.Again = true, true
		m.Faults = 0
		t.feed(&part, s, &m)
	default:
		e.Reason = Garbled
	}
}

// An oversized message is over the limit. What is known of it is how it begins and ends.
type oversized struct {
	frame      Frame // its beginning, with the size and the time so far
	head, tail []byte
	refusal    *Frame // an error without an id that came before its end, or nil
}

// maxHead and maxTail bound the bytes that are kept of a message over the limit.
const maxHead, maxTail = 64 << 10, 4 << 10

// keepGap keeps what a gap shows of a message over the limit. Any other frame settles what is kept:
// the message has ended before the next frame of its direction, and before what answers it.
func (t *Tracker) keepGap(f *Frame, s *scope) {
	if !f.Gap || f.Framing == nil || !errors.Is(f.Fault, frame.ErrTooLarge) {
		t.settleOversized(s, f.Dir)
		if f.Framing != frame.Line {
			t.settleOversized(s, f.Dir.Opposite())
		}
		return
	}
	for rest := f.Payload; len(rest) > 0; {
		piece := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 && f.Framing == frame.Line {
			piece = rest[:end+1]
		}
		rest = rest[len(piece):]
		l := s.over[f.Dir]
		if l == nil {
			l = &oversized{frame: *f}
			l.frame.Payload, l.frame.Size = nil, 0
			s.over[f.Dir] = l
		}
		l.frame.Time = f.Time
		l.frame.Size += len(piece)
		l.head = append(l.head, piece[:min(len(piece), maxHead-len(l.head))]...)
		l.tail = append(l.tail, piece[max(0, len(piece)-maxTail):]...)
		l.tail = l.tail[max(0, len(l.tail)-maxTail):]
		if f.Framing == frame.Line && piece[len(piece)-1] == '\n' {
			t.settleOversized(s, f.Dir)
		}
	}
}

// settleOversized feeds what is known of a message over the limit. If that does not tell which
// request it answers, it may have answered any.
func (t *Tracker) settleOversized(s *scope, dir frame.Dir) {
	l := s.over[dir]
	if l == nil {
		return
	}
	s.over[dir] = nil
	if l.frame.Framing == frame.Line && !bytes.HasSuffix(l.tail, []byte("\n")) {
		return // it was cut, so it answered nothing
	}
	var m protocol.Message
	f := &l.frame
	text := l.partialJSON()
	if text == nil || t.protocol.Encoding() != protocol.JSON || t.protocol.Parse(text, &m) != nil || m.Faults&protocol.UnknownKind != 0 ||
		m.Phase != protocol.Note && m.ID.IsZero() && m.Ref.IsZero() {
		t.Miss(f.Conn, dir, MaybeOverLimit)
		return
	}
	m.Faults = 0
	f.Gap, f.Fault, f.cut, f.Again = false, nil, true, true
	t.feed(f, s, &m)
	if e := t.findExchange(s, dir, m.ID); l.refusal != nil && e != nil && e.cut && !e.settled {
		t.answerOpen(&event{f: l.refusal, m: &protocol.Message{Phase: protocol.Fail, Seq: -1}, scope: s, from: l.refusal.Dir, kind: e.kind}, e)
		t.changed(e, l.refusal.Seq)
	}
}

// partialJSON returns what is known of a message, as JSON; nil if that is nothing.
func (l *oversized) partialJSON() []byte {
	head := l.head
	switch l.frame.Framing {
	case frame.Len32:
		head = head[min(4, len(head)):]
	case frame.Header:
		head = head[max(0, bytes.IndexByte(head, '{')):]
	}
	text := jsonscan.Close(bytes.TrimLeft(head, " \t\r\n\xef\xbb\xbf"))
	if text == nil {
		return nil
	}
	for name, value := range members(jsonscan.Last(l.tail)) {
		if _, has := jsonscan.Get(text, name); has {
			continue
		}
		text = text[:len(text)-1]
		if text[len(text)-1] != '{' {
			text = append(text, ',')
		}
		text = append(jsonscan.AppendQuote(text, []byte(name)), ':')
		text = append(append(text, value...), '}')
	}
	return text
}

// members yields the members of an object without its braces.
func members(list []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var s jsonscan.Scanner
		s.Init(slices.Concat([]byte{'{'}, list, []byte{'}'}))
		for ok := s.Object(); ok && s.Next(); {
			if !yield(string(s.Key()), s.Value()) {
				return
			}
		}
	}
}

// otherSpelling returns the open exchange of a side whose id is of another type than a token:
// "1" for 1, or 1.0; nil if there is none.
func (t *Tracker) otherSpelling(s *scope, side frame.Dir, token protocol.Token) *Exchange {
	id, ok := numberOf(token)
	if !ok {
		return nil
	}
	for _, side := range sides(side) {
		for e := range t.inFlightOf(s, side) {
			if other, ok := numberOf(e.ID); ok && other == id && token.Space == e.ID.Space && !bytes.Equal(token.Text, e.ID.Text) {
				return e
			}
		}
	}
	return nil
}

// numberOf returns the number that a token is, or whose digits it quotes.
func numberOf(token protocol.Token) (float64, bool) {
	n, err := strconv.ParseFloat(string(bytes.Trim(token.Text, `"`)), 64)
	return n, err == nil
}
