package frame

import "slices"

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
