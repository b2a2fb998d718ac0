package pcapng

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Label determines what Wireshark shows for a frame.
type Label struct {
	// Dissector names the dissector of the payload; see [Dissector]. Empty means data, and so
	// does any name that Wireshark does not know.
	Dissector string
	// Info is the text of the info column. The buffer belongs to the label function and is
	// passed back with the next frame.
	Info []byte
}

// maxLabel is the maximum length of a human-readable text in a capture, in bytes.
const maxLabel = 1 << 10

// A Writer writes a capture. It makes exactly one Write call for each record. Thus readers of
// a live capture get a record as soon as it is written, and a crash cuts at most one record.
// Callers may add buffering.
type Writer struct {
	w       io.Writer
	label   func(*capture.Record, *Label)
	session capture.Session
	header  []byte // of each section

	buf     []byte
	meta    []byte // scratch
	scratch Label
	lanes   []lane // by interface
	ifaces  map[lane]uint32
	last    uint32 // the interface that was used last
	err     error
}

// NewWriter writes the header of a capture to w and returns a writer for its records. The
// label function, which may be nil, determines what Wireshark shows for a frame.
func NewWriter(w io.Writer, session capture.Session, label func(*capture.Record, *Label)) (*Writer, error) {
	pw := &Writer{w: w, label: label, session: session, ifaces: map[lane]uint32{}}
	start := pw.beginBlock(sectionHeader)
	pw.u32(byteOrderMagic)
	pw.u16(1) // version 1.0 of pcapng
	pw.u16(0)
	pw.u64(math.MaxUint64) // the length of the section is unknown
	comment := jsonscan.MustMarshal(newHeader(&session))
	if len(comment) > maxOption {
		return nil, fmt.Errorf("the description of the session takes %d bytes; the limit is %d", len(comment), maxOption)
	}
	pw.option(optComment, comment)
	pw.option(optUserAppl, []byte("wirectl"))
	pw.option(optEnd, nil)
	pw.endBlock(start)
	pw.header = bytes.Clone(pw.buf)
	return pw, pw.flush()
}

// Write writes one record. After a write error it keeps returning that error, because the
// record may have been partially written.
func (w *Writer) Write(r *capture.Record) error {
	if w.err != nil {
		return w.err
	}
	if err := w.checkRecord(r); err != nil {
		return err
	}
	w.reset()
	w.record(r)
	return w.flush()
}

// Append appends the bytes that Write would write to dst.
func (w *Writer) Append(dst []byte, r *capture.Record) ([]byte, error) {
	if err := w.checkRecord(r); err != nil {
		return dst, err
	}
	own := w.buf
	w.buf = dst
	w.record(r)
	dst, w.buf = w.buf, own
	return dst, nil
}

// AppendSection appends the header of a new section to dst. What follows can be read without
// what is before it.
func (w *Writer) AppendSection(dst []byte) []byte {
	w.lanes = w.lanes[:0]
	clear(w.ifaces)
	return append(dst, w.header...)
}

func (w *Writer) record(r *capture.Record) {
	if r.Kind == capture.Frame {
		w.frame(r)
	} else {
		w.event(r)
	}
}

// checkRecord returns an error if a record cannot be represented.
func (w *Writer) checkRecord(r *capture.Record) error {
	if size := int64(len(r.Raw)) + int64(len(r.Text)); size > math.MaxUint32-1<<20 {
		return fmt.Errorf("a record of %d bytes does not fit a block of pcapng", size)
	}
	if r.Conn < 0 || r.Stream < 0 || r.Seq < 0 || r.Offset < 0 {
		return fmt.Errorf("frame %d: a number in it is negative", r.Seq)
	}
	return nil
}

func (w *Writer) flush() error {
	_, w.err = w.w.Write(w.buf)
	return w.err
}

// reset empties the buffer, and frees it after a large record.
func (w *Writer) reset() {
	if cap(w.buf) > keepSize {
		w.buf = nil
	}
	w.buf = w.buf[:0]
}

// maxInterfaces is the maximum number of interfaces in a section. After that a new section
// begins, so that neither writer nor readers keep the interfaces of all past connections.
const maxInterfaces = 1 << 16

// iface returns the interface of the record's connection, protocol and
// framing, and writes its block if it is new.
func (w *Writer) iface(r *capture.Record) uint32 {
	l := lane{Conn: r.Conn, Protocol: r.Protocol, Framing: r.Framing}
	l.fill(&w.session)
	if int(w.last) < len(w.lanes) && w.lanes[w.last] == l {
		return w.last
	}
	i, ok := w.ifaces[l]
	if !ok {
		i = w.addLane(l, r)
	}
	w.last = i
	return i
}

// addLane writes the interface block of a lane whose first record is r. If the section is
// full, it begins a new one first.
func (w *Writer) addLane(l lane, r *capture.Record) uint32 {
	if len(w.lanes) == maxInterfaces {
		w.buf = w.AppendSection(w.buf)
	}
	i := uint32(len(w.lanes))
	w.lanes = append(w.lanes, l)
	w.ifaces[l] = i
	w.describe(l, r)
	return i
}

// describe writes the interface block of a lane, named by its first record.
func (w *Writer) describe(l lane, r *capture.Record) {
	name := fmt.Appendf(nil, "conn %d", l.Conn)
	if r.Kind == capture.Opened && len(r.Text) > 0 {
		name = r.Text
	}
	start := w.beginBlock(interfaceBlock)
	w.u16(linkExportedPDU)
	w.u16(0)
	w.u32(0) // no limit on the length of a packet
	w.option(optIfName, clip(name))
	w.option(optTSResol, []byte{9})
	w.option(optComment, jsonscan.MustMarshal(l))
	w.option(optEnd, nil)
	w.endBlock(start)
}

func (w *Writer) frame(r *capture.Record) {
	iface := w.iface(r)
	l := &w.scratch
	*l = Label{Info: l.Info[:0]}
	if w.label != nil {
		w.label(r, l)
	}
	start := w.beginBlock(enhancedPacket)
	w.u32(iface)
	t := nanos(r.Time)
	w.u32(uint32(t >> 32))
	w.u32(uint32(t))
	w.u64(0) // both lengths, set below
	body := len(w.buf)
	w.tags(r, w.lanes[iface].Protocol, l)
	whole := wholeRaw(&r.Frame)
	if r.Meta != nil {
		w.meta = capture.AppendMeta(w.meta[:0], r.Meta)
	}
	if whole {
		w.buf = append(w.buf, r.Raw...)
	} else {
		w.buf = append(w.buf, r.Payload()...)
	}
	n := len(w.buf) - body
	binary.LittleEndian.PutUint32(w.buf[body-8:], uint32(n))
	binary.LittleEndian.PutUint32(w.buf[body-4:], uint32(n))
	w.pad(n)
	w.part(r, whole)
	if r.Flaw != nil {
		w.custom(partFlaw, clip([]byte(r.Flaw.Error())))
	}
	if r.Meta != nil {
		if r.Meta.Apart {
			w.pieces(partRaw, r.Raw)
		}
		w.pieces(partMeta, w.meta)
	}
	w.flags(r.Dir)
	if len(l.Info) > 0 {
		w.option(optComment, clip(l.Info))
	}
	w.option(optEnd, nil)
	w.endBlock(start)
}

// wholeRaw reports whether the packet must contain the whole frame. A gap has no payload, and
// a long wrapper does not fit in the options.
func wholeRaw(f *frame.Frame) bool {
	apart := f.Meta != nil && f.Meta.Apart
	return f.Gap || !apart && len(f.Raw)-(f.End-f.Start) > 32<<10
}

// maxPiece is the maximum size of one piece of a long part, in bytes. Each piece is an
// option.
const maxPiece = 60_000

// pieces writes a part, split into as many options as necessary.
func (w *Writer) pieces(part byte, value []byte) {
	for first := true; first || len(value) > 0; first = false {
		n := min(len(value), maxPiece)
		w.custom(part, value[:n])
		value = value[n:]
	}
}

// part writes the properties of a frame other than its payload.
func (w *Writer) part(r *capture.Record, whole bool) {
	prefix, suffix := r.Raw[:r.Start], r.Raw[r.End:]
	if r.Meta != nil && r.Meta.Apart && !r.Gap {
		prefix, suffix = nil, nil
	}
	n := frameSize
	if !whole {
		n += len(prefix) + len(suffix)
	}
	w.u16(optCustom)
	w.u16(uint16(4 + n))
	w.u32(pen)
	w.buf = append(w.buf, partFrame, frameFlags(&r.Frame, whole), 0, 0)
	w.u32(uint32(len(prefix)))
	w.u32(uint32(len(suffix)))
	w.u64(uint64(r.Seq))
	w.u64(uint64(r.Offset))
	w.u64(nanos(r.Written))
	w.u64(uint64(r.Stream))
	if !whole {
		w.buf = append(w.buf, prefix...)
		w.buf = append(w.buf, suffix...)
	}
	w.pad(n)
}

func frameFlags(f *frame.Frame, whole bool) (flags byte) {
	if f.Compressed {
		flags |= flagCompressed
	}
	if f.Gap {
		flags |= flagGap
	}
	if whole {
		flags |= flagWhole
	}
	if f.Meta != nil && f.Meta.Apart && !whole {
		flags |= flagApart
	}
	return flags
}

// flags writes the direction in the option that Wireshark reads.
func (w *Writer) flags(d frame.Dir) {
	switch d {
	case frame.C2U:
		w.word(optFlags, outbound)
	case frame.U2C:
		w.word(optFlags, inbound)
	}
}

// event writes a record that is not a frame.
func (w *Writer) event(r *capture.Record) {
	iface := uint32(noInterface)
	if r.Conn != 0 || r.Kind == capture.Opened {
		iface = w.iface(r)
	}
	start := w.beginBlock(customBlock)
	w.u32(pen)
	w.buf = append(w.buf, byte(r.Kind), byte(r.Dir), 0, 0)
	w.u32(iface)
	w.u64(nanos(r.Time))
	w.u32(uint32(int32(r.Status)))
	w.u32(uint32(len(r.Text)))
	w.buf = append(w.buf, r.Text...)
	w.pad(len(r.Text))
	w.endBlock(start)
}

// maxSeconds bounds the times that a 64-bit count of nanoseconds holds.
const maxSeconds = math.MaxUint64 / uint64(time.Second)

// nanos returns a time in nanoseconds since 1970. The zero time and times out of range become
// 0.
func nanos(t time.Time) uint64 {
	s := uint64(t.Unix())
	if s >= maxSeconds {
		return 0
	}
	return s*uint64(time.Second) + uint64(t.Nanosecond())
}

// clip truncates a human-readable text.
func clip(text []byte) []byte { return text[:min(len(text), maxLabel)] }

// The methods in this file append to the writer's buffer, in little-endian order. The methods
// for tags are in tags.go.

func (w *Writer) u16(v uint16) { w.buf = binary.LittleEndian.AppendUint16(w.buf, v) }
func (w *Writer) u32(v uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, v) }
func (w *Writer) u64(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// pad appends zeros that round n bytes up to a multiple of four.
func (w *Writer) pad(n int) { w.buf = append(w.buf, "\x00\x00\x00"[:padding(n)]...) }

// beginBlock begins a block and returns its start, which endBlock needs.
func (w *Writer) beginBlock(kind uint32) (start int) {
	start = len(w.buf)
	w.u32(kind)
	w.u32(0)
	return start
}

// endBlock writes the length of the block that begins at start.
func (w *Writer) endBlock(start int) {
	n := uint32(len(w.buf) - start + 4)
	binary.LittleEndian.PutUint32(w.buf[start+4:], n)
	w.u32(n)
}

// option appends an option. The value must not be longer than maxOption.
func (w *Writer) option(code uint16, value []byte) {
	w.u16(code)
	w.u16(uint16(len(value)))
	w.buf = append(w.buf, value...)
	w.pad(len(value))
}

// word appends an option that consists of one 32-bit number.
func (w *Writer) word(code uint16, value uint32) {
	w.u16(code)
	w.u16(4)
	w.u32(value)
}

// custom appends a part that is specific to wirectl.
func (w *Writer) custom(part byte, value []byte) {
	w.u16(optCustom)
	w.u16(uint16(4 + 1 + len(value)))
	w.u32(pen)
	w.buf = append(w.buf, part)
	w.buf = append(w.buf, value...)
	w.pad(1 + len(value))
}

// maxWindow bounds the memory that a compressed capture may require.
const maxWindow = 64 << 20

func isZstd(data []byte) bool { return bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")) }

// inflated returns the decompressed stream of r, and whether it was compressed.
func inflated(r io.Reader) (io.Reader, bool, error) {
	peek := bufio.NewReaderSize(r, 16)
	if head, _ := peek.Peek(4); !isZstd(head) {
		return peek, false, nil
	}
	from := &source{r: peek}
	// Concurrency 1 starts no goroutines, so a reader that is dropped leaves none running.
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return &inflater{z, from}, true, err
}

// InZstd reports whether r, which must begin as zstd data does, contains a capture. If r is
// cut before that is known, it returns true. It reads no more than necessary.
func InZstd(r io.Reader) bool {
	in, _, err := inflated(r)
	if err != nil {
		return false
	}
	var head [len(magic)]byte
	n, err := io.ReadFull(in, head[:])
	return string(head[:n]) == magic[:n] && !errors.Is(err, errDamaged)
}

// errDamaged is the error for invalid zstd data.
var errDamaged = errors.New("the compression is damaged")

// An inflater decompresses. It distinguishes damaged data from errors of the source.
type inflater struct {
	z    *zstd.Decoder
	from *source
}

func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.z.Read(p)
	if err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || i.from.err != nil {
		return n, err
	}
	return n, fmt.Errorf("%w: %w", errDamaged, err)
}

// A source remembers the last read error, except io.EOF.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// Compress returns a writer that compresses a capture with zstd and writes it to w. Data that
// has not been flushed is lost in a crash. Closing it does not close w.
func Compress(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
