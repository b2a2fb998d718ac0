package convert

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// bufferSize is how much is written to a file at once, in bytes.
const bufferSize = 256 << 10

// Buffered calls write with a writer to w that collects small writes.
func Buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, bufferSize)
	err := write(b)
	if flushed := b.Flush(); flushed != nil && !errors.Is(err, flushed) { // which b repeats
		err = errors.Join(err, flushed)
	}
	return err
}

// WriteFile calls write with a writer to the file of that name, whose former
// content is lost with the first byte: if write fails before it has written
// anything, the file stays as it was.
func WriteFile(name string, write func(io.Writer) error) error {
	f := &lateFile{name: name}
	err := Buffered(f, write)
	if err == nil {
		_, err = f.Write(nil) // a session without a record is a file, too
	}
	return errors.Join(err, f.close())
}

// lateFile is a file that is created when it is first written to.
type lateFile struct {
	name string
	file *os.File
}

func (f *lateFile) Write(data []byte) (int, error) {
	if f.file == nil {
		file, err := os.OpenFile(f.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(data)
}

func (f *lateFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
