//go:build unix

package relay_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
)

// pipes is an end of two pipes, like the standard streams of a program.
type pipes struct{ in, out *os.File }

func (p *pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipes) CloseWrite() error           { return p.out.Close() }
func (p *pipes) Close() error {
	_ = p.out.Close() // CloseWrite may have closed it
	return p.in.Close()
}

func (p *pipes) Descriptors() (read, write syscall.RawConn, err error) {
	if read, err = p.in.SyscallConn(); err == nil {
		write, err = p.out.SyscallConn()
	}
	return read, write, err
}

// piped returns the two ends of a connection over pipes.
func piped(t *testing.T) (mine, its *pipes) {
	t.Helper()
	mine, its = &pipes{}, &pipes{}
	var errs [2]error
	mine.in, its.out, errs[0] = os.Pipe()
	its.in, mine.out, errs[1] = os.Pipe()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = mine.Close(), its.Close() })
	return mine, its
}

// From pipe to pipe, bytes arrive and are recorded unchanged, in pieces of any size and with
// slow readers.
func TestPipes(t *testing.T) {
	const size = 6 << 20
	sent := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(sent)
	rng := rand.New(random)
	for n := 0; n < size; n += 1 + rng.IntN(100_000) {
		sent[n] = '\n'
	}
	for _, watched := range []string{"by one who copies", "by one who holds", ""} {
		r := &running{memory: &memory{}}
		controller, near := piped(t)
		unit, far := piped(t)
		cfg := relay.Config{Controller: near, Unit: far, Framing: frame.Line}
		switch watched {
		case "by one who copies":
			cfg.Sink = r.sink()
		case "by one who holds":
			cfg.Sink = relay.NewFan(r.warn, holder{r.memory})
		}
		done := make(chan error, 1)
		go func() {
			result, err := relay.Run(t.Context(), cfg)
			r.result = result
			done <- err
		}()
		go func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for rest := sent; len(rest) > 0; {
				n := min(len(rest), 1<<rng.IntN(21))
				_, _ = controller.Write(rest[:n])
				rest = rest[n:]
			}
			_ = controller.CloseWrite()
		}()
		var got bytes.Buffer
		for err := error(nil); err == nil; {
			_, err = io.CopyN(&got, unit, int64(1<<rng.IntN(21)))
		}
		_ = unit.CloseWrite()
		ended(t, controller)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), sent) || r.result.ToUnit.Bytes != size {
			t.Errorf("%d bytes arrived, and %d were counted, of %d", got.Len(), r.result.ToUnit.Bytes, size)
		}
		if watched != "" && !bytes.Equal(r.raw(frame.C2U), sent) {
			t.Errorf("watched %s: the records are of other bytes", watched)
		}
	}
}

// A holder keeps the memory of runs instead of copying their bytes.
type holder struct{ *memory }

func (h holder) WriteRun(r *capture.Run) error {
	if r.Memory != nil {
		r.Memory.Hold()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range r.Frames {
		rec := r.Record(i)
		if r.Memory == nil {
			rec = rec.Clone()
		}
		h.records = append(h.records, rec)
	}
	return nil
}
