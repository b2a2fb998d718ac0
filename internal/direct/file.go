package direct

import (
	"io"
	"os"
	"syscall"
)

// A File is a regular file that one goroutine at a time reads. Its reads may wait for a
// disk, and whoever has to run meanwhile needs another processor, but never for what
// some goroutine has yet to do.
type File struct {
	file *os.File
	raw  syscall.RawConn // nil where the system has no such reads
	read call
}

// OverFile returns a File over f, which is to be closed as before.
func OverFile(f *os.File) *File {
	d := &File{file: f}
	if possible {
		d.raw, _ = f.SyscallConn()
	}
	d.read.try = d.tryRead
	return d
}

// Read reads what the file has from where it stands, up to len(p) bytes.
func (d *File) Read(p []byte) (int, error) {
	if d.raw == nil || len(p) == 0 {
		return d.file.Read(p)
	}
	r := &d.read
	r.p = p
	err := d.raw.Read(r.try)
	r.p = nil
	switch {
	case err != nil || r.err != nil:
		return d.file.Read(p) // which says what is wrong
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

func (d *File) tryRead(fd uintptr) bool {
	d.read.n, d.read.err = Read(fd, d.read.p)
	return true
}
