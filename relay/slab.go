package relay

import (
	"sync"
	"sync/atomic"
)

// A slab is memory that reads fill one after the other, so that what was read
// goes to the observer without being copied. It is used again when the last
// of its holders has released it.
type slab struct {
	buf     []byte
	used    int
	holders atomic.Int32
}

const (
	firstSlab = 4 << 10   // a connection that says little takes little
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

// A well hands out room to read into, from one slab after the other. Nobody else holds
// the rest.
type well struct {
	slab *slab
	size int
}

// room returns where the next read goes.
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

// atLeast returns room for n bytes, and more memory if need be.
func (w *well) atLeast(n int) []byte {
	room := w.room()
	if len(room) < n {
		w.slab.Release()
		w.slab = newSlab(max(n, w.size))
		room = w.slab.buf
	}
	return room
}

// took says how much of the room was used.
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
