package tap

import (
	"fmt"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func aFrame(seq int64, payload string) *capture.Record {
	return &capture.Record{
		Seq:   seq,
		Frame: frame.Frame{Raw: []byte(payload), End: len(payload), Dir: frame.C2U},
	}
}

// feed writes a record, which must succeed.
func feed(tb testing.TB, w capture.Writer, r *capture.Record) {
	if err := w.Write(r); err != nil {
		tb.Error(err)
	}
}

// read reads n records as text.
func read(t *testing.T, r capture.Reader, n int) (texts []string) {
	t.Helper()
	var rec capture.Record
	for range n {
		if err := r.Next(&rec); err != nil {
			t.Fatalf("after %q: %v", texts, err)
		}
		texts = append(texts, words(&rec))
	}
	return texts
}

func words(r *capture.Record) string {
	if n, ok := ParseNote(r); ok {
		return fmt.Sprintf("%s %d-%d", n.Tap, n.Frames, n.Lost)
	}
	return fmt.Sprintf("%s %d %s%s", r.Kind, r.Seq, r.Raw, r.Text)
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A late viewer reads the history, then new records, then the end.
func TestHistoryFirst(t *testing.T) {
	h := journal.New(capture.Session{Protocol: "mcp"}, journal.Options{})
	feed(t, h, aFrame(1, "one"))
	v := View(h)
	defer v.Close()
	expect(t, read(t, v, 2), "hello 1-0", "frame 1 one")
	if v.Buffered() {
		t.Error("it says that it would not wait")
	}
	go func() { feed(t, h, aFrame(2, "two")); h.Close() }()
	expect(t, read(t, v, 1), "frame 2 two")
	var rec capture.Record
	if err := v.Next(&rec); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// Frames that were evicted before a viewer connected are counted.
func TestHistoryIsBounded(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{Records: 1})
	for i := range int64(2000) {
		feed(t, h, aFrame(i+1, "x"))
	}
	h.Close()
	v := View(h)
	defer v.Close()
	var rec capture.Record
	if err := v.Next(&rec); err != nil {
		t.Fatal(err)
	}
	hello, _ := ParseNote(&rec)
	left := int64(0)
	for v.Next(&rec) == nil {
		if left++; rec.Seq != hello.Lost+left {
			t.Fatalf("frame %d follows %d", rec.Seq, hello.Lost+left-1)
		}
	}
	if hello.Frames != 2000 || hello.Lost == 0 || left == 0 || hello.Lost+left != 2000 {
		t.Errorf("hello %+v, and then %d frames", hello, left)
	}
}

// A viewer that does not read loses frames and is told how many. It continues with the oldest
// record in the history. The hub never waits for it.
func TestSlowViewer(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{Records: 1})
	feed(t, h, aFrame(1, "x"))
	v := View(h)
	defer v.Close()
	expect(t, read(t, v, 2), "hello 1-0", "frame 1 x")
	for i := range int64(5000) {
		feed(t, h, aFrame(i+2, "x"))
	}
	h.Close()
	var rec capture.Record
	seq, lost, last := int64(1), int64(0), ""
	for v.Next(&rec) == nil {
		last = words(&rec)
		if n, ok := ParseNote(&rec); ok {
			lost += n.Lost
			seq += n.Lost
			continue
		}
		if seq++; rec.Seq != seq {
			t.Fatalf("frame %d where %d was due", rec.Seq, seq)
		}
	}
	if lost == 0 || last != "frame 5001 x" {
		t.Errorf("it lost %d, and the last was %q", lost, last)
	}
}

// A frame larger than the limit of the history is kept until newer records arrive.
func TestHugeFrame(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{Bytes: 1000})
	feed(t, h, aFrame(1, "x"))
	feed(t, h, &capture.Record{Seq: 2, Frame: frame.Frame{Raw: make([]byte, 1<<20)}})
	if r, ok := h.Find(2); !ok || len(r.Raw) != 1<<20 {
		t.Error("the newest frame is gone")
	}
	feed(t, h, aFrame(3, "x"))
	feed(t, h, aFrame(4, "x"))
	if _, ok := h.Find(2); ok {
		t.Error("a frame stays that is over the bound")
	}
}

// After an alteration the session is marked as altered, for current viewers, too.
func TestAlter(t *testing.T) {
	h := journal.New(capture.Session{Unit: "u"}, journal.Options{})
	feed(t, h, aFrame(1, "one"))
	v := View(h)
	defer v.Close()
	read(t, v, 2)
	h.Alter()
	h.Alter()
	feed(t, h, aFrame(2, "two"))
	if v.Session().Altered {
		t.Error("it was altered before")
	}
	expect(t, read(t, v, 1), "frame 2 two")
	if s := v.Session(); !s.Altered || s.Unit != "u" {
		t.Errorf("session %+v", s)
	}
}

// Closing a viewer unblocks it.
func TestCloseViewer(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{})
	v := View(h)
	read(t, v, 1)
	done := make(chan error)
	go func() { var rec capture.Record; done <- v.Next(&rec) }()
	v.Close()
	v.Close()
	if err := <-done; err != io.ErrClosedPipe {
		t.Error(err)
	}
	if n := h.Totals().Viewers; n != 0 {
		t.Errorf("%d viewers are left", n)
	}
}

// A note for one viewer arrives between frames, and wakes a waiting viewer.
func TestPost(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{})
	v, other := View(h), View(h)
	defer v.Close()
	defer other.Close()
	read(t, v, 1)
	go v.Post(Note{Tap: Answer, Do: "cancel"}.Record())
	expect(t, read(t, v, 1), "answer 0-0")
	read(t, other, 1)
	if other.Buffered() {
		t.Error("another viewer got it, too")
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, viewers := range []int{0, 1, 4} {
		for _, size := range []int{100, 4096} {
			b.Run(fmt.Sprintf("viewers=%d/size=%d", viewers, size), func(b *testing.B) {
				h := journal.New(capture.Session{}, journal.Options{})
				done := make(chan struct{})
				for range viewers {
					go func() {
						defer func() { done <- struct{}{} }()
						v := View(h)
						defer v.Close()
						for rec := (capture.Record{}); v.Next(&rec) == nil; {
						}
					}()
				}
				r := aFrame(1, string(make([]byte, size)))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					feed(b, h, r)
				}
				h.Close()
				for range viewers {
					<-done
				}
			})
		}
	}
}

// Writing a run is equivalent to writing its frames one by one, whether its memory is held or
// not.
func TestWriteRun(t *testing.T) {
	h := journal.New(capture.Session{}, journal.Options{})
	feed(t, h, aFrame(1, "one"))
	data := []byte("twothree")
	run := &capture.Run{
		Shared: capture.Record{Seq: 2, Framing: "line"},
		Frames: []frame.Frame{{Raw: data[:3], End: 3}, {Raw: data[3:], End: 5}},
		Memory: &memory{},
	}
	for range 2 {
		if err := h.WriteRun(run); err != nil {
			t.Fatal(err)
		}
		run.Shared.Seq, run.Memory = 4, nil
	}
	h.Close()
	v := View(h)
	defer v.Close()
	expect(t, read(t, v, 6), "hello 5-0", "frame 1 one", "frame 2 two", "frame 3 three", "frame 4 two", "frame 5 three")
	if c := h.Totals(); c.Frames != 5 || c.Bytes != 19 {
		t.Errorf("counted are %+v", c)
	}
}

// memory counts its holders.
type memory struct{ holders int }

func (m *memory) Hold()    { m.holders++ }
func (m *memory) Release() { m.holders-- }

// During a flood without viewers, only the newest frames and the history before the flood are
// kept. A viewer that connects then is told how many are missing in between. With a viewer,
// more is kept.
func TestFlood(t *testing.T) {
	for _, looked := range []bool{false, true} {
		h := journal.New(capture.Session{}, journal.Options{})
		feed(t, h, aFrame(1, "first"))
		if looked {
			defer View(h).Close()
		}
		var m memory
		const size = 64 << 10
		for seq := int64(2); seq < 202; seq++ { // 12.5 MiB at once
			run := capture.Run{Shared: capture.Record{Seq: seq}, Frames: []frame.Frame{{Raw: make([]byte, size)}}, Memory: &m}
			if err := h.WriteRun(&run); err != nil {
				t.Fatal(err)
			}
		}
		feed(t, h, aFrame(202, "last"))
		h.Close()
		v := View(h)
		defer v.Close()
		kept, lost, rec := 0, int64(0), capture.Record{}
		for v.Next(&rec) == nil {
			if n, ok := ParseNote(&rec); ok {
				lost += n.Lost
			} else if kept++; rec.Seq != int64(kept)+lost {
				t.Fatalf("frame %d follows %d kept and %d lost ones", rec.Seq, kept-1, lost)
			}
		}
		if looked {
			if lost != 0 {
				t.Errorf("%d were lost to who looked on", lost)
			}
		} else if lost == 0 || m.holders*size > 6<<20 {
			t.Errorf("%d were lost, and %d bytes are held", lost, m.holders*size)
		}
		if int64(kept)+lost != 202 {
			t.Errorf("%d kept, %d lost", kept, lost)
		}
	}
}
