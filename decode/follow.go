package decode

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// followEvery is how often a file that has been read to its end is looked at
// again.
const followEvery = 100 * time.Millisecond

// ErrRewritten is the error of a file that was followed and is shorter now than
// what was read of it.
var ErrRewritten = errors.New("the file has become shorter than what was read of it: it was written anew, so begin anew, too")

// Follow returns a reader of what is still being written: at the end of r it
// waits for more, until ctx ends. What r reads is file, or nil if that has no
// length.
func Follow(ctx context.Context, r io.Reader, file *os.File) io.Reader {
	return &follower{ctx, r, file}
}

type follower struct {
	ctx  context.Context
	r    io.Reader
	file *os.File
}

func (f *follower) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if n > 0 || err != io.EOF {
		return n, err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-tick.C:
		}
		if n, err := f.r.Read(p); n > 0 || err != io.EOF {
			return n, err
		}
		if f.isRewritten() {
			return 0, ErrRewritten
		}
	}
}

func (f *follower) isRewritten() bool {
	if f.file == nil {
		return false
	}
	info, err := f.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	at, err := f.file.Seek(0, io.SeekCurrent)
	return err == nil && info.Size() < at
}
