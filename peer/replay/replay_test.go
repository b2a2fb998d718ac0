package replay_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load returns the recording of a fixture.
func load(t *testing.T, name string) *replay.Session {
	t.Helper()
	recording := os.DirFS(name)
	if !strings.Contains(name, "/") {
		recording = fixtures.Session(name)
	}
	r, err := decode.OpenRecording(recording, decode.Config{})
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

// outcome is the outcome of a run of one side.
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

// The two sides of a recording, played against each other, reproduce it in any protocol.
// Concurrent exchanges of the unit are ordered only by time, so their times are kept.
func TestAgainstItself(t *testing.T) {
	eachScript(t, func(t *testing.T, script *replay.Script) {
		near, far := bubblePipes()
		there := start(t.Context(), script, far, inTime(frame.U2C))
		(<-start(t.Context(), script, near, inTime(frame.C2U))).check(t, "controller")
		(<-there).check(t, "unit")
	})
}

// eachScript runs a test in a bubble for each recorded connection on which both sides send.
func eachScript(t *testing.T, test func(*testing.T, *replay.Script)) {
	for _, name := range fixtures.Sessions() {
		t.Run(name, func(t *testing.T) {
			for _, script := range load(t, name).Scripts(frame.C2U) {
				if script.Has(frame.C2U) && script.Has(frame.U2C) {
					synctest.Test(t, func(t *testing.T) { test(t, script) })
				}
			}
		})
	}
}

// inTime returns the options for comparing exactly and keeping the recorded times.
func inTime(side frame.Dir) replay.Options {
	return replay.Options{Side: side, Match: replay.Matcher{Exact: true}, Speed: 1, Timeout: 24 * time.Hour}
}

// A bubblePipe is an end of two pipes that live in a synctest bubble.
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
