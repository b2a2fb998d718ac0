package store

import (
	"cmp"
	"errors"
	"os"
)

// A keeper keeps the bytes of frames: the newest ones in a ring in memory. If spill is set, it
// writes all of them to a temporary file once the ring is full. If that fails, it keeps only the
// ring.
type keeper struct {
	size  int
	spill bool
	ring  []byte
	total int64 // bytes so far; position p is at p modulo size in the ring
	file  *os.File
	wrote int64 // bytes in the file
	err   error
}

// keepBytes stores b and returns its position, or -1 if there is no room.
func (k *keeper) keepBytes(b []byte) int64 {
	if len(b) > k.size {
		return -1
	}
	if len(k.ring) < k.size {
		k.grow(len(b))
	}
	at := k.total
	// A frame is kept in one piece. If it does not fit before the end of the ring, it goes to
	// the beginning.
	if rest := k.size - int(at%int64(k.size)); rest < len(b) {
		k.grow(k.size)
		at += int64(rest)
	}
	k.makeRoom(at + int64(len(b)))
	copy(k.ring[at%int64(k.size):], b)
	k.total = at + int64(len(b))
	return at
}

// grow makes room for n more bytes in the ring, up to its maximum size.
func (k *keeper) grow(n int) {
	need := min(int(min(k.total, int64(k.size)))+n, k.size)
	if need <= len(k.ring) {
		return
	}
	ring := make([]byte, min(max(2*len(k.ring), need, 1<<16), k.size))
	copy(ring, k.ring)
	k.ring = ring
}

// makeRoom writes the bytes to the file that would be overwritten up to end.
func (k *keeper) makeRoom(end int64) {
	if !k.spill || end-k.wrote <= int64(k.size) || k.err != nil {
		return
	}
	if k.file == nil {
		if k.file, k.err = os.CreateTemp("", "wirectl-monitor-"); k.err != nil {
			return
		}
		// If an open file can be removed, nothing is left of it even after a crash.
		_ = os.Remove(k.file.Name())
	}
	// Write a quarter of the ring at a time, up to its end.
	for end-k.wrote > int64(k.size) && k.err == nil {
		from := k.wrote % int64(k.size)
		n := min(int64(max(k.size/4, 1)), int64(k.size)-from, k.total-k.wrote)
		if n <= 0 {
			return
		}
		_, k.err = k.file.WriteAt(k.ring[from:from+n], k.wrote)
		k.wrote += n
	}
}

var errGone = errors.New("its bytes are no longer kept")

// readKept appends n stored bytes from a position to dst.
func (k *keeper) readKept(dst []byte, at int64, n int) ([]byte, error) {
	if at < 0 {
		return dst, errGone
	}
	if old := min(k.total-int64(k.size)-at, int64(n)); old > 0 {
		if k.file == nil || at+old > k.wrote {
			return dst, cmp.Or(k.err, errGone)
		}
		start := len(dst)
		dst = append(dst, make([]byte, old)...)
		if _, err := k.file.ReadAt(dst[start:], at); err != nil {
			return dst[:start], err
		}
		at, n = at+old, n-int(old)
	}
	from := at % int64(k.size)
	return append(dst, k.ring[from:from+int64(n)]...), nil
}

func (k *keeper) removeFile() error {
	if k.file == nil {
		return nil
	}
	_ = os.Remove(k.file.Name())
	return k.file.Close()
}
