package input

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muesli/cancelreader"
	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// NewReader returns a reader of in whose reads end when it is cancelled. The reader
// that cancelreader makes of standard input reads the console, whatever standard
// input is, so that it is for the console alone.
func NewReader(in io.Reader) (cancelreader.CancelReader, error) {
	f, ok := in.(*os.File)
	if !ok || term.IsTerminal(int(f.Fd())) {
		return cancelreader.NewReader(in)
	}
	return &file{File: f}, nil
}

// A file is a pipe, or what else is no console.
type file struct {
	*os.File
	reading   sync.Mutex // held while a read waits
	cancelled atomic.Bool
}

func (f *file) Read(p []byte) (int, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.cancelled.Load() {
		return 0, cancelreader.ErrCanceled
	}
	n, err := f.File.Read(p)
	if f.cancelled.Load() && errors.Is(err, windows.ERROR_OPERATION_ABORTED) {
		err = cancelreader.ErrCanceled
	}
	return n, err
}

// Cancel ends the read that waits, and all that come. A read that has not got to the
// system yet is not told of, which is why it is told again.
func (f *file) Cancel() bool {
	f.cancelled.Store(true)
	for range 100 {
		if f.reading.TryLock() {
			f.reading.Unlock()
			return true
		}
		_ = windows.CancelIoEx(windows.Handle(f.Fd()), nil)
		time.Sleep(time.Millisecond)
	}
	return false
}

// Close leaves the file open: whoever else has it may go on with it.
func (f *file) Close() error { return nil }
