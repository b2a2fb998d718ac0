// Package jsonwalk has the common parts of the parsers of JSON protocols: how a walk over a
// message ends, and how its values become tokens and words.
package jsonwalk

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// Named is the name of a protocol of JSON texts, which embeds it.
type Named string

// Name implements [protocol.Protocol].
func (n Named) Name() string { return string(n) }

// Encoding implements [protocol.Protocol].
func (Named) Encoding() protocol.Encoding { return protocol.JSON }

// Member walks the next value, and returns its member of that key as written; nil if it has
// none.
func Member(s *jsonscan.Scanner, key string) (raw []byte) {
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == key {
			raw = s.Value()
		}
	}
	return raw
}

// HasMember reports whether an object, which may be malformed, has one of the keys.
func HasMember(object []byte, keys ...string) bool {
	var s jsonscan.Scanner
	s.Init(object)
	for ok := s.Object(); ok && s.Next(); {
		if slices.Contains(keys, string(s.Key())) {
			return true
		}
	}
	return false
}

// WordIn is the [Word] of a [Member].
func WordIn(s *jsonscan.Scanner, key string) []byte { return Word(Member(s, key)) }

// End ends the walk s, and adds the faults that it shows to m.
func End(s *jsonscan.Scanner, m *protocol.Message) error { return Finish(s, s.End(), m) }

// Finish adds the faults of the walk s, which ended with err, and of the tokens of m. It
// returns err. Text that is not JSON has no other faults.
func Finish(s *jsonscan.Scanner, err error, m *protocol.Message) error {
	if err != nil {
		m.Faults &= protocol.UnknownKind
		return err
	}
	m.Multiline = s.Newline()
	if _, _, ok := s.Duplicate(); ok {
		m.Faults |= protocol.DuplicateKey
	}
	if _, ok := s.Unpaired(); ok {
		m.Faults |= protocol.LoneSurrogate
	}
	if jsonscan.IsUnsafeInteger(m.ID.Text) || jsonscan.IsUnsafeInteger(m.Ref.Text) || jsonscan.IsUnsafeInteger(m.Bind.Text) {
		m.Faults |= protocol.UnsafeInteger
	}
	return nil
}

// Token returns raw as a token, or the zero token unless raw is a string or a number.
func Token(raw []byte, space protocol.Space) protocol.Token {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Number:
		return protocol.Token{Space: space, Text: raw}
	}
	return protocol.Token{}
}

// Word returns a string without its quotes, with its escapes; nil unless raw is a string.
func Word(raw []byte) []byte {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// First returns the first value that is not missing.
func First(all ...[]byte) []byte {
	for _, b := range all {
		if b != nil {
			return b
		}
	}
	return nil
}

// Count returns a count that is written as an integer; 0 for anything else.
func Count(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Micros returns an amount of money in millionths; 0 for anything else.
func Micros(raw []byte) int64 {
	const most = 1e12
	amount, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(amount > 0 && amount < most) {
		return 0
	}
	return int64(math.Round(amount * 1e6))
}

// A Shape lists the members that objects have and those that they may have; "*" stands for
// any. A quote, brace or bracket after a name is how its value begins, and a dot separates
// the name of an inner object from that of its member: `type" message.role" tools[`.
type Shape struct{ Has, MayHave string }

// Fits reports whether an object has the members of a shape, and no other ones.
func (s Shape) Fits(object []byte) bool {
	has, mayHave := strings.Fields(s.Has), strings.Fields(s.MayHave)
	for _, name := range has {
		begin := name[len(name)-1]
		if begin != '"' && begin != '{' && begin != '[' {
			begin = 0
		} else {
			name = name[:len(name)-1]
		}
		value, ok := jsonscan.Get(object, strings.Split(name, ".")...)
		if !ok || begin != 0 && value[0] != begin {
			return false
		}
		name, _, _ = strings.Cut(name, ".")
		mayHave = append(mayHave, name)
	}
	var scan jsonscan.Scanner
	scan.Init(object)
	for ok := scan.Object(); ok && scan.Next(); {
		if !slices.Contains(mayHave, string(scan.Key())) && !slices.Contains(mayHave, "*") {
			return false
		}
	}
	return scan.End() == nil
}

// Shapes are those of messages that only one protocol has, by their kind without what follows a slash.
type Shapes map[string][]Shape

// Recognize is the function of that name in a [protocol.Spec].
func (s Shapes) Recognize(payload []byte, m *protocol.Message) protocol.Evidence {
	kind, _, _ := strings.Cut(string(m.Kind), "/")
	return protocol.Own(slices.ContainsFunc(s[kind], func(shape Shape) bool { return shape.Fits(payload) }))
}
