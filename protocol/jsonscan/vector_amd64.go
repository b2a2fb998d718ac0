package jsonscan

import "golang.org/x/sys/cpu"

// vectors says that the processor has what the functions below are made of.
// Tests clear it.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// wide says that the processor has AVX-512 too, and is of those that do not slow
// down for it, of which VBMI2 is the mark.
var wide = vectors && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI2 && cpu.X86.HasPOPCNT

// validBlocks reports whether data, of at least blockLen bytes, is valid UTF-8.
// The algorithm is that of John Keiser and Daniel Lemire, "Validating UTF-8 in
// less than one instruction per byte" (2021).
func validBlocks(data []byte) bool {
	if wide {
		return validBlocks512(data)
	}
	return validBlocks256(data)
}

//go:noescape
func validBlocks256(data []byte) bool

//go:noescape
func validBlocks512(data []byte) bool

// stringStop returns the offset of the first byte from i, inside of a string,
// at which the string ends or is to be looked at more closely: of the closing
// quote, of a control character, or of the byte behind the backslash of an
// escape that is malformed or is of U+D000 to U+DFFF, where the surrogates are.
// It returns len(data), which is at least blockLen, if there is none. Characters
// beyond ASCII are not looked at.
func stringStop(data []byte, i int) int {
	if wide {
		return stringStop512(data, i)
	}
	return stringStop256(data, i)
}

//go:noescape
func stringStop256(data []byte, i int) int

//go:noescape
func stringStop512(data []byte, i int) int

// escapedBytes returns a mask of the bytes of a block that a string cannot hold
// without an escape: quotes, backslashes and control characters.
//
//go:noescape
func escapedBytes(block *[blockLen]byte) uint64

// quoteBlocks512 writes text as the inside of a string to dst, which has room for
// twice as many bytes and one block more. It stops ahead of a control character
// that has no escape of two bytes. It needs what wide says.
//
//go:noescape
func quoteBlocks512(dst, text []byte) (written, read int)
