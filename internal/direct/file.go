// Package direct reads files and moves bytes of descriptors that do not block
// without telling Go's scheduler.
//
// The scheduler is told of a system call because it may take long. When one takes
// more than some 20 µs, it gives the processor to another goroutine, and its watchdog
// wakes up for that thousands of times a second. Reading regular files directly makes
// walking frames 0.93 times as fast as cat; through package os it is 0.70 to 0.75.
package direct

import (
	"io"
	"os"
	"syscall"
)

// A File is a regular file that one goroutine at a time reads. A read may wait for a
// disk and holds its processor meanwhile, but never waits for another goroutine.
type File struct {
	file *os.File
	raw  syscall.RawConn              // nil where the system has no such reads
	read func(fd uintptr) (done bool) // made once, since each closure takes memory

	p   []byte
	n   int
	err error
}

// OverFile returns a File over f, which is to be closed as before.
func OverFile(f *os.File) *File {
	d := &File{file: f}
	if possible {
		d.raw, _ = f.SyscallConn()
	}
	d.read = func(fd uintptr) bool {
		d.n, d.err = Read(fd, d.p)
		return true
	}
	return d
}

// Read reads what the file has from where it stands, up to len(p) bytes.
func (d *File) Read(p []byte) (int, error) {
	if d.raw == nil || len(p) == 0 {
		return d.file.Read(p)
	}
	d.p = p
	err := d.raw.Read(d.read)
	d.p = nil
	switch {
	case err != nil || d.err != nil:
		return d.file.Read(p) // which says what is wrong
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}
