package fd

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/muesli/cancelreader"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A read of a pipe brings what was written, and ends when it is cancelled, before
// it waits or while it does; the pipe is left open.
func TestCancel(t *testing.T) {
	for name, waits := range map[string]bool{"before": false, "while it waits": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			in, err := NewCancelReader(r)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 8)
			_, _ = io.WriteString(w, "hi")
			if n, err := in.Read(p); string(p[:n]) != "hi" || err != nil {
				t.Fatalf("read %q, %v", p[:n], err)
			}
			ended := make(chan error)
			read := func() {
				_, err := in.Read(p)
				ended <- err
			}
			if waits {
				go read()
			}
			if !in.Cancel() {
				t.Error("Cancel could not end the read")
			}
			if !waits {
				go read()
			}
			if err := <-ended; !errors.Is(err, cancelreader.ErrCanceled) {
				t.Errorf("the read ended with %v", err)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "more")
			if n, err := r.Read(p); string(p[:n]) != "more" || err != nil {
				t.Errorf("then the pipe has %q, %v", p[:n], err)
			}
		})
	}
}
