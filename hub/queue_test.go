package hub

import (
	"errors"
	"fmt"
	"testing"
)

// Queued segments are joined into one message, as many as fit. A message that may have
// arrived is rebuilt from the same segments, even by the next process after a crash.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	s, err := newSpool(dir, Info{ID: "a", Org: "o", Host: "h", Kind: "k"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int64) {
		t.Helper()
		data := fmt.Appendf(nil, "<%d>", n)
		if err := s.add(segment{Number: n, Frames: 10 * n, Size: len(data), Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(most, upTo int64) string {
		t.Helper()
		seg, err := s.next(t.Context(), most, upTo)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d-%d %s %d", seg.first, seg.Number, seg.Data, seg.Frames)
	}
	add(1)
	if got := next(100, 0); got != "0-1 <1> 10" {
		t.Error(got)
	}
	add(2)
	add(3)
	if got := next(6, 0); got != "1-2 <1><2> 20" {
		t.Error(got)
	}
	if err := errors.Join(s.setSent(position{Tried: 2}), s.release()); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(s.dir); err != nil {
		t.Fatal(err)
	}
	defer s.release() //nolint:errcheck // the test has ended
	if got := next(100, s.sent().Tried); got != "1-2 <1><2> 20" {
		t.Error(got)
	}
	if err := s.done(2); err != nil {
		t.Fatal(err)
	}
	if got := next(100, 0); got != "0-3 <3> 30" {
		t.Error(got)
	}
	for n := int64(4); n < 200; n++ {
		add(n)
	}
	if seg, err := s.next(t.Context(), 1<<20, 0); err != nil || seg.first != 3 || seg.Number != 2+maxJoined {
		t.Errorf("%d-%d, %v", seg.first, seg.Number, err)
	}
}
