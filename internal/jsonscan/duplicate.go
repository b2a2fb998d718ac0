package jsonscan

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
)

// keyring holds the keys of all open objects, one after the other, to detect duplicates. The
// upper half of an entry is the hash of a key, the lower half its offset. Keys beyond 4 GiB are
// not checked.
//
// In an object of few keys, a filter tells whether an equal key may have come before; if so,
// the key is compared with those before it. A larger object is sorted when it ends. Hashes are
// seeded, so that nobody can choose keys that make this slow.
type keyring struct {
	n        int        // entries
	few      [32]uint64 // the entries, while they fit
	many     []uint64   // the entries, once they do not fit
	repeated int        // offset of the earliest key that repeats another; 0 means none
}

// names describes the keys of one open object.
type names struct {
	base   int    // index of its first entry
	filter uint64 // one bit per hash
}

// manyNames is the number of keys from which on an object is sorted at its end rather than
// searched for each key.
const manyNames = 32

var spilled = sync.Pool{New: func() any { return new([]uint64) }}

// maxPooled bounds the space kept in the pool after an unusual message: 512 KiB.
const maxPooled = 1 << 16

func (k *keyring) reset() {
	k.n = 0
	k.repeated = 0
}

// release returns the space for many keys to the pool.
func (k *keyring) release() {
	if k.many != nil && cap(k.many) <= maxPooled {
		many := k.many // a copy, so that k stays on its stack
		spilled.Put(&many)
	}
	k.many = nil
}

// enterObject returns the names of an object that begins.
func (k *keyring) enterObject() names { return names{base: k.n} }

// addKey adds the key whose token begins at data[start] to the innermost object, whose
// names are o.
func (k *keyring) addKey(data []byte, start int, hash uint64, o *names) {
	if uint64(start) > math.MaxUint32 {
		return
	}
	entry := hash<<32 | uint64(start)
	bit := uint64(1) << (entry >> 58)
	if o.filter&bit != 0 && k.n-o.base < manyNames {
		k.search(data, entry, k.entries()[o.base:])
	}
	o.filter |= bit
	k.push(entry)
}

func (k *keyring) push(entry uint64) {
	if k.n < len(k.few) {
		k.few[k.n] = entry
	} else {
		k.spill(entry)
	}
	k.n++
}

// spill appends entry to the space for many keys. The earlier keys move there first; few keeps
// its own, for when enough objects have ended.
func (k *keyring) spill(entry uint64) {
	if k.many == nil {
		k.many = *spilled.Get().(*[]uint64)
	}
	if k.n == len(k.few) {
		k.many = append(k.many[:0], k.few[:]...)
	}
	k.many = append(k.many[:k.n], entry)
}

func (k *keyring) entries() []uint64 {
	if k.n > len(k.few) {
		return k.many[:k.n]
	}
	return k.few[:k.n]
}

// leaveObject forgets the keys of the innermost object, which has ended. Its names are o.
func (k *keyring) leaveObject(data []byte, o names) {
	if k.n-o.base > manyNames {
		entries := k.entries()[o.base:]
		slices.Sort(entries)
		k.searchSorted(data, entries)
	}
	k.n = o.base
}

// searchSorted notes repeated keys among sorted entries. Entries of equal hash are adjacent,
// ordered by offset, and are nearly always the same key.
func (k *keyring) searchSorted(data []byte, entries []uint64) {
	run := 0
	for i, entry := range entries {
		if entry>>32 != entries[run]>>32 {
			run = i
		} else if k.search(data, entry, entries[run:i]) {
			run = i
		}
	}
}

// search notes the key of entry and returns true if the key is among earlier.
func (k *keyring) search(data []byte, entry uint64, earlier []uint64) bool {
	for _, e := range earlier {
		if e>>32 == entry>>32 && sameKey(data, e, entry) {
			k.noteKey(offsetOf(entry))
			return true
		}
	}
	return false
}

// noteKey records that the key at offset repeats another.
func (k *keyring) noteKey(offset int) {
	if k.repeated == 0 || offset < k.repeated {
		k.repeated = offset
	}
}

func offsetOf(entry uint64) int { return int(entry & math.MaxUint32) }

func sameKey(data []byte, a, b uint64) bool {
	return bytes.Equal(keyAt(data, offsetOf(a)), keyAt(data, offsetOf(b)))
}

// keyAt returns the key whose valid token begins at offset.
func keyAt(data []byte, offset int) []byte {
	return unquoteValid(data[offset:passSurrogates(data, stringEnd(data, offset))])
}

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
