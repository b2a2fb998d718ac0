// Package frametest has what tests of streams share.
package frametest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// FaultyLimit is the limit that frames in the streams of [Faulty] exceed.
const FaultyLimit = 60

// Faulty returns streams of a framing in which good stands between faults.
func Faulty(f frame.Framing, good []byte) map[string][]byte {
	framed := func(payload string) []byte {
		b, err := frame.Append(nil, f, []byte(payload))
		if err != nil {
			panic(err)
		}
		return b
	}
	one, long := framed(string(good)), framed(`{"jsonrpc":"`+strings.Repeat("y", FaultyLimit)+`"}`)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	return map[string][]byte{
		"one over the limit":             join(one, long, one, one),
		"two over the limit":             join(long, long, one, one),
		"each second one over the limit": join(one, long, one, long, one, long),
		"an empty frame after a fault":   join(long, framed(""), one, framed(""), framed(""), one),
		"blank lines after a fault":      join(long, []byte("\n \r\n\n"), one, one),
		"text after a fault":             join(one, long, []byte("INFO ready\n"), one, one),
		"bytes after a fault":            join(long, []byte("\xff\x00\xff\xff\x00\x00\x01\x00"), one, one),
		"a fault at the end":             join(one, long),
		"a cut frame":                    join(one, long, one, one[:len(one)-2]),
	}
}

// Splits yields data cut in two at each byte, and at last into single bytes.
func Splits(data []byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		for i := range data {
			if !yield([][]byte{data[:i], data[i:]}) {
				return
			}
		}
		yield(bytes.SplitAfter(data, nil))
	}
}

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

// Merged describes frames, and gaps that touch each other as one. It omits what the bytes of a
// gap look like: that depends on how many there were at first.
func Merged(frames []frame.Frame) (all []string) {
	gap := false
	for i := range frames {
		f := &frames[i]
		fault, _ := errors.AsType[*frame.Error](f.Flaw)
		switch {
		case !f.Gap:
			all = append(all, fmt.Sprintf("frame %q", f.Payload()))
		case gap:
			all[len(all)-1] += string(f.Raw)
		case fault != nil:
			all = append(all, fmt.Sprintf("frame %d at byte %d: %s: %s", fault.Frame, fault.Offset, fault.Detail, f.Raw))
		default:
			all = append(all, "blank: "+string(f.Raw))
		}
		gap = f.Gap
	}
	return all
}
