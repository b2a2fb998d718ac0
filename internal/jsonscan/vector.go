package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// In multilingual text, or text with many escapes, nearly every branch on a byte is
// mispredicted, which costs as much as fifty bytes. So on amd64 UTF-8 is validated once for a
// whole text, and the ends of strings are searched for in blocks, both without branches. The
// loops over words decide if this finds a fault or is not supported.

// blockLen is the number of bytes in a block, one for each bit of a mask.
const blockLen = 64

// ValidUTF8 is [utf8.Valid], optimized for long multilingual texts.
func ValidUTF8(data []byte) bool {
	if vectors && len(data) >= blockLen {
		return validBlocks(data)
	}
	return utf8.Valid(data)
}

// plainStringEnd is stringEnd for a short ASCII string without escapes. It returns -1 for any
// other.
func plainStringEnd(data []byte, i int) int {
	const words = 2
	for range words {
		if i+9 > len(data) {
			return -1
		}
		if m := special(binary.LittleEndian.Uint64(data[i+1:])); m != 0 {
			i += bits.TrailingZeros64(m)>>3 + 1
			if data[i] == '"' {
				return i + 1
			}
			return -1
		}
		i += 8
	}
	return -1
}

// validStringEnd is stringEnd for data that is valid UTF-8 from i on.
func validStringEnd(data []byte, i int) int {
	end := plainStringEnd(data, i)
	if end < 0 && vectors && len(data) >= blockLen {
		end = utf8StringEnd(data, i)
	}
	if end < 0 {
		end = stringEnd(data, i)
	}
	return end
}

// utf8StringEnd is stringEnd for data of at least blockLen bytes that is valid
// UTF-8 from i on. It returns -1 if the string is malformed.
func utf8StringEnd(data []byte, i int) int {
	for i++; ; {
		i = stringStop(data, i)
		switch {
		case i == len(data):
			return -1
		case data[i] == '"':
			return i + 1
		case data[i] != 'u':
			return -1
		}
		for i--; i < len(data) && data[i] == '\\'; { // escapes often follow each other
			n := escapeLen(data[i:])
			if n == 0 {
				return -1
			}
			i += n
		}
	}
}
