package decode

import (
	"context"
	"io"
	"time"
)

// followEvery is how often a file that has been read to its end is looked at
// again.
const followEvery = 100 * time.Millisecond

// Follow returns a reader of a file that is still being written: at its end it
// waits for more, until ctx ends.
func Follow(ctx context.Context, file io.Reader) io.Reader { return &follower{ctx, file} }

type follower struct {
	ctx  context.Context
	file io.Reader
}

func (f *follower) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
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
		if n, err := f.file.Read(p); n > 0 || err != io.EOF {
			return n, err
		}
	}
}
