// Package pcapng reads and writes captures as standard pcapng, so that Wireshark and tshark
// open them with no plugin. docs/capture-format.md is the specification. This package does
// not interpret payloads.
//
// Files, pipes and live taps carry the same stream, and one [Reader] serves all three. It
// never seeks, and it returns a record as soon as its bytes have arrived.
package pcapng

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// Version is the version of the format that a [Writer] writes. A [Reader] rejects newer
// versions.
const Version = 1

// Block types of pcapng.
const (
	sectionHeader   = 0x0A0D0D0A
	interfaceBlock  = 1
	enhancedPacket  = 6
	customBlock     = 0x00000BAD
	byteOrderMagic  = 0x1A2B3C4D
	blockOverhead   = 12 // type, and the length at both ends
	linkExportedPDU = 252
)

// Options of pcapng.
const (
	optEnd      = 0
	optComment  = 1
	optIfName   = 2 // of an interface
	optFlags    = 2 // of a packet
	optUserAppl = 4
	optTSResol  = 9
	optCustom   = 2989 // binary; programs that copy the block keep it
)

// pen is the private enterprise number that marks data specific to wirectl. RFC 5612 reserves
// it for documentation.
const pen = 32473

// Parts of a packet that are specific to wirectl. The first byte is the type.
const (
	partFrame = 1
	partFlaw  = 2
	partRaw   = 3
	partMeta  = 4
)

// Flags of partFrame.
const (
	flagCompressed = 1 << iota
	flagGap
	flagWhole // the packet holds the whole frame, not only its payload
	flagApart // the packet holds the payload; partRaw holds the frame, which does not contain it
)

// Directions in epb_flags.
const (
	inbound  = 1 // unit to controller
	outbound = 2 // controller to unit
)

// Sizes of the fixed parts after the enterprise number, in bytes.
const (
	frameSize = 44
	eventSize = 24
)

// maxOption is the longest option, in bytes.
const maxOption = 0xFFFF

// noInterface is the interface of a record that belongs to no connection.
const noInterface = 0xFFFFFFFF

// magic is the beginning of every pcapng file.
const magic = "\x0a\x0d\x0d\x0a"

// Is reports whether data begins as pcapng or zstd data does. It needs four bytes.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) || isZstd(data) }

// IsSection reports whether data begins with an uncompressed section header that has a valid
// byte-order magic. It needs twelve bytes.
func IsSection(data []byte) bool {
	var b blocks
	return bytes.HasPrefix(data, []byte(magic)) && len(data) >= 12 && b.setOrder(data) == nil
}

// Dissector names the Wireshark dissector for payloads of an encoding.
func Dissector(e protocol.Encoding) string {
	switch e {
	case protocol.JSON:
		return "json"
	case protocol.Protobuf:
		return "protobuf"
	}
	return "data"
}

// padding returns how many bytes round n up to a multiple of four.
func padding(n int) int { return -n & 3 }

// order decodes integers in the byte order of one section.
type order struct{ big bool }

func (o order) u16(b []byte) uint16 {
	v := uint16(b[0]) | uint16(b[1])<<8
	if o.big {
		return bits.ReverseBytes16(v)
	}
	return v
}

func (o order) u32(b []byte) uint32 {
	v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	if o.big {
		return bits.ReverseBytes32(v)
	}
	return v
}

func (o order) u64(b []byte) uint64 {
	lo, hi := uint64(o.u32(b)), uint64(o.u32(b[4:]))
	if o.big {
		lo, hi = hi, lo
	}
	return hi<<32 | lo
}

// header is the comment of a section header. It describes the session.
type header struct {
	Version    int    `json:"wirectl"`
	Created    string `json:"created,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	Framing    string `json:"framing,omitempty"`
	Controller string `json:"controller,omitempty"`
	Unit       string `json:"unit,omitempty"`
	Redacted   bool   `json:"redacted,omitempty"`
	Outlined   bool   `json:"outlined,omitempty"`
	Altered    bool   `json:"altered,omitempty"`
	Comment    string `json:"comment,omitempty"`
}

// lane is the comment of an interface: a connection, or those streams of a connection that
// share a protocol and framing.
type lane struct {
	Conn     int    `json:"conn"`
	Protocol string `json:"protocol,omitempty"`
	Framing  string `json:"framing,omitempty"`
}

// fill sets empty fields to the defaults of the session.
func (l *lane) fill(s *capture.Session) {
	l.Protocol = cmp.Or(l.Protocol, s.Protocol)
	l.Framing = cmp.Or(l.Framing, s.Framing)
}

func newHeader(s *capture.Session) header {
	h := header{
		Version: Version, Protocol: s.Protocol, Framing: s.Framing,
		Controller: s.Controller, Unit: s.Unit,
		Redacted: s.Redacted, Outlined: s.Outlined, Altered: s.Altered, Comment: s.Comment,
	}
	if !s.Created.IsZero() {
		h.Created = s.Created.UTC().Format(time.RFC3339Nano)
	}
	return h
}

// parseHeader returns the session that a section header's comment describes.
func parseHeader(comment []byte) (capture.Session, error) {
	var h header
	if err := json.Unmarshal(comment, &h); err != nil || h.Version == 0 {
		return capture.Session{}, capture.ErrPackets
	}
	if h.Version > Version {
		return capture.Session{}, fmt.Errorf("%w: its format is version %d, and this wirectl reads up to %d", capture.ErrForeign, h.Version, Version)
	}
	s := capture.Session{
		Protocol: h.Protocol, Framing: h.Framing,
		Controller: h.Controller, Unit: h.Unit,
		Redacted: h.Redacted, Outlined: h.Outlined, Altered: h.Altered, Comment: h.Comment,
	}
	if h.Created != "" {
		t, err := time.Parse(time.RFC3339Nano, h.Created)
		if err != nil {
			return s, fmt.Errorf("%w: created: %q is not an RFC 3339 time", capture.ErrMalformed, h.Created)
		}
		s.Created = t
	}
	return s, nil
}

// parseLane returns the lane that an interface's comment describes. An interface without such
// a comment belongs to no particular connection.
func parseLane(comment []byte) (l lane) {
	if json.Unmarshal(comment, &l) != nil || l.Conn < 0 {
		return lane{}
	}
	return l
}

// blocks cuts a stream into blocks.
type blocks struct {
	r     io.Reader
	limit int
	order order

	buf        []byte
	head, tail int   // buf[head:tail] is read and not yet returned
	offset     int64 // the position of buf[head] in the stream
	size       int   // of the current block
	readErr    error
}

const (
	readSize = 256 << 10 // bytes per read
	keepSize = 4 * readSize
)

// nextBlock returns the type and the body of the next block, which are valid until the
// next call. At a clean end, between two blocks, the error is io.EOF.
func (b *blocks) nextBlock() (kind uint32, body []byte, err error) {
	b.head += b.size
	b.offset += int64(b.size)
	b.size = 0
	if !b.need(blockOverhead) {
		return 0, nil, b.ended()
	}
	n, err := b.length()
	if err != nil {
		return 0, nil, err
	}
	if !b.need(n) {
		return 0, nil, b.ended()
	}
	data := b.buf[b.head : b.head+n]
	if again := b.order.u32(data[n-4:]); int64(again) != int64(n) {
		return 0, nil, b.malformed("a block of %d bytes ends with the length %d", n, again)
	}
	b.size = n
	return b.order.u32(data), data[8 : n-4], nil
}

// buffered reports whether the next record, or the end of the stream, has been read. It does
// not look past a section header, which may change the byte order.
func (b *blocks) buffered() bool {
	rest := b.buf[b.head+b.size : b.tail]
	for len(rest) >= blockOverhead {
		kind, n := b.order.u32(rest), b.order.u32(rest[4:])
		switch {
		case kind == sectionHeader || n < blockOverhead || uint64(n) > uint64(len(rest)):
			return false
		case kind == enhancedPacket:
			return true
		}
		rest = rest[n:]
	}
	return b.readErr != nil
}

// length returns the length of the current block. Its first 12 bytes must be in the buffer. A
// section header sets the byte order up to the next section header.
func (b *blocks) length() (int, error) {
	head := b.buf[b.head:b.tail]
	if b.order.u32(head) == sectionHeader { // the same in both byte orders
		if err := b.setOrder(head); err != nil {
			return 0, err
		}
	}
	n := b.order.u32(head[4:])
	switch {
	case n < blockOverhead || n%4 != 0:
		return 0, b.malformed("%d is not a block length", n)
	case uint64(n) > uint64(b.limit):
		return 0, &capture.Error{
			Err: capture.ErrTooLarge, Offset: b.offset,
			Detail: fmt.Sprintf("a block of %d bytes, and the limit is %d", n, b.limit),
		}
	}
	return int(n), nil
}

func (b *blocks) setOrder(head []byte) error {
	for _, o := range []order{{big: false}, {big: true}} {
		if o.u32(head[8:]) == byteOrderMagic {
			b.order = o
			return nil
		}
	}
	return b.malformed("%#x is not a byte-order magic", head[8:12])
}

// foreign returns the error for a stream that does not begin with a section header.
func (b *blocks) foreign(packed bool) error {
	e := &capture.Error{Err: capture.ErrForeign, Offset: b.offset}
	a := frame.Recognize(b.buf[b.head:b.tail])
	switch {
	case packed: // only captures are decompressed
		e.Detail = fmt.Sprintf("there is %s in the zstd data: decompress it first (zstd -dc FILE | wirectl decode)", a)
	case a != frame.NoAccident:
		e.Detail = "this looks like " + a.String()
	}
	return e
}

func (b *blocks) malformed(format string, args ...any) error {
	return &capture.Error{Err: capture.ErrMalformed, Offset: b.offset, Detail: fmt.Sprintf(format, args...)}
}

// ended returns the error for a stream that ends too early, and io.EOF if it ends between two
// blocks.
func (b *blocks) ended() error {
	rest := b.tail - b.head
	switch {
	case b.readErr == io.EOF && rest == 0:
		return io.EOF
	case b.readErr == io.EOF || errors.Is(b.readErr, io.ErrUnexpectedEOF):
		e := &capture.Error{Err: capture.ErrCut, Offset: b.offset, Detail: "the compression ends early"}
		if rest > 0 {
			e.Detail = fmt.Sprintf("the last %d bytes are not a whole block", rest)
		}
		return e
	case errors.Is(b.readErr, errDamaged):
		return b.malformed("%v", b.readErr)
	}
	return &capture.Error{Err: b.readErr, Offset: b.offset}
}

// need reads until n bytes are available. It returns false if the stream ends first. The
// buffer grows as bytes arrive, not by the length that a block claims.
func (b *blocks) need(n int) bool {
	for empty := 0; b.tail-b.head < n; {
		if b.readErr != nil {
			return false
		}
		b.makeRoom(n)
		var got int
		got, b.readErr = b.r.Read(b.buf[b.tail:])
		b.tail += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == 100 && b.readErr == nil {
			b.readErr = io.ErrNoProgress
		}
	}
	return true
}

// makeRoom makes room for the next read, if n bytes are needed in total.
func (b *blocks) makeRoom(n int) {
	rest := b.tail - b.head
	size := len(b.buf)
	switch {
	case rest == size:
		size = max(readSize, min(2*size, max(n, readSize)))
	case size > keepSize && n <= readSize && rest < readSize:
		size = readSize
	case b.tail < size && (b.head == 0 || b.head+n <= size):
		return
	}
	buf := b.buf
	if size != len(buf) {
		buf = make([]byte, size)
	}
	b.tail = copy(buf, b.buf[b.head:b.tail])
	b.head, b.buf = 0, buf
}

// Tags of Wireshark's exported PDU, which precede the payload. They are big-endian. A value
// is padded with zeros to a multiple of four bytes, and its length includes the padding.
const (
	tagEnd          = 0
	tagDissector    = 12
	tagSourcePort   = 25
	tagTargetPort   = 26
	tagProtocol     = 33
	tagPointToPoint = 35
	tagInfo         = 36
)

// Directions in tagPointToPoint, from the controller's point of view.
const (
	sent     = 0
	received = 1
)

// tags appends the tags that tell Wireshark how to show the frame.
func (w *Writer) tags(r *capture.Record, protocol string, l *Label) {
	dissector := l.Dissector
	if dissector == "" || r.Gap || r.Compressed {
		dissector = "data"
	}
	tag(w, tagDissector, dissector)
	if protocol != "" {
		tag(w, tagProtocol, protocol[:min(len(protocol), maxLabel)])
	}
	w.direction(r)
	if len(l.Info) > 0 {
		tag(w, tagInfo, clip(l.Info))
	}
	w.tagHead(tagEnd, 0)
}

// direction appends the direction for Wireshark's columns and filters. The connection's
// number stands for the controller's port, and 0 for the unit's.
func (w *Writer) direction(r *capture.Record) {
	conn := uint32(r.Conn)
	switch r.Dir {
	case frame.C2U:
		w.tagWord(tagPointToPoint, sent)
		w.tagWord(tagSourcePort, conn)
		w.tagWord(tagTargetPort, 0)
	case frame.U2C:
		w.tagWord(tagPointToPoint, received)
		w.tagWord(tagSourcePort, 0)
		w.tagWord(tagTargetPort, conn)
	}
}

func tag[text string | []byte](w *Writer, code uint16, value text) {
	w.tagHead(code, len(value)+padding(len(value)))
	w.buf = append(w.buf, value...)
	w.pad(len(value))
}

func (w *Writer) tagWord(code uint16, value uint32) {
	w.tagHead(code, 4)
	w.buf = binary.BigEndian.AppendUint32(w.buf, value)
}

func (w *Writer) tagHead(code uint16, n int) {
	w.buf = binary.BigEndian.AppendUint16(w.buf, code)
	w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(n))
}

// skipTags returns the data after the tags, and false if there is no end tag.
func skipTags(data []byte) ([]byte, bool) {
	for len(data) >= 4 {
		code, n := binary.BigEndian.Uint16(data), int(binary.BigEndian.Uint16(data[2:]))
		data = data[4:]
		if n > len(data) {
			return nil, false
		}
		data = data[n:]
		if code == tagEnd {
			return data, true
		}
	}
	return nil, false
}
