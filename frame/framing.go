package frame

import (
	"math"

	"github.com/wirectl/wirectl/internal/nearest"
)

// DefaultLimit is the largest payload, in bytes, that a Scanner accepts unless
// it is told otherwise: 16 MiB.
const DefaultLimit = 16 << 20

// A Framing says how frames are delimited on a byte stream. The set is closed:
// [Framings] has them all. A Framing holds no state.
type Framing interface {
	// Name is the framing's name, as flags and records spell it.
	Name() string
	// About says in a few words how the framing delimits a frame.
	About() string
	// Next finds the frame that data, which is not empty, begins with and
	// describes it in e. When data does not hold all of it, Next sets e.Need;
	// the caller comes back with more of the same stream and the same e, which
	// is zero, or the rest of a gap, at the beginning of a frame. A limit on the payload, in
	// bytes, is checked before Need is set. atEOF says that no more bytes will
	// come. The error has no position yet.
	Next(data []byte, limit int, atEOF bool, e *Extent) *Error
	// Sync returns the first index in data at which a frame could begin, as
	// far as its header tells; there may be too little data behind the index
	// to be sure. It returns len(data) when there is none.
	Sync(data []byte, limit int) int

	// header appends what stands before a payload of n bytes.
	header(dst []byte, n int) []byte
	// trailer is what stands behind a payload.
	trailer() string
	// admits says whether payload can travel in this framing at all.
	admits(payload []byte) error
	// exact reports whether f is what append writes for its payload.
	exact(f *Frame) bool
}

// Extent is where a frame lies in the bytes at hand, as far as they tell.
type Extent struct {
	// Raw is the length of the whole frame; 0 as long as it is not all there.
	Raw int
	// Start and End bound the payload, also while it is not all there; both
	// are 0 until the header tells.
	Start, End int
	// Need is how many bytes there must be to learn more; 0 for a whole frame.
	Need int
	// Compressed and Gap are as in Frame.
	Compressed, Gap bool
	// Open says that the stream ended where the framing wants a delimiter, so
	// that only the payload can tell whether the frame is whole.
	Open bool
	// Flaw is as in Frame.
	Flaw error
	// Inside names the part of the frame in which the bytes at hand end.
	Inside string

	seen int // bytes already searched for a delimiter; of a gap, those behind it that belong to the next
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

// Append appends payload to dst as one frame. The error says why payload
// cannot travel in that framing; dst is then returned as it came.
func Append(dst []byte, f Framing, payload []byte) ([]byte, error) {
	if err := f.admits(payload); err != nil {
		return dst, err
	}
	dst = f.header(dst, len(payload))
	dst = append(dst, payload...)
	return append(dst, f.trailer()...), nil
}

// Exact reports whether Append gives back f.Raw from f's payload. What came in a
// carrier it never does.
func Exact(framing Framing, f *Frame) bool { return !f.Gap && f.Meta == nil && framing.exact(f) }

// need says that the frame is not all there: n bytes are needed to go on, and
// the bytes at hand end inside the named part.
func (e *Extent) need(n int, inside string) *Error {
	e.Need, e.Inside = n, inside
	return nil
}

// whole describes a frame that is all there. It has no trailer.
func (e *Extent) whole(start, end int) *Error {
	e.Raw, e.Start, e.End, e.Need = end, start, end, 0
	return nil
}

// rest is the extent with which to look for what follows a gap: all that is known of
// it is what did not fit into that.
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
