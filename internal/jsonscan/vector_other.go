//go:build !amd64

package jsonscan

import "unicode/utf8"

// On other processors everything is done in words, and nothing here is called.
const vectors, wide = false, false

func validBlocks(data []byte) bool                  { return utf8.Valid(data) }
func stringStop(data []byte, _ int) int             { return len(data) }
func escapedBytes(block *[blockLen]byte) (_ uint64) { return 0 }
func quoteBlocks512(dst, text []byte) (_, _ int)    { return 0, len(text) }
