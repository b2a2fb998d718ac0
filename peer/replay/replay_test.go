package replay_test

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A pipe is one end of two pipes of the system.
type pipe struct{ r, w *os.File }

func (p pipe) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p pipe) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipe) CloseWrite() error           { return p.w.Close() }
func (p pipe) Close() error {
	p.w.Close()
	return p.r.Close()
}

func pipes(t *testing.T) (controller, unit pipe) {
	t.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return pipe{r2, w1}, pipe{r1, w2}
}

// load returns the recording of a fixture.
func load(t *testing.T, name string) *replay.Session {
	t.Helper()
	r, err := decode.OpenRecording(fixtures.Session(name), decode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := new(replay.Session)
	view := func(dst []byte, it *decode.Item) ([]byte, error) { //nolint:unparam // as decode.View wants it
		s.Add(replay.Record{Seq: it.Seq, Time: it.Time, Frame: it.Frame, Framing: it.Framing, Protocol: it.Protocol})
		return dst, nil
	}
	if _, err := decode.Run(t.Context(), decode.Input{Capture: r}, io.Discard, decode.Config{Workers: 1, Resync: true}, func() decode.View { return view }); err != nil {
		t.Fatal(err)
	}
	return s
}

// outcome is what came of a run of one side.
type outcome struct {
	replay.Result
	err error
}

func start(ctx context.Context, s *replay.Script, conn transport.Conn, o replay.Options) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := s.Run(ctx, conn, o)
		done <- outcome{r, err}
	}()
	return done
}

func (o outcome) check(t *testing.T, side string) {
	t.Helper()
	if o.err != nil {
		t.Errorf("%s: %v", side, o.err)
	}
	if d := o.Divergence(); d != nil {
		t.Errorf("%s: %s: %s\n%+v\n%+v\n%+v", side, d.What, d.Text, d.Recorded, d.Live, d.Changes)
	}
	if o.Missing != 0 || o.Extra != 0 {
		t.Errorf("%s: %d missing, %d extra", side, o.Missing, o.Extra)
	}
}

// The two sides of a recording, played against each other, say what was recorded,
// whatever the protocol.
func TestAgainstItself(t *testing.T) {
	for _, name := range fixtures.Sessions() {
		t.Run(name, func(t *testing.T) {
			s := load(t, name)
			for _, script := range s.Scripts(frame.C2U) {
				if !script.Has(frame.C2U) || !script.Has(frame.U2C) {
					continue
				}
				controller, unit := pipes(t)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				match := replay.Matcher{Exact: true}
				there := start(ctx, script, unit, replay.Options{Side: frame.U2C, Match: match})
				here := start(ctx, script, controller, replay.Options{Side: frame.C2U, Match: match, Timeout: 10 * time.Second})
				(<-here).check(t, "controller")
				(<-there).check(t, "unit")
			}
		})
	}
}

// A bubblePipe is one end of two pipes that live in a bubble of synctest.
type bubblePipe struct {
	io.Reader
	*io.PipeWriter
	r *io.PipeReader
}

func bubblePipes() (near, far bubblePipe) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return bubblePipe{r2, w1, r2}, bubblePipe{r1, w2, r1}
}

func (s bubblePipe) CloseWrite() error { return s.PipeWriter.Close() }
func (s bubblePipe) Close() error {
	s.PipeWriter.Close()
	return s.r.Close()
}
