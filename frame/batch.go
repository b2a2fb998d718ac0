package frame

import "slices"

// A Batch is a run of frames with a buffer of its own, so that frames can be
// worked on while the scanner reads on. The zero Batch is ready to use; used
// again, it lends its memory to the scanner.
type Batch struct {
	// Frames are valid until the batch is passed to ScanBatch again.
	Frames []Frame
	buf    []byte
}

// maxBatch bounds the frames of one batch.
const maxBatch = 8 << 10

// ScanBatch moves to the next frames and reports whether there are any. It
// waits for the first one only: the batch holds what had been read by then.
func (s *Scanner) ScanBatch(b *Batch) bool {
	b.Frames = b.Frames[:0]
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
	s.exchange(b)
	return true
}

// grow adds a frame and returns where it is.
func (b *Batch) grow() *Frame {
	n := len(b.Frames)
	b.Frames = slices.Grow(b.Frames, 1)[:n+1]
	return &b.Frames[n]
}

// exchange gives the scanner's buffer to b and takes b's instead.
func (s *Scanner) exchange(b *Batch) {
	rest := s.tail - s.head
	buf := b.buf
	b.buf = s.buf
	if len(buf) < max(rest, readSize) || len(buf) > keepSize && rest < readSize {
		buf = make([]byte, max(rest, readSize))
	}
	s.moveTo(buf)
}
