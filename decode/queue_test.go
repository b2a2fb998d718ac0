package decode

import (
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// Who waits to read stays awake only while whole buffers are at hand: a peer that
// writes ten thousand small messages a second would keep it awake all the time.
func TestWaitingAwake(t *testing.T) {
	frames := func(n, size int) *batch {
		b := &batch{}
		for range n {
			b.Frames = append(b.Frames, frame.Frame{Raw: make([]byte, size)})
		}
		return b
	}
	for _, test := range []struct {
		name string
		took time.Duration
		b    *batch
		want bool
	}{
		{"a full buffer, read at once", 20 * time.Microsecond, frames(64, 1<<10), true},
		{"one large frame, read at once", 20 * time.Microsecond, frames(1, 64<<10), true},
		{"a full buffer that had to be waited for", time.Millisecond, frames(64, 1<<10), false},
		{"one small message, just written", 80 * time.Microsecond, frames(1, 100), false},
		{"a few of them", 80 * time.Microsecond, frames(100, 100), false},
	} {
		if got := atHand(test.took, test.b); got != test.want {
			t.Errorf("%s: awake is %v", test.name, got)
		}
	}
}
