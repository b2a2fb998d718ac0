package decode

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/wirectl/wirectl/internal/wait"
)

// followEvery is how often a file that has been read to its end is looked at
// again.
const followEvery = 100 * time.Millisecond

// ErrRewritten is the error for a followed file that is now shorter than the part that was
// read.
var ErrRewritten = errors.New("the file is shorter than what was already read: it was rewritten; start again")

// ErrReplaced is the error for a file that was followed to its end, and whose name now
// belongs to another file.
var ErrReplaced = errors.New("another file has its name now; this one was read to its end: start again")

// Follow returns a reader of input that is still being written: at the end of r it waits
// for more, until ctx ends. Before it waits, one read returns neither bytes nor an error. r reads
// file, which is nil if it has no length.
func Follow(ctx context.Context, r io.Reader, file *os.File) io.Reader {
	f := &follower{ctx: ctx, r: r, file: file}
	f.named = file != nil && !f.isReplaced()
	return f
}

type follower struct {
	ctx   context.Context
	r     io.Reader
	file  *os.File
	named bool // the file had its name; standard input may have none
	idle  bool // the end was told
	polls bool // it is told again each time that there is no more
}

func (f *follower) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if n > 0 || err != io.EOF || !f.idle {
		if f.idle = n == 0; f.idle && err == io.EOF {
			err = nil
		}
		return n, err
	}
	for replaced := false; ; {
		if wait.For(f.ctx, followEvery) != nil {
			return 0, io.EOF
		}
		if n, err := f.r.Read(p); n > 0 || err != io.EOF {
			f.idle = false
			return n, err
		}
		switch {
		case f.file == nil:
		case f.isRewritten():
			return 0, ErrRewritten
		case replaced: // and read to its end after that
			return 0, ErrReplaced
		default:
			replaced = f.named && f.isReplaced()
		}
		if f.polls && !replaced {
			return 0, nil
		}
	}
}

func (f *follower) isRewritten() bool {
	info, err := f.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	at, err := f.file.Seek(0, io.SeekCurrent)
	return err == nil && info.Size() < at
}

// isReplaced reports whether the name belongs to another file. If no file has it, that may
// last only for a moment.
func (f *follower) isReplaced() bool {
	ours, err := f.file.Stat()
	if err != nil || !ours.Mode().IsRegular() {
		return false
	}
	other, err := os.Stat(f.file.Name())
	return err == nil && !os.SameFile(ours, other)
}
