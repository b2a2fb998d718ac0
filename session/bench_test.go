package session_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

const (
	benchFrames = 1_000_000
	benchIDs    = 1000 // in flight
)

// Tracking should take at most 200 ns per frame, allocate nothing and keep less than 100 MiB,
// for a session of a million frames with 1,000 ids in flight.
func BenchmarkFeed(b *testing.B) {
	for _, name := range []string{"latis", "mcp"} {
		b.Run(name, func(b *testing.B) { benchmarkFeed(b, name) })
		b.Run("making "+name, func(b *testing.B) { benchmarkMaking(b, name) })
	}
}

// benchmarkMaking makes the messages that benchmarkFeed tracks.
func benchmarkMaking(b *testing.B, name string) {
	source := newSynthetic(b, named(b, name))
	next := 0
	for b.Loop() {
		source.frame(next)
		next++
	}
}

func benchmarkFeed(b *testing.B, name string) {
	p := named(b, name)
	source := newSynthetic(b, p)
	tr := session.New(p, session.Options{})
	next := 0
	feed := func() {
		tr.Feed(source.frame(next))
		next++
	}
	for range 100 * benchIDs { // fills the history
		feed()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		feed()
	}
	b.StopTimer()
	for range max(0, benchFrames-next) {
		feed()
	}
	if s := tr.Stats(); len(s.Findings) > 0 || s.InFlight > benchIDs {
		b.Fatalf("%+v", s)
	}
	b.ReportMetric(heldBy(&tr), "MiB")
}

// heldBy drops a tracker and returns how many MiB that frees.
func heldBy(tr **session.Tracker) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(*tr)
	*tr = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(before.HeapAlloc-after.HeapAlloc) / (1 << 20)
}

// A synthetic session has 1,000 open requests at a time, each answered in seven parts. An id is
// reused only after 6,000 others, which is beyond the history. The messages are already parsed,
// and only their ids differ, so reading them costs no more than after real parsing.
type synthetic struct {
	began           time.Time // with a monotonic clock, as in a relay
	open, part, end protocol.Message
	tokens          [6 * benchIDs]struct{ id, bind []byte }
}

const benchSteps = 9 // the request, seven parts and the end

func newSynthetic(b testing.TB, p protocol.Protocol) *synthetic {
	b.Helper()
	open, part, end := "call 1", "progress 1", "result 1"
	if p.Name() == "latis" {
		open, part, end = "prompt 1", "chunk 1 0", "complete 1"
	}
	s := &synthetic{began: time.Now()}
	for form, m := range map[string]*protocol.Message{open: &s.open, part: &s.part, end: &s.end} {
		if err := p.Parse(payload(b, p, strings.Fields(form)), m); err != nil {
			b.Fatal(err)
		}
	}
	for i := range s.tokens {
		s.tokens[i].id = fmt.Appendf(nil, "%d", i)
		s.tokens[i].bind = fmt.Appendf(nil, "\"t%d\"", i)
	}
	return s
}

// frame returns the nth frame and its message, which is valid until the next call.
func (s *synthetic) frame(n int) (session.Frame, *protocol.Message) {
	m, dir := s.message(n)
	at := s.began.Add(time.Duration(n) * 10 * time.Microsecond)
	return session.Frame{Seq: int64(n), Time: at, Conn: 1, Dir: dir, Size: 100}, m
}

func (s *synthetic) message(n int) (*protocol.Message, frame.Dir) {
	round, step := n/(benchSteps*benchIDs), n/benchIDs%benchSteps
	t := &s.tokens[(round*benchIDs+n%benchIDs)%len(s.tokens)]
	m, dir := &s.part, frame.U2C
	switch step {
	case 0:
		m, dir = &s.open, frame.C2U
	case benchSteps - 1:
		m = &s.end
	default:
		if m.Seq >= 0 {
			m.Seq = step - 1
		}
	}
	for _, name := range []struct {
		of   *protocol.Token
		text []byte
	}{{&m.ID, t.id}, {&m.Ref, t.bind}, {&m.Bind, t.bind}} {
		if !name.of.IsZero() {
			name.of.Text = name.text
		}
	}
	return m, dir
}

// Feeding allocates nothing once the history is full.
func TestFeedDoesNotAllocate(t *testing.T) {
	p := named(t, "latis")
	source, tr, next := newSynthetic(t, p), session.New(p, session.Options{}), 0
	feed := func() {
		tr.Feed(source.frame(next))
		next++
	}
	for range 100 * benchIDs {
		feed()
	}
	if n := testing.AllocsPerRun(20*benchIDs, feed); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}
