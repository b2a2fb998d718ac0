// Package frametest has what tests of streams share.
package frametest

import (
	"io"
	"math/rand/v2"
)

// Ragged returns a reader that gives out data in reads of 1 to 100 bytes, at
// random but the same for the same seed.
func Ragged(data []byte, seed uint64) io.Reader {
	return &ragged{data, rand.New(rand.NewPCG(seed, 0))}
}

type ragged struct {
	data []byte
	rand *rand.Rand
}

func (r *ragged) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+r.rand.IntN(100))], r.data)
	r.data = r.data[n:]
	return n, nil
}
