package hub

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// Queued segments are joined into one message, as many as fit. A message that may have
// arrived is rebuilt from the same segments, even by the next process after a crash.
func TestJoin(t *testing.T) {
	s, err := newSpool(t.TempDir(), Info{ID: "a", Org: "o", Host: "h", Kind: "k"}, 1<<20)
	check(t, err)
	p := publisher{queue: s}
	next := func(most int64) string {
		t.Helper()
		seg, err := p.next(t.Context(), most)
		check(t, err)
		return fmt.Sprintf("%d-%d %s %d", seg.first, seg.Number, seg.Data, seg.Frames)
	}
	equal := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	addTo(t, s, 1, 3)
	equal(next(100), "1-3 <1><2><3> 30")
	addTo(t, s, 4, 6)
	equal(next(6), "4-5 <4><5> 50")
	equal(next(6), "0-6 <6> 60")

	// The first message has arrived, and maybe the second, which had two segments.
	check(t, s.store(position{head: head{Number: 3}, Tried: 5}), s.release())
	s, err = openSpool(s.dir)
	check(t, err)
	defer s.release() //nolint:errcheck // the test has ended
	p = publisher{queue: s, at: s.at}
	equal(next(100), "4-5 <4><5> 50")
	p.at = position{head: head{Number: 5}}
	check(t, s.store(p.at))
	equal(next(100), "0-6 <6> 60")
	check(t, s.store(position{head: head{Number: 6}}))
	addTo(t, s, 7, 200)
	if seg, err := p.next(t.Context(), 1<<20); err != nil || seg.first != 7 || seg.Number != 6+maxJoined {
		t.Errorf("%d-%d, %v", seg.first, seg.Number, err)
	}
}

// addTo adds segments with these numbers.
func addTo(t *testing.T, s *spool, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		data := fmt.Appendf(nil, "<%d>", n)
		check(t, s.enqueue(segment{head: head{Number: n, Frames: 10 * n, Size: int64(len(data))}, Data: data}))
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A spool removes what was sent while more is added, and a killed process leaves nothing that
// its successor cannot read.
func TestSpoolParts(t *testing.T) {
	s, err := newSpool(t.TempDir(), Info{ID: "a", Org: "o", Host: "h", Kind: "k"}, 4096)
	check(t, err)
	for n := int64(1); n <= 1000; n++ { // ten wait all the time
		addTo(t, s, n, n)
		if n <= 10 {
			continue
		}
		seg, err := s.take(t.Context(), true)
		check(t, err, s.store(position{head: seg.head}))
		if size := sizeOf(s.dir); seg.Number != n-10 || s.bytes > 1024 || size > 2048 {
			t.Fatalf("segment %d is number %d, and %d bytes are on disk", n-10, seg.Number, size)
		}
	}
	last := s.parts[len(s.parts)-1]
	check(t, last.Truncate(last.size-1), s.release())
	s, err = openSpool(s.dir)
	check(t, err)
	s.close()
	for n := int64(991); n < 1000; n++ {
		seg, err := s.take(t.Context(), true)
		if err != nil || seg.Number != n || string(seg.Data) != fmt.Sprintf("<%d>", n) {
			t.Fatalf("segment %d is %+v, %v", n, seg, err)
		}
	}
	if _, err := s.take(t.Context(), true); err != io.EOF {
		t.Error(err)
	}
	check(t, s.store(position{head: head{Number: 999}}))

	// The file is written again from its beginning, and what is left in it is no segment.
	addTo(t, s, 1000, 1001)
	check(t, s.release())
	s, err = openSpool(s.dir)
	check(t, err)
	seg, err := s.take(t.Context(), true)
	if err != nil || seg.Number != 1000 || s.newest.Number != 1001 {
		t.Errorf("%+v to %d, %v", seg, s.newest.Number, err)
	}
	check(t, s.remove())
}
