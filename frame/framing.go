package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

// Line frames are lines that end in LF. Blank lines are not frames: they belong to the
// wrapper of the frame that follows.
var Line Framing = &line{delimited{"\n", errors.New("line: the payload holds a line feed, which would end the frame")}}

type line struct{ delimited }

// bom is the byte order mark of UTF-8. It is read past: the payload begins after it.
const bom = "\xef\xbb\xbf"

var errBOM = errors.New("the line begins with a byte order mark (U+FEFF): write UTF-8 without one, since strict readers refuse the line")

var errCRLF = errors.New("the line ends in CRLF; want LF alone: was it written in text mode?")

func (*line) Name() string  { return "line" }
func (*line) About() string { return "one payload a line, ended by LF" }

// Next keeps in e.Start where the current line begins, and in e.seen how far it has been
// searched. The bytes before it are blank: as much as fits into a gap becomes one, and less
// belongs to the wrapper of the frame.
func (*line) Next(data []byte, limit int, atEOF bool, e *Extent) *Error {
	for e.Start < gapSize {
		i := bytes.IndexByte(data[e.seen:], '\n')
		if i < 0 {
			return unterminated(data, limit, atEOF, e)
		}
		lf := e.seen + i
		e.seen = lf + 1
		text := data[e.Start:lf]
		payload := bytes.TrimSuffix(text, []byte("\r"))
		if len(payload) > limit {
			return tooLong(limit)
		}
		if !blank(payload) {
			e.Raw, e.End, e.Need = lf+1, e.Start+len(payload), 0
			if len(payload) < len(text) {
				e.Flaw = errCRLF
			}
			e.skipBOM(data, errBOM)
			return nil
		}
		e.Start = lf + 1
	}
	return e.gap(e.Start)
}

// unterminated describes a line whose end has not been seen. A CR at its end may belong to
// the line end, unless the stream has ended.
func unterminated(data []byte, limit int, atEOF bool, e *Extent) *Error {
	e.seen = len(data)
	rest := data[e.Start:]
	payload := rest
	if !atEOF {
		payload = bytes.TrimSuffix(rest, []byte("\r"))
	}
	switch {
	case len(payload) > limit:
		return tooLong(limit)
	case !atEOF:
		e.End = len(data)
		return e.need(len(data)+1, "a line")
	case blank(rest):
		return e.gap(len(data))
	default:
		e.Raw, e.End, e.Open = len(data), len(data), true
		e.skipBOM(data, errBOM)
		return e.need(0, "a line")
	}
}

// skipBOM begins the payload of a whole frame after its byte order mark, if it has one and
// more, and sets the flaw.
func (e *Extent) skipBOM(data []byte, flaw error) {
	if payload := data[e.Start:e.End]; len(payload) > len(bom) && bytes.HasPrefix(payload, []byte(bom)) {
		e.Start += len(bom)
		e.Flaw = flaw
	}
}

// tooLong does not state the length of a line, which is not known before its end.
func tooLong(limit int) *Error {
	return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("a line is over the limit of %d", limit)}
}

// gap describes a gap in the first n bytes, which are blank. e.seen keeps how many do not
// fit, so that a long line is not searched again for each of its gaps.
func (e *Extent) gap(n int) *Error {
	raw := min(n, gapSize)
	*e = Extent{Raw: raw, Gap: true, seen: n - raw}
	return nil
}

// blank reports whether a line has nothing but white space.
func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func (*line) exact(f *Frame) bool { return f.Start == 0 && f.End == len(f.Raw)-1 }

// Len32 frames are a 4-byte big-endian payload length, then the payload.
var Len32 Framing = len32{}

type len32 struct{}

const len32Header = 4

func (len32) Name() string  { return "len32" }
func (len32) About() string { return "a 4-byte big-endian length, then the payload" }

func (len32) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	if len(data) < len32Header {
		return e.need(len32Header, "the length prefix")
	}
	return e.sized(data, len32Header, uint64(binary.BigEndian.Uint32(data)), limit)
}

func (len32) Sync(data []byte, limit int) int { return syncLength(data, len32Header, limit) }

// syncLength finds a plausible length in the last four bytes of a header. A header of five
// bytes begins with the flag byte of gRPC.
func syncLength(data []byte, header, limit int) int {
	for i := 0; i+header <= len(data); i++ {
		n := binary.BigEndian.Uint32(data[i+header-len32Header:])
		if n != 0 && uint64(n) <= uint64(limit) && (header == len32Header || data[i]&^grpcCompressed == 0) {
			return i
		}
	}
	return max(0, len(data)-header+1)
}

func (len32) header(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func (len32) trailer() string { return "" }

func (len32) admits(payload []byte) error { return admits32("len32", payload) }

func (len32) exact(*Frame) bool { return true }

// admits32 checks that a payload's length fits in 32 bits.
func admits32(framing string, payload []byte) error {
	if uint64(len(payload)) > math.MaxUint32 {
		return fmt.Errorf("%s: a payload of %d bytes does not fit a 32-bit length", framing, len(payload))
	}
	return nil
}

// Varint frames are protobuf's delimited form: the payload length as a
// base-128 varint, then the payload.
var Varint Framing = varint{}

type varint struct{}

var errPaddedVarint = errors.New("the length is a varint longer than it needs to be")

func (varint) Name() string  { return "varint" }
func (varint) About() string { return "a varint length, then the payload (protobuf delimited)" }

func (varint) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	n, size := binary.Uvarint(data)
	switch {
	case size == 0:
		return e.need(len(data)+1, "the length prefix")
	case size < 0:
		return malformed("the length is a varint of more than 64 bits")
	case padded(data[:size]):
		e.Flaw = errPaddedVarint
	}
	return e.sized(data, size, n, limit)
}

// padded reports whether a varint ends in a group of zero bits that it could
// do without.
func padded(v []byte) bool { return len(v) > 1 && v[len(v)-1] == 0 }

func (varint) Sync(data []byte, limit int) int {
	for i := range data {
		n, size := binary.Uvarint(data[i:])
		if size == 0 || size > 0 && n != 0 && n <= uint64(limit) && !padded(data[i:i+size]) {
			return i
		}
	}
	return -1
}

func (varint) header(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func (varint) trailer() string     { return "" }
func (varint) admits([]byte) error { return nil }
func (varint) exact(f *Frame) bool { return !padded(f.Raw[:f.Start]) }

// Nul frames are payloads that each end in a NUL byte, as on Chromium's debugging pipe.
var Nul Framing = &nul{delimited{"\x00", errors.New("nul: the payload holds a NUL byte, which would end the frame")}}

type nul struct{ delimited }

func (*nul) Name() string  { return "nul" }
func (*nul) About() string { return "one payload after the other, each ended by a NUL byte" }

// Next keeps in e.seen how far the payload has been searched for its end.
func (*nul) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	n := bytes.IndexByte(data[e.seen:], 0)
	if n >= 0 {
		n += e.seen
	} else {
		e.seen, e.End = len(data), len(data)
	}
	switch {
	case max(n, e.seen) > limit:
		return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("a payload is over the limit of %d", limit)}
	case n < 0:
		return e.need(len(data)+1, "a payload, which has no NUL")
	}
	e.Raw, e.End, e.Need = n+1, n, 0
	return nil
}

func (*nul) exact(*Frame) bool { return true }

// GRPC frames are gRPC's Length-Prefixed-Message: a flag byte (bit 0 means that
// the message is compressed), a 4-byte big-endian length, then the message.
var GRPC Framing = grpc{}

type grpc struct{}

const (
	grpcHeader     = 5
	grpcCompressed = 1
)

func (grpc) Name() string  { return "grpc" }
func (grpc) About() string { return "a flag byte, a 4-byte big-endian length, then the message" }

func (grpc) Next(data []byte, limit int, _ bool, e *Extent) *Error {
	if len(data) > 0 && data[0]&^grpcCompressed != 0 {
		return malformed(fmt.Sprintf("the flag byte is 0x%02x, which is neither 0 nor 1", data[0]))
	}
	if len(data) < grpcHeader {
		return e.need(grpcHeader, "the length prefix")
	}
	e.Compressed = data[0] == grpcCompressed
	return e.sized(data, grpcHeader, uint64(binary.BigEndian.Uint32(data[1:])), limit)
}

func (grpc) Sync(data []byte, limit int) int { return syncLength(data, grpcHeader, limit) }

func (grpc) header(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(n))
}

func (grpc) trailer() string { return "" }

func (grpc) admits(payload []byte) error { return admits32("grpc", payload) }

func (grpc) exact(f *Frame) bool { return !f.Compressed }
