package fd

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
)

// A Tail keeps bytes by their position: the newest ones in a ring in memory and, if Spill is
// set, the ones before them in a temporary file. If that fails, they are dropped.
type Tail struct {
	// Size is the size of the ring in bytes.
	Size  int
	Spill bool

	ring  []byte // position p is at p modulo Size
	total int64  // bytes so far
	wrote int64  // those of them that are in the file
	file  *os.File
	err   error
}

// ErrGone is the error for bytes that are no longer kept.
var ErrGone = errors.New("its bytes are no longer kept")

// Append stores the parts one after the other, and returns their position. It is -1 if they are
// larger than the ring, and there is no file for the rest.
func (t *Tail) Append(parts ...[]byte) (at int64) {
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if n > t.Size && (!t.Spill || t.err != nil) {
		return -1
	}
	t.grow(n)
	at = t.total
	for _, b := range parts {
		for len(b) > 0 {
			from := int(t.total % int64(t.Size))
			piece := b[:min(len(b), t.piece(), t.Size-from)]
			t.makeRoom(len(piece))
			copy(t.ring[from:], piece)
			t.total += int64(len(piece))
			b = b[len(piece):]
		}
	}
	return at
}

// piece is how many bytes are written to the file at a time.
func (t *Tail) piece() int { return max(t.Size/4, 1) }

// grow makes room for n more bytes in the ring, up to its size.
func (t *Tail) grow(n int) {
	need := int(min(t.total+int64(n), int64(t.Size)))
	if need <= len(t.ring) {
		return
	}
	ring := make([]byte, min(max(2*len(t.ring), need, 1<<16), t.Size))
	copy(ring, t.ring)
	t.ring = ring
}

// makeRoom writes the oldest bytes to the file if the next n bytes would overwrite them.
func (t *Tail) makeRoom(n int) {
	for t.Spill && t.err == nil && t.total+int64(n)-t.wrote > int64(t.Size) {
		if t.file == nil {
			if t.file, t.err = os.CreateTemp("", "wirectl-*.spill"); t.err != nil {
				return
			}
			_ = os.Remove(t.file.Name()) // on Windows this fails for an open file, and Close removes it
		}
		from := t.wrote % int64(t.Size)
		piece := min(int64(t.piece()), int64(t.Size)-from, t.total-t.wrote)
		if _, t.err = t.file.WriteAt(t.ring[from:from+piece], t.wrote); t.err == nil {
			t.wrote += piece
		}
	}
}

// Err returns why the file could not be written.
func (t *Tail) Err() error { return t.err }

// Read appends n bytes from a position to dst, or as many of them as there are.
func (t *Tail) Read(dst []byte, at int64, n int) ([]byte, error) {
	if at < 0 {
		return dst, ErrGone
	}
	if old := min(t.wrote-at, int64(n)); old > 0 {
		start := len(dst)
		dst = append(dst, make([]byte, old)...)
		if _, err := t.file.ReadAt(dst[start:], at); err != nil {
			return dst[:start], err
		}
		at, n = at+old, n-int(old)
	}
	if at < t.total-int64(t.Size) && n > 0 {
		return dst, cmp.Or(t.err, ErrGone)
	}
	for n = int(min(int64(n), t.total-at)); n > 0; {
		from := int(at % int64(t.Size))
		piece := t.ring[from:min(from+n, t.Size)]
		dst = append(dst, piece...)
		at, n = at+int64(len(piece)), n-len(piece)
	}
	return dst, nil
}

// Close removes the file.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	if gone := os.Remove(t.file.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
