package relay

import (
	"sync"
	"sync/atomic"
)

// A slab is memory that consecutive reads fill, so that the bytes reach the observer without
// a copy. It is reused when its last holder has released it.
type slab struct {
	buf     []byte
	used    int
	holders atomic.Int32
}

const (
	firstSlab = 4 << 10   // a quiet connection needs little
	fullSlab  = 256 << 10 // measured: larger reads are no faster
	leastRead = 1 << 10   // the least room worth a read
)

var slabs = sync.Pool{New: func() any { return &slab{buf: make([]byte, fullSlab)} }}

// newSlab returns a slab of that size with one holder.
func newSlab(size int) *slab {
	var s *slab
	if size == fullSlab {
		s = slabs.Get().(*slab)
		s.used = 0
	} else {
		s = &slab{buf: make([]byte, size)}
	}
	s.holders.Store(1)
	return s
}

// Hold and Release are those of [capture.Memory].
func (s *slab) Hold() { s.holders.Add(1) }

func (s *slab) Release() {
	if s.holders.Add(-1) == 0 && len(s.buf) == fullSlab {
		slabs.Put(s)
	}
}

// A well provides room for reads, in one slab after another.
type well struct {
	slab *slab
	size int
}

// room returns the buffer for the next read.
func (w *well) room() []byte {
	switch {
	case w.slab == nil:
		w.size = firstSlab
		w.slab = newSlab(w.size)
	case len(w.slab.buf) < w.size:
		w.replace()
	case w.slab.holders.Load() == 1:
		w.slab.used = 0
	case len(w.slab.buf)-w.slab.used < leastRead:
		w.replace()
	}
	return w.slab.buf[w.slab.used:]
}

// atLeast returns room for n bytes, and allocates memory if necessary.
func (w *well) atLeast(n int) []byte {
	room := w.room()
	if len(room) < n {
		w.slab.Release()
		w.slab = newSlab(max(n, w.size))
		room = w.slab.buf
	}
	return room
}

// took marks n bytes of the room as used, and returns them.
func (w *well) took(n int) []byte {
	data := w.slab.buf[w.slab.used : w.slab.used+n]
	if w.slab.used+n == len(w.slab.buf) {
		w.size = min(4*w.size, fullSlab)
	}
	w.slab.used += n
	return data
}

func (w *well) replace() {
	w.slab.Release()
	w.slab = newSlab(w.size)
}

// releaseSlab frees the memory.
func (w *well) releaseSlab() {
	if w.slab != nil {
		w.slab.Release()
		w.slab = nil
	}
}
