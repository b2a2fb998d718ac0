package frame

import (
	"bytes"
	"math"

	"github.com/wirectl/wirectl/internal/nearest"
)

// DefaultLimit is the largest payload, in bytes, that a Scanner accepts unless
// it is told otherwise: 16 MiB.
const DefaultLimit = 16 << 20

// A Framing is a way to delimit frames on a byte stream. The set is closed: [Framings]
// lists them. A Framing has no state.
type Framing interface {
	// Name is the framing's name, as flags and records spell it.
	Name() string
	// About describes the framing in a few words.
	About() string
	// Next describes the frame at the beginning of data, which is not empty, in e.
	// If data does not hold all of it, Next sets e.Need; the caller must call it
	// again with more of the same stream and the same e. For a new frame, e is zero,
	// or the rest of a gap. The limit on the payload, in bytes, is checked before
	// Need is set. atEOF means that there are no more bytes. The error has no
	// position yet.
	Next(data []byte, limit int, atEOF bool, e *Extent) *Error
	// Sync returns the first index in data at which a frame could begin, judging by
	// its header or by the byte before it; there may be too little data after the
	// index to be sure, or none. It returns -1 if there is no such index.
	Sync(data []byte, limit int) int

	// header appends the bytes before a payload of n bytes.
	header(dst []byte, n int) []byte
	// trailer returns the bytes after a payload.
	trailer() string
	// admits returns an error if the framing cannot carry payload.
	admits(payload []byte) error
	// exact reports whether f is as Append writes it.
	exact(f *Frame) bool
}

// Extent is the position of a frame in the available bytes, as far as known.
type Extent struct {
	// Raw is the length of the whole frame; 0 while it is incomplete.
	Raw int
	// Start and End bound the payload, also while it is incomplete; both are 0
	// until the header is complete.
	Start, End int
	// Need is how many bytes are needed to continue; 0 for a whole frame.
	Need int
	// Compressed and Gap are as in Frame.
	Compressed, Gap bool
	// Open means that the stream ended without the delimiter, so that only the
	// payload can show whether the frame is whole.
	Open bool
	// Flaw is as in Frame.
	Flaw error
	// Inside names the part of the frame in which the available bytes end.
	Inside string

	seen int // bytes already searched for a delimiter; of a gap, those after it that belong to the next
}

// Framings lists every framing.
func Framings() []Framing { return []Framing{Len32, Line, Nul, Header, GRPC, Varint} }

// Names returns the names of every framing, and of what carriers delimit.
func Names() []string {
	names := []string{WS, HTTP}
	for _, f := range Framings() {
		names = append(names, f.Name())
	}
	return names
}

// Named returns the framing of that name.
func Named(name string) (Framing, error) {
	return nearest.Named("framing", name, Framings(), Framing.Name)
}

// Append appends payload to dst as one frame. If the framing cannot carry payload, it
// returns dst unchanged and an error.
func Append(dst []byte, f Framing, payload []byte) ([]byte, error) {
	if err := f.admits(payload); err != nil {
		return dst, err
	}
	dst = f.header(dst, len(payload))
	dst = append(dst, payload...)
	return append(dst, f.trailer()...), nil
}

// delimited is the part that framings have in common whose frames end in a byte.
type delimited struct {
	end        string // one byte
	errInvalid error  // of a payload that contains it
}

func (d *delimited) Sync(data []byte, _ int) int {
	if i := bytes.IndexByte(data, d.end[0]); i >= 0 {
		return i + 1
	}
	return -1
}

func (*delimited) header(dst []byte, _ int) []byte { return dst }

func (d *delimited) trailer() string { return d.end }

func (d *delimited) admits(payload []byte) error {
	if bytes.IndexByte(payload, d.end[0]) >= 0 {
		return d.errInvalid
	}
	return nil
}

// Exact reports whether Append restores f.Raw from f's payload. It never does for frames
// from a carrier.
func Exact(framing Framing, f *Frame) bool { return !f.Gap && f.Meta == nil && framing.exact(f) }

// need describes an incomplete frame: n bytes are needed to continue, and the available
// ones end inside the named part.
func (e *Extent) need(n int, inside string) *Error {
	e.Need, e.Inside = n, inside
	return nil
}

// whole describes a complete frame without a trailer.
func (e *Extent) whole(start, end int) *Error {
	e.Raw, e.Start, e.End, e.Need = end, start, end, 0
	return nil
}

// rest is the extent for the bytes after a gap, of which some are known to be blank.
func (e *Extent) rest() Extent { return Extent{Start: e.seen, seen: e.seen} }

// maxLimit is the largest limit: a frame of it has its end in the range of an int.
const maxLimit = math.MaxInt / 2

// sized describes a frame whose header, of start bytes, promises n payload
// bytes.
func (e *Extent) sized(data []byte, start int, n uint64, limit int) *Error {
	if limit = min(limit, maxLimit); n > uint64(limit) {
		return tooLarge(n, limit)
	}
	end := start + int(n)
	e.Start, e.End = start, end
	if len(data) < end {
		return e.need(end, "the payload")
	}
	return e.whole(start, end)
}
