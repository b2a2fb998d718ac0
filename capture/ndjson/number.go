package ndjson

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
)

// appendNumber is a faster [strconv.AppendInt] for the numbers of records, whose lengths vary
// unpredictably. It branches neither on the number of digits nor on their values.
func appendNumber(dst []byte, n int64) []byte {
	if uint64(n) >= 1e16 {
		return strconv.AppendInt(dst, n, 10)
	}
	dst = slices.Grow(dst, 16)
	high, low := uint64(n)/1e8, uint64(n)%1e8
	if high == 0 {
		return appendDigits(dst, low)
	}
	return binary.LittleEndian.AppendUint64(appendDigits(dst, high), digits(low)|zeros)
}

const zeros = 0x3030303030303030

// appendDigits appends n, which must be less than 1e8, to dst, which must have room for eight
// bytes.
func appendDigits(dst []byte, n uint64) []byte {
	text := digits(n)
	leading := bits.TrailingZeros64(text|1<<56) / 8
	end := len(dst) + 8
	binary.LittleEndian.PutUint64(dst[end-8:end], (text|zeros)>>(8*leading))
	return dst[:end-leading]
}

// digits returns the eight decimal digits of n, which must be less than 1e8. Each digit has
// its own byte; the first digit is in the lowest byte. It divides all parts of a word at
// once, by 100 and then by 10. Each division is a multiplication by a fraction whose
// denominator is a power of two.
func digits(n uint64) uint64 {
	n = n/1e4 | n%1e4<<32
	hundreds := (n * 10486 >> 20) & 0x0000_007f_0000_007f
	n = hundreds | (n-100*hundreds)<<16
	tens := (n * 103 >> 10) & 0x000f_000f_000f_000f
	return tens | (n-10*tens)<<8
}
