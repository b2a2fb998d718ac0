package fd

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

// NewCancelReader returns a reader of in whose reads end when it is cancelled. For standard input,
// the reader of cancelreader always reads the console, so it is used only for that.
func NewCancelReader(in io.Reader) (cancelreader.CancelReader, error) {
	f, ok := in.(*os.File)
	if !ok || term.IsTerminal(int(f.Fd())) {
		return cancelreader.NewReader(in)
	}
	return &file{File: f}, nil
}

// A file is a pipe, or anything else that is not a console.
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

// Cancel ends the current read, and all later ones. It is repeated, because a read that has
// not reached the system yet is not cancelled.
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

// Close leaves the file open for other users.
func (f *file) Close() error { return nil }
