package recorder

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/wirectl/wirectl/capture"
)

// A reader gets all records in order, including spilled ones, and then the end.
func TestReader(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	told := &notices{}
	rec, r := NewReader(Config{Session: capture.Session{Unit: "u"}, Memory: 100 << 10, Notice: told.add})
	const n, size = 1000, 4000
	for i := range int64(n) {
		feed(t, rec, aFrame(i+1, size))
	}
	closed := make(chan error)
	go func() { closed <- rec.Close(t.Context()) }()
	var got []string
	var at capture.Record
	err := r.Next(&at)
	for ; err == nil; err = r.Next(&at) {
		got = append(got, textOf(&at))
	}
	expect(t, got, numbered(1, n, size))
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err != io.EOF || at.Seq != 0 || r.Session().Unit != "u" {
		t.Errorf("at the end: %v, frame %d of %q", err, at.Seq, r.Session().Unit)
	}
	if told.String() == "" {
		t.Error("nothing was spilled")
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}

// Closing a waiting reader unblocks it and ends the recording.
func TestReaderCloses(t *testing.T) {
	rec, r := NewReader(Config{})
	feed(t, rec, aFrame(1, 1))
	var at capture.Record
	if err := r.Next(&at); err != nil || at.Seq != 1 || r.Buffered() {
		t.Fatalf("frame %d: %v", at.Seq, err)
	}
	ended := make(chan error)
	go func() { ended <- r.Next(&at) }()
	r.Close()
	if err := <-ended; err != io.EOF {
		t.Errorf("the error is %v", err)
	}
	feed(t, rec, aFrame(2, 1))
	if err := rec.Close(context.Background()); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the error is %v", err)
	}
}
