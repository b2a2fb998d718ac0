package jsonscan

import (
	"encoding/binary"
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
