// Package jsonwalk holds what the parsers of JSON protocols share: how a walk
// over a message ends, and how its values become tokens and words. It knows no
// protocol.
package jsonwalk

import (
	"math"
	"strconv"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Since ends the value that begins at start, whose members or elements may
// have been walked, and returns it as it is written; nil if it is malformed.
func Since(s *jsonscan.Scanner, payload []byte, start int) []byte {
	s.Skip()
	if s.Err() != nil {
		return nil
	}
	return payload[start:s.Offset():s.Offset()]
}

// Finish adds what shows in the walk s, which ended with err, and the faults of
// the tokens of m. It returns err: of a text that is not JSON no rule can be
// said to be broken.
func Finish(s *jsonscan.Scanner, err error, m *protocol.Message) error {
	if err != nil {
		m.Faults &= protocol.UnknownKind
		return err
	}
	m.Multiline = s.Newline()
	if _, _, ok := s.Duplicate(); ok {
		m.Faults |= protocol.DuplicateKey
	}
	if jsonscan.IsUnsafeInteger(m.ID.Text) || jsonscan.IsUnsafeInteger(m.Ref.Text) || jsonscan.IsUnsafeInteger(m.Bind.Text) {
		m.Faults |= protocol.UnsafeInteger
	}
	return nil
}

// Token returns the token that raw is, or none unless raw is a string or a
// number.
func Token(raw []byte, space protocol.Space) protocol.Token {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Number:
		return protocol.Token{Space: space, Text: raw}
	}
	return protocol.Token{}
}

// Word returns what stands between the quotes of raw, escapes as written, or
// nil unless raw is a string.
func Word(raw []byte) []byte {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// Count returns a count that is written as an integer; 0 for anything else.
func Count(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Micros returns an amount of money in millionths; 0 for what is none.
func Micros(raw []byte) int64 {
	const most = 1e12
	amount, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(amount > 0 && amount < most) {
		return 0
	}
	return int64(math.Round(amount * 1e6))
}
