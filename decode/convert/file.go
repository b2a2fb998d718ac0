package convert

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/wirectl/wirectl/capture/output"
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

// WriteFile calls write with a writer to the file of that name, which is replaced when all
// is written. If write fails, its output is kept, because the input may be cut. The file
// stays as it was if write wrote nothing or was cancelled, or if the file cannot be written.
func WriteFile(name string, write func(io.Writer) error) error {
	f := &lateFile{name: name}
	err := Buffered(f, write)
	if err == nil {
		_, err = f.Write(nil) // a session without records is a file, too
	}
	if f.file == nil {
		return err
	}
	return errors.Join(err, f.file.Close(!f.failed && !errors.Is(err, context.Canceled)))
}

// A lateFile is opened when it is first written to: opening a pipe waits for its reader.
type lateFile struct {
	name   string
	file   *output.File
	failed bool
}

func (f *lateFile) Write(data []byte) (int, error) {
	if f.file == nil {
		file, err := output.Begin(f.name)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	n, err := f.file.Write(data)
	f.failed = f.failed || err != nil
	return n, err
}
