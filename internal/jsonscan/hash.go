package jsonscan

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// The seeds differ in every process, so that nobody can prepare keys whose
// hashes are equal.
var (
	longSeed          = maphash.MakeSeed()
	lowSeed, highSeed = rand.Uint64(), rand.Uint64()
)

// shortKey is the length of the longest key that fits into two words.
const shortKey = 16

// Hash returns the hash of a key, which differs in every process.
func Hash(key string) uint64 { return hashText([]byte(key)) }

// hashKey hashes a key as written between its quotes. All spellings of a key have the same
// hash.
func hashKey(inner []byte) uint64 {
	if len(inner) <= shortKey {
		if low, high := words(inner); !hasBackslash(low) && !hasBackslash(high) {
			return mix(low, high, len(inner))
		}
	}
	return hashText(unescape(inner))
}

func hashText(text []byte) uint64 {
	if len(text) > shortKey {
		return maphash.Bytes(longSeed, text)
	}
	low, high := words(text)
	return mix(low, high, len(text))
}

// words returns the bytes of a short key as two words. Fewer than eight bytes are padded with
// zeros and returned in low; otherwise low has the first eight and high the last eight.
func words(b []byte) (low, high uint64) {
	switch n := len(b); {
	case n >= 8:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		tail := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return uint64(binary.LittleEndian.Uint32(b)) | tail<<(8*(n-4)), 0
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1)), 0
	}
	return 0, 0
}

// mix hashes the words of a key of n bytes.
func mix(low, high uint64, n int) uint64 {
	h, l := bits.Mul64(low^lowSeed, high^highSeed)
	return h ^ l ^ uint64(n)
}

func hasBackslash(w uint64) bool {
	w ^= '\\' * ones
	return (w-ones)&^w&tops != 0
}
