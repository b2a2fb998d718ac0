package jsonscan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"iter"
	"math/bits"
)

// The methods in this file check the piece of the text that begins at offset i and return the
// offset after it. On failure they record an error and return -1.

// value checks the value at i, which is nested in depth containers.
func (s *Scanner) value(i, depth int) int {
	if uint(i) >= uint(len(s.data)) {
		return s.failAt(i, "looking for a value")
	}
	switch s.data[i] {
	case '"':
		return s.string(i)
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.scanNumber(i)
	}
	return s.failAt(i, "looking for a value")
}

func (s *Scanner) object(i, depth int) int {
	if depth >= s.maxDepth {
		return s.failDepth(i)
	}
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == '}' {
		return i + 1
	}
	names := s.keys.enterObject()
	for {
		end, hash, _ := s.key(i)
		if end < 0 {
			return -1
		}
		s.keys.addKey(s.data, i, hash, &names)
		if i = s.colon(end); i < 0 {
			return -1
		}
		if i = s.value(i, depth+1); i < 0 {
			return -1
		}
		i = s.space(i)
		switch {
		case i < len(s.data) && s.data[i] == ',':
			i = s.space(i + 1)
		case i < len(s.data) && s.data[i] == '}':
			s.keys.leaveObject(s.data, names)
			return i + 1
		default:
			return s.failAfterItem(i, Object)
		}
	}
}

func (s *Scanner) array(i, depth int) int {
	if depth >= s.maxDepth {
		return s.failDepth(i)
	}
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1); i < 0 {
			return -1
		}
		i = s.space(i)
		switch {
		case i < len(s.data) && s.data[i] == ',':
			i = s.space(i + 1)
		case i < len(s.data) && s.data[i] == ']':
			return i + 1
		default:
			return s.failAfterItem(i, Array)
		}
	}
}

// key checks an object's key. It also returns the hash of the key, see [hashKey], and whether
// the key is known to have no escapes. The hash is nearly free if the key and its closing quote
// lie in one word.
func (s *Scanner) key(i int) (end int, hash uint64, plain bool) {
	if i >= len(s.data) || s.data[i] != '"' {
		return s.failAt(i, "looking for a key"), 0, false
	}
	if rest := s.data[i+1:]; len(rest) >= 8 {
		w := binary.LittleEndian.Uint64(rest)
		if n := bits.TrailingZeros64(special(w)) / 8; n < 8 && rest[n] == '"' {
			return i + n + 2, mix(w&(1<<(8*n)-1), 0, n), true
		}
	}
	if end = plainStringEnd(s.data, i); end < 0 {
		if end = s.string(i); end < 0 {
			return -1, 0, false
		}
		return end, hashKey(s.data[i+1 : end-1]), false
	}
	return end, hashKey(s.data[i+1 : end-1]), true
}

// colon checks the colon after a key and the space around it.
func (s *Scanner) colon(i int) int {
	i = s.space(i)
	if i >= len(s.data) || s.data[i] != ':' {
		return s.failAt(i, "looking for ':' after a key")
	}
	return s.space(i + 1)
}

func (s *Scanner) string(i int) int {
	end := plainStringEnd(s.data, i)
	if end < 0 && s.isUTF8(i) {
		end = utf8StringEnd(s.data, i)
	}
	if end < 0 {
		end = stringEnd(s.data, i)
	}
	if end < 0 && isSurrogate(s.data[^end:]) {
		if s.unpaired == 0 {
			s.unpaired = ^end
		}
		end = passSurrogates(s.data, end)
	}
	if end < 0 {
		return s.failString(^end)
	}
	return end
}

// isUTF8 reports whether the text from the string at i on is known to be valid UTF-8. The first
// call checks all of it.
func (s *Scanner) isUTF8(i int) bool {
	if s.utf8 == unknown {
		s.utf8 = maybeUTF8
		if vectors && len(s.data)-i >= blockLen && validBlocks(s.data[i:]) {
			s.utf8 = isUTF8
		}
	}
	return s.utf8 == isUTF8
}

func (s *Scanner) scanNumber(i int) int {
	end := numberEnd(s.data, i)
	if end < 0 {
		return s.failAt(^end, "looking for a digit")
	}
	return end
}

func (s *Scanner) literal(i int, word string) int {
	for n := range len(word) {
		if i+n >= len(s.data) || s.data[i+n] != word[n] {
			return s.failAt(i+n, "in literal "+word)
		}
	}
	return i + len(word)
}

// space returns the offset of the first byte from i that is not white space.
func (s *Scanner) space(i int) int {
	for i < len(s.data) && s.data[i] <= ' ' {
		switch s.data[i] {
		case '\n', '\r':
			s.newline = true
		case ' ', '\t':
		default:
			return i
		}
		i++
	}
	return i
}

// maxOpen bounds the depth of what [Close] keeps.
const maxOpen = 64

// Close returns the beginning of a JSON text as a text of its own: with null for the value of a
// member that is cut, and its arrays and objects closed. It returns nil if data does not begin an
// object.
func Close(data []byte) []byte {
	var open, closers [maxOpen]byte // what is open here, and at end
	depth, end, kept := 0, 0, 0
	key := false // a key comes next
	value := ""  // is missing at end
	keep := func(at int, missing string) { end, kept, closers, value = at, depth, open, missing }
	closed := func() []byte {
		text := append(data[:end:end], value...)
		for i := kept - 1; i >= 0; i-- {
			text = append(text, closers[i])
		}
		if kept == 0 || WellFormed(text) != nil {
			return nil
		}
		return text
	}
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
			continue
		case ':':
			i++
			keep(i, "null")
			continue
		case ',':
			key = depth > 0 && open[depth-1] == '}'
			i++
			continue
		case '{', '[':
			if depth == maxOpen || depth == 0 && c == '[' {
				return closed()
			}
			open[depth] = c + 2 // in ASCII
			depth++
			key = c == '{'
			i++
		case '}', ']':
			if depth--; depth <= 0 {
				return closed()
			}
			key = false
			i++
		case '"':
			n := passSurrogates(data, stringEnd(data, i))
			if n < 0 {
				return closed()
			}
			if i = n; key {
				key = false
				continue
			}
		default:
			n := i
			for n < len(data) && isWord(data[n]) {
				n++
			}
			if n == i || n == len(data) {
				return closed()
			}
			i = n
		}
		if depth > 0 {
			keep(i, "")
		}
	}
	return closed()
}

// isWord reports whether c may be in a number or a literal.
func isWord(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}

// A Token is a bracket, string, number or literal of a JSON text, from Start to before End.
type Token struct {
	Start, End int
	// Key means that it is the name of a member.
	Key bool
}

// Tokens yields the tokens of a well-formed JSON text except colons and commas.
func Tokens(text []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for i := 0; i < len(text); {
			t := Token{Start: i}
			switch c := text[i]; {
			case c == '"':
				if i = passSurrogates(text, validStringEnd(text, i)); i < 0 {
					return
				}
				next := i
				for next < len(text) && text[next] <= ' ' {
					next++
				}
				t.Key = next < len(text) && text[next] == ':'
			case isWord(c):
				for i < len(text) && isWord(text[i]) {
					i++
				}
			default:
				if i++; c|0x20 != '{' && c|0x20 != '}' { // '[' and ']' too
					continue
				}
			}
			if t.End = i; !yield(t) {
				return
			}
		}
	}
}

// Last returns the members at the end of an object of which data is the end, as far back as their
// values are numbers, literals and strings without escapes: `"jsonrpc":"2.0","id":1`.
func Last(data []byte) []byte {
	const blank = " \t\r\n"
	data, ok := bytes.CutSuffix(bytes.TrimRight(data, blank), []byte("}"))
	first := len(data)
	// token returns where the token at the end of text begins.
	token := func(text []byte) int {
		at := len(text)
		if quoted, is := bytes.CutSuffix(text, []byte(`"`)); is {
			if at = bytes.LastIndexByte(quoted, '"'); at > 0 && text[at-1] == '\\' {
				return -1
			}
			return at
		}
		for at > 0 && isWord(text[at-1]) {
			at--
		}
		if at == len(text) {
			return -1
		}
		return at
	}
	for rest := data; ok; {
		rest = bytes.TrimRight(rest, blank)
		value := token(rest)
		if value <= 0 {
			break
		}
		name, isMember := bytes.CutSuffix(bytes.TrimRight(rest[:value], blank), []byte(":"))
		name = bytes.TrimRight(name, blank)
		at := token(name)
		if !isMember || at < 0 || name[at] != '"' {
			break
		}
		first = at
		rest, ok = bytes.CutSuffix(bytes.TrimRight(name[:at], blank), []byte(","))
	}
	members := data[first:]
	if WellFormed([]byte("{"+string(members)+"}")) != nil {
		return nil
	}
	return members
}

// AppendCompact appends data, a valid JSON text, without the white space
// between its tokens. Everything else stays as it is written.
func AppendCompact(dst, data []byte) []byte {
	start := 0
	for i := 0; i < len(data); {
		switch data[i] {
		case '"':
			if i = passSurrogates(data, validStringEnd(data, i)); i < 0 {
				return append(dst, data[start:]...)
			}
		case ' ', '\t', '\n', '\r':
			dst = append(dst, data[start:i]...)
			i++
			start = i
		default:
			i++
		}
	}
	return append(dst, data[start:]...)
}

// Marshal is json.Marshal without HTML escaping: <, > and & are not escaped.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := NewEncoder(&b).Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// NewEncoder returns an encoder that writes each value as Marshal does, one per line.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// MustMarshal is Marshal for values that can always be encoded; it panics on an error.
func MustMarshal(v any) []byte {
	text, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// numberEnd returns the offset after the number that begins at data[i]. If a digit is missing,
// it returns the complement of the offset where one is expected.
func numberEnd(data []byte, i int) int {
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if i = digitsEnd(data, i); i < 0 {
		return i
	}
	if i < len(data) && data[i] == '.' {
		if i = digitsEnd(data, i+1); i < 0 {
			return i
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		return digitsEnd(data, i)
	}
	return i
}

// digitsEnd returns the offset after the digits that begin at data[i], or the
// complement of i if there are none.
func digitsEnd(data []byte, i int) int {
	start := i
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return ^i
	}
	return i
}

// maxSafeInteger is 2^53-1, the largest integer up to which a double represents every integer
// exactly.
const maxSafeInteger = "9007199254740991"

// IsUnsafeInteger reports whether raw is an integer beyond ±(2^53-1), written without fraction
// and exponent. A reader that stores numbers as doubles may change it.
func IsUnsafeInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 || digitsEnd(raw, 0) != len(raw) {
		return false
	}
	if len(raw) != len(maxSafeInteger) {
		return len(raw) > len(maxSafeInteger)
	}
	return string(raw) > maxSafeInteger
}
