package pcapng

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// DefaultLimit is the default limit of a Reader: it accepts blocks of up to 64 MiB.
const DefaultLimit = 64 << 20

// A Reader reads a capture; see [capture.Reader]. It skips blocks and options
// that it does not know.
type Reader struct {
	blocks  blocks
	session capture.Session
	lanes   []lane // by interface
	raw     []byte // the current frame, reassembled
	apart   []byte // its bytes, if they do not contain the payload
	meta    []byte // its carrier metadata
	packed  bool   // the input is compressed
	err     error
}

// NewReader reads the header of a capture from r, which may be compressed with zstd. The
// limit is the largest accepted block in bytes, checked before memory is allocated; 0 means
// [DefaultLimit].
func NewReader(r io.Reader, limit int) (*Reader, error) {
	limit = cmp.Or(max(limit, 0), DefaultLimit)
	r, packed, err := inflated(r)
	if err != nil {
		return nil, err
	}
	pr := &Reader{blocks: blocks{r: r, limit: limit}, packed: packed}
	return pr, pr.readSectionHeader()
}

// readSectionHeader reads the first section header of a capture.
func (r *Reader) readSectionHeader() error {
	r.blocks.need(4)
	if rest := r.blocks.buf[r.blocks.head:r.blocks.tail]; len(rest) >= 4 && !Is(rest) {
		return r.blocks.foreign(r.packed)
	}
	_, body, err := r.blocks.nextBlock()
	if err == io.EOF {
		return &capture.Error{Err: capture.ErrCut, Detail: "it is empty"}
	}
	if err != nil {
		return err
	}
	return r.section(body)
}

// BlockLimit returns the maximum length of the block of a frame with a payload of that many
// bytes. Besides the payload, the block can contain the frame's own bytes and its carrier
// metadata.
func BlockLimit(payload int) int {
	const options = 1 << 20
	if payload > (math.MaxInt-options)/3 {
		return math.MaxInt
	}
	return 3*payload + options
}

// Session describes the capture. In joined captures, each section replaces it.
func (r *Reader) Session() *capture.Session { return &r.session }

// Next reads the next record; see [capture.Reader].
func (r *Reader) Next(rec *capture.Record) error {
	for r.err == nil {
		kind, body, err := r.blocks.nextBlock()
		if err != nil {
			r.err = err
			break
		}
		var found bool
		if found, r.err = r.block(kind, body, rec); found {
			return nil
		}
	}
	*rec = capture.Record{}
	return r.err
}

// Buffered reports whether Next is sure not to block; see [capture.Live].
func (r *Reader) Buffered() bool { return r.err != nil || r.blocks.buffered() }

// Place is the position of the current record; see [capture.Placed] and [Random].
func (r *Reader) Place() int64 {
	if r.packed {
		return -1
	}
	return r.blocks.offset
}

// block handles one block and reports whether it is a record.
func (r *Reader) block(kind uint32, body []byte, rec *capture.Record) (bool, error) {
	switch kind {
	case enhancedPacket:
		*rec = capture.Record{}
		if len(body) >= 4 {
			if err := r.place(r.blocks.order.u32(body), rec); err != nil {
				return false, err
			}
		}
		err := r.packet(body, rec)
		return err == nil, err
	case customBlock:
		if len(body) < 4 || r.blocks.order.u32(body) != pen {
			return false, nil
		}
		return r.event(body[4:], rec)
	case interfaceBlock:
		return false, r.iface(body)
	case sectionHeader:
		return false, r.section(body)
	}
	return false, nil
}

func (r *Reader) section(body []byte) error {
	if len(body) < 16 {
		return r.blocks.malformed("a section header of %d bytes", len(body))
	}
	var comment []byte
	for o := r.options(body[16:]); o.nextOption(); {
		if o.code == optComment && comment == nil {
			comment = o.value
		}
	}
	session, err := parseHeader(comment)
	if err != nil {
		return &capture.Error{Err: err, Offset: r.blocks.offset}
	}
	r.session, r.lanes = session, r.lanes[:0]
	return nil
}

// maxLanes bounds the interfaces of a capture.
const maxLanes = 1 << 20

func (r *Reader) iface(body []byte) error {
	if len(body) < 8 {
		return r.blocks.malformed("an interface block of %d bytes", len(body))
	}
	if len(r.lanes) == maxLanes {
		return r.blocks.malformed("more than %d interfaces", maxLanes)
	}
	var l lane
	for o := r.options(body[8:]); o.nextOption(); {
		if o.code == optComment {
			l = parseLane(o.value)
		}
	}
	l.fill(&r.session)
	r.lanes = append(r.lanes, l)
	return nil
}

// packet completes a record from its packet. The fields of its interface must be set.
func (r *Reader) packet(body []byte, rec *capture.Record) error {
	o := r.blocks.order
	if len(body) < 20 {
		return r.blocks.malformed("a packet block of %d bytes", len(body))
	}
	rec.Time = at(uint64(o.u32(body[4:]))<<32 | uint64(o.u32(body[8:])))
	n, size := o.u32(body[12:]), len(body)-20
	switch {
	case uint64(n) > uint64(size) || int(n)+padding(int(n)) > size:
		return r.blocks.malformed("a packet of %d bytes in a block of %d", n, size)
	case n != o.u32(body[16:]):
		return r.blocks.malformed("a packet was cut to %d of its %d bytes", n, o.u32(body[16:]))
	}
	data, ok := skipTags(body[20 : 20+n])
	if !ok {
		return r.blocks.malformed("the tags of a packet have no end")
	}
	return r.describe(data, body[20+int(n)+padding(int(n)):], rec)
}

// describe completes a frame from the options of its packet.
func (r *Reader) describe(data, options []byte, rec *capture.Record) error {
	found := false
	r.apart, r.meta = r.apart[:0], r.meta[:0]
	o := r.options(options) // declared outside the loop, which would copy it on each iteration
	for o.nextOption() {
		switch part, value := o.own(); {
		case part == partFrame && !found:
			if err := r.frame(data, value, rec); err != nil {
				return err
			}
			found = true
		case part == partFlaw:
			rec.Flaw = frame.Recall(string(value))
		case part == partRaw:
			r.apart = append(r.apart, value...)
		case part == partMeta:
			r.meta = append(r.meta, value...)
		case o.code == optFlags && len(o.value) == 4:
			rec.Dir = direction(r.blocks.order.u32(o.value))
		}
	}
	if !found {
		return r.blocks.malformed("a packet lacks the data that wirectl adds: another program rewrote the capture")
	}
	return r.carried(rec)
}

// carried completes a frame from its carrier metadata.
func (r *Reader) carried(rec *capture.Record) error {
	if len(r.meta) == 0 {
		return nil
	}
	m, err := capture.ParseMeta(r.meta, nil)
	if err != nil {
		return r.blocks.malformed("the carrier data of a frame: %v", err)
	}
	m.Framing = rec.Framing
	if rec.Meta != nil { // flagApart
		m.Apart, m.Data = true, rec.Raw
		rec.Raw = r.apart
		rec.Start, rec.End = len(rec.Raw), len(rec.Raw)
	}
	rec.Meta = m
	if cap(r.apart) > keepSize {
		r.apart = nil
	}
	return nil
}

// direction reads epb_flags.
func direction(flags uint32) frame.Dir {
	switch flags & 3 {
	case outbound:
		return frame.C2U
	case inbound:
		return frame.U2C
	}
	return frame.DirUnknown
}

// frame reassembles a frame from a packet and its partFrame.
func (r *Reader) frame(data, part []byte, rec *capture.Record) error {
	// The part's type byte has already been read.
	if len(part) < frameSize-1 {
		return r.blocks.malformed("a frame part of %d bytes", len(part))
	}
	o, flags := r.blocks.order, part[0]
	prefix, suffix := uint64(o.u32(part[3:])), uint64(o.u32(part[7:]))
	rec.Seq = int64(o.u64(part[11:]))
	rec.Offset = int64(o.u64(part[19:]))
	rec.Written = at(o.u64(part[27:]))
	rec.Stream = int64(o.u64(part[35:]))
	if rec.Seq < 0 || rec.Offset < 0 || rec.Stream < 0 {
		return r.blocks.malformed("a number of a frame is beyond 63 bits")
	}
	rec.Compressed = flags&flagCompressed != 0
	rec.Gap = flags&flagGap != 0
	wrapper := part[frameSize-1:]
	if flags&flagWhole != 0 {
		rec.Raw, wrapper = data, data
	}
	if prefix+suffix > uint64(len(wrapper)) {
		return r.blocks.malformed("a wrapper of %d bytes, of which %d are present", prefix+suffix, len(wrapper))
	}
	if flags&flagWhole == 0 {
		r.join(wrapper[:prefix], data, wrapper[prefix:prefix+suffix])
		rec.Raw = r.raw
	}
	if !rec.Gap {
		rec.Start, rec.End = int(prefix), len(rec.Raw)-int(suffix)
	}
	if flags&flagApart != 0 && !rec.Gap {
		rec.Meta = &frame.Meta{Apart: true}
	}
	return nil
}

func (r *Reader) join(prefix, payload, suffix []byte) {
	if cap(r.raw) > keepSize {
		r.raw = nil
	}
	r.raw = append(r.raw[:0], prefix...)
	r.raw = append(r.raw, payload...)
	r.raw = append(r.raw, suffix...)
}

// event reads a record that is not a frame. It skips kinds that a later version added.
func (r *Reader) event(body []byte, rec *capture.Record) (bool, error) {
	if len(body) < eventSize {
		return false, r.blocks.malformed("an event of %d bytes", len(body))
	}
	o, kind := r.blocks.order, capture.Kind(body[0])
	if kind == capture.Frame || kind > capture.Lingering {
		return false, nil
	}
	*rec = capture.Record{Kind: kind, Time: at(o.u64(body[8:])), Status: int(int32(o.u32(body[16:])))}
	if d := frame.Dir(body[1]); d <= frame.U2C {
		rec.Dir = d
	}
	if i := o.u32(body[4:]); i != noInterface {
		if err := r.place(i, rec); err != nil {
			return false, err
		}
	}
	text := body[eventSize:]
	n := o.u32(body[20:])
	if uint64(n) > uint64(len(text)) {
		return false, r.blocks.malformed("a text of %d bytes, of which %d are present", n, len(text))
	}
	rec.Text = text[:n:n]
	return true, nil
}

// place copies the fields of an interface into a record.
func (r *Reader) place(iface uint32, rec *capture.Record) error {
	if uint64(iface) >= uint64(len(r.lanes)) {
		return r.blocks.malformed("there is no interface %d", iface)
	}
	l := &r.lanes[iface]
	rec.Conn, rec.Protocol, rec.Framing = l.Conn, l.Protocol, l.Framing
	return nil
}

// at is the inverse of nanos.
func at(ns uint64) time.Time {
	s := ns / uint64(time.Second)
	if ns == 0 || s >= maxSeconds {
		return time.Time{}
	}
	return time.Unix(int64(s), int64(ns%uint64(time.Second))).UTC()
}

// options iterates over the options of a block.
type options struct {
	rest  []byte
	order order
	code  uint16
	value []byte
}

func (r *Reader) options(data []byte) options { return options{rest: data, order: r.blocks.order} }

// nextOption moves to the next option. It returns false at the end, or if an option is longer
// than its block.
func (o *options) nextOption() bool {
	if len(o.rest) < 4 {
		return false
	}
	o.code = o.order.u16(o.rest)
	n := int(o.order.u16(o.rest[2:]))
	if o.code == optEnd || 4+n > len(o.rest) {
		return false
	}
	o.value = o.rest[4 : 4+n]
	o.rest = o.rest[min(4+n+padding(n), len(o.rest)):]
	return true
}

// own returns a part specific to wirectl, and 0 for any other option.
func (o *options) own() (part byte, value []byte) {
	if o.code != optCustom || len(o.value) < 5 || o.order.u32(o.value) != pen {
		return 0, nil
	}
	return o.value[4], o.value[5:]
}

// A Random reads single frames of a capture at given positions; see [capture.Placed]. It
// ignores the rest of the file: the caller knows the session and connection of a frame.
type Random struct {
	file   io.ReaderAt
	reader Reader
	window []byte // part of the file, since frames are mostly read in order
	start  int64  // the position of window in the file
}

// windowSize is how much of the file is read at once.
const windowSize = 64 << 10

// NewRandom returns a reader of the frames of file. For the limit, see [NewReader].
func NewRandom(file io.ReaderAt, limit int) *Random {
	limit = cmp.Or(max(limit, 0), DefaultLimit)
	return &Random{file: file, reader: Reader{blocks: blocks{limit: limit}}}
}

// ReadAt reads the frame at a position in the file into rec. It leaves rec's Protocol and
// Framing as they were. The bytes are valid until the next call.
func (r *Random) ReadAt(place int64, rec *capture.Record) error {
	b := &r.reader.blocks
	b.offset = place
	head, err := r.bytes(place, blockOverhead)
	if err != nil {
		return err
	}
	switch {
	case order{big: false}.u32(head) == enhancedPacket:
		b.order = order{big: false}
	case order{big: true}.u32(head) == enhancedPacket:
		b.order = order{big: true}
	default:
		return b.malformed("the frame is no longer there")
	}
	n := b.order.u32(head[4:])
	if n < blockOverhead || uint64(n) > uint64(b.limit) {
		return b.malformed("%d is not a block length", n)
	}
	data, err := r.bytes(place, int(n))
	if err != nil {
		return err
	}
	*rec = capture.Record{Kind: capture.Frame, Protocol: rec.Protocol, Framing: rec.Framing}
	return r.reader.packet(data[8:n-4], rec)
}

// bytes returns n bytes of the file, through the window.
func (r *Random) bytes(at int64, n int) ([]byte, error) {
	if at < r.start || at+int64(n) > r.start+int64(len(r.window)) {
		if err := r.slide(at, n); err != nil {
			return nil, err
		}
	}
	return r.window[at-r.start:][:n], nil
}

// slide moves the window so that it holds the n bytes at a position. If the caller reads
// backwards, the window also includes the bytes before them.
func (r *Random) slide(at int64, n int) error {
	start := at
	if at < r.start {
		start = max(at+int64(n)-windowSize/2, 0)
		start = min(start, at)
	}
	size := max(int(at-start)+n, windowSize)
	if cap(r.window) < size || cap(r.window) > keepSize {
		r.window = make([]byte, size)
	}
	got, err := r.file.ReadAt(r.window[:size], start)
	r.start, r.window = start, r.window[:got]
	if int(at-start)+n <= got {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file ends before byte %d", at+int64(n))
	}
	return &capture.Error{Err: err, Offset: at}
}
