package replay

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
)

// Write writes the frames of one side byte for byte, with the recorded pauses divided by
// speed, or at once if speed is 0.
func (s *Script) Write(ctx context.Context, w io.Writer, side frame.Dir, speed float64) error {
	start := time.Now()
	var first time.Time
	for _, st := range s.steps {
		if st.dir != side {
			continue
		}
		if first.IsZero() {
			first = st.time
		}
		if speed > 0 && st.time.After(first) {
			due := start.Add(time.Duration(float64(st.time.Sub(first)) / speed))
			if wait.For(ctx, time.Until(due)) != nil {
				return ctx.Err()
			}
		}
		if _, err := w.Write(s.wireBytes(st)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wireBytes returns the bytes of a frame. For HTTP, it returns the body as a line.
func (s *Script) wireBytes(st *step) []byte {
	var l webLine
	if _, isWeb := s.Protocol.(web); !isWeb || json.Unmarshal(st.frame.Raw, &l) != nil {
		return st.frame.Raw
	}
	if body := l.content(); len(body) > 0 {
		return append(body, '\n')
	}
	return nil
}
