// Package fd has what os lacks: reads of descriptors without informing Go's scheduler, locks
// between processes, reads of pipes and terminals that can be cancelled, and a ring of bytes that
// goes on in a temporary file.
//
// The scheduler is usually informed of system calls, because they may take long. If one takes
// more than about 20 µs, it gives the processor to another goroutine, and its watchdog wakes up
// for that thousands of times a second. With direct reads of regular files, walking frames is
// 0.93 times as fast as cat; with package os, 0.70 to 0.75 times.
package fd

import (
	"io"
	"os"
	"syscall"
)

// A File is a regular file that one goroutine at a time reads. A read may wait for a disk,
// during which it keeps its processor, but never for another goroutine.
type File struct {
	file *os.File
	raw  syscall.RawConn              // nil if the system has no direct reads
	read func(fd uintptr) (done bool) // made once, since each closure takes memory

	p   []byte
	n   int
	err error
}

// OverFile returns a File over f, which the caller has to close.
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

// Read reads up to len(p) bytes from the current position of the file.
func (d *File) Read(p []byte) (int, error) {
	if d.raw == nil || len(p) == 0 {
		return d.file.Read(p)
	}
	d.p = p
	err := d.raw.Read(d.read)
	d.p = nil
	switch {
	case err != nil || d.err != nil:
		return d.file.Read(p) // it returns the error
	case d.n == 0:
		return 0, io.EOF
	}
	return d.n, nil
}
