package jsonscan

import "golang.org/x/sys/cpu"

// vectors says that the processor has what the functions below are made of.
// Tests clear it.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// validBlocks reports whether data, of at least blockLen bytes, is valid UTF-8.
// The algorithm is that of John Keiser and Daniel Lemire, "Validating UTF-8 in
// less than one instruction per byte" (2021).
//
//go:noescape
func validBlocks(data []byte) bool

// stringStop returns the offset of the first byte from i, inside of a string,
// at which the string ends or is to be looked at more closely: of the closing
// quote, of a control character, or of the byte behind the backslash of an
// escape that is malformed or is of U+D000 to U+DFFF, where the surrogates are.
// It returns len(data), which is at least blockLen, if there is none. Characters
// beyond ASCII are not looked at.
//
//go:noescape
func stringStop(data []byte, i int) int

// escapedBytes returns a mask of the bytes of a block that a string cannot hold
// without an escape: quotes, backslashes and control characters.
//
//go:noescape
func escapedBytes(block *[blockLen]byte) uint64
