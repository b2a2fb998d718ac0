package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// In text of many languages, and with its escapes, each branch on a byte is a
// wrong guess of the processor, which costs as much as fifty bytes. On amd64,
// therefore, UTF-8 is checked once for a whole text and strings are searched
// for their end in blocks, both without branches; where that finds a fault, or
// is not to be had, the loops over words decide.

// blockLen is how many bytes are looked at at once, one for each bit of a mask.
const blockLen = 64

// ValidUTF8 is [utf8.Valid], made for long texts of many languages.
func ValidUTF8(data []byte) bool {
	if vectors && len(data) >= blockLen {
		return validBlocks(data)
	}
	return utf8.Valid(data)
}

// plainStringEnd is stringEnd for a short string without escapes and characters
// beyond ASCII. It returns -1 for any other.
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
		for i--; i < len(data) && data[i] == '\\'; { // such escapes rarely come alone
			n := escapeLen(data[i:])
			if n == 0 {
				return -1
			}
			i += n
		}
	}
}
