package jsonscan

import "golang.org/x/sys/cpu"

// vectors means that the processor has the instructions that the functions below use. Tests
// clear it.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// wide means that the processor also has AVX-512 and does not slow down when using it. VBMI2 is
// the sign of such a processor.
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

// stringStop returns the offset of the first byte from i, inside a string, where the string
// ends or needs a closer look: the closing quote, a control character, or the byte after the
// backslash of an escape. Only two kinds of escapes count: malformed ones, and those of U+D000
// to U+DFFF, a range that includes the surrogates. stringStop returns len(data), which is at
// least blockLen, if there is no such byte. It does not check characters beyond ASCII.
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

// escapedBytes returns a mask of the bytes of a block that must be escaped in a string: quotes,
// backslashes and control characters.
//
//go:noescape
func escapedBytes(block *[blockLen]byte) uint64

// quoteBlocks512 writes text as the inside of a string to dst, which must have room for twice
// as many bytes plus one block. It stops before a control character that has no two-byte
// escape. It must only be called if wide is set.
//
//go:noescape
func quoteBlocks512(dst, text []byte) (written, read int)
