package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A cursor that follows gets all records in order, including spilled ones, and then the end.
func TestFollow(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	told := &notices{}
	j := New(capture.Session{Unit: "u"}, Options{Memory: 100 << 10, Notice: told.add})
	c := j.Follow()
	const n, size = 1000, 4000
	for i := range int64(n) {
		feed(t, j, aFrame(i+1, size))
	}
	j.Close()
	var got []string
	var at capture.Record
	err := c.Next(&at)
	for ; err == nil; err = c.Next(&at) {
		got = append(got, textOf(&at))
	}
	expect(t, got, numbered(1, n, size))
	if err != io.EOF || at.Seq != 0 || c.Session().Unit != "u" {
		t.Errorf("at the end: %v, frame %d of %q", err, at.Seq, c.Session().Unit)
	}
	c.Close()
	if told.String() == "" {
		t.Error("nothing was spilled")
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 || j.spill.files != nil {
		t.Errorf("%v is left, %v is open", left, j.spill.files)
	}
}

// Closing a waiting cursor unblocks it, and the journal keeps nothing for it.
func TestFollowCloses(t *testing.T) {
	j := New(capture.Session{}, Options{Memory: 1, Policy: Block})
	c := j.Follow()
	feed(t, j, aFrame(1, 1))
	var at capture.Record
	if err := c.Next(&at); err != nil || at.Seq != 1 || c.Buffered() {
		t.Fatalf("frame %d: %v", at.Seq, err)
	}
	ended := make(chan error)
	go func() { ended <- c.Next(&at) }()
	c.Close()
	if err := <-ended; err != io.ErrClosedPipe {
		t.Errorf("the error is %v", err)
	}
	for seq := range int64(10) {
		feed(t, j, aFrame(seq, 1000))
	}
}

// Cursors of all kinds read one journal at the same time. Those that follow get everything, even
// if they are slow or leave early; those that view know what they have lost.
func TestManyCursors(t *testing.T) {
	for _, policy := range []Policy{Spill, Block} {
		t.Run(string(policy), func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			j := New(capture.Session{}, Options{Bytes: 200 << 10, Memory: 300 << 10, Policy: policy})
			const n = 4000
			var reading sync.WaitGroup
			read := func(c *Cursor, rest func(seq int64)) {
				reading.Go(func() {
					defer c.Close()
					seq := int64(0)
					var rec capture.Record
					for c.Next(&rec) == nil {
						var lost int64
						if n, _ := fmt.Sscanf(string(rec.Text), "lost %d", &lost); n == 1 {
							seq += lost
							continue
						}
						if seq++; rec.Seq != seq {
							t.Errorf("frame %d where %d was due", rec.Seq, seq)
							return
						}
						if len(rec.Raw) != int(seq%3000) {
							t.Errorf("frame %d has %d bytes", seq, len(rec.Raw))
							return
						}
						if rest(seq); c.Session().Altered != (seq > n/2) {
							t.Errorf("frame %d: altered is %t", seq, c.Session().Altered)
						}
					}
					if seq != n {
						t.Errorf("it ends at frame %d", seq)
					}
				})
			}
			lost := func(frames int64) capture.Record {
				return capture.Record{Kind: capture.Note, Text: fmt.Appendf(nil, "lost %d", frames)}
			}
			idle := func(int64) {}
			slow := func(seq int64) {
				for i := 0; seq%100 == 0 && i < 200; i++ {
					runtime.Gosched()
				}
			}
			for range 2 {
				read(j.View(nil, lost), idle)
				read(j.View(nil, lost), slow)
				read(j.Follow(), idle)
				read(j.Follow(), slow)
			}
			var file bytes.Buffer
			rec, err := j.RecordTo(&file, Config{})
			if err != nil {
				t.Fatal(err)
			}
			var left sync.WaitGroup
			left.Go(func() {
				c := j.Follow()
				defer c.Close()
				var rec capture.Record
				for c.Next(&rec) == nil && rec.Seq < n/4 {
				}
			})
			var held memory
			for seq := int64(1); seq <= n; {
				if seq == n/2+1 {
					j.Alter()
				}
				if seq%7 == 0 {
					feed(t, j, aFrame(seq, int(seq%3000)))
					seq++
					continue
				}
				run := &capture.Run{Shared: capture.Record{Seq: seq, Time: time.Unix(1, seq*1e6)}}
				if seq%3 == 0 {
					run.Memory = &held
				}
				for ; seq <= n && len(run.Frames) < 50 && (seq != n/2+1 || len(run.Frames) == 0); seq++ {
					run.Frames = append(run.Frames, frame.Frame{Raw: make([]byte, seq%3000), End: int(seq % 3000)})
				}
				feedRun(t, j, run)
			}
			j.Close()
			left.Wait()
			reading.Wait()
			if err := rec.Close(t.Context()); err != nil {
				t.Error(err)
			}
			var want []string
			for i := int64(1); i <= n; i++ {
				want = append(want, fmt.Sprint(i, " ", i%3000))
			}
			got, _ := contents(t, &file)
			expect(t, got, want)
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.memory != 0 || j.spill.held != 0 || j.spill.files != nil || j.waiting != 0 || len(j.cursors) != 0 {
				t.Errorf("%d bytes are unread, %d segments are in files, %d wait of %d", j.memory, j.spill.held, j.waiting, len(j.cursors))
			}
			if j.kept.bytes > 1<<20 {
				t.Errorf("%d bytes are kept", j.kept.bytes)
			}
		})
	}
}

func feedRun(t *testing.T, j *Journal, run *capture.Run) {
	if err := j.WriteRun(run); err != nil {
		t.Error(err)
	}
}
