package frame

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// A Scanner reads frames from a byte stream, as bufio.Scanner reads lines:
//
//	s := frame.NewScanner(r, frame.Len32)
//	for s.Scan() {
//		use(s.Frame().Payload())
//	}
//	if err := s.Err(); err != nil { … }
//
// A frame's bytes are valid until the next call of Scan; [Frame.Clone] keeps
// them. The frames do not depend on how the stream was cut into reads. After a
// failure Scan keeps returning false, so that nobody continues in the middle of a
// frame, unless [Scanner.Resync] was called.
type Scanner struct {
	r       io.Reader
	framing Framing
	limit   int
	most    int // the size of a read
	resync  bool
	atOnce  bool // gaps do not wait for more
	accept  func(payload []byte, whole bool) bool

	buf        []byte
	lent       bool  // to a batch, so that only the unread part of buf may be used
	busy       bool  // a read has filled the buffer
	head, tail int   // buf[head:tail] is read and not yet emitted
	offset     int64 // the position of buf[head] in the stream
	eof        bool
	readErr    error

	frame    Frame
	out      *Frame // where the next frame goes
	extent   Extent // of the frame at buf[head], as far as known
	count    int64  // frames emitted, gaps not counted
	lost     *Error // the fault that is being skipped
	searched int    // while lost: no frame begins before buf[head+searched]
	held     bool   // while lost: one may begin there
	skipped  Skipped
	err      error
}

// Skipped counts what a resyncing scanner has skipped.
type Skipped struct {
	Faults int64 // faults of the framing
	Bytes  int64 // bytes that belong to no frame
}

const (
	readSize = 256 << 10 // the default size of a read
	gapSize  = 64 << 10  // the largest gap, and more than the blank lines of any other frame
	peekSize = 512       // how much of a payload accept sees while resyncing
	minRead  = 4 << 10   // the least room worth a read
	pageSize = 4 << 10
)

// NewScanner returns a Scanner that reads frames of the given framing from r.
// The framing may be nil if [Scanner.SetFraming] is called before Scan, after
// a look at [Scanner.Peek].
func NewScanner(r io.Reader, framing Framing) *Scanner {
	return &Scanner{r: r, framing: framing, limit: DefaultLimit, most: readSize}
}

// SetFraming sets the framing of the bytes that have not been scanned yet.
func (s *Scanner) SetFraming(f Framing) { s.framing, s.extent = f, Extent{} }

// SetLimit sets the largest payload, in bytes. The limit is checked before memory for a
// payload is allocated.
func (s *Scanner) SetLimit(n int) { s.limit = n }

// SetRead sets the size of a read, and so of the buffer of a Scanner without larger
// frames.
func (s *Scanner) SetRead(n int) { s.most = n }

// maxKept is the size of the largest buffer that is kept after a large frame.
func (s *Scanner) maxKept() int { return 4 * s.most }

// room is the size of a buffer: small for a quiet stream, of which there may be thousands.
func (s *Scanner) room() int {
	if s.busy {
		return s.most
	}
	return min(s.most, minRead)
}

// SetAccept sets the function that judges payloads when the framing is not enough: the
// whole payload of a last line without LF and, while resyncing, up to the first 512
// bytes of a payload. Without it such a line is truncated, and any header is plausible.
func (s *Scanner) SetAccept(accept func(payload []byte, whole bool) bool) { s.accept = accept }

// Resync makes Scan skip faults: it emits the skipped bytes as frames with Gap set, of at
// most 64 KiB each and with the fault as their Flaw, up to the next plausible frame.
func (s *Scanner) Resync() { s.resync = true }

// ResyncAtOnce is Resync for callers that forward skipped bytes to a peer that may wait
// for them: gaps also end where there is nothing more to read.
func (s *Scanner) ResyncAtOnce() { s.resync, s.atOnce = true, true }

// Scan moves to the next frame and reports whether there is one.
func (s *Scanner) Scan() bool { return s.scan(&s.frame) }

// scan puts the next frame where out points to.
func (s *Scanner) scan(out *Frame) bool {
	s.out = out
	for s.err == nil {
		if s.step() {
			return true
		}
		if s.err == nil && !s.fill() && !s.cut() {
			break
		}
	}
	*out = Frame{}
	return false
}

// Frame returns the frame that Scan moved to.
func (s *Scanner) Frame() *Frame { return &s.frame }

// Err returns nil after a clean end, which is an end between two frames; an
// [*Error] otherwise.
func (s *Scanner) Err() error { return s.err }

// Skipped returns what has been passed over so far.
func (s *Scanner) Skipped() Skipped { return s.skipped }

// Peek returns the bytes that have not been scanned yet, at least n unless the stream ends
// sooner; atEOF reports its end. They are valid until the next call of a method.
func (s *Scanner) Peek(n int) (data []byte, atEOF bool) {
	for s.tail-s.head < n && s.fill() {
	}
	return s.buf[s.head:s.tail], s.eof
}

// step looks for a frame, or a gap, in the buffered bytes. It returns false
// when it needs more of them or has failed.
func (s *Scanner) step() bool {
	data := s.buf[s.head:s.tail]
	if len(data) == 0 {
		return false
	}
	if s.lost != nil {
		return s.seek(data)
	}
	if s.extent.Need > len(data) && !s.eof {
		return false
	}
	if err := s.framing.Next(data, s.limit, s.eof, &s.extent); err != nil {
		return s.fault(err, data) && s.seek(data)
	}
	switch e := &s.extent; {
	case e.Raw == 0:
		return false
	case e.Open && (s.accept == nil || !s.accept(data[e.Start:e.End], true)):
		return false
	default:
		s.emitFrame()
		return true
	}
}

// emitFrame fills the output with the frame or gap that extent describes.
func (s *Scanner) emitFrame() {
	e, f := &s.extent, s.out
	*f = Frame{} // then field by field: a literal would be built elsewhere and copied
	f.Raw = s.buf[s.head : s.head+e.Raw : s.head+e.Raw]
	f.Start, f.End = e.Start, e.End
	f.Offset = s.offset
	f.Compressed, f.Gap, f.Flaw = e.Compressed, e.Gap, e.Flaw
	s.head += e.Raw
	s.offset += int64(e.Raw)
	if e.Gap {
		s.extent = e.rest()
		return
	}
	s.count++
	s.extent = Extent{}
}

// fault sets the position of an error. It fails the scanner or, if it resyncs, starts
// skipping and returns true.
func (s *Scanner) fault(err *Error, data []byte) bool {
	err.Frame, err.Offset = s.count+1, s.offset
	s.extent = Extent{}
	if !s.resync {
		s.describe(err, data)
		s.err = err
		return false
	}
	s.lost, s.searched, s.held = err, 1, false
	s.skipped.Faults++
	return true
}

// describe adds the bytes that were found instead of a frame.
func (s *Scanner) describe(err *Error, data []byte) {
	err.Head = bytes.Clone(data[:min(len(data), headSize)])
	if err.Accident = s.recognize(err.Head); errors.Is(err, ErrTruncated) && !err.Accident.Distinct() {
		err.Accident = NoAccident
	}
}

// recognize names the bytes that were found instead of a frame. Conversion to CRLF shows in
// every framing without line ends; with header lines, empty lines mean nothing. What frames
// of this framing look like is not an accident.
func (s *Scanner) recognize(head []byte) Accident {
	if s.framing == Header {
		head = bytes.TrimLeft(head, "\r\n")
	}
	a := Recognize(head)
	if a == JSONText && s.framing == Line || a == HeaderFrame && s.framing == Header {
		return NoAccident
	}
	if a == NoAccident && s.framing != Line && s.framing != Header && onlyCRLF(head) {
		return CRLF
	}
	return a
}

// cut ends the scan. It returns true if there is more to emit, because the stream was cut
// inside a frame and the scanner resyncs.
func (s *Scanner) cut() bool {
	data := s.buf[s.head:s.tail]
	switch {
	case s.readErr != nil:
		s.err = &Error{Err: s.readErr, Frame: s.count + 1, Offset: s.offset}
		return false
	case len(data) == 0:
		if s.framing == Unknown && s.lost != nil {
			s.err = s.lost
		}
		return false
	}
	return s.fault(truncated(&s.extent, data), data)
}

// fill reads more of the stream. It returns false once the end is known.
func (s *Scanner) fill() bool {
	if s.eof {
		return false
	}
	if s.lent {
		s.moveInto(new(Batch))
	}
	s.makeRoom()
	for range 100 {
		n, err := s.r.Read(s.buf[s.tail:])
		s.tail += n
		s.busy = s.busy || s.tail == len(s.buf)
		if err != nil {
			s.eof = true
			if err != io.EOF {
				s.readErr = err
			}
			return true
		}
		if n > 0 {
			return true
		}
	}
	s.eof, s.readErr = true, io.ErrNoProgress
	return true
}

// makeRoom makes room in the buffer to read into. The buffer grows as bytes
// arrive, not as a header promises them, and shrinks after a large frame.
func (s *Scanner) makeRoom() {
	rest := s.tail - s.head
	want := max(s.extent.Need, rest+1)
	switch {
	case want > len(s.buf), s.room() > len(s.buf):
		grown := 2 * len(s.buf)
		if want > rest+1 { // the length is known
			grown = min(grown, want)
		}
		s.moveTo(make([]byte, max(grown, s.room(), rest+minRead)))
	case len(s.buf) > s.maxKept() && want <= s.most:
		s.moveTo(make([]byte, s.most))
	case s.head+want > len(s.buf) || len(s.buf)-s.tail < minRead:
		s.moveTo(s.buf)
	case rest == 0:
		s.head, s.tail = 0, 0
	}
}

// moveTo replaces the scanner's buffer by buf, which may be the same. It moves the buffered
// bytes to the beginning or, if there is room, so that they end on a page boundary: the
// system copies whole pages faster.
func (s *Scanner) moveTo(buf []byte) {
	rest := s.buf[s.head:s.tail]
	s.head = -len(rest) & (pageSize - 1)
	if len(buf)-s.head < max(s.extent.Need, len(rest)+minRead) {
		s.head = 0
	}
	s.tail = s.head + copy(buf[s.head:], rest)
	s.buf = buf
}

// A Batch is a run of frames with its own buffer, so that frames can be processed while the
// scanner continues. The zero Batch is ready to use. Using a batch again reuses its memory,
// which may still be in a processor's cache.
type Batch struct {
	// Frames are valid until the batch is passed to ScanBatch again.
	Frames []Frame
	buf    []byte
}

// maxBatch bounds the frames of one batch.
const maxBatch = 8 << 10

// maxIn bounds the frames that ScanIn returns, to fit into a cache.
const maxIn = 1 << 10

// ScanBatch moves to the next frames and reports whether there are any. It only waits for
// the first one: the batch has the frames that had been read by then.
func (s *Scanner) ScanBatch(b *Batch) bool {
	b.Frames = b.Frames[:0]
	s.moveInto(b)
	if !s.scan(b.grow()) {
		b.Frames = b.Frames[:0]
		return false
	}
	for len(b.Frames) < maxBatch {
		if s.out = b.grow(); !s.step() {
			b.Frames = b.Frames[:len(b.Frames)-1]
			break
		}
	}
	b.buf, s.lent = s.buf, true
	return true
}

// ScanIn scans the frames at the beginning of data without copying them, before the bytes of
// the reader, and returns their size. Call it again until there is no frame; the reader must
// then return the rest. The scanner must have no buffered bytes; see [Scanner.Unread]. The
// frames are valid as long as data is.
func (s *Scanner) ScanIn(data []byte, b *Batch) int {
	b.Frames = b.Frames[:0]
	if s.head != s.tail || s.lost != nil || s.err != nil || s.eof {
		return 0
	}
	buf, head, tail, out := s.buf, s.head, s.tail, s.out
	s.buf, s.head, s.tail = data, 0, len(data)
	for len(b.Frames) < maxIn && s.lost == nil {
		if s.out = b.grow(); !s.step() {
			b.Frames = b.Frames[:len(b.Frames)-1]
			break
		}
	}
	n := s.head
	s.buf, s.head, s.tail, s.out = buf, head, tail, out
	if s.lost != nil { // data was searched to its end, and comes again in pieces
		s.searched, s.held = min(s.searched, 1), false
	}
	return n
}

// Return takes back the frames of the latest batch from index n on, to scan them again with
// another limit or accept. They must follow a frame, not a gap.
func (s *Scanner) Return(b *Batch, n int) {
	var fault *Error
	for i := range b.Frames[n:] {
		f := &b.Frames[n+i]
		s.head -= len(f.Raw)
		s.offset -= int64(len(f.Raw))
		switch lost, _ := f.Flaw.(*Error); { //nolint:errorlint // that of a gap is bare
		case !f.Gap:
			s.count--
		case lost != nil:
			s.skipped.Bytes -= int64(len(f.Raw))
			if lost != fault {
				s.skipped.Faults--
			}
			fault = lost
		}
	}
	if s.lost != nil && s.lost != fault {
		s.skipped.Faults--
	}
	s.lost, s.err, s.extent = nil, nil, Extent{}
	b.Frames = b.Frames[:n]
}

// Unread removes the buffered bytes if there are at most most, and returns their number.
func (s *Scanner) Unread(most int) int {
	n := s.tail - s.head
	if n > most || s.lost != nil {
		return 0
	}
	s.tail, s.extent = s.head, Extent{}
	return n
}

// grow adds a frame and returns where it is.
func (b *Batch) grow() *Frame {
	n := len(b.Frames)
	b.Frames = slices.Grow(b.Frames, 1)[:n+1]
	return &b.Frames[n]
}

// moveInto makes the memory of b the scanner's buffer if the current one is lent to a batch.
func (s *Scanner) moveInto(b *Batch) {
	if !s.lent {
		return
	}
	rest := s.tail - s.head
	buf := b.buf
	if len(buf) < max(rest, s.room()) || len(buf) > s.maxKept() && rest < s.most {
		buf = make([]byte, max(rest, s.room()))
	}
	s.moveTo(buf)
	s.lent = false
}

// seek emits a gap up to the next plausible frame, or one of the largest size. It returns
// false when it needs more bytes to decide, so that gaps do not depend on how the stream was
// cut into reads. With atOnce, it emits the bytes that certainly belong to no frame.
func (s *Scanner) seek(data []byte) bool {
	if s.extent.Need > len(data) && !s.eof {
		return false
	}
	s.extent = Extent{}
	for {
		if !s.held {
			n := s.framing.Sync(data[s.searched:], s.limit)
			if s.held = n >= 0; !s.held {
				s.searched = len(data)
				break
			}
			s.searched += n
		}
		if s.searched > gapSize || s.searched == len(data) {
			break
		}
		v, judged := s.plausible(data[s.searched:])
		switch {
		case v == yes:
			return s.found(s.searched)
		case v == no:
			s.searched, s.held = s.searched+judged, false
			continue
		case s.atOnce:
			need := s.extent.Need
			gap := s.gap(s.searched)
			s.extent.Need = need
			return gap
		}
		s.extent.Need += s.searched
		return false
	}
	if len(data) > gapSize || s.eof || s.atOnce {
		return s.gap(min(len(data), gapSize))
	}
	return false
}

// found ends the search: a frame begins after the next n bytes.
func (s *Scanner) found(n int) bool {
	gap := s.gap(n)
	s.lost = nil
	return gap || s.step()
}

// gap emits n bytes that belong to no frame. It returns false if n is 0. Only the first gap
// describes the bytes, because how many are buffered later depends on how the stream was cut
// into reads.
func (s *Scanner) gap(n int) bool {
	if n == 0 {
		return false
	}
	if s.lost.Head == nil {
		s.describe(s.lost, s.buf[s.head:s.head+n])
	}
	s.extent = Extent{Raw: n, Gap: true, Flaw: s.lost}
	s.skipped.Bytes += int64(n)
	s.searched -= n
	s.emitFrame()
	return true
}

type verdict uint8

const (
	no verdict = iota
	unsure
	yes
)

// syncSize is how many bytes are enough to recognize a header.
const syncSize = 16

// plausible judges whether a frame begins at data. A frame cut by the end of the stream does
// not count. If the verdict is unsure, the Need of s.extent is how many bytes would help. If
// no frame begins at data, the search continues at data[judged:]. Blank lines are only read
// once.
func (s *Scanner) plausible(data []byte) (v verdict, judged int) {
	if len(data) < syncSize && !s.eof && !s.atOnce {
		s.extent.Need = syncSize
		return unsure, 0
	}
	var e Extent
	err := s.framing.Next(data, s.limit, s.eof, &e)
	switch s.framing {
	case Line, Nul: // Sync has to see the byte before a frame
		if judged = e.Start; e.Gap {
			judged = e.Raw
		}
		judged = max(0, judged-1)
	default:
		judged = 1
	}
	if err != nil || e.Gap {
		return no, judged
	}
	payload := data[e.Start:min(e.End, len(data))]
	prefix := payload[:min(len(payload), peekSize)]
	switch whole := e.Raw != 0; {
	case !whole && s.eof, whole && len(payload) == 0:
		return no, judged
	case !whole && len(payload) <= peekSize:
		s.extent.Need = min(e.Need, e.Start+peekSize+1)
		return unsure, 0
	case s.accept != nil && !s.accept(prefix, whole && len(prefix) == len(payload)):
		return no, judged
	case !whole:
		s.extent.Need = e.Need
		return unsure, 0
	}
	return yes, 0
}
